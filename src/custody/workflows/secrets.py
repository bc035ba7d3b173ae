"""Secrets for tasks: a file each, in a folder that only the worker enters; given when asked for *and* allowed.

A definition names what its task needs, but definitions are written by whoever can commit. So an operator allows a
secret for an archive, in git for some of its branches only. The value goes into the sandbox as /run/secrets/NAME, is
masked in what the task prints, and is in no event, definition, payload or log.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from custody.model.errors import BadInput, Refused
from custody.stores import Store
from custody.stores.history import write_note
from custody.stores.rows import Tx
from custody.workflows.archives import Archives
from custody.workflows.fields import NAME
from custody.workflows.private import read_private

ALL = "*"


@dataclass(frozen=True, slots=True)
class Allowed:
    """A secret that the tasks of an archive may have."""

    archive: str
    secret: str
    branch: str  # a pattern; * for all
    who: str
    why: str
    at: int


class Secrets:
    def __init__(self, store: Store, folder: Path) -> None:
        self._store, self._folder = store, folder

    def allow(self, archive: str, secret: str, who: str, why: str, branch: str = ALL) -> None:
        """From now on tasks of this archive that name the secret get it."""
        kept = Archives(self._store).get(archive)
        if not NAME.match(secret):
            raise BadInput(f"{secret!r} is not a name for a secret", code="secret.name")
        if branch != ALL and kept.system != "git":
            raise Refused(
                "only git has branches with definitions of their own", code="secret.branch",
                hint="in Subversion whoever can write to _workflows decides for the whole archive",
            )  # fmt: skip

        def work(tx: Tx) -> None:
            tx.run("wf_allow_secret", archive=archive, secret=secret, branch=branch, who=who, why=why)
            write_note(
                tx, f"archive/{archive}", "secret allowed", who, {"secret": secret, "branch": branch, "why": why}
            )

        self._store.db.write(work)

    def forbid(self, archive: str, secret: str, who: str, why: str) -> bool:
        def work(tx: Tx) -> bool:
            if not tx.run("wf_forbid_secret", archive=archive, secret=secret):
                return False
            write_note(tx, f"archive/{archive}", "secret forbidden", who, {"secret": secret, "why": why})
            return True

        return self._store.db.write(work)

    def allowed(self, archive: str) -> Sequence[Allowed]:
        return [Allowed(*row) for row in self._store.db.read(lambda tx: tx.run("wf_secrets", archive=archive))]

    def given(self, archive: str, names: Sequence[str], ref: str) -> dict[str, bytes]:
        """What a task gets that asks for these; `ref` is the branch its revision is on, if there are branches."""
        branch = ref.removeprefix("refs/heads/")
        may = {found.secret for found in self.allowed(archive) if fnmatch.fnmatchcase(branch, found.branch)}
        for name in names:
            if name not in may:
                where = f"{archive}, {branch}" if branch else archive
                hint = f"custody archive allow {archive} {name} --why …"
                raise Refused(f"the secret {name} is not allowed for {where}", code="secret.refused", hint=hint)
        return {name: self._value(name) for name in names}

    def _value(self, name: str) -> bytes:
        if not NAME.match(name):
            raise BadInput(f"{name!r} is not a name for a secret", code="secret.name")
        return read_private(self._folder / name, f"secret {name}", "secret")

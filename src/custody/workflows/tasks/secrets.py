"""Secrets for tasks: a file each, in a folder that only the worker enters; given when asked for *and* granted.

A definition names what its task needs, but definitions are written by whoever can commit. So an operator grants a
secret to an archive, in git to some of its branches only. The value goes into the sandbox as /run/secrets/NAME, is
masked in what the task prints, and is in no event, definition, payload or log.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from pathlib import Path

from custody.errors import BadInput, Refused
from custody.kernel.model.authority.grant import SECRET
from custody.kernel.stores import Store
from custody.workflows.archives.table import Archives
from custody.workflows.definition.fields import NAME
from custody.workflows.secret_files import read_private


def check_grant(store: Store, archive: str, value: str) -> None:
    """A secret's name, or NAME@BRANCH for those whose branch fits the pattern."""
    secret, with_branch, branch = value.partition("@")
    if not NAME.match(secret) or (with_branch and not branch):
        raise BadInput(f"{value!r} is not a name for a secret", code="secret.name", hint="NAME or NAME@BRANCH")
    if branch and Archives(store).get(archive).system != "git":
        raise Refused(
            "only git has branches with definitions of their own",
            code="secret.branch",
            hint="in Subversion whoever can write to _workflows decides for the whole archive",
        )


class Secrets:
    def __init__(self, store: Store, folder: Path) -> None:
        self._store, self._folder = store, folder

    def given(self, archive: str, names: Sequence[str], ref: str) -> dict[str, bytes]:
        """What a task gets that asks for these; `ref` is the branch its revision is on, if there are branches."""
        branch = ref.removeprefix("refs/heads/")
        granted = (value.partition("@") for value in self._store.grants.of(f"archive/{archive}", SECRET))
        may = {name for name, _, pattern in granted if not pattern or fnmatch.fnmatchcase(branch, pattern)}
        for name in names:
            if name not in may:
                where = f"{archive}, {branch}" if branch else archive
                hint = f"custody archive grant {archive} secret {name} --why …"
                raise Refused(f"the secret {name} is not granted to {where}", code="secret.refused", hint=hint)
        return {name: self._value(name) for name in names}

    def _value(self, name: str) -> bytes:
        if not NAME.match(name):
            raise BadInput(f"{name!r} is not a name for a secret", code="secret.name")
        return read_private(self._folder / name, f"secret {name}", "secret")

"""What hooks see besides their repository where commits of tasks are made, and what is told when they ask for more.

They see the machine's programs, who its users are, and what an operator has granted (`hooks`). A gate that asks for
anything else that is there takes it for not there, and could let pass what it would have refused: so it is ended at
that moment (`lookups/watch.py`), and no commit is made.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path

from custody.border.lookups.watch import Missed, Watch
from custody.errors import BadInput, Refused
from custody.formats.names import shown
from custody.formats.shell import BLANK, command
from custody.kernel.model.authority.grant import HOOKS
from custody.workflows.archives.git.git_settings import home_of

ACCOUNTS = (
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/etc/hosts",
    "/etc/timezone",
    "/etc/services",
    "/etc/locale.alias",
    "/etc/perl",
    *sorted(glob("/etc/python3*")),
)
"""What everybody may read, and programs ask for by themselves: who the users are, when it is, their own settings."""
UNSEEN = "which is not seen where commits of tasks are made"
_SEEN = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/proc", "/dev", "/sys", "/etc/ssl", "/etc/alternatives", *ACCOUNTS)
_NEVER = ("/", "/proc", "/sys", "/dev", "/etc", "/usr", "/tmp", "/run")  # noqa: S108 -- seen by other means, or too much
_PATH = re.compile(r"(?<![\w.$})~*/-])/[\w.+@-]+(?:/[\w.+@-]+)*")
_LARGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class HookSight:
    """Of one archive."""

    archive: str = ""  # its name; empty: nobody looks after it
    granted: Sequence[str] = ()

    def read(self) -> dict[str, str | int]:
        """For `Sight.read`; what is not there is not there for anybody."""
        return {place: place for place in (*ACCOUNTS, *self.granted) if os.path.exists(place)}

    def env(self, repository: Path) -> dict[str, str]:
        """So that what a hook looks for at home is looked for where it is."""
        return {"HOME": home_of(repository)}

    def watch(self, repository: Path, gates: Sequence[str]) -> Watch:
        return Watch(gates, home_of(repository))

    def must_have_seen(self, missed: Missed | None, where: str) -> None:
        """`Refused` if a gate asked for what it is not shown."""
        if missed:
            message = (
                f"the commit is refused: the repository's hook {missed.gate} looks for {shown(missed.what)}, {UNSEEN}"
            )
            raise Refused(message, code="archive.gate", where=where, hint=self.hint(missed.what))

    def hint(self, what: str) -> str:
        """What helps whoever wants commits of tasks there."""
        outputs = "let its tasks leave outputs, not commits"
        if not what.startswith("/"):
            return f"a hook has no network here; let it look into files, or {outputs}"
        folder = what if os.path.isdir(what) or os.path.dirname(what) in _NEVER else os.path.dirname(what)
        granting = command("archive grant", self.archive or "NAME", HOOKS, folder, why=BLANK)
        return (
            "hooks see the repository, the machine's programs and what an operator shows them: "
            f"`{granting}`; or put it into the repository; or {outputs}"
        )

    def names_unseen(self, repository: Path, gates: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Hooks that can refuse, each with a path that it names and would not see: as far as that can be read."""
        seen = (*_SEEN, *self.granted, str(repository), os.path.realpath(repository))
        for gate in gates:
            hook = repository / "hooks" / gate
            try:
                text = hook.read_bytes()[:_LARGEST] if hook.stat().st_mode & 0o111 else b""
            except OSError:
                continue
            for path in dict.fromkeys(_PATH.findall(text.decode("utf-8", "replace"))):
                is_seen = path in _NEVER or any(path == top or path.startswith(f"{top}/") for top in seen)
                if not is_seen and os.path.exists(path):
                    yield gate, path


def check_shown(name: str, value: str) -> None:
    """A grant names something that is there, by the one path that leads to it."""
    if not value.startswith("/") or os.path.normpath(value) != value or value in _NEVER or value.startswith("//"):
        raise BadInput(
            f"{value!r} is no folder or file that hooks can be shown",
            code="grant.value",
            where=name,
            hint="the whole path of what they need, such as /srv/lists",
        )
    if os.path.realpath(value) != value or not os.path.exists(value):
        real = os.path.realpath(value)
        told = f"it leads to {real}: grant that" if os.path.exists(value) else "there is nothing of this name"
        raise BadInput(f"hooks cannot be shown {value}: {told}", code="grant.value", where=name)

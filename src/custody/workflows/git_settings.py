"""What a git repository's configuration says besides its format, and what git would hear of its owner's and the
machine's: read by ourselves, for where commits are made git sees the repository's own files only.

What a repository includes from elsewhere is not read: its owner could name any file. Of his own configuration, and of
what that includes, only what he could read himself.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from custody.border.names import shown
from custody.workflows.git_format import Unreadable, all_settings
from custody.workflows.plain import FILE

MACHINE = ("/etc/gitconfig", "/usr/local/etc/gitconfig")
LARGEST = 1 << 20
DEPTH = 10  # of files that include each other, as git has it
OTHER_GATES: Mapping[str, tuple[str, ...]] = {
    "receive.fsckobjects": ("receive.fsckobjects",),
    "transfer.fsckobjects": ("receive.fsckobjects", "transfer.fsckobjects"),
    "receive.maxinputsize": ("receive.maxinputsize",),
    "receive.hiderefs": (), "transfer.hiderefs": (), "receive.procreceiverefs": (),
}  # fmt: skip
"""Settings that can refuse a push to a branch; and which of the repository's own overrule each."""


class Unseen(Exception):
    """What is said there cannot be known, and why."""


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    value: str
    file: str
    home: str
    is_own: bool  # of the repository: git sees it too
    is_certain: bool  # not under a condition

    def path(self, repository: Path) -> Path:
        """Where a value leads that is a path; git reads it from the repository's folder."""
        return repository / _expanded(self.value, self.home)


def own_settings(repository: Path) -> Iterator[Setting]:
    """Of the repository's files, and of those of it that they include."""
    place = Path(os.path.realpath(repository))
    home = _home(repository)
    for name in ("config", "config.worktree"):
        yield from _read(place / name, home, within=place, certain=name == "config")


def settings_beside(repository: Path) -> Iterator[Setting]:
    """Of the machine and of the repository's owner: all that git would hear if he ran it, in its order."""
    home, env = _home(repository), os.environ if _owner(repository) == os.geteuid() else {}
    if env.get("GIT_CONFIG_NOSYSTEM", "").lower() in ("", "0", "false", "no", "off"):
        for file in [env["GIT_CONFIG_SYSTEM"]] if env.get("GIT_CONFIG_SYSTEM") else MACHINE:
            yield from _read(Path(file), home, reader=_owner(repository))
    if (named := env.get("GIT_CONFIG_GLOBAL")) is not None:
        files = [named] if named else []
    else:
        files = [os.path.join(env.get("XDG_CONFIG_HOME") or f"{home}/.config", "git/config"), f"{home}/.gitconfig"]
    for file in files:
        yield from _read(Path(file), home, reader=_owner(repository))


def _owner(repository: Path) -> int:
    try:
        return os.lstat(repository).st_uid
    except OSError:
        return os.geteuid()


def _home(repository: Path) -> str:
    uid = _owner(repository)
    if uid == os.geteuid() and os.environ.get("HOME"):
        return os.environ["HOME"]
    try:
        return pwd.getpwuid(uid).pw_dir
    except KeyError:
        return "/nonexistent"


def _named(uid: int | None) -> str:
    try:
        return pwd.getpwuid(uid or 0).pw_name
    except KeyError:
        return f"uid {uid}"


def _expanded(value: str, home: str) -> str:
    if value == "~" or value.startswith("~/"):
        return home + value[1:]
    return os.path.expanduser(value.replace("%(prefix)/", "/usr/", 1))


def _read(
    file: Path, home: str, *, within: Path | None = None, reader: int | None = None, certain: bool = True,
    depth: int = DEPTH,
) -> Iterator[Setting]:  # fmt: skip
    try:
        text = _text(file, 0 if within is None else os.O_NOFOLLOW, reader)
        for name, part, value in all_settings(text):
            if name not in ("include.path", "includeif.path"):
                if part is None:
                    yield Setting(name, value, str(file), home, within is not None, certain)
                continue
            target = Path(os.path.normpath(file.parent / _expanded(value, home)))
            if within and (not target.is_relative_to(within) or Path(os.path.realpath(target)) != target):
                raise Unseen(f"{shown(str(file))} includes {shown(value)}, which is not seen where commits are made")
            if not depth:
                raise Unseen(f"{shown(str(file))} includes too many others, one in another")
            certain_too = certain and part is None
            yield from _read(target, home, within=within, reader=reader, certain=certain_too, depth=depth - 1)
    except Unreadable as error:
        raise Unseen(f"{shown(str(file))} cannot be read: line {error}") from None


def _text(file: Path, how: int, reader: int | None) -> str:
    """Nothing if there is no such file."""
    try:
        descriptor = os.open(file, FILE & ~os.O_NOFOLLOW | how)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        raise Unseen(f"{shown(str(file))} cannot be read: {error.strerror}") from None
    with open(descriptor, "rb") as open_:
        about = os.fstat(descriptor)
        mode = about.st_mode
        if stat.S_ISCHR(mode):
            return ""  # /dev/null
        if reader not in (None, os.geteuid(), about.st_uid) and not mode & stat.S_IROTH:
            raise Unseen(f"{shown(str(file))} is not for {_named(reader)} to read")
        data = open_.read(LARGEST + 1) if stat.S_ISREG(mode) else b""
    if not stat.S_ISREG(mode) or len(data) > LARGEST:
        raise Unseen(f"{shown(str(file))} is no file that can be read")
    return data.decode("utf-8", "surrogateescape")

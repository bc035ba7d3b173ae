"""What a git repository's configuration says besides its format, and what git would hear of its owner's and the
machine's: read by ourselves, for where commits are made git sees the repository's own files only.

What a repository includes from elsewhere is not read: its owner could name any file. Of his own configuration, and of
what that includes, only what he could read himself. Whether what is included under a condition counts, git is asked
(`git_conditions.py`); where it cannot be, it may.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from custody.formats.names import shown
from custody.workflows.archives.git.git_conditions import Conditions
from custody.workflows.archives.git.git_format import Unreadable, all_settings
from custody.workflows.archives.ownership.plain_files import FILE

MACHINE = ("/etc/gitconfig", "/usr/local/etc/gitconfig")
LARGEST = 1 << 20
DEPTH = 10  # of files that include each other, as git has it
_OFF = ("", "0", "false", "no", "off")
OTHER_GATES: Mapping[str, tuple[str, ...]] = {
    "receive.fsckobjects": ("receive.fsckobjects",),
    "transfer.fsckobjects": ("receive.fsckobjects", "transfer.fsckobjects"),
    "receive.maxinputsize": ("receive.maxinputsize",),
    "receive.hiderefs": (),
    "transfer.hiderefs": (),
    "receive.procreceiverefs": (),
}
"""Settings that can refuse a push to a branch; and which of the repository's own overrule each."""


class Unseen(Exception):
    """What is said there cannot be known, and why."""


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    part: str | None  # of a section that has parts: `[remote "part"]`
    value: str
    file: str
    home: str
    is_own: bool  # of the repository: git sees it too
    is_certain: bool  # under no condition that git could not be asked about

    def path(self, repository: Path) -> Path:
        """Where a value leads that is a path; git reads it from the repository's folder, and an empty one as `/`."""
        return repository / (_expanded(self.value, self.home) or "/")


def own_settings(repository: Path) -> Iterator[Setting]:
    """Of the repository's files, and of those of it that they include."""
    return (setting for setting in _own(repository, _conditions(repository)) if setting.part is None)


def settings_beside(repository: Path) -> Iterator[Setting]:
    """Of the machine and of the repository's owner: all that git would hear if he ran it, in its order."""
    return (setting for setting in _beside(repository, _conditions(repository)) if setting.part is None)


def _conditions(repository: Path) -> Conditions:
    def addresses() -> list[str]:
        none = replace(conditions, addresses=list)  # git does not look for addresses by addresses
        everything = (*_beside(repository, none), *_own(repository, none))
        return [setting.value for setting in everything if setting.name == "remote.url" and setting.part is not None]

    def head() -> bytes:
        return text_of(repository / "HEAD", os.O_NOFOLLOW, None).encode("utf-8", "surrogateescape")

    conditions = Conditions(repository, _home(repository), head, addresses)
    return conditions


def _own(repository: Path, conditions: Conditions) -> Iterator[Setting]:
    place = Path(os.path.realpath(repository))
    reading = _Reading(conditions, within=place)
    of_worktree = ""
    for setting in reading.settings(place / "config"):
        if setting.name == "extensions.worktreeconfig" and setting.file == str(place / "config"):
            of_worktree = setting.value
        yield setting
    if of_worktree.lower() not in _OFF:
        yield from reading.settings(place / "config.worktree")


def _beside(repository: Path, conditions: Conditions) -> Iterator[Setting]:
    home, env = _home(repository), os.environ if _owner(repository) == os.geteuid() else {}
    reading = _Reading(conditions, reader=_owner(repository))
    if env.get("GIT_CONFIG_NOSYSTEM", "").lower() in _OFF:
        for file in [env["GIT_CONFIG_SYSTEM"]] if env.get("GIT_CONFIG_SYSTEM") else MACHINE:
            yield from reading.settings(Path(file))
    if (named := env.get("GIT_CONFIG_GLOBAL")) is not None:
        files = [named] if named else []
    else:
        files = [os.path.join(env.get("XDG_CONFIG_HOME") or f"{home}/.config", "git/config"), f"{home}/.gitconfig"]
    for file in files:
        yield from reading.settings(Path(file))


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


@dataclass(frozen=True, slots=True)
class _Reading:
    conditions: Conditions
    within: Path | None = None  # nothing outside of it is read
    reader: int | None = None  # nothing that he could not read is

    def settings(self, file: Path, certain: bool = True, depth: int = DEPTH) -> Iterator[Setting]:
        home = self.conditions.home
        try:
            said = list(all_settings(text_of(file, 0 if self.within is None else os.O_NOFOLLOW, self.reader)))
            asked = [part for name, part, _ in said if name == "includeif.path" and part is not None]
            met = iter(self.conditions.met(file, asked))
            for name, part, value in said:
                if name == "include.path" and part is None:
                    yield from self._included(file, value, certain, depth)
                elif name == "includeif.path" and part is not None:
                    if (is_met := next(met)) is not False:
                        yield from self._included(file, value, certain and is_met is True, depth)
                else:
                    yield Setting(
                        name=name,
                        part=part,
                        value=value,
                        file=str(file),
                        home=home,
                        is_own=self.within is not None,
                        is_certain=certain,
                    )
        except Unreadable as error:
            raise Unseen(f"{shown(str(file))} cannot be read: line {error}") from None

    def _included(self, file: Path, value: str, certain: bool, depth: int) -> Iterator[Setting]:
        target = Path(os.path.normpath(file.parent / _expanded(value, self.conditions.home)))
        if self.within and (not target.is_relative_to(self.within) or Path(os.path.realpath(target)) != target):
            raise Unseen(f"{shown(str(file))} includes {shown(value)}, which is not seen where commits are made")
        if not depth:
            raise Unseen(f"{shown(str(file))} includes too many others, one in another")
        yield from self.settings(target, certain, depth - 1)


def text_of(file: Path, how: int, reader: int | None) -> str:
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

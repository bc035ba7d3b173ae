"""Who else on this machine may read what this program makes: nobody. The one place that decides it.

Every command works under a umask that keeps group and others out, whatever it was started with, and what a library's
caller makes says its mode. A site that wants a group to read says `[files] group_readable = true`. Two things differ:

- What a sandbox can write lies below a folder that nobody but its worker enters, also where a group may read the rest:
  a program inside can open its own files to everybody, put a set-uid file there, or listen on a socket in them.
- What a sandbox is shown must be readable for it. A worker that is root runs it as somebody who is nobody here, so such
  files are there for everybody to read: the closed folder above them keeps others out.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from custody.errors import Unavailable, Unsafe

CLOSED = 0o077
"""What a umask takes away: all that is for group and others."""
TO_GROUP = 0o027
PASSES = 0o011
"""Who has neither may name nothing below a folder."""

_umask = CLOSED
_given: int | None = None


@contextmanager
def decided(group_readable: bool = False) -> Iterator[None]:
    """For as long as a command runs: what is made is closed to others."""
    global _umask, _given
    before = _umask, _given
    _umask = TO_GROUP if group_readable else CLOSED
    found = os.umask(_umask)
    _given = found if _given is None else _given
    try:
        yield
    finally:
        os.umask(found)  # whoever calls us as a function has files of his own
        _umask, _given = before


def given() -> int:
    """The umask that we were started with: for tools that write into somebody's repository; -1 if it is as it was."""
    return -1 if _given is None else _given


def of_file() -> int:
    return 0o666 & ~_umask


def of_folder() -> int:
    return 0o777 & ~_umask


def of_shown_file() -> int:
    """One that sandboxes may be shown."""
    return 0o644 if os.geteuid() == 0 else of_file()


def of_shown_folder() -> int:
    return 0o755 if os.geteuid() == 0 else of_folder()


WRITES = 0o022
"""Group or others may put something into a folder, also a link that leads elsewhere."""


def make_folder(folder: Path) -> None:
    """Make one that others cannot enter, whatever the umask. One that exists must be ours (`must_be_ours`); who may
    read it is as its owner has made it, and `custody doctor` tells of it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if not folder.is_dir():
            raise
        must_be_ours(folder)
        return
    folder.chmod(of_folder())


def must_be_ours(folder: Path) -> None:
    """Refuse to write where somebody else may put links and files of his own: we would write through them. An empty
    folder that was made too wide is closed; in one that is not, somebody must look first at what is there."""
    found = folder.stat()
    if trouble := not_ours(folder):
        told, do = trouble
        mode = stat.S_IMODE(found.st_mode)
        if found.st_uid == os.geteuid():
            folder.chmod(mode & ~WRITES)
            if not any(folder.iterdir()):
                return
            folder.chmod(mode)  # it is told until somebody has looked
        raise Unsafe(told, code="folder.closed", where=str(folder), hint=do)


def not_ours(folder: Path, seen: os.stat_result | None = None) -> tuple[str, str] | None:
    """Who besides us may write to a folder, and what to do about it; nothing if nobody may.
    `seen`: as it was found, where it may be gone by now."""
    found, name = seen or folder.stat(), shlex.quote(str(folder))
    if found.st_uid not in (0, os.geteuid()):
        told = f"the folder {folder} is somebody else's (user {found.st_uid}), who could lead what we write elsewhere"
        return told, f"look through it, then: chown {os.geteuid()} {name}; or choose another folder"
    if found.st_mode & WRITES and is_reachable(folder.resolve().parent):
        who = "everybody on this machine" if found.st_mode & 0o002 else f"the group {found.st_gid}"
        told = f"{who} may write to the folder {folder}, and so lead what we write elsewhere"
        return told, f"look through it for links and files that are not yours, then: chmod go-w {name}"
    return None


def make_shown(folder: Path, everybody: bool = False) -> None:
    """Make one that sandboxes may be shown, or everybody may read, with those above it that are missing."""
    if folder.is_dir():
        return
    make_shown(folder.parent, everybody)
    try:
        folder.mkdir()
    except FileExistsError:
        if not folder.is_dir():
            raise
    else:
        folder.chmod(0o755 if everybody else of_shown_folder())


def make_file(file: Path) -> None:
    """Make an empty file for a database, closed whatever the umask; those beside it become as it is. It is not opened
    for that: whoever closes it would end the locks of another thread that was quicker."""
    with suppress(FileExistsError):
        os.mknod(file, of_file() | stat.S_IFREG)


def make_closed(folder: Path, what: str) -> None:
    """Make a folder for what sandboxes write: nobody but its worker enters it, and one that was wider is closed."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        told = f"{what} need the folder {folder}, which cannot be made: {error.strerror}"
        raise Unavailable(told, code="folder.closed", hint="choose another folder, or give this one to us") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        told = f"{what} need the folder {folder}, which is somebody else's, or a link"
        raise Unsafe(told, code="folder.closed", hint="remove it, or choose another folder")
    if stat.S_IMODE(found.st_mode) != 0o700:
        folder.chmod(0o700)


def is_reachable(folder: Path, owner: int | None = None) -> bool:
    """Could anybody but us, or its owner, come to something in it? Not if it, or a folder above it, keeps them out."""
    trusted = (0, os.geteuid() if owner is None else owner)
    for above in (folder, *folder.parents):
        found = above.stat()
        if not found.st_mode & PASSES and found.st_uid in trusted:
            return False
    return True


def must_be_closed(work: Path) -> None:
    """Refuse to run anything in a folder that others can come to: what is inside could let them in, or out."""
    above = work.resolve().parent
    if above.is_dir() and is_reachable(above):
        raise Unsafe(
            "others on this machine could come to what a sandbox writes here",
            code="sandbox.open",
            where=str(work),
            hint=f"close the folder above it: chmod 700 {shlex.quote(str(above))}",
        )

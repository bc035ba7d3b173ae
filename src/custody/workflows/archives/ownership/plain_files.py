"""Looks for what is no file in the place of one: a pipe, a socket, a device or a link in a repository's folder.

Whoever opens a pipe waits for ever, and a link leads anywhere. Nothing of that is read by ourselves (`opened`), and
what git and Subversion read for us is looked at first (`oddity`), so that it is told in words. Whoever swaps a file
after that look meets the time that each answer has (`archives/processes/conversation.py`).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from custody.border.file_types import sort
from custody.errors import Unavailable
from custody.workflows.archives.ownership.owned import FOLDER

FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MOST_KNOWN = 100_000
# Folders that had none when they were last changed, and the folders in them.
_known: dict[tuple[int, int, int, int], tuple[str, ...]] = {}


def odd(name: str, what: str, where: str) -> Unavailable:
    return Unavailable(
        f"{name} is {what}, not a file",
        code="archive.corrupt",
        where=where,
        hint="whoever owns the repository has to put the file back: nothing else is read there",
    )


def opened(path: Path, where: str) -> BinaryIO:
    """A file, and nothing else, open for reading. `OSError` if there is none."""
    try:
        descriptor = os.open(path, FILE)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link, a socket
            raise odd(str(path), sort(os.lstat(path).st_mode) or "gone", where) from None
        raise
    if what := sort(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise odd(str(path), what, where)
    return open(descriptor, "rb")


def must_be_files(above: int, names: Iterable[str], where: str) -> None:
    """`Unavailable` if one of these is there and is no file."""
    for name in names:
        try:
            mode = os.stat(name, dir_fd=above, follow_symlinks=False).st_mode
        except OSError:
            continue
        if not stat.S_ISREG(mode):
            raise odd(name, sort(mode) or "a folder", where)


def must_be_plain(above: int, name: str, where: str, depth: int = 3) -> None:
    """`Unavailable` if anything in a folder is neither file nor folder. One that has not changed since it was looked
    at is not looked through again."""
    try:
        here = os.open(name, FOLDER, dir_fd=above)
    except FileNotFoundError:
        return
    except OSError:
        mode = os.stat(name, dir_fd=above, follow_symlinks=False).st_mode
        raise odd(name, sort(mode) or "closed to us", where) from None
    try:
        about = os.fstat(here)
        key = (about.st_dev, about.st_ino, about.st_mtime_ns, about.st_ctime_ns)
        if (folders := _known.get(key)) is None:
            folders = _folders_in(here, name, where)
            if len(_known) >= _MOST_KNOWN:
                _known.clear()
            _known[key] = folders
        for part in folders if depth else ():
            must_be_plain(here, part, where, depth - 1)
    finally:
        os.close(here)


def _folders_in(here: int, name: str, where: str) -> tuple[str, ...]:
    with os.scandir(here) as entries:
        inside = [(one.name, one.is_dir(follow_symlinks=False), one.is_file(follow_symlinks=False)) for one in entries]
    for part, is_folder, is_file in inside:
        if not is_folder and not is_file:
            mode = os.stat(part, dir_fd=here, follow_symlinks=False).st_mode
            raise odd(f"{name}/{part}", sort(mode) or "gone", where)
    return tuple(part for part, is_folder, _ in inside if is_folder)

"""Writing to a disk so that it is still there after a crash.

What `append` wrote is on the disk when it returns, `replace` swings a whole file or leaves the old one, and
`locked` lets one thread of one process in at a time; a killed process leaves no lock behind, because the
kernel closes its files. `add` and `remove` promise nothing about a crash: their callers can lose either.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    # Opened anew each time: a lock belongs to the open file, so threads exclude each other as processes do.
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def append(path: Path, offset: int, data: bytes) -> None:
    """Write at `offset`, forgetting whatever a crash may have left behind it."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    try:
        os.ftruncate(handle, offset)
        _write(handle, data, offset)
        os.fdatasync(handle)
    finally:
        os.close(handle)
    if offset == 0:  # the file may be new, and then so is its name
        sync_folder(path.parent)


def replace(path: Path, data: bytes) -> None:
    beside = path.with_name(path.name + "~")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644)
    try:
        _write(handle, data, 0)
        os.fdatasync(handle)
    finally:
        os.close(handle)
    os.replace(beside, path)
    sync_folder(path.parent)


def add(path: Path, data: bytes, *, anew: bool) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | (os.O_TRUNC if anew else 0), 0o644)
    try:
        _write(handle, data, os.fstat(handle).st_size)
    finally:
        os.close(handle)


def remove(path: Path, folders: bool = False) -> None:
    """A folder that somebody put in a file's place stays, unless all is to go."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except IsADirectoryError:
        if folders:
            shutil.rmtree(path)


def make_folder(path: Path) -> None:
    """Make a folder and the ones above it, each on the disk before anything is put inside."""
    if path.is_dir():
        return
    make_folder(path.parent)
    try:
        os.mkdir(path)
    except FileExistsError:
        return
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write(handle: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(handle, view, offset)
        view, offset = view[written:], offset + written

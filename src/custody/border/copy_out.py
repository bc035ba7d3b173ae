"""Copies files out of a folder that a sandbox has left, as far as they may be kept.

What a program may not do, nobody does for it: a file of holes costs it nothing and would fill a disk as an ordinary
copy. So holes stay holes, what is copied is counted, a link is never followed, and the disk keeps some room.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from custody.border.sandbox.spec import Limits
from custody.errors import Refused, Unavailable

MIB = 1 << 20
MOST_FILES = 100_000
KEEP_FREE = Limits().keep_free
_PIECE = MIB
_LOOK_EACH = 16 * MIB  # between looks at the disk


class LeftOut(Exception):
    """What was to be copied is not there as it was, or cannot be read; the reason is a sentence."""


@dataclass(slots=True)
class Allowance:
    """What may still be copied. Used up by copying."""

    megabytes: int
    files: int = MOST_FILES
    keep_free: int = KEEP_FREE
    seconds: float = 3600.0
    stopped: Callable[[], bool] = lambda: False
    _bytes: int = 0
    _files: int = 0
    _unlooked: int = _LOOK_EACH
    _began: float = 0.0

    def take_file(self) -> None:
        self._began = self._began or time.monotonic()
        self._files += 1
        if self._files > self.files:
            raise Refused(f"more than {self.files} files", code="outputs.limit")

    def take(self, size: int, into: int) -> None:
        """Before so many bytes are written there."""
        self._bytes += size
        self._unlooked += size
        if self._bytes > self.megabytes * MIB:
            raise Refused(f"more than {self.megabytes} MiB", code="outputs.limit")
        if self.stopped() or time.monotonic() - self._began > self.seconds:
            raise Unavailable("copying was stopped, or took too long", code="outputs.time")
        if self._unlooked >= _LOOK_EACH:
            self._unlooked = 0
            disk = os.fstatvfs(into)
            if disk.f_bavail * disk.f_frsize < self.keep_free + _LOOK_EACH:
                raise _full()


def copy_file(source: int, target: Path, allowance: Allowance) -> None:
    """Copy what this descriptor reads to a new file of ours alone; holes stay holes."""
    allowance.take_file()
    found = os.fstat(source)
    if not stat.S_ISREG(found.st_mode):
        raise LeftOut("it is no file")
    try:
        made = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            _copy(source, made, found.st_size, allowance)
            os.ftruncate(made, found.st_size)
        finally:
            os.close(made)
    except LeftOut:
        target.unlink()
        raise
    except OSError as error:
        raise cannot_write(error) from error


def _copy(source: int, target: int, size: int, allowance: Allowance) -> None:
    at = 0
    while at < size:
        span = _next_data(source, at, size)
        if span is None:  # nothing but a hole from here on
            return
        at, end = span
        while at < end:
            data = _read(source, min(_PIECE, end - at), at)
            if not data:
                return
            allowance.take(len(data), target)
            written = 0
            while written < len(data):
                written += os.pwrite(target, data[written:], at + written)
            at += len(data)


def _next_data(source: int, at: int, size: int) -> tuple[int, int] | None:
    try:
        begin = os.lseek(source, at, os.SEEK_DATA)
        return begin, min(size, os.lseek(source, begin, os.SEEK_HOLE))
    except OSError as error:
        if error.errno == errno.ENXIO:
            return None
        raise LeftOut(f"it cannot be read: {error.strerror}") from error


def _read(source: int, most: int, at: int) -> bytes:
    try:
        return os.pread(source, most, at)
    except OSError as error:
        raise LeftOut(f"it cannot be read: {error.strerror}") from error


def cannot_write(error: OSError) -> Unavailable:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _full()
    told = f"it cannot be written where it would be kept: {error.strerror}"
    return Unavailable(told, code="outputs.disk")


def _full() -> Unavailable:
    return Unavailable("the disk on which it would be kept is nearly full", code="outputs.disk", hint="make room there")

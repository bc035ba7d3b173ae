"""How much a work folder holds, counted a little at a time so that whoever asks is never kept waiting."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

_EVERY = 1.0  # seconds
_STEP = 2000  # files per call


class Disk:
    """Says when a folder outgrows its limit or its disk is nearly full. Times are seconds since the start."""

    def __init__(self, folder: Path, limit: int | None, keep_free: int) -> None:
        self._folder = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._limit = limit
        self._keep_free = keep_free
        self._walk: Iterator[int] | None = None
        self._sum = 0
        self._began = 0.0
        self.due = _EVERY

    def too_full(self, at: float) -> bool:
        disk = os.statvfs(self._path)
        if disk.f_bavail * disk.f_frsize < self._keep_free:
            return True
        if self._limit is None:
            self.due = at + _EVERY
            return False
        return self._count(at) > self._limit

    @property
    def _path(self) -> str:
        return f"/proc/self/fd/{self._folder}"  # stays the same folder whatever is mounted or renamed meanwhile

    def _count(self, at: float) -> int:
        if self._walk is None:
            self._walk, self._sum, self._began = _sizes(self._path), 0, at
        for _ in range(_STEP):
            size = next(self._walk, None)
            if size is None:
                self._walk = None
                self.due = at + max(_EVERY, 10 * (at - self._began))
                break
            self._sum += size
        return self._sum


def _sizes(folder: str) -> Iterator[int]:
    """The space each file takes. A path too long to be looked at counts as too much."""
    folders = [folder]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    yield entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
        except OSError as error:
            yield 2**62 if error.errno == errno.ENAMETOOLONG else 0

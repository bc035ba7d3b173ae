"""A disk that remembers what it was really told to keep, so that tests can cut the power at any moment.

`Power` stands in for the module `os` inside `custody.channels.blobs.durable`. Everything still happens on the real
disk; beside it, each file's content and each folder's names are kept twice, as last written and as last
synced. `images` builds the disks that a loss of power may leave: contents may be the written or the synced
ones; names too, or the newest name alone may have reached the disk before the others.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any


class Inode:
    def __init__(self, content: bytes = b"") -> None:
        self.written = self.synced = content


class Power:
    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.written: dict[str, Inode | None] = {}  # None is a folder
        self.synced: dict[str, Inode | None] = {}
        self.newest: dict[str, Inode | None] = {}
        self.handles: dict[int, str] = {}
        self.steps = 0
        self.stop_after: int | None = None
        for path in sorted(root.rglob("*")):
            self.written[str(path)] = None if path.is_dir() else Inode(path.read_bytes())
        self.synced = dict(self.written)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def step(self) -> None:
        if self.stop_after is not None and self.steps >= self.stop_after:
            raise PowerLost
        self.steps += 1

    def open(self, path: Any, flags: int, mode: int = 0o777) -> int:
        fresh = flags & os.O_CREAT and str(path) not in self.written
        if fresh or flags & os.O_TRUNC:
            self.step()
        handle = os.open(path, flags, mode)
        self.handles[handle] = str(path)
        if fresh:
            self._name(str(path), Inode())
        elif flags & os.O_TRUNC:
            self._inode(handle).written = b""
        return handle

    def ftruncate(self, handle: int, size: int) -> None:
        self.step()
        os.ftruncate(handle, size)
        self._inode(handle).written = self._inode(handle).written[:size].ljust(size, b"\0")

    def pwrite(self, handle: int, data: Any, offset: int) -> int:
        self.step()
        half = max(1, len(data) // 2)  # two steps per write: a crash may leave half of it
        os.pwrite(handle, data[:half], offset)
        inode = self._inode(handle)
        inode.written = inode.written[:offset] + bytes(data[:half]) + inode.written[offset + half :]
        return half

    def fdatasync(self, handle: int) -> None:
        self.step()
        self._inode(handle).synced = self._inode(handle).written

    def fsync(self, handle: int) -> None:
        self.step()
        folder = self.handles[handle]
        for names in (self.synced, self.written):
            for path in [path for path in names if os.path.dirname(path) == folder]:
                if path in self.written:
                    self.synced[path] = self.written[path]
                else:
                    del self.synced[path]

    def replace(self, old: Any, new: Any) -> None:
        self.step()
        os.replace(old, new)
        self._name(str(new), self.written.pop(str(old)))

    def unlink(self, path: Any) -> None:
        if str(path) in self.written:
            self.step()
        os.unlink(path)
        self.written.pop(str(path), None)

    def mkdir(self, path: Any) -> None:
        self.step()
        os.mkdir(path)
        self._name(str(path), None)

    def _name(self, path: str, inode: Inode | None) -> None:
        self.written[path] = inode
        self.newest = {path: inode}

    def _inode(self, handle: int) -> Inode:
        inode = self.written[self.handles[handle]]
        assert inode is not None
        return inode

    def images(self, into: Path) -> Iterator[Path]:
        disks = {"written": self.written, "synced": self.synced, "newest": self.synced | self.newest}
        for names, contents in product(disks, ("written", "synced")):
            image = into / f"{names}-{contents}"
            for path, inode in sorted(disks[names].items()):
                place = image / os.path.relpath(path, self.root)
                if inode is None:
                    place.mkdir(parents=True, exist_ok=True)
                elif place.parent.is_dir():
                    place.write_bytes(getattr(inode, contents))
            image.mkdir(parents=True, exist_ok=True)
            yield image


class PowerLost(BaseException):
    """Not an Exception, so that no code under test can go on after it."""

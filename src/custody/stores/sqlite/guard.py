"""Keeps the files of an open store what they are, whatever else this process does with them.

SQLite locks as POSIX does: when a process closes any descriptor of a file, all its locks on that file are gone. A
program that reads the store's file to copy it, or opens it with another SQLite library (Python's own `sqlite3`), takes
ours away like this; whoever closes the file next believes to be the last, and deletes the log into which we go on to
write. So two locks are held here by descriptors that are nobody else's (OFD locks end with these descriptors alone): on
what says that the file is in use, and on what says that the index of the log is.

What no lock prevents (the file is deleted, or another is put in its place) is noticed before anything is acknowledged.
"""

from __future__ import annotations

import fcntl
import os
import struct
import threading
from contextlib import suppress

from custody.model.errors import Unsafe

IN_USE = (0x40000002, 510)
"""SQLite's SHARED lock: start and length of bytes in the file (https://sqlite.org/src/file/src/os.h)."""
INDEX_IN_USE = (128, 1)
"""The "dead man's switch" of the log's index (https://sqlite.org/src/file/src/os_unix.c)."""

Identity = tuple[int, int]


class Guard:
    """Held by every store of this process that has the file open."""

    def __init__(self, path: str, identity: Identity) -> None:
        self.path, self.identity, self.holders = path, identity, 0
        self._open: list[tuple[int, tuple[int, int]]] = []

    def take(self) -> None:
        """Hold it, and then the locks: the files are open, their own locks are taken."""
        self.holders += 1
        if self.holders > 1:
            return
        if not self._open:
            for name, span in ((self.path, IN_USE), (f"{self.path}-shm", INDEX_IN_USE)):
                with suppress(OSError):  # one that may only be read
                    self._open.append((os.open(name, os.O_RDONLY | os.O_CLOEXEC), span))
        self._lock(fcntl.F_RDLCK)

    def let_go(self) -> None:
        """Of the locks first: whoever closes the file last has to see that it is the last."""
        self.holders -= 1
        if not self.holders:
            self._lock(fcntl.F_UNLCK)

    def close(self) -> None:
        """Of the descriptors last: to close one ends every lock that SQLite has on the file."""
        while self._open:
            os.close(self._open.pop()[0])

    def _lock(self, how: int) -> None:
        for descriptor, (start, length) in self._open:
            with suppress(OSError):  # a file system without such locks: what is amiss is still noticed
                fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, struct.pack("hhqqi", how, os.SEEK_SET, start, length, 0))


class InPlace:
    """One store's hold of the guard, and what its files were when it was opened."""

    def __init__(self, path: str) -> None:
        self._path, self._log = path, f"{path}-wal"
        self._file, self._log_file = _identity(path), _identity(self._log)
        with _REGISTRY:
            self._guard = _GUARDS.setdefault(self._file or (0, 0), Guard(path, self._file or (0, 0)))
            self._guard.take()

    def check(self) -> None:
        """Refuse if what is there is not what we write to: nobody would ever find it."""
        if _identity(self._path) != self._file or _identity(self._log) != self._log_file:
            raise Unsafe(
                f"{self._path} or its log was deleted or replaced while it was open: this is not acknowledged",
                code="store.replaced",
                hint="end this program and look at the file (custody doctor) before you start it again; "
                "copy stores with `custody store backup`, and open them with nothing else",
            )

    def let_go(self) -> None:
        """Before the connections are closed."""
        with _REGISTRY:
            self._guard.let_go()

    def close(self) -> None:
        """After the connections were closed."""
        with _REGISTRY:
            if not self._guard.holders and self._guard.identity in _GUARDS:
                del _GUARDS[self._guard.identity]
                self._guard.close()


def _identity(path: str) -> Identity | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


_GUARDS: dict[Identity, Guard] = {}
_REGISTRY = threading.Lock()


def _in_child() -> None:
    """Forget those of the parent, and close nothing: what is still open here was open at the fork."""
    global _REGISTRY
    _REGISTRY = threading.Lock()
    _GUARDS.clear()


os.register_at_fork(after_in_child=_in_child)

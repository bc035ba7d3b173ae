"""Writes the files of a revision into a folder of ours, each from the open folder that holds it.

Names come from whoever can commit. Every one is a single part that was looked at before; nothing is followed, nothing
that is there already is written to, so nothing lands anywhere else.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from custody.errors import Refused, Unavailable
from custody.formats.names import shown
from custody.workflows.archives.ownership.owned import FOLDER
from custody.workflows.archives.working_copy.size_limits import Limits, Measure

KEEP_FREE = 64 << 20
LOOK_EVERY = 16 << 20  # bytes between looks at the room that is left
LONGEST_LINK = 4095
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Into:
    """An empty folder that is being filled. Paths are given in the order of their folders, outer ones first."""

    def __init__(self, folder: Path, where: str, limits: Limits) -> None:
        self._top = os.open(folder, FOLDER)
        self.measure = Measure(limits, where)
        self._where = where
        self._at, self._here = b"", os.dup(self._top)
        self._since = LOOK_EVERY

    def __enter__(self) -> Into:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._here)
        os.close(self._top)

    def folder(self, path: bytes) -> None:
        self.measure.path(path)
        base, _, name = path.rpartition(b"/")
        self._go(base)
        try:
            os.mkdir(name, 0o777, dir_fd=self._here)
        except OSError as error:
            raise self._blocked(path, error) from None

    def file(self, path: bytes, pieces: Iterable[bytes], runs: bool) -> None:
        self.measure.path(path)
        base, _, name = path.rpartition(b"/")
        self._go(base)
        try:
            descriptor = os.open(name, _NEW, 0o777 if runs else 0o666, dir_fd=self._here)
        except OSError as error:
            raise self._blocked(path, error) from None
        try:
            for piece in pieces:
                self.measure.content(len(piece))
                self._room(len(piece))
                left = memoryview(piece)
                while left:
                    left = left[os.write(descriptor, left) :]
        except BaseException as error:
            os.unlink(name, dir_fd=self._here)  # it is not what its name says, or not all of it
            if isinstance(error, OSError):
                raise self._blocked(path, error) from None
            raise
        finally:
            os.close(descriptor)

    def link(self, path: bytes, target: bytes) -> None:
        self.measure.path(path)
        base, _, name = path.rpartition(b"/")
        self._go(base)
        if not 0 < len(target) <= LONGEST_LINK or b"\0" in target:
            raise Refused(f"{_text(path)} is a link to nowhere", code="archive.name", where=self._where)
        try:
            os.symlink(target, name, dir_fd=self._here)
        except OSError as error:
            raise self._blocked(path, error) from None

    def _go(self, base: bytes) -> None:
        if base == self._at:
            return
        here = os.dup(self._top)
        for part in base.split(b"/") if base else ():
            try:
                below = os.open(part, FOLDER, dir_fd=here)
            except OSError as error:
                raise self._blocked(base, error) from None
            finally:
                os.close(here)
            here = below
        os.close(self._here)
        self._at, self._here = base, here

    def expect(self, size: int) -> None:
        """Content of this size follows: too much of it is told before any of it is written."""
        self.measure.must_fit(size)
        self._must_have_room(size)

    def _room(self, size: int) -> None:
        self._since += size
        if self._since >= LOOK_EVERY:
            self._since = 0
            self._must_have_room(0)

    def _must_have_room(self, size: int) -> None:
        disk = os.fstatvfs(self._here)
        if disk.f_bavail * disk.f_frsize < KEEP_FREE + size:
            raise Unavailable("there is no room for a working copy", code="disk.full", where=self._where)

    def _blocked(self, path: bytes, error: OSError) -> Refused | Unavailable:
        if isinstance(error, FileExistsError):
            hint = "two names that this file system takes for one; commit a revision without one of them"
            return Refused(f"{_text(path)} is there twice", code="archive.name", where=self._where, hint=hint)
        return Unavailable(f"{_text(path)} cannot be written: {error.strerror}", code="disk.failing", where=self._where)


def _text(path: bytes) -> str:
    return shown(path.decode("utf-8", "backslashreplace"))

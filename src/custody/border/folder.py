"""A folder held open, below which foreign names are opened without leaving it.

Every step goes through a descriptor of the folder above and refuses links (`dir_fd`, `O_NOFOLLOW`), so no
path is ever compared as text and nothing planted on the way can lead elsewhere. New files are made with
`O_EXCL`: an existing one is never written into by mistake.

Names are judged by `names.py` on every call. What the files hold is the caller's business; `settle` makes
the folders durable, the caller fsyncs its files.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from custody.errors import CustodyError, NotFound, Refused, Unavailable
from custody.formats.names import safe_parts, shown

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC
FILE_MODE = 0o640
FOLDER_MODE = 0o750

_BLOCKED = (Refused, "name.blocked", "a link or another kind of file is in the way")
_FULL = (Unavailable, "disk.full", "the disk is full")
_ERRORS: dict[int, tuple[type[CustodyError], str, str]] = {
    errno.ELOOP: _BLOCKED,
    errno.ENOTDIR: _BLOCKED,
    errno.EISDIR: _BLOCKED,
    errno.ENXIO: _BLOCKED,
    errno.EEXIST: (Refused, "name.exists", "there is already something of this name"),
    errno.ENOTEMPTY: (Refused, "name.exists", "there is already something of this name"),
    errno.ENOENT: (NotFound, "name.missing", "there is nothing of this name"),
    errno.ENAMETOOLONG: (Refused, "name.blocked", "the name is too long for this file system"),
    errno.EILSEQ: (Refused, "name.blocked", "this file system has no such characters"),
    errno.EINVAL: (Refused, "name.blocked", "this file system does not take the name"),
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EMFILE: (Unavailable, "disk.busy", "too many files are open"),
    errno.ENFILE: (Unavailable, "disk.busy", "too many files are open"),
    errno.EIO: (Unavailable, "disk.failing", "the disk could not be read or written"),
    errno.EROFS: (Unavailable, "disk.readonly", "the disk is read-only"),
}


@contextmanager
def disk_errors(name: str) -> Iterator[None]:
    """Say what the disk refused in our own words; anything not in the table is a surprise."""
    try:
        yield
    except OSError as error:
        kind = _ERRORS.get(error.errno or 0)
        if kind is None:
            raise
        error_type, code, sentence = kind
        raise error_type(sentence, code=code, where=shown(name)) from error


class Folder:
    """An open folder of ours. Use it as a context manager, or `close` it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        with disk_errors(self.path):
            self._fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._touched: set[tuple[str, ...]] = set()
        self._settling = threading.Lock()

    def create(self, name: str) -> int:
        """A descriptor for writing a new file. Folders on the way are made."""
        parts = safe_parts(name)
        with disk_errors(name), self._above(parts, make=True) as above:
            self._touched.add(parts[:-1])
            return os.open(parts[-1], os.O_RDWR | os.O_CREAT | os.O_EXCL | _FILE, FILE_MODE, dir_fd=above)

    def open(self, name: str, *, writing: bool = False) -> int:
        """A descriptor for an existing regular file."""
        parts = safe_parts(name)
        # O_NONBLOCK: opening a pipe that somebody put there must not wait for its other end.
        flags = (os.O_RDWR if writing else os.O_RDONLY) | os.O_NONBLOCK | _FILE
        with disk_errors(name), self._above(parts) as above:
            descriptor = os.open(parts[-1], flags, dir_fd=above)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
        raise Refused(_BLOCKED[2], code=_BLOCKED[1], where=shown(name))

    def names_the_same(self, name: str, descriptor: int) -> bool:
        """Whether a file that is open still has this name."""
        parts = safe_parts(name)
        try:
            with disk_errors(name), self._above(parts) as above:
                found = os.stat(parts[-1], dir_fd=above, follow_symlinks=False)
        except NotFound:
            return False
        return os.path.samestat(found, os.fstat(descriptor))

    def tells_case_apart(self) -> bool:
        """Whether README and readme are two files on this disk."""
        probe = f".case-{secrets.token_hex(8)}"
        with disk_errors(self.path):
            os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, FILE_MODE, dir_fd=self._fd))
            try:
                os.stat(probe.upper(), dir_fd=self._fd, follow_symlinks=False)
            except FileNotFoundError:
                return True
            finally:
                os.unlink(probe, dir_fd=self._fd)
        return False

    def make(self, name: str) -> None:
        """A folder, with all the folders above it. One that exists is left as it is."""
        with disk_errors(name), self._above((*safe_parts(name), ""), make=True):
            pass

    def move(self, old: str, new: str) -> None:
        """Give a file another name, replacing a file that had it. Folders on the way are made."""
        old_parts, new_parts = safe_parts(old), safe_parts(new)
        with disk_errors(new), self._above(old_parts) as here, self._above(new_parts, make=True) as there:
            self._touched.update((old_parts[:-1], new_parts[:-1]))
            os.replace(old_parts[-1], new_parts[-1], src_dir_fd=here, dst_dir_fd=there)

    def remove(self, name: str) -> bool:
        """Remove a file, or say that there is none."""
        parts = safe_parts(name)
        try:
            with disk_errors(name), self._above(parts) as above:
                self._touched.add(parts[:-1])
                os.unlink(parts[-1], dir_fd=above)
        except NotFound:
            return False
        return True

    def remove_if_empty(self, name: str) -> None:
        """Remove a folder that has nothing in it any more; otherwise do nothing."""
        parts = safe_parts(name)
        try:
            with disk_errors(name), self._above(parts) as above:
                os.rmdir(parts[-1], dir_fd=above)
        except (NotFound, Refused):
            pass

    def is_empty(self) -> bool:
        with os.scandir(self._fd) as entries:
            return next(entries, None) is None

    def clear(self) -> None:
        """Remove everything below, without following links."""
        with os.scandir(self._fd) as entries:
            found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        for name, is_folder in found:
            if is_folder:
                shutil.rmtree(name, dir_fd=self._fd)
            else:
                os.unlink(name, dir_fd=self._fd)
        self._touched = {()}

    def doubt(self, name: str) -> None:
        """This name was made by somebody who may have died before settling: `settle` shall do it."""
        self._touched.add(safe_parts(name)[:-1])

    def settle(self) -> None:
        """Make every name that was made, moved or removed since the last time durable."""
        with self._settling:  # so that nobody returns while another is still settling for them
            while self._touched:
                parts = self._touched.pop()
                try:
                    with disk_errors("/".join(parts)), self._above((*parts, "")) as folder:
                        os.fsync(folder)
                except (NotFound, Refused):
                    pass  # removed since, and perhaps a file has its name now

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Folder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _above(self, parts: tuple[str, ...], make: bool = False) -> Iterator[int]:
        """The folder that holds the last part. Each step is taken from the one before."""
        here = self._fd
        try:
            for depth, part in enumerate(parts[:-1]):
                below = self._step(here, parts[: depth + 1], part, make)
                if here != self._fd:
                    os.close(here)
                here = below
            yield here
        finally:
            if here != self._fd:
                os.close(here)

    def _step(self, here: int, parts: tuple[str, ...], part: str, make: bool) -> int:
        try:
            return os.open(part, _FOLDER, dir_fd=here)
        except FileNotFoundError:
            if not make:
                raise
        try:
            os.mkdir(part, FOLDER_MODE, dir_fd=here)
            self._touched.add(parts[:-1])
        except FileExistsError:
            pass  # another thread was quicker; whatever it is, the next line judges it
        return os.open(part, _FOLDER, dir_fd=here)

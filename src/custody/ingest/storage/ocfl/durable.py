"""File system steps that survive a power cut, each announced before it is taken.

A file is written once, under a name nobody reads, and synced; folders are synced after what is in them;
then one rename or one exchange of names makes the whole thing visible. Because every change to the disk
goes through here, a test can stop at each step in turn and look at what a crash would have left.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from custody.border import below, modes
from custody.formats.digest_table import ALGORITHMS, chunks_of

Step = Callable[[str], None]

_AT_FDCWD = -100
_EXCHANGE = 2  # RENAME_EXCHANGE on Linux and RENAME_SWAP on macOS are both 2
_CANNOT_EXCHANGE = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}


def _quietly(_: str) -> None:
    """Nobody watches the steps."""


@dataclass(frozen=True, slots=True)
class Durable:
    step: Step = _quietly
    can_exchange: bool = True
    """False where names cannot be exchanged (NFS, for one); `put_in_place` then takes two renames"""
    shared: bool = False
    """everybody on this machine may read what is stored; else only its owner, or the group that may"""

    def folder(self, path: Path) -> None:
        self.step(f"folder {path}")
        modes.make_shown(path, self.shared)

    def _new(self, path: Path) -> IO[bytes]:
        """A file that nobody has written yet, as readable as it is to stay."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.fchmod(descriptor, 0o644 if self.shared else modes.of_shown_file())
        return open(descriptor, "wb")

    def write(self, path: Path, data: bytes) -> None:
        self.step(f"write {path}")
        with self._new(path) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        self.step(f"synced {path}")

    def copy(self, source: Path, target: Path, names: Iterable[str]) -> dict[str, str]:
        """Copy a file and say the digests of the bytes that were written. It is not yet synced."""
        running = {name: ALGORITHMS[name].new() for name in names}
        self.step(f"write {target}")
        with self._new(target) as file:
            for chunk in chunks_of(source):
                for each in running.values():
                    each.update(chunk)
                file.write(chunk)
        return {name: each.hexdigest() for name, each in running.items()}

    def sync(self, path: Path) -> None:
        """Make a file's bytes, or a folder's names, durable."""
        self.step(f"sync {path}")
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self.step(f"synced {path}")

    def sync_folders(self, root: Path) -> None:
        """Every folder below and at root, the deepest first."""
        for folder, _, _ in os.walk(root, topdown=False):
            self.sync(Path(folder))

    def link_tree(self, source: Path, target: Path, leave_out: frozenset[str]) -> None:
        """The same files under other folders, without copying a byte. `leave_out` are names at the top. A link among
        them is refused: it would be carried on, or what is behind it left out."""
        for folder, folders, names in os.walk(source):
            here = Path(folder)
            for name in (*folders, *names):
                if os.path.islink(here / name):
                    raise below.link(here / name)
            there = target / here.relative_to(source)
            self.folder(there)
            for name in names:
                if here != source or name not in leave_out:
                    self.step(f"link {there / name}")
                    os.link(here / name, there / name)

    def rename(self, source: Path, target: Path) -> None:
        self.step(f"rename {source} -> {target}")
        os.rename(source, target)
        self.sync(target.parent)
        if source.parent != target.parent:
            self.sync(source.parent)

    def put_in_place(self, new: Path, place: Path, old: Path) -> None:
        """What is at `place` becomes what was at `new`. The former content is at `new` or `old` afterwards.

        One step where the file system can exchange two names. Elsewhere there is a moment in which
        nothing is at `place`; whoever comes next finds `old` and puts it back."""
        if self.can_exchange:
            self.step(f"exchange {new} <-> {place}")
            if _exchange(new, place):
                self.sync(place.parent)
                self.sync(new.parent)
                return
        self.rename(place, old)
        self.rename(new, place)

    def remove(self, root: Path) -> None:
        """A file, or a folder with everything in it; nothing is fine too."""
        for path in _deepest_first(root):
            self.step(f"remove {path}")
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            else:
                path.unlink()


def _deepest_first(root: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(root, topdown=False):
        for name in names:
            yield Path(folder, name)
        for name in folders:
            yield Path(folder, name)
    if os.path.lexists(root):
        yield root


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two names in one step; False if this file system or system cannot."""
    libc = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(one), os.fsencode(other)
    if sys.platform == "darwin":
        swap = getattr(libc, "renamex_np", None)
        answer = swap(*names, _EXCHANGE) if swap else None
    else:
        swap = getattr(libc, "renameat2", None)
        answer = swap(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _EXCHANGE) if swap else None
    if answer == 0:
        return True
    code = ctypes.get_errno() if swap else errno.ENOSYS
    if code in _CANNOT_EXCHANGE:
        return False
    raise OSError(code, os.strerror(code), str(one), None, str(other))


def lock_folder(folder: Path, disk: Durable) -> int | None:
    """The right to work in a folder, as an open descriptor that ends with its process; None if another has
    it. Threads exclude each other too. `Refused` if it is a link: what is in it would be cleared away."""
    while True:
        below.must_be_ours(folder.parent, folder)
        try:
            disk.folder(folder)
            flags = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(folder / "lock", flags, 0o600)
        except (FileExistsError, FileNotFoundError):
            if folder.is_file():
                raise
            continue  # the last holder removes the folder while we look
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), os.stat(folder / "lock")):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except FileNotFoundError:
            pass
        os.close(descriptor)  # locked, but meanwhile it is no longer the lock of this folder: once more


def unlock_folder(folder: Path, descriptor: int, disk: Durable) -> None:
    """Give the right back and remove the folder, if it is empty."""
    try:
        disk.remove(folder / "lock")
        disk.step(f"remove {folder}")
        folder.rmdir()
    except OSError as error:
        if error.errno not in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT}:
            raise
    finally:
        os.close(descriptor)

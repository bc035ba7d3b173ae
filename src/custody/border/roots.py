"""Storage roots, and what may be mounted: only what lies below one, reached without any link.

A path in the store is somebody's word. So an item's place is written as `root:relative/path`; the root is a folder that
an operator has named, and the rest is opened from there by the kernel itself (openat2), which refuses links, leaving
the root, and other file systems. What was opened is handed on as a descriptor, so nothing that is swapped afterwards
can change what a sandbox gets to see.

A root is opened by its own path each time, not once at the start: mounts cannot be bound from another mount namespace
(sandbox/mounts.py), and storage that was mounted anew is found again.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from custody.errors import BadInput, CustodyError, NotFound, Refused, Unavailable

LONGEST = 255  # bytes in one part of a path: what file systems take
_OPENAT2 = 437  # on every architecture: it is younger than the common table
_HERE = os.O_PATH | os.O_CLOEXEC
_NO_XDEV, _NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x01, 0x02, 0x04, 0x08
_AGAIN = 10  # times that a rename elsewhere may make the kernel unsure whether we left
_libc = ctypes.CDLL(None, use_errno=True)


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@dataclass(frozen=True, slots=True)
class Root:
    """A folder below which things may be mounted: one that an operator has named, or one of our own.

    Never made from what the store, a request or a program says: a test lists who makes one.
    """

    name: str
    path: Path
    across: bool = False  # other file systems may be mounted below it

    def __post_init__(self) -> None:
        if not self.path.is_absolute():
            raise BadInput("a root needs a whole path", code="root.path", where=str(self.path))

    def find(self, relative: str) -> Source:
        """Something below this root that is there now, and reached without a link."""
        found = Source(self, relative)
        os.close(found.open())
        return found

    def relative(self, path: Path) -> str | None:
        """A path as it is called from here; None if it is not below this root."""
        below = path.is_relative_to(self.path) and path != self.path and ".." not in path.parts
        return path.relative_to(self.path).as_posix() if below else None


@dataclass(frozen=True, slots=True)
class Source:
    """What a mount shows: something below a root, opened anew by whoever mounts it. Its name is checked here."""

    root: Root
    relative: str

    def __post_init__(self) -> None:
        check_relative(self.relative, where=f"{self.root.name}:")

    @property
    def path(self) -> Path:
        """For people, and for programs of one's own. What foreign code gets to see is opened, not named."""
        return self.root.path / self.relative

    def open(self) -> int:
        """A descriptor of it (O_PATH). A link on the way, or as its last part, is refused, as is leaving the root."""
        try:
            root = os.open(self.root.path, _HERE | os.O_DIRECTORY)
        except OSError as error:
            raise Unavailable(
                f"the root {self.root.name!r} cannot be opened: {error.strerror}",
                code="root.missing",
                where=str(self.root.path),
                hint="is its disk mounted?",
            ) from error
        try:
            found = _beneath(root, self.relative, across=self.root.across)
        except OSError as error:
            raise self._refused(error) from error
        finally:
            os.close(root)
        mode = os.fstat(found).st_mode
        if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)):
            os.close(found)
            raise Refused("it is neither a file nor a folder", code="place.kind", where=str(self.path))
        return found

    def _refused(self, error: OSError) -> CustodyError:
        where = str(self.path)
        if error.errno == errno.ELOOP:
            return Refused("a link is in the way", code="place.link", where=where, hint="put the folder itself there")
        if error.errno == errno.EXDEV:
            return Refused(
                f"it leaves the root {self.root.name!r}, or lies on another file system",
                code="place.outside",
                where=where,
                hint="name that file system as a root, or this one in [storage] across",
            )
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return NotFound("there is nothing of this name", code="place.missing", where=where)
        if error.errno == errno.ENOSYS:
            return Unavailable("this kernel has no openat2", code="root.kernel", hint="Linux 5.6 or newer is needed")
        return Unavailable(f"cannot be opened: {error.strerror}", code="place.disk", where=where)


def check_relative(relative: str, where: str = "") -> None:
    """A path without tricks: `a/../b` would stay below a root and still be another place than it says."""
    for part in relative.split("/"):
        if part in ("", ".", "..") or "\0" in part or len(os.fsencode(part)) > LONGEST:
            raise BadInput(f"{relative[:200]!r} is not a path below a root", code="place.path", where=where)


def _beneath(root: int, relative: str, *, across: bool) -> int:
    resolve = _BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS | (0 if across else _NO_XDEV)
    # Without O_NOFOLLOW: together with O_PATH it would open a link as last part instead of refusing it.
    how = _How(_HERE, 0, resolve)
    for _ in range(_AGAIN):
        found = int(_libc.syscall(_OPENAT2, root, os.fsencode(relative), ctypes.byref(how), ctypes.sizeof(how)))
        if found >= 0:
            return found
        if (number := ctypes.get_errno()) != errno.EAGAIN:
            raise OSError(number, os.strerror(number))
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def ours(path: Path) -> Source:
    """A file or folder that this very program has made at a path of its own. Never for a path out of the store."""
    path = path.absolute()
    return Root("custody", path.parent).find(path.name)


@dataclass(frozen=True, slots=True)
class Roots:
    """The storage roots of an installation, by name: places are read and written through them."""

    by_name: Mapping[str, Root] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Root]:
        return iter(self.by_name.values())

    def source(self, place: str) -> Source:
        """What an item's place names, if it is there."""
        name, colon, relative = place.partition(":")
        if not colon:
            raise BadInput(f"{place[:200]!r} is no place", code="place.path", hint="ROOT:relative/path")
        check_relative(relative, where=f"{name}:")
        if name not in self.by_name:
            raise NotFound(
                f"there is no root {name!r} on this machine",
                code="root.unknown",
                where=place,
                hint=f"configured: {', '.join(self.by_name) or 'none'}; [storage] roots in custody.toml",
            )
        return self.by_name[name].find(relative)

    def seen(self, place: str) -> Source | None:
        """The same; None where there is none, or this machine does not see it. What leads elsewhere is an error."""
        try:
            return self.source(place) if place else None
        except (NotFound, Unavailable):
            return None

    def place_of(self, path: Path) -> str | None:
        """How a path is called as a place; None if it lies below no root."""
        for root in self:
            relative = root.relative(path)
            if relative is not None:
                return f"{root.name}:{relative}"
        return None


def roots(found: Iterable[Root]) -> Roots:
    return Roots({root.name: root for root in found})


NO_ROOTS = Roots()

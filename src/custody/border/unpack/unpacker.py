"""Unpacking containers: zip, tar, tar.gz, tar.bz2.

The archive formats are read by hand (`zip_reader.py`, `tar_reader.py`), strictly: a container that two programs could
read differently is refused. Only regular files and folders come out. Their bytes are copied into files that
*we* open (`folder.py`); links, devices, owners, modes and times of the container are never applied, and no
library's `extract` is called. Sizes are counted while streaming, never believed.

When a container is refused, the folder is empty again. Containers inside a container stay files.

Codes: `container.unsafe` (it would do harm, or has two readings), `container.corrupt`, `container.too_large`,
`container.unsupported`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import BinaryIO

from custody.border.folder import Folder, disk_errors
from custody.border.unpack.members import Member, Unpacked, UnpackLimits, refusal
from custody.border.unpack.tar_reader import looks_like_tar, tar_members
from custody.border.unpack.zip_reader import zip_members
from custody.errors import BadInput, Refused
from custody.formats.names import Names, safe_parts

_READERS: dict[str, Callable[[BinaryIO, UnpackLimits], Iterator[Member]]] = {
    "zip": zip_members,
    "tar": lambda source, limits: tar_members(source, limits, "tar"),
    "tar.gz": lambda source, limits: tar_members(source, limits, "tar.gz"),
    "tar.bz2": lambda source, limits: tar_members(source, limits, "tar.bz2"),
}
KINDS = tuple(_READERS)


def kind_of(source: BinaryIO) -> str | None:
    """What the file is, by its first bytes; None if it is no container we know."""
    source.seek(0)
    start = source.read(512)
    if start.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip"
    if start.startswith(b"\x1f\x8b"):
        return "tar.gz"
    if start.startswith(b"BZh"):
        return "tar.bz2"
    return "tar" if looks_like_tar(start) else None


def unpack(
    source: str | os.PathLike[str] | BinaryIO,
    folder: Folder,
    limits: UnpackLimits | None = None,
    *,
    kind: str | None = None,
    cancel: Callable[[], bool] | None = None,
) -> Unpacked:
    """Unpack a container into an empty folder. Everything is there, whole and on the disk, or nothing is.

    `source` is a path of ours or an open file; `kind` is what the depositor said it is, if they did.
    """
    if isinstance(source, (str, os.PathLike)):
        with open(source, "rb") as opened:
            return unpack(opened, folder, limits, kind=kind, cancel=cancel)
    found = kind_of(source)
    if found is None or kind not in (None, found):
        expected = kind or f"{', '.join(KINDS[:-1])} or {KINDS[-1]}"
        raise refusal("unsupported" if found is None else "corrupt", f"this is not {expected}")
    if not folder.is_empty():
        raise Refused("the folder to unpack into is not empty", code="folder.not_empty", where=folder.path)
    limits = limits or UnpackLimits()
    shelf = _Shelf(folder, limits, _size_of(source), cancel)
    try:
        for member in _READERS[found](source, limits):
            shelf.put(member)
        folder.settle()
    except BaseException:
        folder.clear()
        raise
    return Unpacked(found, shelf.files, shelf.size)


class _Shelf:
    """Puts members where they belong, and counts."""

    def __init__(self, folder: Folder, limits: UnpackLimits, packed: int, cancel: Callable[[], bool] | None) -> None:
        self.files = 0
        self.size = 0
        self._folder = folder
        self._cancel = cancel
        self._names = Names(code="container.unsafe", by_case=True)
        self._members = 0
        self._limits = limits
        self._most = limits.most(packed)

    def put(self, member: Member) -> None:
        self._members += 1
        if self._members > self._limits.members:
            raise refusal("too_large", f"more than {self._limits.members} members", member.name)
        try:
            safe_parts(member.name)
        except BadInput as error:
            raise refusal("unsafe", error.message, member.name) from error
        if member.is_folder:
            self._names.add_folder(member.name)
            self._folder.make(member.name)
        else:
            self._names.add(member.name)
            self._write(member)
            self.files += 1

    def _write(self, member: Member) -> None:
        try:
            descriptor = self._folder.create(member.name)
        except Refused as error:
            # Two names that our folding tells apart, and this file system does not.
            raise refusal("unsafe", error.message, member.name) from error
        try:
            with disk_errors(member.name):
                for piece in member.pieces:
                    self._count(len(piece), member)
                    view = memoryview(piece)
                    while view:
                        view = view[os.write(descriptor, view) :]
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _count(self, size: int, member: Member) -> None:
        self.size += size
        if self.size > self._most:
            raise refusal(
                "too_large",
                f"more than {self._most} bytes come out",
                member.name,
                "an administrator can raise the collection's limit",
            )
        if self._cancel is not None and self._cancel():
            raise Refused("stopped on request", code="unpack.cancelled", where=member.name)


def _size_of(source: BinaryIO) -> int:
    return source.seek(0, os.SEEK_END)

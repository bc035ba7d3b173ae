"""The end of a zip file: where its directory is, and the fields for large files (zip64)."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import BinaryIO

from custody.border.unpack.members import UnpackLimits, refusal

CENTRAL = struct.Struct("<4sHHHHHHIIIHHHHHII")
_END = struct.Struct("<4sHHHHIIH")
_LOCATOR = struct.Struct("<4sIQI")
_END64 = struct.Struct("<4sQHHIIQQQQ")
_ZIP64 = 0x0001
_COMMENT = 0xFFFF
_FULL = (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFF)  # "look in the zip64 field"
_DIRECTORY = 256 << 20  # bytes


@dataclass(frozen=True, slots=True)
class Directory:
    """Where the directory is. `end` is the size of the whole file."""

    offset: int
    size: int
    count: int
    end: int


def read_directory(source: BinaryIO, limits: UnpackLimits) -> Directory:
    size = source.seek(0, os.SEEK_END)
    start = max(0, size - _END.size - _COMMENT)
    source.seek(start)
    tail = source.read(size - start)
    at = _find_end(tail)
    _, disk, first_disk, here, count, length, offset, _ = _END.unpack_from(tail, at)
    place = start + at
    found = (disk, first_disk, here, count, length, offset)
    locator = _read_locator(source, place)
    if locator is not None:
        place, found = _read_end64(source, place, locator, found)
    disk, first_disk, here, count, length, offset = found
    if disk or first_disk or here != count:
        raise refusal("unsupported", "is one of several disks")
    if count > limits.members:
        raise refusal("too_large", f"{count} members, more than {limits.members}")
    if length > _DIRECTORY:
        raise refusal("too_large", f"the directory has {length} bytes, more than {_DIRECTORY}")
    if offset + length != place:
        raise refusal("unsafe", "the directory is not where it should be: bytes were put before or behind it")
    if count == 0 and (offset or length):
        raise refusal("unsafe", "there are bytes, but no members")
    return Directory(offset, length, count, size)


def extras(data: bytes, raw_name: bytes) -> dict[int, bytes]:
    """The extra fields by number; the same one twice would have two readings."""
    found: dict[int, bytes] = {}
    at = 0
    while at + 4 <= len(data):
        number, length = struct.unpack_from("<HH", data, at)
        value = data[at + 4 : at + 4 + length]
        if len(value) < length or (number in found and number in (_ZIP64, 0x7075)):
            raise refusal("corrupt", "has extra fields that cannot be read", _shown(raw_name))
        found[number] = value
        at += 4 + length
    if any(data[at:]):  # zeros: some programs align members with them
        raise refusal("corrupt", "has extra fields that cannot be read", _shown(raw_name))
    return found


def zip64_values(
    records: dict[int, bytes], values: tuple[int, int, int, int], raw_name: bytes
) -> tuple[int, int, int, int]:
    """Size, packed size, offset and disk, with those that did not fit taken from the zip64 field.

    The field holds the values that are missing, in this order; some programs write the others, too, which
    must then be the same.
    """
    missing = [value == limit for value, limit in zip(values, _FULL, strict=True)]
    record = records.get(_ZIP64)
    if record is None:
        return values
    for wanted in (missing, [True] * 2 + [False] * 2, [True] * 3 + [False], [True] * 4):
        layout = "<" + "".join(form for form, is_wanted in zip("QQQI", wanted, strict=True) if is_wanted)
        if struct.calcsize(layout) != len(record) or any(m and not w for m, w in zip(missing, wanted, strict=True)):
            continue
        told = iter(struct.unpack(layout, record))
        found = tuple(next(told) if is_wanted else value for value, is_wanted in zip(values, wanted, strict=True))
        agreed = all(m or new == old for m, new, old in zip(missing, found, values, strict=True))
        if agreed:
            size, packed, offset, disk = found
            return size, packed, offset, disk
    raise refusal("unsafe", "has two sizes", _shown(raw_name))


def _find_end(tail: bytes) -> int:
    """The end record: the one whose comment reaches exactly to the end of the file."""
    found = []
    at = tail.rfind(b"PK\x05\x06")
    while at >= 0:
        if len(tail) - at >= _END.size and at + _END.size + _END.unpack_from(tail, at)[7] == len(tail):
            found.append(at)
        at = tail.rfind(b"PK\x05\x06", 0, at + 3)
    if not found:
        raise refusal("corrupt", "the end is missing, or there is something after it")
    if len(found) > 1:
        raise refusal("unsafe", "there are two ends")
    return found[0]


def _read_locator(source: BinaryIO, end: int) -> int | None:
    """Where the zip64 end record is, if there is one."""
    if end < _LOCATOR.size:
        return None
    source.seek(end - _LOCATOR.size)
    signature, disk, offset, disks = _LOCATOR.unpack(source.read(_LOCATOR.size))
    if signature != b"PK\x06\x07":
        return None
    if disk or disks > 1:
        raise refusal("unsupported", "is one of several disks")
    return int(offset)


def _read_end64(
    source: BinaryIO, end: int, offset: int, short: tuple[int, ...]
) -> tuple[int, tuple[int, int, int, int, int, int]]:
    source.seek(min(offset, end))  # there are places that no file has, and none can be sought
    data = source.read(_END64.size)
    if offset > end or len(data) < _END64.size or data[:4] != b"PK\x06\x06":
        raise refusal("corrupt", "the zip64 end is not where it should be")
    _, length, _, _, disk, first_disk, here, count, size, start = _END64.unpack(data)
    if offset + 12 + length != end - _LOCATOR.size:
        raise refusal("unsafe", "there is something between the zip64 end and the end")
    found = (disk, first_disk, here, count, size, start)
    full = (0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF)
    for value, limit, said in zip(found, full, short, strict=True):
        if said not in (limit, value):
            raise refusal("unsafe", "the two ends say different things")
    return offset, found


def _shown(raw_name: bytes) -> str:
    return raw_name.decode("utf-8", "backslashreplace")

"""Containers built byte by byte, so that every byte can be wrong."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from typing import Any

LOCAL = "<4sHHHHHIIIHH"
CENTRAL = "<4sHHHHHHIIIHHHHHII"
END = "<4sHHHHIIH"
END64 = "<4sQHHIIQQQQ"
LOCATOR = "<4sIQI"
_LOCAL = "sign version flags method time date crc packed size name_length extra_length".split()
_CENTRAL = ["sign", "made", *_LOCAL[1:], "comment_length", "disk", "internal", "mode", "offset"]
_END = "sign disk first_disk here count length offset comment_length".split()


def deflated(data: bytes) -> bytes:
    engine = zlib.compressobj(9, zlib.DEFLATED, -15)
    return engine.compress(data) + engine.flush()


@dataclass
class Z:
    """A member of a zip. `local` and `central` change what the two headers say."""

    name: bytes = b"a.txt"
    data: bytes = b"hello"
    method: int = 8
    flags: int = 0
    mode: int = 0
    local: dict[str, Any] = field(default_factory=dict)
    central: dict[str, Any] = field(default_factory=dict)
    local_name: bytes | None = None
    local_extra: bytes = b""
    extra: bytes = b""
    packed: bytes | None = None  # instead of the packed data
    descriptor: bytes | None = None  # after the data
    after: bytes = b""  # anything else after the data

    def said(self) -> dict[str, Any]:
        packed = self.bytes_packed()
        return {
            "version": 20,
            "flags": self.flags,
            "method": self.method,
            "time": 0,
            "date": 0x21,
            "crc": zlib.crc32(self.data),
            "packed": len(packed),
            "size": len(self.data),
        }

    def bytes_packed(self) -> bytes:
        if self.packed is not None:
            return self.packed
        return deflated(self.data) if self.method == 8 else self.data


def descriptor_of(member: Z, form: str = "<4sIII", **changes: int) -> bytes:
    said = member.said() | changes
    values = (said["crc"], said["packed"], said["size"])
    return struct.pack(form, b"PK\x07\x08", *values) if "s" in form else struct.pack(form, *values)


def zip_of(
    *members: Z,
    before: bytes = b"",
    between: bytes = b"",
    comment: bytes = b"",
    after: bytes = b"",
    end: dict[str, int] | None = None,
    zip64: dict[str, int] | bool | None = None,
    shift: int = 0,
) -> bytes:
    """A zip file. `before` moves every offset along, `shift` is added to them."""
    out = bytearray(before)
    offsets = []
    for member in members:
        offsets.append(len(out) + shift)
        name = member.name if member.local_name is None else member.local_name
        said = member.said() | {
            "sign": b"PK\x03\x04",
            "name_length": len(name),
            "extra_length": len(member.local_extra),
        }
        if member.flags & 8:
            said |= {"crc": 0, "packed": 0, "size": 0}
        said |= member.local
        out += struct.pack(LOCAL, *(said[key] for key in _LOCAL)) + name + member.local_extra + member.bytes_packed()
        if member.flags & 8:
            out += descriptor_of(member) if member.descriptor is None else member.descriptor
        out += member.after
    out += between
    directory = bytearray()
    for member, offset in zip(members, offsets, strict=True):
        said = (
            member.said()
            | {
                "sign": b"PK\x01\x02",
                "made": 0x31E,
                "name_length": len(member.name),
                "extra_length": len(member.extra),
                "comment_length": 0,
                "disk": 0,
                "internal": 0,
                "mode": member.mode << 16,
                "offset": offset,
            }
            | member.central
        )
        directory += struct.pack(CENTRAL, *(said[key] for key in _CENTRAL)) + member.name + member.extra
    place = len(out) + shift
    out += directory
    if zip64 is not None:
        out += _ends64(len(members), len(directory), place, len(out), zip64 if isinstance(zip64, dict) else {})
    said = {
        "sign": b"PK\x05\x06",
        "disk": 0,
        "first_disk": 0,
        "here": len(members),
        "count": len(members),
        "length": len(directory),
        "offset": place,
        "comment_length": len(comment),
    } | (end or {})
    return bytes(out) + struct.pack(END, *(said[key] for key in _END)) + comment + after


def _ends64(count: int, length: int, place: int, here: int, changes: dict[str, int]) -> bytes:
    said = {
        "record": 44,
        "disk": 0,
        "first_disk": 0,
        "here": count,
        "count": count,
        "length": length,
        "offset": place,
        "where": here,
        "disks": 1,
    } | changes
    record = struct.pack(
        END64,
        b"PK\x06\x06",
        said["record"],
        45,
        45,
        said["disk"],
        said["first_disk"],
        said["here"],
        said["count"],
        said["length"],
        said["offset"],
    )
    return record + struct.pack(LOCATOR, b"PK\x06\x07", 0, said["where"], said["disks"])


def extra(number: int, value: bytes) -> bytes:
    return struct.pack("<HH", number, len(value)) + value


def block(
    name: bytes = b"a.txt",
    size: int | bytes = 0,
    kind: bytes = b"0",
    link: bytes = b"",
    prefix: bytes = b"",
    magic: bytes = b"ustar\x0000",
    checksum: bytes | None = None,
) -> bytes:
    """One header of a tar."""
    field_of_size = size if isinstance(size, bytes) else b"%011o\0" % size
    head = name.ljust(100, b"\0") + b"0000644\0" + b"0001750\0" * 2 + field_of_size + b"%011o\0" % 0
    tail = kind + link.ljust(100, b"\0") + magic + bytes(32 + 32 + 16) + prefix.ljust(155, b"\0") + bytes(12)
    total = sum(head) + 8 * 32 + sum(tail)
    return head + (b"%06o\0 " % total if checksum is None else checksum) + tail


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 512)


def file_in_tar(name: bytes, data: bytes, **changes: Any) -> bytes:
    return block(name, **({"size": len(data)} | changes)) + padded(data)


def pax(*records: tuple[bytes, bytes], kind: bytes = b"x") -> bytes:
    data = b"".join(map(_record, records))
    return block(b"PaxHeaders/x", len(data), kind) + padded(data)


def _record(record: tuple[bytes, bytes]) -> bytes:
    rest = b" %b=%b\n" % record
    length = len(rest) + 1
    while len(b"%d" % length) + len(rest) != length:
        length += 1
    return b"%d%b" % (length, rest)


def long_name(name: bytes, kind: bytes = b"L") -> bytes:
    data = name + b"\0"
    return block(b"././@LongLink", len(data), kind, magic=b"ustar  \0") + padded(data)


def tar_of(*parts: bytes, end: bytes = bytes(1024)) -> bytes:
    return b"".join(parts) + end

"""Reading zip.

A zip file describes each member twice, in front of its bytes and in the directory at the end, and programs
differ in which they believe. Here both must agree, members must lie side by side from the first byte to the
directory with nothing between, before or after, and no two in the same bytes. Then there is one reading.
"""

from __future__ import annotations

import stat
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from custody.border.unpack.members import PIECE, Member, UnpackLimits, decode_name, refusal
from custody.border.unpack.zip_end import CENTRAL, Directory, extras, read_directory, zip64_values

_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_READ = 64 << 10
_STORED, _DEFLATED = 0, 8
_ENCRYPTED, _DESCRIPTOR, _UTF8 = 1 << 0, 1 << 3, 1 << 11
_UNSUPPORTED = {
    _ENCRYPTED: "is encrypted",
    1 << 5: "is a patch",
    1 << 6: "is encrypted",
    1 << 13: "has a masked header",
}
_SAME_FLAGS = _ENCRYPTED | _DESCRIPTOR | _UTF8
# With or without a signature, with sizes of four or eight bytes.
_DESCRIPTORS = {12: "<III", 16: "<4xIII", 20: "<IQQ", 24: "<4xIQQ"}
_UNICODE_PATH = 0x7075


@dataclass(frozen=True, slots=True)
class _Entry:
    """A member as the directory describes it."""

    raw_name: bytes
    name: str
    flags: int
    method: int
    crc: int
    packed: int
    size: int
    offset: int


def zip_members(source: BinaryIO, limits: UnpackLimits) -> Iterator[Member]:
    directory = read_directory(source, limits)
    entries = sorted(_read_entries(source, directory, limits), key=lambda entry: entry.offset)
    _check_declared(entries, directory, limits)
    if not entries:
        return
    if entries[0].offset != 0:
        raise refusal("unsafe", "there is something before the first member", entries[0].name)
    ends = [*(entry.offset for entry in entries[1:]), directory.offset]
    for entry, end in zip(entries, ends, strict=True):
        start = _read_local(source, entry)
        _check_extent(source, entry, start, end)
        source.seek(start)
        if entry.name.endswith("/"):
            for _ in _pieces(source, entry):
                raise refusal("corrupt", "is a folder, but has bytes", entry.name)
            yield Member(entry.name[:-1], True)
        else:
            yield Member(entry.name, False, _pieces(source, entry))


def _check_declared(entries: list[_Entry], directory: Directory, limits: UnpackLimits) -> None:
    """What the container says about itself is no proof, but reason enough to stop."""
    most = limits.most(directory.end)
    total = sum(entry.size for entry in entries)
    if total > most:
        raise refusal("too_large", f"{total} bytes would come out, more than {most}")


def _read_entries(source: BinaryIO, directory: Directory, limits: UnpackLimits) -> Iterator[_Entry]:
    source.seek(directory.offset)
    left = directory.size
    for _ in range(directory.count):
        fixed = source.read(CENTRAL.size)
        if len(fixed) < CENTRAL.size or left < CENTRAL.size:
            raise refusal("corrupt", "the directory is cut short")
        fields = CENTRAL.unpack(fixed)
        name_length, extra_length, comment_length = fields[10:13]
        variable = source.read(name_length + extra_length + comment_length)
        left -= len(fixed) + name_length + extra_length + comment_length
        if left < 0 or fields[0] != b"PK\x01\x02":
            raise refusal("corrupt", "the directory cannot be read")
        raw, extra = variable[:name_length], variable[name_length : name_length + extra_length]
        yield _entry(fields, raw, extra, limits)
    if left:
        raise refusal("corrupt", "the directory is longer than it says")


def _entry(fields: tuple[int, ...], raw: bytes, extra: bytes, limits: UnpackLimits) -> _Entry:
    _, _, _, flags, method, _, _, crc, packed, size, _, _, _, disk, _, mode, offset = fields
    records = extras(extra, raw)
    size, packed, offset, disk = zip64_values(records, (size, packed, offset, disk), raw)
    name = _name(raw, flags, records, limits)
    for bit, sentence in _UNSUPPORTED.items():
        if flags & bit:
            raise refusal("unsupported", sentence, name)
    if method not in (_STORED, _DEFLATED):
        raise refusal("unsupported", f"is packed with method {method}", name)
    if disk:
        raise refusal("unsupported", "is on another disk", name)
    _check_mode(mode >> 16, name)
    return _Entry(raw_name=raw, name=name, flags=flags, method=method, crc=crc, packed=packed, size=size, offset=offset)


def _check_mode(mode: int, name: str) -> None:
    """Unix programs keep the kind of file in the upper half of the attributes."""
    kind = stat.S_IFMT(mode)
    if kind == stat.S_IFDIR and not name.endswith("/"):
        raise refusal("unsafe", "is a folder by its mode and a file by its name", name)
    if kind == stat.S_IFREG and name.endswith("/"):
        raise refusal("unsafe", "is a file by its mode and a folder by its name", name)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise refusal("unsafe", "is a link, device or pipe", name)


def _name(raw: bytes, flags: int, records: dict[int, bytes], limits: UnpackLimits) -> str:
    told = _unicode_path(records, raw)
    if told is None:
        return decode_name(raw, limits.encoding, is_utf8=bool(flags & _UTF8))
    # Info-ZIP repeats names in UTF-8 here when the field before is in an old code page.
    name = decode_name(told, None, is_utf8=True)
    if (flags & _UTF8 or raw.isascii()) and told != raw:
        raise refusal("unsafe", "has two names", name)
    return name


def _unicode_path(records: dict[int, bytes], raw: bytes) -> bytes | None:
    record = records.get(_UNICODE_PATH)
    if record is None:
        return None
    if len(record) < 5 or record[0] != 1 or int.from_bytes(record[1:5], "little") != zlib.crc32(raw):
        raise refusal("unsafe", "has two names", raw.decode("ascii", "backslashreplace"))
    return record[5:]


def _read_local(source: BinaryIO, entry: _Entry) -> int:
    """Compare the header in front of the member with the directory; says where its bytes begin."""
    source.seek(entry.offset)
    fixed = source.read(_LOCAL.size)
    if len(fixed) < _LOCAL.size or fixed[:4] != b"PK\x03\x04":
        raise refusal("corrupt", "is not where the directory says", entry.name)
    _, _, flags, method, _, _, crc, packed, size, name_length, extra_length = _LOCAL.unpack(fixed)
    raw, extra = source.read(name_length), source.read(extra_length)
    if raw != entry.raw_name:
        raise refusal("unsafe", "has another name in front of its bytes", entry.name)
    if (flags ^ entry.flags) & _SAME_FLAGS or method != entry.method:
        raise refusal("unsafe", "is packed otherwise than the directory says", entry.name)
    size, packed, _, _ = zip64_values(extras(extra, raw), (size, packed, 0, 0), raw)
    # With a descriptor behind the bytes, what was not known yet is zero here.
    unknown = (0,) if flags & _DESCRIPTOR else ()
    said = zip((crc, packed, size), (entry.crc, entry.packed, entry.size), strict=True)
    if any(here != there and here not in unknown for here, there in said):
        raise refusal("unsafe", "has another size or checksum than the directory says", entry.name)
    return entry.offset + _LOCAL.size + len(raw) + len(extra)


def _check_extent(source: BinaryIO, entry: _Entry, start: int, end: int) -> None:
    """The member must fill its place exactly."""
    gap = end - start - entry.packed
    if gap < 0:
        raise refusal("unsafe", "overlaps with another member or the directory", entry.name)
    if gap == 0 and not entry.flags & _DESCRIPTOR:
        return
    layout = _DESCRIPTORS.get(gap) if entry.flags & _DESCRIPTOR else None
    if layout is None:
        raise refusal("unsafe", "is followed by bytes that belong to no member", entry.name)
    source.seek(end - gap)
    data = source.read(gap)
    signed = gap in (16, 24)
    if signed and data[:4] != b"PK\x07\x08":
        raise refusal("corrupt", "has no readable descriptor", entry.name)
    if struct.unpack(layout, data) != (entry.crc, entry.packed, entry.size):
        raise refusal("unsafe", "has another size or checksum behind its bytes", entry.name)


def _pieces(source: BinaryIO, entry: _Entry) -> Iterator[bytes]:
    crc, size = 0, 0
    unpacked = _inflated(source, entry) if entry.method == _DEFLATED else _stored(source, entry)
    for piece in unpacked:
        size += len(piece)
        if size > entry.size:
            raise refusal("corrupt", f"is longer than the {entry.size} bytes it says", entry.name)
        crc = zlib.crc32(piece, crc)
        yield piece
    if size != entry.size:
        raise refusal("corrupt", f"has {size} bytes instead of {entry.size}", entry.name)
    if crc != entry.crc:
        raise refusal("corrupt", "has a wrong checksum", entry.name)


def _stored(source: BinaryIO, entry: _Entry) -> Iterator[bytes]:
    left = entry.packed
    while left:
        piece = source.read(min(left, _READ))
        if not piece:
            raise refusal("corrupt", "is cut short", entry.name)
        left -= len(piece)
        yield piece


def _inflated(source: BinaryIO, entry: _Entry) -> Iterator[bytes]:
    engine = zlib.decompressobj(wbits=-15)
    left = entry.packed
    data = b""
    while not engine.eof:
        if not data:
            data = source.read(min(left, _READ))
            left -= len(data)
        try:
            piece = engine.decompress(data, PIECE)
        except zlib.error as error:
            raise refusal("corrupt", "cannot be unpacked", entry.name) from error
        if not piece and not data:
            raise refusal("corrupt", "is cut short", entry.name)
        data = engine.unconsumed_tail
        if piece:
            yield piece
    if left or engine.unused_data:
        raise refusal("unsafe", "is followed by bytes that belong to no member", entry.name)

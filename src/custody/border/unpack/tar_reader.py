"""Reading tar, also packed with gzip or bzip2.

Read block by block from the front, so memory does not grow with the container. POSIX (ustar, PAX) and GNU
headers are understood as far as regular files and folders need: long names, large sizes. Everything that
says something else about a member than its name and size is skipped, and every other kind of member refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from custody.border.unpack.members import PIECE, Member, UnpackLimits, decode_name, refusal
from custody.border.unpack.stream import Stream

_BLOCK = 512
_ZEROS = bytes(_BLOCK)
_EXTRA = 64 << 10  # bytes of one PAX header
_LONG_NAME = 8 << 10
_GLOBALS = 16  # PAX headers for all members; honest containers have one at most
_PADDING = 1 << 20  # zeros after the end; tapes were written in large blocks
_OCTAL_LIMIT = 8 << 30  # sizes from here on need a PAX header or binary digits
_RECORD = re.compile(rb"([1-9][0-9]{0,5}) ")
_OCTAL = re.compile(rb" *([0-7]*)[ \0]*")
_KINDS = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a device",
    b"4": "a device",
    b"6": "a pipe",
    b"S": "a sparse file",
    b"D": "a GNU incremental folder",
    b"M": "a part of another volume",
    b"N": "a GNU list of long names",
    b"V": "a volume label",
}


@dataclass(slots=True)
class _Header:
    """What one block says."""

    name: bytes
    size: int
    kind: bytes


@dataclass(slots=True)
class _Said:
    """What extra headers say about the member that follows."""

    path: bytes | None = None
    long_name: bytes | None = None
    long_link: bool = False
    size: int | None = None
    pax: bool = False

    @property
    def nothing(self) -> bool:
        return not (self.pax or self.long_link) and self.long_name is None


def looks_like_tar(start: bytes) -> bool:
    """A block of zeros (an empty container) or one with a right checksum."""
    return len(start) == _BLOCK and (start == _ZEROS or _checksum_is_right(start))


def tar_members(source: BinaryIO, limits: UnpackLimits, kind: str) -> Iterator[Member]:
    stream = Stream(source, kind, limits)
    globals_left = _GLOBALS
    said = _Said()
    while (block := _block(stream)) != _ZEROS:
        header = _read_header(block)
        if header.kind == b"g":
            globals_left -= 1
            _read_global(_payload(stream, header, _EXTRA), globals_left)
        elif header.kind in (b"x", b"L", b"K"):
            _listen(said, header, stream)
        else:
            yield from _member(header, said, stream, limits)
            said = _Said()
    if not said.nothing:
        raise refusal("corrupt", "a header has no member")
    _read_end(stream)


def _member(header: _Header, said: _Said, stream: Stream, limits: UnpackLimits) -> Iterator[Member]:
    raw = next((name for name in (said.path, said.long_name) if name is not None), header.name)
    name = decode_name(raw, limits.encoding or "utf-8", is_utf8=said.path is not None)
    if header.kind not in (b"0", b"\0", b"7", b"5"):
        what = _KINDS.get(header.kind)
        raise refusal("unsafe" if what else "unsupported", f"is {what or 'of an unknown kind'}", name)
    size = _true_size(header.size, said.size, name)
    # `tar c .` begins every name like this.
    while name.startswith("./"):
        name = name[2:]
    is_folder = header.kind == b"5" or raw.endswith(b"/")  # the oldest tars mark folders by the slash only
    if is_folder:
        if size:
            raise refusal("corrupt", "is a folder, but has bytes", name)
        if raw not in (b".", b"./"):
            yield Member(name.removesuffix("/"), True)
        return
    yield Member(name, False, _pieces(stream, size, name))


def _pieces(stream: Stream, size: int, name: str) -> Iterator[bytes]:
    left = size
    while left:
        piece = stream.some(min(left, PIECE))
        if not piece:
            raise refusal("corrupt", f"is cut short: {left} bytes are missing", name)
        left -= len(piece)
        yield piece
    _skip_padding(stream, size)


def _true_size(size: int, said: int | None, name: str) -> int:
    """A PAX size is for what the octal field cannot hold. Programs that disagree on which one counts would
    find other members in the same bytes."""
    if said is None or said == size or said >= _OCTAL_LIMIT:
        return size if said is None else said
    raise refusal("unsafe", f"has two sizes, {size} and {said}", name)


def _listen(said: _Said, header: _Header, stream: Stream) -> None:
    """An extra header; at most one of each kind before a member."""
    if header.kind == b"x":
        if said.pax:
            raise refusal("unsafe", "has two PAX headers", _shown(header))
        said.pax = True
        records = _records(_payload(stream, header, _EXTRA))
        said.path, said.size = records.get(b"path"), _pax_size(records, header)
    elif header.kind == b"L":
        if said.long_name is not None:
            raise refusal("unsafe", "has two long names", _shown(header))
        said.long_name = _payload(stream, header, _LONG_NAME).rstrip(b"\0")
    else:
        if said.long_link:
            raise refusal("unsafe", "has two long links", _shown(header))
        said.long_link = True
        _payload(stream, header, _LONG_NAME)
    if said.path is not None and said.long_name is not None:
        raise refusal("unsafe", "has a PAX name and a GNU name", _shown(header))


def _read_global(payload: bytes, left: int) -> None:
    """`git archive` leaves a comment here. What would change the members is refused."""
    if left < 0:
        raise refusal("unsafe", f"more than {_GLOBALS} PAX headers for all members")
    for key in _records(payload):
        if key in (b"path", b"size", b"linkpath", b"hdrcharset") or key.startswith(b"GNU.sparse"):
            raise refusal("unsafe", "a PAX header changes names or sizes of all members")


def _records(payload: bytes) -> dict[bytes, bytes]:
    records: dict[bytes, bytes] = {}
    at = 0
    while at < len(payload):
        match = _RECORD.match(payload, at)
        if match is None:
            raise refusal("corrupt", "a PAX header cannot be read")
        end = at + int(match[1])
        key, equals, value = payload[match.end() : end - 1].partition(b"=")
        if end > len(payload) or payload[end - 1 : end] != b"\n" or not equals or key in records:
            raise refusal("corrupt", "a PAX header cannot be read")
        records[key] = value
        at = end
    return records


def _pax_size(records: dict[bytes, bytes], header: _Header) -> int | None:
    if any(key.startswith(b"GNU.sparse") for key in records):
        raise refusal("unsafe", "is a sparse file", _shown(header))
    if records.get(b"hdrcharset", b"ISO-IR 10646 2000 UTF-8") != b"ISO-IR 10646 2000 UTF-8":
        raise refusal("unsupported", "has a name in a character set of its own", _shown(header))
    size = records.get(b"size")
    if size is None:
        return None
    if not re.fullmatch(rb"[0-9]{1,18}", size):
        raise refusal("corrupt", "has no readable size", _shown(header))
    return int(size)


def _read_header(block: bytes) -> _Header:
    name = block[:100].rstrip(b"\0")
    if not _checksum_is_right(block):
        raise refusal("corrupt", "a header's checksum is wrong", name.decode("ascii", "backslashreplace"))
    header = _Header(name, 0, block[156:157])
    header.size = _number(block[124:136], header)
    # In GNU's own format other things are stored where POSIX has the first part of a long name.
    prefix = block[345:500].rstrip(b"\0") if block[257:263] == b"ustar\0" else b""
    if prefix:
        header.name = prefix + b"/" + name
    return header


def _number(field: bytes, header: _Header) -> int:
    if field[0] == 0x80:
        number = int.from_bytes(field[1:], "big")
    else:
        match = _OCTAL.fullmatch(field)
        number = int(match[1] or b"0", 8) if match else -1
    if not 0 <= number < 1 << 62:
        raise refusal("corrupt", "has no readable size", _shown(header))
    return number


def _checksum_is_right(block: bytes) -> bool:
    match = _OCTAL.fullmatch(block[148:156])
    if match is None or not match[1]:
        return False
    return int(match[1], 8) == sum(block[:148]) + 8 * ord(" ") + sum(block[156:])


def _payload(stream: Stream, header: _Header, limit: int) -> bytes:
    """The bytes of an extra header."""
    if header.size > limit:
        raise refusal("unsafe", f"an extra header is longer than {limit} bytes", _shown(header))
    payload = stream.exactly(header.size)
    _skip_padding(stream, header.size)
    return payload


def _skip_padding(stream: Stream, size: int) -> None:
    stream.exactly(-size % _BLOCK)


def _block(stream: Stream) -> bytes:
    return stream.exactly(_BLOCK)


def _read_end(stream: Stream) -> None:
    """A second block of zeros, and nothing but zeros after it: other programs read on."""
    if _block(stream) != _ZEROS:
        raise refusal("corrupt", "the end is marked only once")
    after = 0
    while piece := stream.some(PIECE):
        after += len(piece)
        if piece.count(0) != len(piece):
            raise refusal("unsafe", "there is something after the end")
        if after > _PADDING:
            raise refusal("too_large", f"more than {_PADDING} zeros after the end")


def _shown(header: _Header) -> str:
    return header.name.decode("utf-8", "backslashreplace")

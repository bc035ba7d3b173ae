"""A stream of bytes that may be packed with gzip or bzip2, unpacked a little at a time."""

from __future__ import annotations

import bz2
import os
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from custody.border.unpack.members import PIECE, UnpackLimits, refusal

_READ = 64 << 10


class Stream:
    """Reads from the front to the end. What comes out in all is limited, whatever it is used for."""

    def __init__(self, source: BinaryIO, kind: str, limits: UnpackLimits) -> None:
        packed = source.seek(0, os.SEEK_END)
        source.seek(0)
        openers = {"tar": _plain, "tar.gz": _gunzipped, "tar.bz2": _bunzipped}
        self._pieces = openers[kind](source)
        self._ready = memoryview(b"")
        # Headers and padding are not counted as files' bytes, but must not be endless either.
        self._left = max(limits.most(packed), packed) + 2048 * limits.members

    def some(self, at_most: int) -> bytes:
        """Some bytes; none at the end."""
        if not self._ready:
            piece = next(self._pieces, b"")
            self._left -= len(piece)
            if self._left < 0:
                raise refusal("too_large", "too much comes out")
            self._ready = memoryview(piece)
        found, self._ready = self._ready[:at_most], self._ready[at_most:]
        return bytes(found)

    def exactly(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            piece = self.some(count - len(found))
            if not piece:
                raise refusal("corrupt", "the container is cut short")
            found += piece
        return found


def _plain(source: BinaryIO) -> Iterator[bytes]:
    while piece := source.read(_READ):
        yield piece


def _gunzipped(source: BinaryIO) -> Iterator[bytes]:
    """Several gzip streams in a row are one; each checks its own length and checksum."""
    data = source.read(_READ)
    while data:
        engine = zlib.decompressobj(wbits=31)
        while not engine.eof:
            try:
                piece = engine.decompress(data, PIECE)
            except zlib.error as error:
                raise refusal("corrupt", "the gzip stream is damaged") from error
            if piece:
                yield piece
            data = engine.unconsumed_tail
            if not data and not engine.eof and len(piece) < PIECE:
                data = source.read(_READ)
                if not data:
                    raise refusal("corrupt", "the gzip stream is cut short")
        data = _next_stream(engine.unused_data, source, b"\x1f\x8b", "gzip")


def _bunzipped(source: BinaryIO) -> Iterator[bytes]:
    data = source.read(_READ)
    while data:
        engine = bz2.BZ2Decompressor()
        while not engine.eof:
            if engine.needs_input and not data:
                data = source.read(_READ)
                if not data:
                    raise refusal("corrupt", "the bzip2 stream is cut short")
            try:
                piece = engine.decompress(data, PIECE)
            except OSError as error:
                raise refusal("corrupt", "the bzip2 stream is damaged") from error
            data = b""
            if piece:
                yield piece
        data = _next_stream(engine.unused_data, source, b"BZh", "bzip2")


def _next_stream(rest: bytes, source: BinaryIO, magic: bytes, kind: str) -> bytes:
    """The beginning of another stream of the same kind, or nothing. Only zeros may pad the end."""
    rest = rest + source.read(max(0, len(magic) - len(rest)))
    if rest.startswith(magic):
        return rest
    while rest:
        if rest.count(0) != len(rest):
            raise refusal("unsafe", f"there is something after the {kind} stream")
        rest = source.read(_READ)
    return b""

"""HTTP/1.1 as a careful client speaks it, over a socket that is already connected to a judged address.

One `Wire` is one connection. It sends a request, reads a header of bounded size, and hands out the body in
pieces as it arrives; it follows nothing, decodes nothing and keeps no cookies. Whatever has two readings
(two lengths, a length and chunks, folded lines) is refused, so that bytes of one answer are never taken
for another's on a connection that is used again.
"""

from __future__ import annotations

import re
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from custody.border.http.deadlines import Deadline
from custody.border.http.policy import Policy
from custody.border.http.urls import Target
from custody.errors import BadInput, CustodyError, Refused, Unavailable

Piece = bytes | memoryview

_PIECE = 256 << 10
_LINE = 4096  # the longest size line of a chunk
_DRAINED = 64 << 10  # a longer body is not worth reading for the sake of the connection
_DRAIN_SECONDS = 2
_INTERIM = 8  # answers of the kind "100 Continue" before the real one
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: [^\r\n\0]*)?")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*?)[ \t]*")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?")
_HEADER = b"User-Agent: custody\r\nAccept: */*\r\nAccept-Encoding: identity\r\n"


class Stale(Exception):
    """A connection that was kept open had been closed by the server meanwhile. Use another one."""


@dataclass(frozen=True, slots=True)
class Head:
    """An answer's first part. Names of fields are in lower case."""

    status: int
    fields: Mapping[str, str]
    length: int | None  # of the body; None if chunked or until the connection closes
    chunked: bool
    keeps: bool  # whether the server keeps the connection open

    @property
    def bounded(self) -> bool:
        """Whether a body that was cut short can be told from a whole one."""
        return self.chunked or self.length is not None

    @property
    def encoding(self) -> str:
        """What the body is packed in, or nothing."""
        encoding = self.fields.get("content-encoding", "").strip().lower()
        return "" if encoding == "identity" else encoding


class Wire:
    """One connection to one origin."""

    def __init__(self, sock: socket.socket, target: Target, policy: Policy) -> None:
        self.origin = target.origin
        self.reusable = False
        self.last_used = 0.0
        self._sock = sock
        self._policy = policy
        self._received = bytearray()  # and not yet read
        self._answers = 0
        self._silent = False  # used before, and nothing heard since the last request
        self._room: memoryview | None = None

    def ask(
        self,
        method: str,
        target: Target,
        watch: Deadline,
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> Head:
        """Send a request and read the header of its answer."""
        self.reusable = False
        self._silent = self._answers > 0
        watch.phase(self._policy.answer_seconds, "http.silent", "the server does not answer")
        lines = [f"{method} {target.path} HTTP/1.1\r\nHost: {target.authority}\r\n".encode("ascii"), _HEADER]
        lines += [f"{name}: {value}\r\n".encode("ascii") for name, value in (fields or {}).items()]
        if body or method == "POST":
            lines.append(b"Content-Length: %d\r\n" % len(body))
        self._send(b"".join((*lines, b"\r\n", body)), watch)
        for _ in range(_INTERIM):
            head = self._read_head(method, target, watch)
            if head.status >= 200:
                self._answers += 1
                return head
        raise _malformed(target, "too many interim answers")

    def body(self, head: Head, target: Target, watch: Deadline) -> Iterator[Piece]:
        """The body, piece by piece. A piece is valid until the next one is asked for."""
        if head.chunked:
            yield from self._chunks(target, watch)
        elif head.length is not None:
            yield from self._exactly(head.length, target, watch)
        else:
            yield from self._rest(watch)
            return
        self.reusable = head.keeps and not self._received
        self.last_used = time.monotonic()

    def drain(self, head: Head, target: Target, watch: Deadline) -> None:
        """Read a short body that nobody wants, so that the connection can be used again."""
        if head.length is None or head.length > _DRAINED:
            return
        watch.phase(_DRAIN_SECONDS, "http.silent", "the server does not finish its answer")
        try:
            for _ in self.body(head, target, watch):
                pass
        except Unavailable:
            self.reusable = False

    def close(self) -> None:
        self.reusable = False
        self._sock.close()

    def _send(self, data: bytes, watch: Deadline) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[self._sock.send(view) :]
            except (TimeoutError, ssl.SSLWantWriteError):
                watch.tick()
            except OSError as error:
                raise self._lost(watch, error) from error

    def _receive(self, watch: Deadline) -> bytes:
        """Some bytes; none if the other side has closed."""
        while True:
            try:
                return self._sock.recv(64 << 10)
            except (TimeoutError, ssl.SSLWantReadError):
                watch.tick()
            except OSError as error:
                raise self._lost(watch, error) from error

    def _receive_piece(self, at_most: int, watch: Deadline) -> memoryview:
        """Some bytes of a long body, in room that is used again and again."""
        if self._room is None:
            self._room = memoryview(bytearray(_PIECE))
        while True:
            try:
                return self._room[: self._sock.recv_into(self._room[:at_most])]
            except (TimeoutError, ssl.SSLWantReadError):
                watch.tick()
            except OSError as error:
                raise self._lost(watch, error) from error

    def _lost(self, watch: Deadline, error: OSError) -> Exception:
        if self._silent:
            return Stale()
        return Unavailable(f"the connection was lost: {error}", code="net.lost", where=watch.where)

    def _read_head(self, method: str, target: Target, watch: Deadline) -> Head:
        limit = self._policy.header_bytes
        while (end := self._received.find(b"\r\n\r\n")) < 0:
            if len(self._received) > limit:
                raise _header_too_large(target, limit)
            more = self._receive(watch)
            if not more:
                if self._silent:
                    raise Stale
                raise Unavailable("the server closed without an answer", code="net.lost", where=target.shown)
            watch.arrived(0)  # a header that comes byte by byte must not take for ever
            self._silent = False
            self._received += more
        if end > limit:
            raise _header_too_large(target, limit)
        return parse_head(self._taken(end + 4)[:-4], method, target)

    def _exactly(self, length: int, target: Target, watch: Deadline) -> Iterator[Piece]:
        left = length
        if self._received and left:
            piece = self._taken(left)
            left -= len(piece)
            watch.arrived(len(piece))
            yield piece
        while left:
            view = self._receive_piece(min(left, _PIECE), watch)
            if not view:
                raise _truncated(target, left)
            left -= len(view)
            watch.arrived(len(view))
            yield view

    def _chunks(self, target: Target, watch: Deadline) -> Iterator[Piece]:
        while True:
            match = _CHUNK.fullmatch(self._line(_LINE, target, watch))
            if match is None:
                raise _malformed(target, "a chunk has no readable size")
            size = int(match[1], 16)
            if size == 0:
                break
            yield from self._exactly(size, target, watch)
            if self._line(0, target, watch) != b"":
                raise _malformed(target, "a chunk is longer than it says")
        left = self._policy.header_bytes
        while line := self._line(left, target, watch):
            left -= len(line)  # trailers say nothing that we believe

    def _line(self, limit: int, target: Target, watch: Deadline) -> bytes:
        while (end := self._received.find(b"\r\n", 0, limit + 2)) < 0:
            if len(self._received) >= limit + 2:
                raise _malformed(target, "a line is too long")
            more = self._receive(watch)
            if not more:
                raise _truncated(target, None)
            watch.arrived(0)  # only what the chunks hold counts as progress
            self._received += more
        return self._taken(end + 2)[:-2]

    def _taken(self, count: int) -> bytes:
        """The first bytes received, which are then gone. (From a bytearray this moves no memory.)"""
        taken = bytes(self._received[:count])
        del self._received[:count]
        return taken

    def _rest(self, watch: Deadline) -> Iterator[Piece]:
        piece = self._taken(len(self._received))
        while piece:
            watch.arrived(len(piece))
            yield piece
            piece = self._receive(watch)


def parse_head(data: bytes, method: str, target: Target) -> Head:
    """Read an answer's header, strictly."""
    first, *lines = data.split(b"\r\n")
    match = _STATUS.fullmatch(first)
    if match is None:
        raise _malformed(target, "the answer is not HTTP/1.1")
    version, status = match[1], int(match[2])
    fields: dict[str, str] = {}
    for line in lines:
        field = _FIELD.fullmatch(line)
        if field is None:
            raise _malformed(target, "a line of the header cannot be read")
        name, value = field[1].decode("ascii").lower(), field[2].decode("latin-1")
        fields[name] = f"{fields[name]}, {value}" if name in fields else value
    chunked, length = _framing(status, method, fields, target)
    wish = fields.get("connection", "").lower()
    keeps = "close" not in wish and (version == b"1" or "keep-alive" in wish)
    return Head(status=status, fields=fields, length=length, chunked=chunked, keeps=keeps)


def _framing(status: int, method: str, fields: Mapping[str, str], target: Target) -> tuple[bool, int | None]:
    """Whether the body comes in chunks, and its length if that is known."""
    if method == "HEAD" or status < 200 or status in (204, 304):
        return False, 0
    transfer, lengths = fields.get("transfer-encoding"), fields.get("content-length")
    if transfer is not None and lengths is not None:
        raise _malformed(target, "the answer has a length and chunks")
    if transfer is not None:
        if transfer.lower() != "chunked":
            raise _malformed(target, "the answer is packed in a way we did not ask for")
        return True, None
    return False, None if lengths is None else declared_length(lengths, target)


def declared_length(lengths: str, target: Target) -> int:
    """What Content-Length says; several must say the same."""
    values = {value.strip() for value in lengths.split(",")}
    value = values.pop()
    if values or not (value.isascii() and value.isdigit()) or len(value) > 18:
        raise _malformed(target, "the answer has no readable length")
    return int(value)


def _malformed(target: Target, sentence: str) -> CustodyError:
    return BadInput(sentence, code="http.malformed", where=target.shown)


def _header_too_large(target: Target, limit: int) -> CustodyError:
    return Refused(
        f"the answer's header is longer than {limit} bytes", code="http.header_too_large", where=target.shown
    )


def _truncated(target: Target, missing: int | None) -> CustodyError:
    how_many = f"{missing} bytes are missing" if missing is not None else "its end is missing"
    return Unavailable(f"the body was cut short: {how_many}", code="body.truncated", where=target.shown)

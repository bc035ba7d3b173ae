"""The first words of TLS: which host a client says it wants, read without taking part.

What is passed on is what came; only the name is looked at, since a server that answers for many hosts would
otherwise be a way from one that is granted to one that is not.
"""

from __future__ import annotations

from custody.errors import BadInput

MOST = 32 << 10
_HANDSHAKE, _CLIENT_HELLO, _SERVER_NAME = 22, 1, 0
_HIDING = frozenset({*range(0xFE08, 0xFE0E), 0xFF02, 0xFFCE})  # encrypted hellos, their drafts, the name alone before


class Unfinished(Exception):
    """There is more to come."""


def server_name(data: bytes) -> str:
    """The host that a ClientHello names; empty if it names none. `Unfinished` as long as it is not all there."""
    hello = _handshake(data)
    reader = _Reader(hello)
    reader.skip(2 + 32)  # version, random
    reader.sized(1)  # session
    reader.sized(2)  # ciphers
    reader.sized(1)  # compression
    if reader.over:
        return ""
    extensions, seen, found = _Reader(reader.sized(2)), set(), ""
    while not extensions.over:
        kind, body = extensions.number(2), extensions.sized(2)
        if kind in seen:
            raise _bad("says something twice")
        seen.add(kind)
        if kind in _HIDING:
            raise _bad("hides the host's name")
        if kind == _SERVER_NAME:
            found = _host(body)
    return found


def _handshake(data: bytes) -> bytes:
    """The message, put together from its records."""
    message, rest = b"", _Reader(data)
    while True:
        if len(message) >= 4:
            length = int.from_bytes(message[1:4], "big")
            if message[0] != _CLIENT_HELLO or length > MOST:
                raise _bad("does not begin as TLS does")
            if len(message) >= 4 + length:
                return message[4 : 4 + length]
        if rest.left < 5:
            if rest.left and rest.peek() != _HANDSHAKE:
                raise _bad("does not begin as TLS does")
            raise Unfinished
        if rest.number(1) != _HANDSHAKE or rest.number(1) != 3:
            raise _bad("does not begin as TLS does")
        rest.skip(1)
        length = rest.number(2)
        if not 0 < length <= 1 << 14:
            raise _bad("does not begin as TLS does")
        if rest.left < length:
            raise Unfinished
        message += rest.take(length)


def _host(body: bytes) -> str:
    names = _Reader(_Reader(body).sized(2))
    kind, name = names.number(1), names.sized(2)
    if kind or not names.over:
        raise _bad("names several hosts")
    return name.decode("ascii", "replace").lower()


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    @property
    def over(self) -> bool:
        return self.left == 0

    def peek(self) -> int:
        return self._data[self._at]

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise _bad("is cut short")
        self._at += size
        return self._data[self._at - size : self._at]

    def skip(self, size: int) -> None:
        self.take(size)

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def sized(self, size: int) -> bytes:
        return self.take(self.number(size))


def _bad(fault: str) -> BadInput:
    return BadInput(f"what it sent to port 443 {fault}", code="egress.tls")

"""Reading what a program asks a proxy for: one head, strictly, since whoever sends it is not to be trusted.

`CONNECT host:port`, or a request for `http://host/path` that is written anew: the host and the path from the one
reading of the URL, of its other lines only those that are for the server.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from custody.border.egress.allowance import Place
from custody.border.http.policy import Policy
from custody.border.http.urls import read_authority, read_url
from custody.errors import BadInput

MOST = 32 << 10
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*\Z")
_METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "PROPFIND", "REPORT", "MKCOL")
_HOP = frozenset({b"connection", b"keep-alive", b"te", b"trailer", b"upgrade", b"host", b"expect", b"content-length"})
_ANY_PORT = Policy(schemes=frozenset({"http"}), ports=frozenset(range(1, 65536)))


@dataclass(frozen=True, slots=True)
class Request:
    place: Place
    head: bytes = b""  # what is said to the server; nothing where bytes are only passed on
    length: int = 0  # of what follows the head


def read_request(head: bytes) -> Request:
    """`head` is everything up to the empty line, without it."""
    first, *lines = head.split(b"\r\n")
    words = first.split(b" ")
    if len(words) != 3 or words[2] not in (b"HTTP/1.1", b"HTTP/1.0") or not first.isascii():
        raise _bad("its first line cannot be read")
    method, target = words[0].decode(), words[1].decode()
    fields = [_field(line) for line in lines]
    if method == "CONNECT":
        host, port, _ = read_authority(target, target)
        if port is None:
            raise _bad("it names no port")
        return Request(Place(host, port))
    if method not in _METHODS:
        raise _bad("its method is not one that is passed on")
    return _plain(method, target, fields)


def _plain(method: str, target: str, fields: list[tuple[bytes, bytes]]) -> Request:
    if target.startswith("https://"):
        raise _bad("https goes through CONNECT")
    url = read_url(target, _ANY_PORT)
    names = [name for name, _ in fields]
    if b"transfer-encoding" in names or names.count(b"content-length") > 1:
        raise _bad("the length of what follows is not said, or is said twice")
    said = dict(fields).get(b"content-length", b"0")
    if not re.fullmatch(rb"[0-9]{1,15}", said):
        raise _bad("the length of what follows cannot be read")
    named = {word.strip().lower() for name, value in fields if name == b"connection" for word in value.split(b",")}
    kept = [(name, value) for name, value in fields if name not in _HOP | named and not name.startswith(b"proxy-")]
    lines = [f"{method} {url.path} HTTP/1.1".encode(), b"Host: " + url.authority.encode()]
    lines += [name + b": " + value for name, value in kept]
    lines += [b"Content-Length: " + said] if b"content-length" in names else []
    head = b"\r\n".join([*lines, b"Connection: close", b"", b""])
    return Request(Place(url.host, url.port, plain=True), head, int(said))


def _field(line: bytes) -> tuple[bytes, bytes]:
    name, colon, value = line.partition(b":")
    if not colon or not _TOKEN.match(name) or not _VALUE.match(value):
        raise _bad("one of its lines cannot be read")
    return name.lower(), value.strip(b" \t")


def _bad(fault: str) -> BadInput:
    return BadInput(f"the request cannot be passed on: {fault}", code="egress.request")

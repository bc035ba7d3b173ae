"""Requests to ZooKeeper, written for many at once: hundreds of reads in one packet, and a `multi` without detours.

The client library asks for one node at a time, and a request costs it far more than a node. The protocol has known
reads in bulk since ZooKeeper 3.6, so that is what we send. Sending, order, sessions and lost connections stay the
library's: what is here only turns values into bytes and back.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any, Final, NamedTuple

from kazoo.exceptions import EXCEPTIONS, NoNodeError

from custody.ingest.zookeeper.client.multi import Check, Create, Delete, Op, Set

MULTI, MULTI_READ, GET, CHILDREN = 14, 22, 4, 8
ERROR: Final = -1
NOT_THE_CAUSE: Final = frozenset({0, -2})
"""What a refused `multi` says of operations that were not at fault: rolled back, or not even looked at."""

_INT, _STAT, _HEADER = Struct("!i"), Struct("!qqqqiiiqiiq"), Struct("!iBi")
_END = _HEADER.pack(ERROR, 1, ERROR)
_BEGIN = {number: _HEADER.pack(number, 0, ERROR) for number in (1, 2, 5, 13, GET, CHILDREN)}
_EVERYBODY = _INT.pack(1) + _INT.pack(31) + _INT.pack(5) + b"world" + _INT.pack(6) + b"anyone"


class Stat(NamedTuple):
    """What the server tells about a node, in its own order."""

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    owner: int
    length: int
    children: int
    pzxid: int


class Reads(NamedTuple):
    """Many nodes, or the children of many, in one request. Each is found or not by itself."""

    kind: int  # GET or CHILDREN
    paths: Sequence[str]  # as the server knows them
    type: int = MULTI_READ

    def serialize(self) -> bytes:
        begin = _BEGIN[self.kind]
        return b"".join([part for path in self.paths for part in (begin, _text(path), b"\0")]) + _END

    def deserialize(self, buffer: bytes, offset: int) -> tuple[bytes, int]:
        """Not here: this is the thread that keeps the session alive."""
        return buffer, offset


class Multi(NamedTuple):
    """All of these operations, or none."""

    root: str
    ops: Sequence[Op]
    type: int = MULTI

    def serialize(self) -> bytes:
        parts: list[bytes] = []
        for op in self.ops:
            path = _text(self.root + op.path)
            match op:
                case Create():
                    flags = _INT.pack(op.ephemeral + 2 * op.sequence)
                    parts += (_BEGIN[1], path, _INT.pack(len(op.data)), op.data, _EVERYBODY, flags)
                case Set():
                    parts += (_BEGIN[5], path, _INT.pack(len(op.data)), op.data, _INT.pack(op.version))
                case Delete():
                    parts += (_BEGIN[2], path, _INT.pack(op.version))
                case Check():
                    parts += (_BEGIN[13], path, _INT.pack(op.version))
        return b"".join(parts) + _END

    def deserialize(self, buffer: bytes, offset: int) -> list[int]:
        """Nothing when it was done; otherwise what became of each operation."""
        codes = []
        kind, done, _ = _HEADER.unpack_from(buffer, offset)
        while kind == ERROR and not done:
            offset += _HEADER.size
            codes.append(_INT.unpack_from(buffer, offset)[0])
            offset += _INT.size
            kind, done, _ = _HEADER.unpack_from(buffer, offset)
        return codes


def call(zk: Any, request: Reads | Multi) -> Any:
    """On its way; the answer is waited for by whoever asks it."""
    answer = zk.handler.async_result()
    zk._call(request, answer)
    return answer


def found_nodes(answer: tuple[bytes, int]) -> list[tuple[bytes, Stat] | None]:
    """The answer to a GET of many; None where there is no such node."""
    buffer, offset = answer
    found: list[tuple[bytes, Stat] | None] = []
    while (begun := _next(buffer, offset)) is not None:
        there, offset = begun
        if not there:
            found.append(None)
            continue
        length = _INT.unpack_from(buffer, offset)[0]
        start = offset + _INT.size
        offset = start + max(0, length)
        found.append((bytes(buffer[start:offset]), Stat._make(_STAT.unpack_from(buffer, offset))))
        offset += _STAT.size
    return found


def found_names(answer: tuple[bytes, int]) -> list[list[str]]:
    """The answer to CHILDREN of many; nothing where there is no such node."""
    buffer, offset = answer
    found: list[list[str]] = []
    while (begun := _next(buffer, offset)) is not None:
        there, offset = begun
        names: list[str] = []
        if there:
            count = _INT.unpack_from(buffer, offset)[0]
            offset += _INT.size
            for _ in range(count):
                start = offset + _INT.size
                offset = start + _INT.unpack_from(buffer, offset)[0]
                names.append(buffer[start:offset].decode())
        found.append(names)
    return found


def name_of_error(code: int) -> str:
    return type(EXCEPTIONS[code]()).__name__


def _next(buffer: bytes, offset: int) -> tuple[bool, int] | None:
    """Is the next one there, and where does it begin? None after the last."""
    kind, done, _ = _HEADER.unpack_from(buffer, offset)
    offset += _HEADER.size
    if done:
        return None
    if kind != ERROR:
        return True, offset
    code = _INT.unpack_from(buffer, offset)[0]
    if code != NoNodeError.code:
        raise EXCEPTIONS[code]()
    return False, offset + _INT.size


def _text(path: str) -> bytes:
    encoded = path.encode()
    return _INT.pack(len(encoded)) + encoded

"""Export: the whole history as JSON Lines, for keeping elsewhere and for verifiers that are not ours.

    {"is": "history", "version": 1, "origin": "archive.example.org", "keys": ["archive.example.org+4d2a…"]}
    {"is": "head", "text": "…"}                                                   heads that witnesses kept
    {"is": "block", "number": 1, …, "frontier": ["…"], "signature": "…"}          then its events, in order:
    {"is": "event", "block": 1, "subject": "job/12", "seq": 1, "leaf": "…", "body": "…", "salt": "…",
     "event": {"type": …, "outcome": …, "agent": …, "at": …, "detail": …, "token": …, "move": …}}
    …
    {"is": "event", "block": null, "subject": "job/12", "seq": 9, "event": {…}}   not sealed yet
    {"is": "end", "blocks": 1207, "events": 88121}                                a shorter file was cut off

One object a line; hashes, salts and signatures in hexadecimal, times in microseconds since 1970. An export is
faithful: what is missing or wrong in the store is missing or wrong in it (`"event": null` for a deleted row),
so that verifying the file is verifying the store. The keys in it are for information: whoever could forge a
history could have put them there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from custody.kernel.history.block import Block
from custody.kernel.history.chain import Leaf
from custody.kernel.history.head import Head
from custody.kernel.history.keys import PublicKey
from custody.kernel.history.proofs import event_fields
from custody.kernel.history.verify import Row
from custody.kernel.model.event import Event

VERSION: Final = 1

_encode = json.JSONEncoder(separators=(",", ":")).encode


def export_history(
    origin: str,
    rows: Iterable[Row],
    blocks: Iterable[Block],
    *,
    keys: Iterable[PublicKey],
    heads: Iterable[Head] = (),
) -> Iterator[str]:
    """The lines of an export. `rows` and `blocks` come in the order that `verify` takes them."""
    counts = {"blocks": 0, "events": 0}
    yield _line("history", version=VERSION, origin=origin, keys=[str(key) for key in keys])
    for head in heads:
        yield _line("head", text=str(head))
    ahead = iter(rows)
    row = next(ahead, None)
    for block in blocks:
        while row is not None and row[0] is not None and row[0].block < block.number:
            yield _row_line(row, counts)
            row = next(ahead, None)
        counts["blocks"] += 1
        yield _block_line(block)
    while row is not None:
        yield _row_line(row, counts)
        row = next(ahead, None)
    yield _line("end", **counts)


def _block_line(block: Block) -> str:
    frontier = [each.hex() for each in block.frontier]
    return _line("block", **block.header, frontier=frontier, signature=block.signature.hex())


def _row_line(row: Row, counts: dict[str, int]) -> str:
    counts["events"] += 1
    leaf, event = row
    told = {"event": event_fields(event) if event else None}
    if leaf is not None:
        return _line("event", **_leaf_fields(leaf), **told)
    return _line("event", block=None, **_place(event), **told)


def _leaf_fields(leaf: Leaf) -> dict[str, Any]:
    salt = leaf.salt.hex() if leaf.salt is not None else None
    place = {"block": leaf.block, "subject": leaf.subject, "seq": leaf.seq}
    return place | {"leaf": leaf.hash.hex(), "body": leaf.body.hex(), "salt": salt}


def _place(event: Event | None) -> dict[str, Any]:
    return {"subject": event.subject, "seq": event.seq} if event else {}


def _line(what: str, **fields: Any) -> str:
    return _encode({"is": what, **fields}) + "\n"

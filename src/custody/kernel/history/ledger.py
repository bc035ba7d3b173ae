"""The sealed history in a store: rows to values and back, and the few things one does with all of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from custody.errors import Refused
from custody.kernel.history import chain, proofs
from custody.kernel.history.block import Block, pack, unpack
from custody.kernel.history.chain import START, Leaf, Tip
from custody.kernel.history.head import Head
from custody.kernel.history.keys import PublicKey, Signer
from custody.kernel.history.seal import Sealed, seal
from custody.kernel.history.verify import Report, verify
from custody.kernel.history.witness import append_head, read_heads, trusted
from custody.kernel.model.event import Event
from custody.kernel.model.quick import quick

MOST_EVENTS = 10_000
"""In one block."""

LedgerRow = Sequence[Any]


class Ledger(Protocol):
    """Where the rows are kept."""

    def unsealed(self, limit: int) -> list[Event]: ...

    def tips(self, subjects: Sequence[str]) -> dict[str, tuple[int, str]]: ...

    def last_block(self) -> LedgerRow | None: ...

    def block(self, number: int) -> LedgerRow: ...

    def write(self, block: dict[str, Any], leaves: Sequence[dict[str, Any]]) -> bool: ...

    def blocks(self) -> Iterator[LedgerRow]: ...

    def sealed(self) -> Iterator[tuple[LedgerRow, Event | None]]: ...

    def without_leaf(self) -> Iterator[Event]: ...

    def leaf(self, subject: str, seq: int) -> LedgerRow: ...

    def leaves_of(self, block: int) -> list[str]: ...


def seal_once(ledger: Ledger, signer: Signer, now: int, witnesses: Iterable[Path] = ()) -> Block | None:
    """Seal what is not sealed yet into one block, and tell the witnesses. None when there was nothing to do."""
    witnesses = list(witnesses)
    previous = last_block(ledger)
    _check_witnesses(previous, signer, witnesses)
    events = ledger.unsealed(MOST_EVENTS + 1)
    if not events:
        return None
    found = ledger.tips(sorted({event.subject for event in events}))
    tips = {subject: Tip(seq, bytes.fromhex(leaf)) for subject, (seq, leaf) in found.items()}
    made = seal(previous, events[:MOST_EVENTS], tips, now, signer=signer, more=len(events) > MOST_EVENTS).sealed
    if made is None:
        return None
    last = max(event.id for event in events[:MOST_EVENTS])
    if not ledger.write(_block_row(made.block, last), [_leaf_row(leaf) for leaf in made.leaves]):
        return last_block(ledger)  # another sealer was first: its block stands
    publish(made, signer, witnesses)
    return made.block


def _check_witnesses(previous: Block | None, signer: Signer, witnesses: Iterable[Path]) -> None:
    """Before anything is sealed: a history that went back must not grow a second branch.

    The last head is told again, in case a crash kept it from being told; a witness that has it says nothing.
    """
    for path in witnesses:
        if previous is not None:
            append_head(path, previous.head, [signer.public])
        elif path.exists() and trusted(read_heads(path), [signer.public]):
            raise Refused(
                f"{path} has seen blocks of this history, and the store has none",
                code="history.rollback",
                hint="was an older backup restored, or is this another store?",
            )


def publish(made: Sealed, signer: Signer, witnesses: Iterable[Path]) -> None:
    for path in witnesses:
        append_head(path, made.block.head, [signer.public])


def last_block(ledger: Ledger) -> Block | None:
    row = ledger.last_block()
    return block_from(row) if row else None


def verify_all(ledger: Ledger, keys: Iterable[PublicKey], heads: Iterable[Head]) -> Report:
    """Check everything that was ever recorded, in one pass."""
    return verify(rows_of(ledger), map(block_from, ledger.blocks()), keys=keys, heads=heads)


def rows_of(ledger: Ledger) -> Iterator[tuple[Leaf | None, Event | None]]:
    for row, event in ledger.sealed():
        yield leaf_from(row), event
    for event in ledger.without_leaf():
        yield None, event


def prove(ledger: Ledger, event: Event, since: Head | None = None) -> dict[str, Any]:
    """The proof that an event is in the history, for someone who trusts none of our code."""
    place = leaf_from(ledger.leaf(event.subject, event.seq))
    previous = START if event.seq == 1 else leaf_from(ledger.leaf(event.subject, event.seq - 1)).hash
    leaves = [bytes.fromhex(each) for each in ledger.leaves_of(place.block)]
    last = last_block(ledger)
    assert last is not None  # it holds at least this event's block
    return proofs.prove(
        event,
        place,
        previous,
        leaves,
        blocks=lambda number: block_from(ledger.block(number)),
        last=last.number,
        since=since,
    )


def erasure(subject: str, seq: int, reason: str) -> tuple[str, dict[str, Any]]:
    """The type and the detail of the event that says a body was erased."""
    return chain.ERASED, chain.erasure_detail([(subject, seq)], reason)


def block_from(row: LedgerRow) -> Block:
    number, origin, algorithm, previous, root, count, total, at, complete, frontier, signature, _last = row
    return Block(
        number=number,
        origin=origin,
        algorithm=algorithm,
        previous=bytes.fromhex(previous),
        root=bytes.fromhex(root),
        count=count,
        total=total,
        at=at,
        complete=bool(complete),
        frontier=unpack(bytes.fromhex(frontier)),
        signature=bytes.fromhex(signature),
    )


_leaf = quick(Leaf)  # one for every event that is verified


def leaf_from(row: LedgerRow) -> Leaf:
    subject, seq, block, position, body, salt, leaf = row
    salted = None if salt is None else bytes.fromhex(salt)
    return _leaf(subject, seq, block, position, body=bytes.fromhex(body), salt=salted, hash=bytes.fromhex(leaf))


def _block_row(block: Block, last_event: int) -> dict[str, Any]:
    return {
        "number": block.number,
        "origin": block.origin,
        "algorithm": block.algorithm,
        "previous": block.previous.hex(),
        "root": block.root.hex(),
        "count": block.count,
        "total": block.total,
        "at": block.at,
        "complete": int(block.complete),
        "frontier": pack(block.frontier).hex(),
        "signature": block.signature.hex(),
        "last_event": last_event,
    }


def _leaf_row(leaf: Leaf) -> dict[str, Any]:
    return {
        "subject": leaf.subject,
        "seq": leaf.seq,
        "block": leaf.block,
        "position": leaf.position,
        "body": leaf.body.hex(),
        "salt": leaf.salt.hex() if leaf.salt is not None else None,
        "leaf": leaf.hash.hex(),
    }

"""Sealing: the events that are in no block yet become the next block.

What is not yet sealed is found by *absence* of a leaf, never by a range of ids or times: a transaction that
commits late simply falls into the next block. Nothing here needs a lock. Two sealers that start from the same
head make two different blocks with the same number, and the store's primary key lets one of them in; the
other starts again from the winner's head. A writer never waits for a sealer.

    block n (leaf rows, block row) in one transaction, then its head to the witnesses

The store finds the events and the tips of their chains; this module only computes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from custody.errors import BadInput, Refused
from custody.kernel.history.block import ALGORITHM, Block
from custody.kernel.history.chain import SALT, START, Leaf, Tip, body_hash, leaf_hash, previous_hash
from custody.kernel.history.keys import Signer
from custody.kernel.history.merkle import grown, root
from custody.kernel.model.event import Event


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An event that could not be sealed this time, and why; the others of its block do not wait for it."""

    event: Event
    why: str


@dataclass(frozen=True, slots=True)
class Sealed:
    """One block, ready to be written in one transaction."""

    block: Block
    leaves: tuple[Leaf, ...]


@dataclass(frozen=True, slots=True)
class Sealing:
    """What came of one attempt. No block when there was nothing to seal."""

    sealed: Sealed | None
    left_out: tuple[LeftOut, ...] = ()


def seal(
    previous: Block | None,
    events: Iterable[Event],
    tips: Mapping[str, Tip],
    now: int,
    signer: Signer,
    *,
    more: bool = False,
    salts: Callable[[int], bytes] = os.urandom,
) -> Sealing:
    """The next block over `events`, which are in no block yet; `tips` ends each of their subjects' chains.

    `more` says that there were more unsealed events than the caller took (blocks have a reasonable size).
    """
    if previous is not None and previous.origin != signer.name:
        raise Refused(
            f"this history is named {previous.origin}, the key {signer.name}",
            code="history.origin",
            hint="a history keeps its name; load the key under the name of the history",
        )
    number = previous.number + 1 if previous else 1
    leaves, left_out = _link(number, sorted(events, key=lambda event: (event.subject, event.seq)), tips, salts)
    if not leaves:
        return Sealing(None, left_out)
    complete = not (more or left_out)
    return Sealing(Sealed(_signed_block(previous, leaves, now, signer, complete=complete), leaves), left_out)


def _link(
    number: int, events: list[Event], tips: Mapping[str, Tip], salts: Callable[[int], bytes]
) -> tuple[tuple[Leaf, ...], tuple[LeftOut, ...]]:
    leaves: list[Leaf] = []
    left_out: list[LeftOut] = []
    ends = dict(tips)
    salt_row = salts(SALT * len(events))
    for place, event in enumerate(events):
        previous = previous_hash(ends, event)
        if previous is None:
            left_out.append(LeftOut(event, _why_not_next(ends, event)))
            continue
        salt = salt_row[place * SALT : (place + 1) * SALT]
        try:
            body = body_hash(event, salt)
            linked = leaf_hash(event, previous, body)
        except BadInput as refusal:
            left_out.append(LeftOut(event, str(refusal)))
            continue
        leaves.append(
            Leaf(
                subject=event.subject,
                seq=event.seq,
                block=number,
                position=len(leaves),
                body=body,
                salt=salt,
                hash=linked,
            )
        )
        ends[event.subject] = Tip(event.seq, linked)
    return tuple(leaves), tuple(left_out)


def _why_not_next(tips: Mapping[str, Tip], event: Event) -> str:
    sealed = tips[event.subject].seq if event.subject in tips else 0
    if event.seq <= sealed:
        return f"{event.subject} is sealed up to {sealed} already"
    return f"{event.subject} is sealed up to {sealed}; {sealed + 1} has to come first"


def _signed_block(previous: Block | None, leaves: tuple[Leaf, ...], now: int, signer: Signer, complete: bool) -> Block:
    block = Block(
        number=previous.number + 1 if previous else 1,
        origin=signer.name,
        algorithm=ALGORITHM,
        previous=previous.hash if previous else START,
        root=root([leaf.hash for leaf in leaves]),
        count=len(leaves),
        total=(previous.total if previous else 0) + len(leaves),
        at=max(now, previous.at) if previous else now,  # a clock set back must not make heads go back
        complete=complete,
        frontier=(),
        signature=b"",
    )
    frontier = grown(previous.frontier if previous else (), block.number - 1, block.hash)
    block = replace(block, frontier=frontier)
    return replace(block, signature=signer.sign(block.head.text))

"""Chains: each event of a subject is linked to the one before it by its leaf.

    body = SHA-256(salt ‖ canonical {agent, detail})
    leaf = SHA-256(0x00 ‖ canonical ["custody event 1", subject, seq, previous leaf, type, outcome, at, token,
                                      move, body])            hashes in hexadecimal

The body is what may have to be forgotten by law: names of people, what they wrote. It goes in as a salted
hash, so that agent, detail and salt can be erased later and the leaf still stands; without the salt nobody
can find the erased text by trying likely ones. The rest (what kind of thing happened, when, how it ended)
stays readable and stays proved. The row id is not hashed: copying a history to another database changes it.

An event is erased by blanking its agent and detail and dropping its leaf's salt, after it was sealed, and
another event of type ERASED says so. The leaf rows are made by seal.py and kept by the store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, TypeAlias

from custody.kernel.history.event_body import canonical
from custody.kernel.history.merkle import SIZE, Hash
from custody.kernel.model.event import Event

FORM: Final = "custody event 1"
START: Final = bytes(SIZE)  # stands for the leaf before a subject's first
SALT: Final = 16

ERASED: Final = "body-erased"
"""The type of an event that says which bodies were erased; its detail is made by `erasure_detail`."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """An event's place in the sealed history: one row per sealed event, written once."""

    subject: str
    seq: int
    block: int
    position: int  # within the block, from 0
    body: Hash
    salt: bytes | None  # None once the body was erased
    hash: Hash


@dataclass(frozen=True, slots=True)
class Tip:
    """Where a subject's chain ends: its newest leaf."""

    seq: int
    hash: Hash


Place: TypeAlias = tuple[str, int]
"""(subject, seq): where an event stands, in any database."""


def body_hash(event: Event, salt: bytes) -> Hash:
    detail = event.detail if type(event.detail) is dict else dict(event.detail)
    return sha256(salt + canonical({"agent": event.agent, "detail": detail})).digest()


def leaf_data(event: Event, previous: Hash, body: Hash) -> bytes:
    """The bytes a leaf is the hash of. A JSON array, so that no two different events have the same."""
    return canonical(
        [
            FORM,
            event.subject,
            event.seq,
            previous.hex(),
            event.type,
            event.outcome,
            event.at,
            event.token,
            event.move,
            body.hex(),
        ]
    )


def leaf_hash(event: Event, previous: Hash, body: Hash) -> Hash:
    return sha256(b"\0" + leaf_data(event, previous, body)).digest()


def erasure_detail(places: list[Place], reason: str) -> dict[str, Any]:
    """The detail of an ERASED event: which bodies go, and why."""
    return {"erased": [{"subject": subject, "seq": seq} for subject, seq in places], "reason": reason}


def erased_places(event: Event) -> Iterator[Place]:
    """The places whose bodies this event erased; none for any other event."""
    if event.type != ERASED or event.outcome == "failure":
        return
    named = event.detail.get("erased")
    for place in named if isinstance(named, list) else []:
        match place:
            case {"subject": str(subject), "seq": int(seq)}:
                yield subject, seq


def looks_erased(event: Event) -> bool:
    return not event.agent and not event.detail


def previous_hash(tips: Mapping[str, Tip], event: Event) -> Hash | None:
    """The leaf this event must be linked to; None if it is not its subject's next."""
    tip = tips.get(event.subject)
    if tip is None:
        return START if event.seq == 1 else None
    return tip.hash if event.seq == tip.seq + 1 else None

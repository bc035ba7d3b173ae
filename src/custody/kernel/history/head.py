"""Heads: a few lines of text that stand for the whole history up to a block, signed.

    archive.example.org                                         the history's name
    1207                                                        blocks so far
    CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=                root of the running tree over those blocks
    algorithm sha256-ed25519                                    how it was made
    events 88121                                                events so far
    sealed 2026-03-01T04:05:06.000007Z                          when, by the store's clock

    — archive.example.org bzIOxxWJ…                             key id and Ed25519 signature

This is a C2SP checkpoint (a signed note), so witnesses that serve transparency logs can countersign it. It
fits into a mail: `heads_in` finds every head in any text, quoted or not. Whoever keeps one can later tell
whether the history they are shown is the one they were told of; see witness.py and verify.py.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from custody.errors import BadInput
from custody.kernel.history.keys import PublicKey
from custody.kernel.history.merkle import SIZE, Hash

DASH: Final = "— "
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Head:
    """What is said about a history: its size and root at some time. Signed by whoever signed."""

    origin: str
    blocks: int
    tree: Hash
    algorithm: str
    events: int
    at: int
    signatures: tuple[tuple[str, bytes], ...] = ()

    @property
    def text(self) -> bytes:
        """The lines that are signed."""
        lines = (
            self.origin,
            str(self.blocks),
            b64encode(self.tree).decode(),
            f"algorithm {self.algorithm}",
            f"events {self.events}",
            f"sealed {moment(self.at)}",
        )
        return "".join(f"{line}\n" for line in lines).encode()

    def __str__(self) -> str:
        signatures = "".join(f"{DASH}{name} {b64encode(sign).decode()}\n" for name, sign in self.signatures)
        return f"{self.text.decode()}\n{signatures}"

    def signed_by(self, keys: Iterable[PublicKey]) -> PublicKey | None:
        """The first of these keys that did sign this head."""
        text = self.text
        for key in keys:
            if any(name == key.name and key.signed(text, sign) for name, sign in self.signatures):
                return key
        return None


def moment(at: int) -> str:
    """Microseconds since 1970 as people and XML write them."""
    return (EPOCH + timedelta(microseconds=at)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def from_moment(text: str) -> int:
    return (datetime.fromisoformat(text) - EPOCH) // timedelta(microseconds=1)


def heads_in(text: str) -> Iterator[Head]:
    """Every head in a text: a witness file, a mail, a page. Quote marks of mails are looked through."""
    lines = [line.lstrip("> ").rstrip() for line in text.splitlines()]
    for place, line in enumerate(lines):
        if not line and place + 1 < len(lines) and lines[place + 1].startswith(DASH.rstrip()):
            head = _read(lines[max(0, place - 6) : place], lines[place + 1 :])
            if head:
                yield head


def read_head(text: str) -> Head:
    """The one head in this text."""
    found = list(heads_in(text))
    if len(found) != 1:
        raise BadInput(f"expected one head, found {len(found)}", code="history.head")
    return found[0]


def _signatures(lines: list[str]) -> tuple[tuple[str, bytes], ...]:
    found = []
    for line in lines:
        match line.split(" "):
            case ["—", name, encoded]:
                found.append((name, _unpacked(encoded)))
            case _:
                return tuple(found)
    return tuple(found)


def _read(lines: list[str], below: list[str]) -> Head | None:
    """None for text that is no head of ours; whether it is a true one is for the signature to say."""
    try:
        origin, blocks, tree, algorithm, events, sealed = lines
        head = Head(
            origin=origin,
            blocks=int(blocks),
            tree=_unpacked(tree),
            algorithm=algorithm.removeprefix("algorithm "),
            events=int(events.removeprefix("events ")),
            at=from_moment(sealed.removeprefix("sealed ")),
            signatures=_signatures(below),
        )
        exact = head.text.decode().splitlines() == lines
    except (ValueError, TypeError, OverflowError):
        return None
    return head if exact and len(head.tree) == SIZE and head.blocks > 0 else None


def _unpacked(encoded: str) -> bytes:
    return b64decode(encoded, validate=True)

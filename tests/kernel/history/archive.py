"""A small archive in memory: what a store keeps of its history, and what its owner could do to that."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from random import Random

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from custody.kernel.history.block import Block
from custody.kernel.history.chain import ERASED, START, Leaf, Place, Tip, body_hash, erasure_detail, leaf_hash
from custody.kernel.history.head import Head
from custody.kernel.history.keys import Signer
from custody.kernel.history.seal import Sealing, seal
from custody.kernel.history.verify import Report, Row, verify
from custody.kernel.model.event import OUTCOMES, Event

NAME = "archive.example.org"
SECOND = 1_000_000
START_TIME = 1_772_000_000 * SECOND
SIGNER = Signer(NAME, Ed25519PrivateKey.from_private_bytes(b"a key for tests only, 32 bytes.."))
INTRUDER = Signer(NAME, Ed25519PrivateKey.from_private_bytes(b"another key, of somebody else..."))


@dataclass
class Archive:
    """Events, leaves and blocks as tables; `now` is moved by hand."""

    events: dict[Place, Event] = field(default_factory=dict)
    leaves: dict[Place, Leaf] = field(default_factory=dict)
    blocks: dict[int, Block] = field(default_factory=dict)
    now: int = START_TIME
    random: Random = field(default_factory=lambda: Random(0))

    def append(self, subject: str, type: str = "moved", **fields: object) -> Event:
        seq = 1 + max((seq for name, seq in self.events if name == subject), default=0)
        made = Event(len(self.events) + 1, subject, seq, type, "success", "worker 1.0", self.now)
        event = replace(made, **fields)  # type: ignore[arg-type]
        self.events[subject, seq] = event
        return event

    def unsealed(self) -> list[Event]:
        """By absence of a leaf, as the store finds them."""
        return [event for place, event in self.events.items() if place not in self.leaves]

    def tips(self) -> dict[str, Tip]:
        newest: dict[str, Tip] = {}
        for leaf in self.leaves.values():
            if leaf.subject not in newest or newest[leaf.subject].seq < leaf.seq:
                newest[leaf.subject] = Tip(leaf.seq, leaf.hash)
        return newest

    @property
    def last(self) -> Block:
        return self.blocks[max(self.blocks)]

    def attempt(
        self,
        events: Iterable[Event] | None = None,
        signer: Signer = SIGNER,
        *,
        more: bool = False,
        salts: Callable[[int], bytes] | None = None,
    ) -> Sealing:
        """What a sealer would write now, not yet written."""
        previous = self.last if self.blocks else None
        chosen = self.unsealed() if events is None else events
        drawn = salts or self.random.randbytes
        return seal(previous, chosen, self.tips(), self.now, signer, more=more, salts=drawn)

    def write(self, sealing: Sealing) -> None:
        """The transaction: refused as a whole when the block number or a leaf is taken."""
        if sealing.sealed is None:
            return
        block, leaves = (
            sealing.sealed.block,
            {(leaf.subject, leaf.seq): leaf for leaf in sealing.sealed.leaves},
        )
        if block.number in self.blocks or leaves.keys() & self.leaves.keys():
            raise KeyError("taken")
        self.blocks[block.number] = block
        self.leaves |= leaves

    def seal(self, signer: Signer = SIGNER) -> None:
        self.now += SECOND
        self.write(self.attempt(signer=signer))

    def erase(self, *places: Place, told: bool = True) -> None:
        if told:
            self.append("erasures", ERASED, agent="Ann", detail=erasure_detail(list(places), "asked by law"))
        for place in places:
            self.events[place] = replace(self.events[place], agent="", detail={})
            self.leaves[place] = replace(self.leaves[place], salt=None)

    def rows(self) -> list[Row]:
        sealed = sorted(self.leaves.values(), key=lambda leaf: (leaf.block, leaf.position))
        rows: list[Row] = [(leaf, self.events.get((leaf.subject, leaf.seq))) for leaf in sealed]
        return rows + [(None, event) for event in sorted(self.unsealed(), key=lambda e: (e.subject, e.seq))]

    def in_order(self) -> list[Block]:
        return [self.blocks[number] for number in sorted(self.blocks)]

    def heads(self) -> list[Head]:
        return [block.head for block in self.in_order()]

    def verify(self, heads: Iterable[Head] = ()) -> Report:
        return verify(self.rows(), self.in_order(), keys=[SIGNER.public], heads=heads)

    def copy(self) -> Archive:
        return Archive(dict(self.events), dict(self.leaves), dict(self.blocks), self.now, deepcopy(self.random))

    # --- what an intruder does to cover the traces ---

    def relink(self, subject: str) -> None:
        """Make all leaves of a subject fit its events again."""
        previous = START
        for place in sorted(place for place in self.leaves if place[0] == subject):
            leaf, event = self.leaves[place], self.events[place]
            body = leaf.body if leaf.salt is None else body_hash(event, leaf.salt)
            previous = leaf_hash(event, previous, body)
            self.leaves[place] = replace(leaf, body=body, hash=previous)

    def reseal(self, signer: Signer) -> None:
        """Make all blocks fit their events again, with the times and salts they had."""
        old, leaves = self.in_order(), self.leaves
        self.blocks, self.leaves = {}, {}
        for block in old:
            places = sorted(place for place, leaf in leaves.items() if leaf.block == block.number)
            salts = b"".join(leaves[place].salt or b"" for place in places)
            self.now = block.at
            events = [self.events[place] for place in places]
            self.write(self.attempt(events, signer, salts=lambda _, salts=salts: salts))  # type: ignore[misc]


def grown_archive(random: Random, *, subjects: int = 8, blocks: int = 6, most: int = 30) -> Archive:
    """An archive with a random past; the last few events are not sealed yet."""
    archive = Archive(random=random)
    for _ in range(blocks):
        some_events(archive, subjects, random.randint(subjects, most))
        archive.seal()
    some_events(archive, subjects, 3)
    return archive


def some_events(archive: Archive, subjects: int, count: int) -> None:
    random = archive.random
    for _ in range(count):
        archive.now += random.randint(0, SECOND)
        archive.append(
            f"job/{random.randint(1, subjects)}",
            random.choice(["moved", "checked", "received"]),
            outcome=random.choice(OUTCOMES),
            agent=random.choice(["worker 1.0", "Ann", "Björn"]),
            detail=random.choice([{}, {"files": 3}, {"note": "été", "sizes": [1, 2.5, None]}]),
            token=random.randint(0, 99),
            move=random.randbytes(8).hex(),
        )

"""Verifying: one pass over the whole history, naming every place where it is not what was sealed.

Three things are checked against one another: each event against its leaf and its subject's chain, each block
against its leaves, its predecessor and its signature, and the blocks against heads that witnesses kept. One
tampered event gives one fault, at its place: after a fault the pass goes on from what is stored.

What no such check can see, `Report.limits` says in words. What was recorded can be proved; that the recording
was true cannot. The stand-alone verifier beside this module checks the same of an exported history.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from custody.errors import BadInput
from custody.kernel.history.block import ALGORITHM, Block
from custody.kernel.history.chain import ERASED, START, Leaf, Place, body_hash, erased_places, leaf_hash, looks_erased
from custody.kernel.history.head import Head, moment
from custody.kernel.history.keys import PublicKey
from custody.kernel.history.merkle import Hash, grown, root
from custody.kernel.model.event import Event

Row: TypeAlias = tuple[Leaf | None, Event | None]
"""An event and its leaf, joined by (subject, seq); None for the one that is not there."""

HOUR: Final = 3_600_000_000

FAULTS: Final = {
    "edited": "an event is not the one that was sealed",
    "deleted": "an event is gone",
    "leaf-missing": "an event's leaf is gone, though later events of its subject were sealed",
    "repeated": "a place in a subject's sequence was sealed twice",
    "unexplained-erasure": "a body was erased, and no event says by whom and why",
    "written-over": "a body was erased, yet something stands in its place",
    "misdated": "an event's time does not fit the order in which history was sealed",
    "block-changed": "a block's events are not those it was sealed over",
    "block-missing": "a block is gone",
    "block-forged": "a block does not follow from the one before it",
    "signature": "a block was not signed by a known key",
    "algorithm": "a block was sealed in a way this release does not know",
    "went-back": "a witness has seen a later block than the last one here",
    "forked": "a witness has seen another block of this number",
    "witness": "a witness's head cannot be used",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is not as it was sealed."""

    kind: str  # a key of FAULTS
    where: str  # "job/12#3" or "block 7"
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


@dataclass(slots=True)
class Report:
    """What one verification found."""

    events: int = 0
    unsealed: int = 0
    blocks: int = 0
    head: Head | None = None
    witnessed: int = 0  # the last block that a witness vouches for
    faults: list[Fault] = field(default_factory=list)
    erased: dict[Place, str] = field(default_factory=dict)  # place → the event that erased it

    @property
    def sound(self) -> bool:
        return not self.faults

    @property
    def limits(self) -> list[str]:
        """What this verification could not have seen."""
        if not self.blocks:
            return ["nothing was ever sealed: this history proves nothing yet"]
        told = ["it proves what was recorded, not that the recording was true"]
        if not self.witnessed:
            told.append("no witness's head was given: an end cut off, or an older backup, would go unnoticed")
        elif self.witnessed < self.blocks:
            told.append(f"no witness vouches for blocks {self.witnessed + 1} to {self.blocks}")
        if self.unsealed:
            told.append(f"{self.unsealed} events are not sealed yet, and could still be changed unnoticed")
        return told


def place_name(subject: str, seq: int) -> str:
    """A place as people and identifiers write it."""
    return f"{subject}#{seq}"


def verify(
    rows: Iterable[Row],
    blocks: Iterable[Block],
    *,
    keys: Iterable[PublicKey],
    heads: Iterable[Head] = (),
    tolerance: int = HOUR,
) -> Report:
    """Check everything, in one pass.

    `rows` come sealed first, by (block, position), then those without a leaf, by (subject, seq); `blocks` by
    number. `keys` must come from outside the store, like `heads`. `tolerance` (microseconds) is how far an
    event's time may be out of the order of sealing: the longest transaction, and how far clocks are set back.
    """
    check = _Pass(tuple(keys), tolerance)
    check.remember(heads)
    pending = iter(rows)
    row = next(pending, None)
    for block in blocks:
        row = check.leaves_without_block(row, pending, block.number)
        leaves, row = check.leaves_of(block, row, pending)
        check.block(block, leaves)
    row = check.leaves_without_block(row, pending, None)
    while row is not None:
        check.without_leaf(row)
        row = next(pending, None)
    return check.finish()


@dataclass(slots=True)
class _Link:
    """Where a subject's chain ends, as far as the pass has come."""

    seq: int
    hash: Hash
    at: int


class _Pass:
    """The pass's memory: the end of each chain, the block before, what witnesses said."""

    def __init__(self, keys: Sequence[PublicKey], tolerance: int) -> None:
        self.keys = keys
        self.tolerance = tolerance
        self.report = Report()
        self.links: dict[str, _Link] = {}
        self.previous: Block | None = None
        self.floor = -(2**63)  # no later block may have an event from before this
        self.erased: list[Place] = []
        self.erasers: dict[Place, str] = {}
        self.heads: dict[int, list[Head]] = {}
        self.gone = 0  # missing blocks were told of up to this one

    def fault(self, kind: str, where: str, message: str) -> None:
        self.report.faults.append(Fault(kind, where, message))

    # --- events ---

    def leaves_of(self, block: Block, row: Row | None, pending: Iterator[Row]) -> tuple[list[Hash], Row | None]:
        """Check the rows of one block; the leaf hashes it has, and the first row after it."""
        hashes = []
        while row is not None and (leaf := row[0]) is not None and leaf.block == block.number:
            hashes.append(leaf.hash)
            self.sealed(leaf, row[1], block.at)
            row = next(pending, None)
        return hashes, row

    def leaves_without_block(self, row: Row | None, pending: Iterator[Row], before: int | None) -> Row | None:
        """Rows of blocks that are not there: their events are checked all the same."""
        while row is not None and (leaf := row[0]) is not None and (before is None or leaf.block < before):
            self.blocks_are_gone(leaf.block, leaf.block)
            self.sealed(leaf, row[1], 2**63)
            row = next(pending, None)
        return row

    def sealed(self, leaf: Leaf, event: Event | None, sealed_at: int) -> None:
        self.report.events += 1
        link = self.links.get(leaf.subject)
        if link is None:
            link = self.links[leaf.subject] = _Link(0, START, -(2**63))
        linked = self.in_sequence(leaf.subject, leaf.seq, link, "repeated")
        if event is None:
            self.fault("deleted", place_name(leaf.subject, leaf.seq), "the event is gone, its leaf is still there")
        else:
            self.unchanged(leaf, event, link.hash if linked else None)
            if event.at < self.floor or event.at < link.at or event.at > sealed_at + self.tolerance:
                self.misdated(event, link.at)
            link.at = event.at - self.tolerance
        link.seq = leaf.seq
        link.hash = leaf.hash

    def in_sequence(self, subject: str, seq: int, link: _Link, otherwise: str) -> bool:
        """Whether this is the subject's next place; faults for the places in between."""
        if seq == link.seq + 1:
            return True
        if seq <= link.seq:
            self.fault(otherwise, place_name(subject, seq), FAULTS[otherwise])
            return False
        missing = range(link.seq + 1, seq)
        many = f"{len(missing)} events up to #{seq - 1} are gone, and their leaves too"
        one = "the event is gone, and its leaf too"
        self.fault("deleted", place_name(subject, missing[0]), one if len(missing) == 1 else many)
        return False

    def unchanged(self, leaf: Leaf, event: Event, previous: Hash | None) -> None:
        """The event is the one its leaf was made from. After a missing leaf, only the body can be checked."""
        try:
            wrong = self.changes(leaf, event, previous)
        except BadInput as refusal:
            wrong = str(refusal)
        if wrong:
            self.fault("edited", place_name(leaf.subject, leaf.seq), wrong)
        elif event.type == ERASED:
            self.note_erasures(event)

    def changes(self, leaf: Leaf, event: Event, previous: Hash | None) -> str:
        """What was changed, in words; nothing if nothing was."""
        if leaf.salt is None:
            self.erased.append((leaf.subject, leaf.seq))
            if not looks_erased(event):
                self.fault("written-over", place_name(leaf.subject, leaf.seq), FAULTS["written-over"])
        elif body_hash(event, leaf.salt) != leaf.body:
            return "its agent or its detail was changed"
        if previous is not None and leaf_hash(event, previous, leaf.body) != leaf.hash:
            return "its type, outcome, time, token or move was changed, or its leaf"
        return ""

    def note_erasures(self, event: Event) -> None:
        for erased in erased_places(event):
            self.erasers.setdefault(erased, place_name(event.subject, event.seq))

    def misdated(self, event: Event, earliest: int) -> None:
        place, at = place_name(event.subject, event.seq), moment(event.at)
        if event.at < earliest:
            self.fault("misdated", place, f"its time, {at}, is before that of the event it follows")
        elif event.at < self.floor:
            self.fault("misdated", place, f"its time is {at}, but everything that old had been sealed before")
        else:
            self.fault("misdated", place, f"its time, {at}, is after the time it was sealed")

    def without_leaf(self, row: Row) -> None:
        """An event that no block has: not sealed yet, or its leaf was taken away."""
        leaf, event = row
        if leaf is not None or event is None:
            raise ValueError("rows out of order: those with a leaf come first")
        self.report.events += 1
        self.report.unsealed += 1
        link = self.links.setdefault(event.subject, _Link(0, START, -(2**63)))
        if self.in_sequence(event.subject, event.seq, link, "leaf-missing") and event.type == ERASED:
            self.note_erasures(event)
        if event.at < self.floor or event.at < link.at:
            self.misdated(event, link.at)
        link.seq = max(link.seq, event.seq)

    # --- blocks ---

    def block(self, block: Block, leaves: list[Hash]) -> None:
        where = f"block {block.number}"
        self.report.blocks = block.number
        if block.algorithm != ALGORITHM:
            self.fault("algorithm", where, f"sealed as {block.algorithm!r}, which this release cannot check")
        if len(leaves) != block.count:
            self.fault("block-changed", where, f"sealed over {block.count} events, has {len(leaves)}")
        elif root(leaves) != block.root:
            self.fault("block-changed", where, "its events, or their order, are not those it was sealed over")
        try:
            self.follows(block, where)
        except BadInput as refusal:
            self.fault("block-forged", where, f"cannot be read: {refusal}")
        try:
            self.signed(block.head, where)
        except OverflowError:  # a time that no calendar has
            self.fault("signature", where, FAULTS["signature"])
        self.previous = block
        if block.complete:
            self.floor = max(self.floor, block.at - self.tolerance)

    def signed(self, head: Head, where: str) -> None:
        if not head.signed_by(self.keys):
            self.fault("signature", where, FAULTS["signature"])
        self.compare(head, where)
        self.report.head = head

    def follows(self, block: Block, where: str) -> None:
        before = self.previous
        expected = before.number + 1 if before else 1
        if block.number != expected:
            self.blocks_are_gone(expected, block.number - 1)
            return
        start = (START, (), 0, -(2**63), block.origin)
        previous, frontier, total, at, origin = (
            (before.hash, before.frontier, before.total, before.at, before.origin) if before else start
        )
        wrong = {
            "the block before it is not the one it was sealed upon": block.previous != previous,
            "the running tree does not grow from the block before it": block.frontier
            != grown(frontier, block.number - 1, block.hash),
            "the number of events so far does not add up": block.total != total + block.count,
            "it was sealed before the block before it": block.at < at,
            "it carries another history's name": block.origin != origin,
        }
        for message, is_so in wrong.items():
            if is_so:
                self.fault("block-forged", where, message)

    def blocks_are_gone(self, first: int, last: int) -> None:
        """Leaves without a block show it, and the next block's number; it is told once."""
        first = max(first, self.gone + 1)
        if first <= last:
            self.gone = last
            many = f"blocks {first} to {last} are gone"
            self.fault("block-missing", f"block {first}", FAULTS["block-missing"] if first == last else many)

    # --- witnesses ---

    def remember(self, heads: Iterable[Head]) -> None:
        for head in heads:
            if head.signed_by(self.keys):
                self.heads.setdefault(head.blocks, []).append(head)
            else:
                self.fault("witness", f"block {head.blocks}", "a witness's head is not signed by a known key")

    def compare(self, head: Head, where: str) -> None:
        for seen in self.heads.pop(head.blocks, ()):
            if seen.origin != head.origin:
                self.fault("witness", where, f"a witness's head is of another history, {seen.origin}")
            elif (seen.tree, seen.events) != (head.tree, head.events):
                self.fault("forked", where, f"on {moment(seen.at)} a witness saw another block of this number")
            else:
                self.report.witnessed = head.blocks

    def finish(self) -> Report:
        end = self.report.blocks
        for number, heads in sorted(self.heads.items()):
            if number > end:  # a missing block before the end was told of already
                seen = f"on {moment(heads[0].at)} a witness saw block {number}"
                self.fault("went-back", f"block {number}", f"{seen}; this history ends at block {end}")
        for subject, seq in self.erased:
            eraser = self.erasers.get((subject, seq))
            if eraser:
                self.report.erased[subject, seq] = eraser
            else:
                self.fault("unexplained-erasure", place_name(subject, seq), FAULTS["unexplained-erasure"])
        return self.report

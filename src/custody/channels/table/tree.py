"""Walking a channel's table, with a memory of what was read last.

Nothing here trusts that memory: every answer that leaves the table was checked against an ETag in the call
that gave it. It is enough to check the leaf. Whoever takes ids away from a leaf seals it first, and a seal
changes its ETag; so a reader that came by an outdated index meets a leaf that has changed, or is gone, and
walks again with fresh eyes.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise

from custody.channels.blobs.port import MOST_BLOCKS, Blobs, Broken, Changed, Facts, Foreign, NoBlob, Older, Shut
from custody.channels.snowflake import WIDTH
from custody.channels.table.node import FIRST, Index, Leaf, Lines, Removed, both, is_foreign, named, route
from custody.errors import BadInput, CustodyError, Unavailable, Unsafe

ATTEMPTS = 50  # somebody wins each round, so this many losses in a row mean something is wrong
LEAVES_KEPT = 4096
DAMAGED = "damaged/"  # blocks that were set aside; no index names them, and no sweep takes them


class Torn(Unavailable):
    """A part of a table cannot be read: the blob at `where`, and with it all from `low` up to `high` ("": no end)."""

    code = "table.damaged"

    def __init__(self, cause: CustodyError, low: str, high: str) -> None:
        missing = isinstance(cause, NoBlob)
        said = "the index names a blob that is not there" if missing else f"a part of it is damaged: {cause.message}"
        super().__init__(
            said, where=cause.where, hint=cause.hint or "`custody channel verify --mend` mends what it can"
        )
        self.low, self.high, self.shut = low, high, isinstance(cause, Shut)
        self.foreign = isinstance(cause, Foreign)


@dataclass(frozen=True, slots=True)
class Settings:
    capacity: int = 1_000  # blocks in a leaf
    fanout: int = 1_000  # entries in an index
    packing: int = 1  # messages of one page that may share a block
    # What only those know who can read the messages and the mark:
    merge: Callable[[Lines, bytes], Lines] = both  # what is kept of a message when one more line about it comes
    joined: Callable[[str, str], str] = lambda old, new: new  # what two marks say together

    def __post_init__(self) -> None:
        for name in ("capacity", "fanout"):
            if not 2 <= getattr(self, name) <= MOST_BLOCKS:
                raise Unsafe(f"{name} is {getattr(self, name)}", code="table.setting", hint=f"2 to {MOST_BLOCKS}")
        if not 1 <= self.packing <= 1_000:
            raise Unsafe(f"packing is {self.packing}", code="table.setting", hint="1 to 1,000")


@dataclass(frozen=True, slots=True)
class Place:
    """Where an id belongs: the indexes on the way down, the leaf's name, and the ids it is for."""

    path: tuple[tuple[Index, int], ...]  # each with the position of the child that was taken
    leaf: str
    low: str
    high: str  # "" is no limit

    def holds(self, key: str) -> bool:
        return not self.high or key < self.high

    def limit(self, leaf: Leaf, key: str) -> str:
        """Where the ids end that share a leaf with this one. A seal knows better than an outdated index."""
        return leaf.end if key < leaf.end else self.high

    @property
    def parent(self) -> str:
        return self.path[-1][0].name


@dataclass(slots=True)
class Tree:
    blobs: Blobs
    prefix: str  # ends with a slash
    settings: Settings
    indexes: dict[str, Index] = field(default_factory=dict)
    leaves: dict[str, Leaf] = field(default_factory=dict)

    @property
    def root(self) -> str:
        return self.prefix + "index.jsonl"

    @property
    def channel(self) -> str:
        """Of messages, which say it themselves, the channel's number."""
        return self.prefix.removeprefix("ch/").rstrip("/") if self.prefix.startswith("ch/") else ""

    def fresh_name(self, kind: str, fence: str) -> str:
        return f"{self.prefix}{kind}/{fence}-{secrets.token_hex(6)}.jsonl"

    def short(self, name: str) -> str:
        """Names in the index leave the prefix out, so that a tree can be copied anywhere."""
        return name.removeprefix(self.prefix)

    # --- Reading one blob ---

    def index(self, name: str) -> Index:
        known = self.indexes.get(name)
        if known is None:
            content = self.blobs.read(name)
            known = self.indexes[name] = Index.read(name, content.etag, content.data, content.metadata)
        return known

    def leaf(self, name: str) -> Leaf:
        return self.leaves.get(name) or self.load(name)

    def load(self, name: str, *, whole: bool = True) -> Leaf:
        """Read what a leaf says of itself; unless it must be `whole`, also of one that has lost blocks."""
        for _ in range(ATTEMPTS):
            head, blocks = self.blobs.head(name), self.blobs.blocks(name)
            if head and head.etag == blocks.etag and head.size != sum(blocks.sizes):
                raise Broken("its list is not one of its content", where=name)
            if head and head.etag == blocks.etag:
                leaf = Leaf.read(name, blocks.etag, blocks.ids, blocks.sizes, facts=head.facts, whole=whole)
                return self.keep(self._own(leaf)) if whole else self._own(leaf)
        raise busy(name)

    def _own(self, leaf: Leaf) -> Leaf:
        """A leaf of an earlier version does not say whose it is: its first and its last message do."""
        if leaf.of or not leaf.ids or not self.channel:
            return leaf
        try:
            ends = [self.read(leaf, one, one + 1)[0] for one in {0, len(leaf.ids) - 1}]
        except Changed:
            return leaf
        if all(is_foreign(block.split(b"\n")[0], self.channel) for block in ends):
            raise Foreign("its messages are of another channel", where=leaf.name)
        return leaf

    def keep(self, leaf: Leaf) -> Leaf:
        if len(self.leaves) >= LEAVES_KEPT:
            self.leaves.pop(next(iter(self.leaves)))
        self.leaves[leaf.name] = leaf
        return leaf

    def current(self, leaf: Leaf) -> bool:
        """Is what we remember of this leaf still so?"""
        try:
            same = self.blobs.head(leaf.name, unless=leaf.etag) is None
        except (NoBlob, Broken):
            same = False
        if not same:
            self.leaves.pop(leaf.name, None)
        return same

    def with_tier(self, leaf: Leaf) -> Leaf:
        """The leaf with its tier as it is now: a tier moves without a new ETag, and a commit must name it."""
        head = self.blobs.head(leaf.name)
        if head is None or head.etag != leaf.etag:
            raise Changed("the leaf has changed", where=leaf.name)
        return replace(leaf, tier=head.facts.tier)

    def forget(self, name: str = "") -> None:
        """Look again: at this leaf and at the way to it."""
        self.leaves.pop(name, None)
        self.indexes.clear()

    def forget_all(self) -> None:
        self.leaves.clear()
        self.indexes.clear()

    # --- Finding the place of an id ---

    def locate(self, key: str) -> Place | None:
        """Walk from the root; None when the channel has no table yet. What cannot be read on the way is Torn."""
        path: list[tuple[Index, int]] = []
        name, low, high = self.root, FIRST, ""
        while not name.startswith(self.prefix + "leaf/"):
            try:
                index = self.index(name)
            except NoBlob as gone:
                if not path and (isinstance(gone, Removed) or not self._has_leaves()):
                    return None
                raise Torn(gone, low, high) from gone
            except Broken as broken:
                raise Torn(broken, low, high) from broken
            position = max(route(index.fences, key), 0)
            path.append((index, position))
            low = index.fences[position]
            high = index.fences[position + 1] if position + 1 < len(index.fences) else high
            name = self.prefix + index.entries[position].blob
        return Place(tuple(path), name, low, high)

    def _has_leaves(self) -> bool:
        """Was there a table? Its first leaf, empty, comes before its root."""
        leaves = self.blobs.list(self.prefix + "leaf/")
        return any(blob.size or blob.facts.metadata.get("mark") for blob in leaves)

    def find(self, key: str) -> tuple[Place, Leaf] | None:
        """The leaf of an id. It takes the id, or else a split was begun and never finished."""
        doubted = ""
        for _ in range(ATTEMPTS):
            try:
                place = self.locate(key)
                if place is None:
                    return None
                leaf = self._leaf_at(place)
            except Torn as torn:
                self.forget(torn.where)
                if doubted == torn.where:
                    raise
                doubted = torn.where
                continue
            if leaf.takes(key) or doubted == leaf.name:
                return place, leaf
            doubted = leaf.name
            self.forget(leaf.name)
        raise busy(self.prefix)

    def newest(self, place: Place, leaf: Leaf) -> Leaf:
        """This leaf, unless the index knows of a later one under its name."""
        index, position = place.path[-1]
        least = index.entries[position].turn
        leaf = self.load(leaf.name) if leaf.turn < least else leaf  # what is remembered may be older than the index
        if leaf.turn < least:
            said = f"an earlier copy is in its place: it was written {least} times, and this is the state after"
            raise Older(f"{said} {leaf.turn or 'fewer'}", where=leaf.name)
        return leaf

    def _leaf_at(self, place: Place) -> Leaf:
        try:
            return self.newest(place, self.leaf(place.leaf))
        except (NoBlob, Broken) as lost:
            raise Torn(lost, place.low, place.high) from lost

    def read(self, leaf: Leaf, start: int, stop: int) -> list[bytes]:
        """The blocks at these positions; raises Changed if the leaf is no longer this one.

        Of bytes that are not there any more, as many as there are: then the blocks are not what their names say.
        """
        begin, end = leaf.starts[start], leaf.starts[stop]
        if begin == end:
            return [b""] * (stop - start)
        try:
            data = self.blobs.read(leaf.name, begin, end - begin, if_match=leaf.etag).data
        except NoBlob as gone:
            raise Changed("the leaf was replaced", where=leaf.name) from gone
        except BadInput as beyond:  # written anew since, from what was left of it
            raise Changed("the leaf is not what is remembered of it", where=leaf.name) from beyond
        except Shut:
            raise
        except Broken:
            data = b""
        return [data[low - begin : high - begin] for low, high in pairwise(leaf.starts[start : stop + 1])]

    def shelve(self, name: str) -> None:
        """Set aside what is left of a blob that cannot be read, and free its name."""
        with suppress(NoBlob):
            self.blobs.set_aside(name, f"{self.prefix}{DAMAGED}{secrets.token_hex(6)}-{name.rpartition('/')[2]}")

    def set_aside(self, blocks: Mapping[str, bytes]) -> None:
        """Keep blocks that are damaged beside the leaves, for whoever can still make something of them."""
        for one, data in ((one, data) for one, data in blocks.items() if data):
            name = f"{self.prefix}{DAMAGED}{one}"
            with suppress(Changed):  # it was set aside before
                self.blobs.stage(name, [(named("0" * WIDTH, data), data)])
                self.blobs.commit(name, [named("0" * WIDTH, data)], Facts({"kind": "damaged"}), if_absent=True)


def busy(where: str) -> Unavailable:
    return Unavailable("others keep changing this table", code="table.busy", where=where, hint="try again")

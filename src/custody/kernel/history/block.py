"""Blocks: the events sealed together, and their place in the running tree of all blocks.

    block n ── root    over the leaves of its own events
            ── hash    SHA-256(0x00 ‖ canonical header); the header names the hash of block n − 1
            ── tree    root over the hashes of blocks 1 … n: what the head of block n publishes and signs

So two short paths lead from an event to any later head, and one path shows that a later head continues an
earlier one. `frontier` keeps the running tree's right edge (a hash per bit of n), so that sealing and proving
read a few rows, however long the history.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from custody.errors import BadInput
from custody.kernel.history.event_body import canonical
from custody.kernel.history.head import Head
from custody.kernel.history.merkle import Frontier, Hash, Subtrees, frontier_root, grown, leaf

ALGORITHM: Final = "sha256-ed25519"
"""How this release seals. Another name in a later release tells old blocks from new ones."""


@dataclass(frozen=True, slots=True)
class Block:
    """One row per block. Its number is the store's primary key: two sealers cannot both win it."""

    number: int  # from 1
    origin: str  # the history's own name
    algorithm: str
    previous: Hash  # of the block before; zeros before the first
    root: Hash  # over its own leaves
    count: int  # events in it
    total: int  # events in it and in all before it
    at: int  # the store's time, microseconds; never before the previous block's
    complete: bool  # nothing was left unsealed: an event from before `at` in a later block is late
    frontier: Frontier
    signature: bytes  # key id and Ed25519 signature, over the head's text

    @property
    def header(self) -> dict[str, Any]:
        return {
            "algorithm": self.algorithm,
            "at": self.at,
            "complete": self.complete,
            "count": self.count,
            "number": self.number,
            "origin": self.origin,
            "previous": self.previous.hex(),
            "root": self.root.hex(),
            "total": self.total,
        }

    @property
    def hash(self) -> Hash:
        return leaf(canonical(self.header))

    @property
    def tree(self) -> Hash:
        return frontier_root(self.frontier)

    @property
    def head(self) -> Head:
        """What is published of it."""
        signatures = ((self.origin, self.signature),) if self.signature else ()
        return Head(
            origin=self.origin,
            blocks=self.number,
            tree=self.tree,
            algorithm=self.algorithm,
            events=self.total,
            at=self.at,
            signatures=signatures,
        )


def pack(frontier: Frontier) -> bytes:
    """A frontier as one column."""
    return b"".join(frontier)


def unpack(packed: bytes) -> Frontier:
    if len(packed) % 32:
        raise BadInput("a frontier is a row of whole hashes", code="history.frontier")
    return tuple(packed[place : place + 32] for place in range(0, len(packed), 32))


def subtrees_of_blocks(block: Callable[[int], Block]) -> Subtrees:
    """Complete subtrees of the running tree, looked up in at most two block rows each.

    Just before the last leaf of a subtree, the frontier ends with that subtree's parts, one per height.
    """

    def subtree(height: int, index: int) -> Hash:
        last = (index + 1) << height
        result = block(last).hash
        if height:
            parts = block(last - 1).frontier[-height:]
            result = grown(parts, (1 << height) - 1, result)[0]
        return result

    return subtree

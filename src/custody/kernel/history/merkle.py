"""Merkle trees (RFC 6962): many hashes become one root, and a short path proves that one was among them.

The arithmetic only. It is used twice: over the events of one block, and over all blocks so far (the running
tree, whose root is what a head publishes). A root of either kind is over *leaf hashes*, made by `leaf`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Final, TypeAlias

Hash: TypeAlias = bytes
Frontier: TypeAlias = tuple[Hash, ...]

SIZE: Final = 32
EMPTY: Final = sha256(b"").digest()


def leaf(data: bytes) -> Hash:
    """Leaves and nodes are prefixed differently, so that a node can never be passed off as a leaf."""
    return sha256(b"\0" + data).digest()


def node(left: Hash, right: Hash) -> Hash:
    return sha256(b"\1" + left + right).digest()


def root(leaves: Sequence[Hash]) -> Hash:
    """The root over all leaves. Pairing level by level, an odd one carried up, is RFC 6962's definition."""
    if not leaves:
        return EMPTY
    level = list(leaves)
    while len(level) > 1:
        paired = [sha256(b"\1" + a + b).digest() for a, b in zip(level[::2], level[1::2], strict=False)]
        if len(level) % 2:
            paired.append(level[-1])
        level = paired
    return level[0]


# --- The running tree, kept as its frontier: the roots of the complete subtrees, largest first. ---


def grown(frontier: Frontier, size: int, added: Hash) -> Frontier:
    """The frontier after one more leaf; `size` is the number of leaves before it."""
    nodes = list(frontier)
    while size % 2:
        added = node(nodes.pop(), added)
        size //= 2
    return (*nodes, added)


def frontier_root(frontier: Frontier) -> Hash:
    """The root of the whole tree: the incomplete right edge, folded from the smallest subtree up."""
    if not frontier:
        return EMPTY
    *larger, result = frontier
    for left in reversed(larger):
        result = node(left, result)
    return result


# --- Paths. A tree is given by its size and a look-up of complete subtrees: (height, index) -> root. ---

Subtrees: TypeAlias = Callable[[int, int], Hash]


def subtrees_of(leaves: Sequence[Hash]) -> Subtrees:
    """The look-up for a tree whose leaves are all at hand."""
    return lambda height, index: root(leaves[index << height : (index + 1) << height])


def inclusion_path(subtrees: Subtrees, size: int, index: int) -> list[Hash]:
    """What proves that leaf `index` (from 0) is in the tree of `size` leaves."""
    if not 0 <= index < size:
        raise IndexError(f"no leaf {index} in a tree of {size}")
    return _inclusion(subtrees, 0, size, index)


def _inclusion(subtrees: Subtrees, start: int, size: int, index: int) -> list[Hash]:
    if size == 1:
        return []
    split = _split(size)
    if index < split:
        return [*_inclusion(subtrees, start, split, index), _range(subtrees, start + split, size - split)]
    return [*_inclusion(subtrees, start + split, size - split, index - split), _range(subtrees, start, split)]


def consistency_path(subtrees: Subtrees, old: int, new: int) -> list[Hash]:
    """What proves that the tree of `new` leaves begins with the whole tree of `old` leaves."""
    if not 0 < old <= new:
        raise IndexError(f"no tree of {old} leaves inside one of {new}")
    return _consistency(subtrees, 0, old, new, whole=True)


def _consistency(subtrees: Subtrees, start: int, old: int, new: int, *, whole: bool) -> list[Hash]:
    if old == new:
        return [] if whole else [_range(subtrees, start, new)]
    split = _split(new)
    if old <= split:
        left = _consistency(subtrees, start, old, split, whole=whole)
        return [*left, _range(subtrees, start + split, new - split)]
    right = _consistency(subtrees, start + split, old - split, new - split, whole=False)
    return [*right, _range(subtrees, start, split)]


def _range(subtrees: Subtrees, start: int, size: int) -> Hash:
    """The root over leaves start … start + size; `start` is always a multiple of the largest part's width."""
    parts = []
    while size:
        height = size.bit_length() - 1
        parts.append(subtrees(height, start >> height))
        start += 1 << height
        size -= 1 << height
    return frontier_root(tuple(parts))


def _split(size: int) -> int:
    """The largest power of two smaller than `size`."""
    return 1 << (size - 1).bit_length() - 1


# --- Checking paths. False for anything malformed: a proof from outside is never trusted to have a shape. ---


def includes(root_hash: Hash, size: int, index: int, leaf_hash: Hash, path: Sequence[Hash]) -> bool:
    """Whether `path` proves that the tree under `root_hash` has this leaf at `index`."""
    if not 0 <= index < size:
        return False
    last, result, steps = size - 1, leaf_hash, iter(path)
    while last:
        if index % 2 or index < last:
            step = next(steps, None)
            if step is None:
                return False
            result = node(step, result) if index % 2 else node(result, step)
        index, last = index // 2, last // 2
    return next(steps, None) is None and result == root_hash


def extends(old_root: Hash, old: int, new_root: Hash, new: int, path: Sequence[Hash]) -> bool:
    """Whether `path` proves that the tree of `new` leaves begins with the tree of `old` leaves."""
    if not 0 < old <= new:
        return False
    if old == new:
        return not path and old_root == new_root
    steps = iter(path)
    index, last = old - 1, new - 1
    while index % 2:
        index, last = index // 2, last // 2
    first = next(steps, None) if index else old_root
    if first is None:
        return False
    roots = _replay(first, index, last, steps)
    return roots == (old_root, new_root)


def _replay(first: Hash, index: int, last: int, steps: Iterator[Hash]) -> tuple[Hash, Hash] | None:
    """Walk up from the old tree's last complete subtree, building the old root and the new one together."""
    older = newer = first
    while last:
        if index % 2 or index < last:
            step = next(steps, None)
            if step is None:
                return None
            if index % 2:
                older, newer = node(step, older), node(step, newer)
            else:
                newer = node(newer, step)
        index, last = index // 2, last // 2
    return (older, newer) if next(steps, None) is None else None

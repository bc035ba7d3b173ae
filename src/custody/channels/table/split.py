"""Making room: how leaves and indexes grow without a moment in which a message cannot be found.

Always in this order: seal what is full, so that no other writer can add to it; write the new children under
fresh names; swing the pointer with one conditional commit of the index above; delete what was replaced. A
crash leaves the table as it was (with blobs that no index names, for the sweep) or as it is to be. A seal
without its neighbour or copies means that somebody began and did not finish; the next writer finishes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise, zip_longest
from typing import TypeVar

from custody.channels.blobs.port import NoBlob
from custody.channels.snowflake import block_id
from custody.channels.table.commit import commit_index, commit_leaf
from custody.channels.table.node import FIRST, Entry, Index, Leaf, key_in
from custody.channels.table.tree import Place, Tree

Steps = tuple[tuple[Index, int], ...]
T = TypeVar("T")


def plant(tree: Tree) -> None:
    """A channel's first leaf, empty, and the index that names it."""
    leaf = commit_leaf(tree, None, Leaf(tree.fresh_name("leaf", FIRST), ""), {}, parent=tree.root)
    commit_index(tree, None, tree.root, [Entry(FIRST, tree.short(leaf.name))], parent="")


def extend(tree: Tree, place: Place, leaf: Leaf, blocks: Mapping[str, bytes], like: Leaf) -> None:
    """Give a leaf that is sealed at its end neighbours on the right; the leaf itself stays as it is."""
    parts = chunks(sorted(blocks), tree.settings.capacity, at_end=True)
    children = _children(tree, place.parent, leaf.end, parts, blocks=blocks, like=like)
    swing(tree, place.path, (Entry(place.low, tree.short(leaf.name)), *children))


def divide(tree: Tree, place: Place, leaf: Leaf, ids: Sequence[str], blocks: Mapping[str, bytes], like: Leaf) -> None:
    """Put fresh leaves in a leaf's place: these ids, with these blocks and else its own content."""
    if not leaf.moved:
        leaf = commit_leaf(tree, leaf, replace(leaf, moved=True), {}, parent=place.parent)
    own = dict(zip(leaf.ids, tree.read(leaf, 0, len(leaf.ids)), strict=True))
    parts = chunks(ids, tree.settings.capacity, at_end=False)
    swing(tree, place.path, _children(tree, place.parent, place.low, parts, blocks=own | dict(blocks), like=like))
    discard(tree, leaf.name)


def _children(
    tree: Tree, parent: str, fence: str, parts: list[Sequence[str]], blocks: Mapping[str, bytes], like: Leaf
) -> tuple[Entry, ...]:
    """Write fresh leaves. The last is `like` this one in all but its blocks: seals and mark are last."""
    entries: list[Entry] = []
    for part, after in zip_longest(parts, parts[1:]):
        fence = key_in(part[0]) if entries else fence
        name = tree.fresh_name("leaf", fence)
        leaf = replace(like, name=name, ids=tuple(part), moved=False, tier="Hot")
        if after:
            leaf = replace(leaf, end="", mark="", top=block_id(int(key_in(after[0])) - 1))
        commit_leaf(tree, None, leaf, {one: blocks[one] for one in part}, parent=parent)
        entries.append(Entry(fence, tree.short(name)))
    return tuple(entries)


def swing(tree: Tree, path: Steps, entries: tuple[Entry, ...]) -> None:
    """Put entries where the last step of the path points, making room in the indexes above if need be."""
    (index, position), above = path[-1], path[:-1]
    parent = above[-1][0].name if above else ""
    whole = (*index.entries[:position], *entries, *index.entries[position + 1 :])
    at_end = position == len(index.entries) - 1
    if len(whole) <= tree.settings.fanout and not index.moved:
        commit_index(tree, index, index.name, whole, parent=parent)
    elif not above:
        # The root keeps its name, so its entries move one level down, in the commit that points at them.
        while len(whole) > tree.settings.fanout:
            whole = _nodes(tree, whole, index.name, at_end)
        commit_index(tree, index, index.name, whole, parent="")
    else:
        if not index.moved:
            commit_index(tree, index, index.name, index.entries, parent=parent, moved=True)
        swing(tree, above, _nodes(tree, whole, parent, at_end))
        discard(tree, index.name)


def _nodes(tree: Tree, entries: Sequence[Entry], parent: str, at_end: bool) -> tuple[Entry, ...]:
    """Write entries as fresh indexes; answers the entries for the index above."""
    made = []
    for part in chunks(entries, tree.settings.fanout, at_end):
        node = commit_index(tree, None, tree.fresh_name("node", part[0].fence), part, parent=parent)
        made.append(Entry(part[0].fence, tree.short(node.name)))
    return tuple(made)


def chunks(items: Sequence[T], most: int, at_end: bool) -> list[Sequence[T]]:
    """Cut what is too long for one: full pieces where a table grows at its end, else pieces with room."""
    if at_end or len(items) <= most:
        cuts = [*range(0, len(items), most), len(items)]
    else:
        pieces = -(-len(items) * 4 // (most * 3))
        cuts = [len(items) * piece // pieces for piece in range(pieces + 1)]
    return [items[start:stop] for start, stop in pairwise(cuts)] or [items]


def discard(tree: Tree, name: str) -> None:
    tree.leaves.pop(name, None)
    tree.indexes.pop(name, None)
    with suppress(NoBlob):
        tree.blobs.delete(name)

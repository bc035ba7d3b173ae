"""Finding messages: one by its id, many by a range of ids.

With a warm memory a message costs one ranged GET, and one that is not there costs one HEAD: the sizes of the
blocks say where in the leaf its bytes are, so the store need not understand JSON.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace

from custody.channels.blobs.port import Changed, Shut
from custody.channels.snowflake import HIGHEST, block_id
from custody.channels.table.node import Found, Leaf, found, is_damaged, is_foreign, key_in, records
from custody.channels.table.tree import ATTEMPTS, Place, Torn, Tree, busy


def search(tree: Tree, key: str) -> Found | None:
    for _ in range(ATTEMPTS):
        spot = tree.find(key)
        if spot is None:
            return None
        _, leaf = spot
        position = leaf.before(key)
        try:
            if position < 0 or (leaf.packed == 1 and key_in(leaf.ids[position]) != key):
                if tree.current(leaf):
                    return None
                continue
            block, *_ = tree.read(leaf, position, position + 1)
            if is_damaged(leaf.ids[position], block):
                return Found(int(key), (), damaged=leaf.ids[position])
            lines = records(block).get(key)
            if lines and is_foreign(lines[-1], tree.channel):
                return Found(int(key), (), damaged=leaf.ids[position])
            return found(key, lines) if lines else None
        except Changed:
            tree.forget(leaf.name)
        except Shut as shut:
            raise Torn(shut, spot[0].low, spot[0].high) from shut
    raise busy(tree.prefix)


def between(tree: Tree, first: str, end: str) -> Iterator[Found]:
    """Messages with first <= id < end, oldest first, a leaf at a time. Deleted ones are among them.

    Where a part of the table is lost, that is told in its place, and the rest goes on.
    """
    key: str | None = first
    while key is not None and key < end:
        try:
            spot = tree.find(key)
            if spot is None:
                return
            place, leaf = spot
            here = _of_leaf(tree, place, leaf, key, end=end) if not leaf.end or key < leaf.end else []
        except Torn as torn:
            yield _lost(torn, key, end)
            key = torn.high or None
            continue
        if here is not None:
            yield from here
            key = _next(place, leaf, key)


def _lost(torn: Torn, first: str, end: str) -> Found:
    last = min(int(torn.high) if torn.high else HIGHEST + 1, int(end)) - 1
    return Found(int(max(torn.low, first)), (), damaged=torn.where, upto=last)


def _next(place: Place, leaf: Leaf, key: str) -> str | None:
    """A sealed leaf has a neighbour that an outdated index may not know; ask for it by the seal."""
    if leaf.end and key < leaf.end and (not place.high or leaf.end < place.high):
        return leaf.end
    return place.high or None


def _of_leaf(tree: Tree, place: Place, leaf: Leaf, first: str, end: str) -> list[Found] | None:
    """None if the leaf has changed under us."""
    start = max(0, leaf.before(first)) if leaf.packed > 1 else bisect_left(leaf.ids, first)
    stop = max(start, bisect_left(leaf.ids, end))
    try:
        if leaf.starts[start] == leaf.starts[stop] and not tree.current(leaf):
            return None
        blocks = tree.read(leaf, start, stop)
    except Changed:
        tree.forget(leaf.name)
        return None
    except Shut as shut:
        raise Torn(shut, place.low, leaf.end or place.high) from shut
    read = (
        one for named, block in zip(leaf.ids[start:stop], blocks, strict=False) for one in _of_block(tree, named, block)
    )
    return [_cut(one, first) for one in read if (first <= block_id(one.id) or one.damaged) and block_id(one.id) < end]


def _cut(one: Found, first: str) -> Found:
    """A damaged block that begins before what was asked for is told from there on."""
    return replace(one, id=max(one.id, int(first))) if one.damaged else one


def _of_block(tree: Tree, named: str, block: bytes) -> Iterator[Found]:
    """Its messages; of a damaged block only that there was something, under the id it begins with. What says that it is
    of another channel is damage."""
    if is_damaged(named, block):
        yield Found(int(key_in(named)), (), damaged=named)
        return
    for key, versions in records(block).items():
        yield Found(int(key), (), damaged=named) if is_foreign(versions[-1], tree.channel) else found(key, versions)

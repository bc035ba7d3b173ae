"""Taking messages out of a table, and a table out of its store.

Deleting a message leaves its block, with every version, out of the list; on request a line that says when
stays in its place. A leaf that becomes empty keeps its fence. Removing a channel needs nothing from the
service it came from: everything of ours is under the channel's own prefix.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from itertools import islice

from custody.channels.blobs.port import Broken, Facts, NoBlob
from custody.channels.table import split
from custody.channels.table.commit import commit_leaf
from custody.channels.table.node import REMOVED, Removed
from custody.channels.table.plan import without
from custody.channels.table.tree import Tree
from custody.channels.table.upsert import settled


def delete(tree: Tree, keys: Collection[str], deleted_at: str = "") -> int:
    """Remove messages; answers how many of them were there. With a date, a tombstone keeps it."""
    waiting, removed = sorted(set(keys)), 0
    while waiting:
        done, gone = settled(_delete_some, tree, waiting, deleted_at)
        waiting, removed = waiting[done:], removed + gone
    return removed


def _delete_some(tree: Tree, waiting: list[str], deleted_at: str) -> tuple[int, int]:
    """Those of the first one's leaf: how many of the list are dealt with, and how many were there."""
    spot = tree.find(waiting[0])
    if spot is None:
        return len(waiting), 0
    place, leaf = spot
    if leaf.moved:  # somebody began to copy this leaf; finish that first
        split.divide(tree, place, leaf, leaf.ids, blocks={}, like=leaf)
        return 0, 0
    if place.high:
        leaf = tree.with_tier(leaf)
    limit = place.limit(leaf, waiting[0])
    group = [key for key in waiting if key < limit] if limit else waiting
    plan, gone = without(tree, leaf, group, deleted_at)
    if gone:
        commit_leaf(tree, leaf, replace(leaf, ids=plan.ids), plan.blocks, parent=place.parent)
    elif not tree.current(leaf):
        return 0, 0
    return len(group), gone


def remove_some(tree: Tree, most: int) -> bool:
    """Delete up to so many blobs of this channel, the root last; answers whether any are left.

    A root that says so comes first: nobody reads a half-removed channel, or takes it for a damaged one.
    """
    tree.forget_all()
    names = [blob.name for blob in islice(tree.blobs.list(tree.prefix), most + 2) if blob.name != tree.root]
    if names:
        _say_removed(tree)
    for name in names[:most]:
        with suppress(NoBlob):
            tree.blobs.delete(name)
    if len(names) > most:
        return True
    with suppress(NoBlob):
        tree.blobs.delete(tree.root)
    return False


def _say_removed(tree: Tree) -> None:
    try:
        tree.index(tree.root)
    except Removed:
        return
    except (NoBlob, Broken):
        with suppress(NoBlob):
            tree.blobs.delete(tree.root)
    tree.blobs.commit(tree.root, [], Facts({"kind": REMOVED}))
    tree.forget_all()

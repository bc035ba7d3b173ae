"""Removing what crashes left behind: blobs of a table that no index names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime

from custody.channels.blobs import Changed, NoBlob
from custody.channels.table.tree import Tree
from custody.channels.table.upsert import settled


def sweep(tree: Tree, before: datetime) -> list[str]:
    """Delete orphans last written before a moment; answers their names.

    The moment keeps the fresh children of a writer that is at work just now, which no index names yet. The
    listing comes before the walk: what is listed and then not met on the way is met by nobody. A table whose
    indexes cannot all be read is left alone: what looks like an orphan may be all that is left of it.
    """
    return settled(_sweep, tree, before)


def _sweep(tree: Tree, before: datetime) -> list[str]:
    orphans = [blob for blob in tree.blobs.list(tree.prefix) if blob.modified < before]
    named = set(names(tree))
    swept = [blob for blob in orphans if named and blob.name not in named]
    for blob in swept:
        with suppress(NoBlob, Changed):
            tree.blobs.delete(blob.name, if_match=blob.etag)
    return [blob.name for blob in swept]


def names(tree: Tree) -> Iterator[str]:
    """Every blob of the table, from the root down, as the indexes are at this moment."""
    tree.forget()
    try:
        tree.index(tree.root)
    except NoBlob:
        return
    waiting = [tree.root]
    while waiting:
        name = waiting.pop()
        yield name
        if not name.startswith(tree.prefix + "leaf/"):
            waiting += [tree.prefix + entry.blob for entry in tree.index(name).entries]

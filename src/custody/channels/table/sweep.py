"""Removing what crashes left behind: blobs of a table that no index names."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from custody.channels.blobs.port import Broken, Changed, NoBlob
from custody.channels.table.orphans import is_spare, listed, names
from custody.channels.table.tree import Torn, Tree
from custody.channels.table.upsert import settled

KINDS = ("leaf", "index")


def sweep(tree: Tree, before: datetime) -> list[str]:
    """Delete orphans last written before a moment; answers their names.

    The moment keeps the fresh children of a writer that is at work just now, which no index names yet. The
    listing comes before the walk: what is listed and then not met on the way is met by nobody. A table that is not
    whole is left alone: what looks like an orphan may be all that is left of it. And no leaf is deleted of which not
    everything is in the table: it is taken in first (see `orphans`).
    """
    return settled(_sweep, tree, before)


def _sweep(tree: Tree, before: datetime) -> list[str]:
    there = listed(tree)
    try:
        named = set(names(tree))
    except (NoBlob, Broken):
        return []
    doubtful = named.difference(blob.name for blob in there if blob.facts.metadata.get("kind") in KINDS)
    if not named or not all(_there(tree, name) for name in doubtful):
        return []
    swept = list[str]()
    for blob in (blob for blob in there if blob.modified < before and blob.name not in named):
        with suppress(NoBlob, Changed, Broken, Torn):
            if not is_spare(tree, blob):
                continue
            tree.blobs.delete(blob.name, if_match=blob.etag)
            swept.append(blob.name)
    return swept


def _there(tree: Tree, name: str) -> bool:
    try:
        tree.load(name) if name.startswith(tree.prefix + "leaf/") else tree.index(name)
    except (NoBlob, Broken):
        return False
    return True

"""Leaves that no index names: what they hold and the table has not is taken in, before anybody may delete them.

A split that was killed leaves copies of what the table has; a lost or an older index leaves those that are all there
is of their messages; and mending that was killed leaves some of both. Nobody can tell them apart by their names, so
each is compared with the table: it is spare when everything in it is there, every version too, or was erased since.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from custody.channels.blobs.port import Broken, Changed, NoBlob, Properties, Shut
from custody.channels.snowflake import block_id
from custody.channels.table.node import (
    Found,
    Leaf,
    Lines,
    Message,
    Records,
    is_damaged,
    is_foreign,
    is_tombstone,
    records,
)
from custody.channels.table.search import between
from custody.channels.table.tree import ATTEMPTS, DAMAGED, Torn, Tree, busy
from custody.channels.table.upsert import upsert


@dataclass(frozen=True, slots=True)
class Held:
    """What is in a leaf that nothing names."""

    lacking: Records  # and not in the table; of a message only the versions that it has not
    unread: bool = False  # something in it cannot be read, or is another's: it is set aside and not deleted


def held(tree: Tree, name: str) -> Held:
    """Compare a leaf with the table; raises Shut if it is only not given, and Torn where the table cannot be read."""
    for _ in range(ATTEMPTS):
        try:
            leaf, whole = _loaded(tree, name)
            blocks = tree.read(leaf, 0, len(leaf.ids))
        except Changed:
            tree.forget(name)
            continue
        except NoBlob:
            return Held({})
        except Shut:
            raise
        except Broken:
            return Held({}, unread=True)
        content: Records = {}
        for one, block in zip(leaf.ids, blocks, strict=True):
            if is_damaged(one, block) or any(is_foreign(line, tree.channel) for line in block.split(b"\n")):
                whole = False
            else:
                content |= records(block)
        return Held(_lacking(tree, content), unread=not whole)
    raise busy(name)


def _loaded(tree: Tree, name: str) -> tuple[Leaf, bool]:
    try:
        return tree.load(name), True
    except Shut:
        raise
    except Broken:
        return tree.load(name, whole=False), False


def _lacking(tree: Tree, content: Records) -> Records:
    if not content:
        return {}
    there = {block_id(one.id): one for one in between(tree, min(content), block_id(int(max(content)) + 1))}
    new = {key: _unknown(tree, lines, there.get(key)) for key, lines in content.items()}
    return {key: lines for key, lines in new.items() if lines}


def _unknown(tree: Tree, lines: tuple[bytes, ...], known: Found | None) -> tuple[bytes, ...]:
    """The versions that the table has not. Of rows, which are states and not versions, the table has the newest."""
    if known is None or known.damaged:
        return lines
    if known.deleted_at or not tree.channel:
        return ()
    have = _together(tree, known.versions, known.versions[-1])
    return tuple(line for line in lines if not is_tombstone(line) and _together(tree, known.versions, line) != have)


def _together(tree: Tree, lines: Lines, line: bytes) -> set[bytes]:
    return set(tree.settings.merge(lines, line))


def take_in(tree: Tree, unnamed: Iterable[Properties]) -> dict[str, list[int]]:
    """Write into the table what leaves that nothing names hold and it has not; answers the messages by their names.

    The newest first: an older copy of a leaf may still have what was erased since, and a message that the table knows
    to be erased stays so. What cannot be read in them is set aside with them. Cut short, it is simply done again.
    """
    taken = dict[str, list[int]]()
    for blob in sorted(unnamed, key=lambda blob: blob.modified, reverse=True):
        found = take(tree, blob.name) if is_leaf(tree, blob) else None
        if found is not None:
            taken[blob.name] = found
    return taken


def take(tree: Tree, name: str) -> list[int] | None:
    """The same with one of them; None if there was nothing to be saved."""
    try:
        found = held(tree, name)
        lines = [(key, line) for key, each in found.lacking.items() for line in each]
        upsert(tree, [Message(key, line, anew=True, revive=False) for key, line in lines])
    except (Shut, Torn):
        return None
    if found.unread:
        tree.shelve(name)
    return list(map(int, found.lacking)) if found.unread or found.lacking else None


def is_spare(tree: Tree, blob: Properties) -> bool:
    """May it be deleted: is nothing in it that the table has not?"""
    if not is_leaf(tree, blob):
        return True
    try:
        return held(tree, blob.name) == Held({})
    except Broken:
        return False


def is_leaf(tree: Tree, blob: Properties) -> bool:
    """Is it one that may hold something?"""
    something = blob.size or blob.facts.metadata.get("kind") == "broken"
    return blob.name.startswith(tree.prefix + "leaf/") and bool(something)


def unnamed(tree: Tree, before: datetime | None = None) -> list[Properties]:
    """What no index names, if the table can be walked; the listing comes before the walk (see `sweep`)."""
    there = listed(tree)
    try:
        found = set(names(tree))
    except (NoBlob, Broken):
        return []
    return [one for one in there if found and one.name not in found and (before is None or one.modified < before)]


def listed(tree: Tree) -> list[Properties]:
    """The table's blobs, without what was set aside as damaged: nothing names that, and it is no litter."""
    return [blob for blob in tree.blobs.list(tree.prefix) if not blob.name.startswith(tree.prefix + DAMAGED)]


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

"""What a leaf is to become when messages are added or taken out: its new list, and the blocks to stage.

Only blocks that hold one of the messages, or may hold it, are read; a page that comes after everything in the
leaf needs no reading at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from custody.channels.table.node import (
    Leaf,
    Message,
    Records,
    is_damaged,
    is_newer_tombstone,
    is_tombstone,
    key_in,
    named,
    pack,
    records,
    tombstone,
)
from custody.channels.table.tree import Tree


@dataclass(frozen=True, slots=True)
class Plan:
    ids: tuple[str, ...]
    blocks: dict[str, bytes]  # those to stage
    packed: int
    top: str
    appends: bool = False
    damaged: dict[str, bytes] = field(default_factory=dict)  # blocks that are to be kept aside


def merged(tree: Tree, leaf: Leaf, messages: Sequence[Message]) -> Plan:
    """The leaf with these messages, which are in order."""
    most = tree.settings.packing
    packed = max(leaf.packed, min(most, len(messages)))
    if not messages or messages[0].key > leaf.top:
        blocks = dict(pack(_added(tree, {}, messages), most))
        top = messages[-1].key if messages else leaf.top
        return Plan((*leaf.ids, *blocks), blocks, packed, top, appends=True)
    runs: dict[int, list[Message]] = {}
    for message in messages:
        at = leaf.before(message.key)
        if at < 0 or message.anew or leaf.ids[at] != named(message.key, message.line + b"\n"):
            runs.setdefault(at, []).append(message)
    opened = _opened(tree, leaf, [at for at, run in runs.items() if _may_hold(leaf, at, run[0].key)])
    damaged = {leaf.ids[at]: data for at, data in opened.items() if is_damaged(leaf.ids[at], data)}
    sound = {at: records(data) for at, data in opened.items() if leaf.ids[at] not in damaged}
    made = {at: dict(pack(_added(tree, sound.get(at, {}), run), most)) for at, run in runs.items()}
    plan = _assembled(leaf, opened, made, packed, top=max(leaf.top, messages[-1].key))
    if not damaged:
        return plan
    again = {
        one: data for run in made.values() for one, data in run.items() if one in damaged
    }  # whole, as it was named
    return replace(plan, blocks=plan.blocks | again, damaged=damaged)


def without(tree: Tree, leaf: Leaf, keys: Iterable[str], deleted_at: str) -> tuple[Plan, int]:
    """The leaf without these messages, and how many of them it had. With a date, a tombstone stays."""
    runs: dict[int, list[str]] = {}
    for key in keys:
        at = leaf.before(key)
        if _may_hold(leaf, at, key):
            runs.setdefault(at, []).append(key)
    if leaf.packed == 1 and not deleted_at:
        return _assembled(leaf, dict.fromkeys(runs, b""), {}, 1, top=leaf.top), len(runs)
    opened = _opened(tree, leaf, list(runs))
    made: dict[int, dict[str, bytes]] = {}
    gone = 0
    for at, run in runs.items():
        lost = is_damaged(leaf.ids[at], opened[at])
        if lost and leaf.packed > 1:  # nobody knows what is in it
            made[at] = {leaf.ids[at]: opened[at]}
            continue
        kept: Records = {key_in(leaf.ids[at]): (opened[at],)} if lost else records(opened[at])
        for key in run:
            if key in kept and not (deleted_at and is_tombstone(kept[key][-1])):
                gone += 1
                del kept[key]
                kept |= {key: (tombstone(key, deleted_at),)} if deleted_at else {}
        made[at] = dict(pack(kept, max(leaf.packed, 1)))
    return _assembled(leaf, opened, made, leaf.packed, top=leaf.top), gone


def _may_hold(leaf: Leaf, at: int, key: str) -> bool:
    """Where a block is one message, only the block of that very id."""
    return at >= 0 and (leaf.packed > 1 or key_in(leaf.ids[at]) == key)


def _opened(tree: Tree, leaf: Leaf, positions: list[int]) -> dict[int, bytes]:
    """The blocks at these positions, in one read."""
    if not positions:
        return {}
    start, stop = min(positions), max(positions) + 1
    blocks = tree.read(leaf, start, stop)
    return {at: blocks[at - start] for at in positions}


def _assembled(leaf: Leaf, opened: dict[int, bytes], made: dict[int, dict[str, bytes]], packed: int, top: str) -> Plan:
    """The list with opened blocks left out and made ones in their places, after the block they follow."""
    ids: list[str] = list(made.get(-1, ()))
    for at, one in enumerate(leaf.ids):
        ids += [] if at in opened else [one]
        ids += made.get(at, ())
    same = {leaf.ids[at] for at in opened}
    blocks = {one: data for run in made.values() for one, data in run.items() if one not in same}
    return Plan(tuple(ids), blocks, packed, top)


def _added(tree: Tree, known: Records, messages: Iterable[Message]) -> Records:
    """Records with messages among them; what comes after a tombstone starts anew.

    Whoever asked first may write last, so the order of arrival says nothing: `merge` puts versions in the order in
    which they were made, and what was asked for before a message was found deleted does not bring it back.
    """
    for message in messages:
        lines = known.get(message.key, ())
        buried = bool(lines) and is_tombstone(lines[-1])
        if buried and (not message.revive or is_newer_tombstone(lines[-1], message.asked_at)):
            continue
        if not lines or buried:
            known[message.key] = (message.line,)
        elif not message.veiled:
            known[message.key] = tree.settings.merge(lines, message.line)
    return known

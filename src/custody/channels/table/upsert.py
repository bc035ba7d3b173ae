"""Writing a page of messages: one conditional commit per leaf it touches, normally one.

A message that is already there with the same content is left alone, so a page may be written again after any
crash or lost answer, and writing it again is how an unknown outcome is resolved. The mark (how far a crawl
has come, a text this package does not read) is kept with the last leaf and committed together with the page
or after it, never before: it can be behind the messages, not ahead of them. Whoever is late with an old one does
not take back what others have said since: marks are joined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Concatenate, ParamSpec, TypeVar

from custody.channels.blobs.port import BlocksMissing, Changed, NoBlob
from custody.channels.snowflake import HIGHEST, block_id
from custody.channels.table import split
from custody.channels.table.commit import commit_leaf
from custody.channels.table.node import Leaf, Message, key_in
from custody.channels.table.plan import merged
from custody.channels.table.tree import ATTEMPTS, Place, Tree, busy
from custody.errors import Unavailable

LOST = (Changed, BlocksMissing, NoBlob)  # somebody else was here: look again
P = ParamSpec("P")
T = TypeVar("T")


def upsert(tree: Tree, messages: Sequence[Message], mark: str = "") -> None:
    """Write messages in any order. Two lines under one id are two versions, the later one newer."""
    waiting = sorted(messages, key=lambda message: message.key)
    marked = not mark
    while waiting:
        written, marks = settled(_write_some, tree, waiting, mark)
        waiting, marked = waiting[written:], marked or marks
    if not marked:
        settled(_write_mark, tree, mark)


def read_mark(tree: Tree) -> str:
    while spot := tree.find(block_id(HIGHEST)):
        if tree.current(spot[1]):
            return spot[1].mark
    return ""


def settled(move: Callable[Concatenate[Tree, P], T], tree: Tree, *args: P.args, **kwargs: P.kwargs) -> T:
    """Do it, and again with fresh eyes when somebody was faster, or when the answer was lost."""
    unanswered = False
    for _ in range(ATTEMPTS):
        try:
            return move(tree, *args, **kwargs)
        except LOST as lost:
            tree.forget(lost.where)
        except Unavailable as unknown:
            if unanswered:
                raise
            unanswered = True
            tree.forget(unknown.where)
    raise busy(tree.prefix)


def _write_some(tree: Tree, waiting: list[Message], mark: str) -> tuple[int, bool]:
    """Write those that belong to the first one's leaf. Answers how many, and whether the mark went along."""
    first = waiting[0].key
    spot = tree.find(first)
    if spot is None:
        split.plant(tree)
        return 0, False
    place, leaf = spot
    beyond = bool(leaf.end) and first >= leaf.end
    limit = place.limit(leaf, first)
    group = [message for message in waiting if message.key < limit] if limit else waiting
    marks = bool(mark) and not place.high and len(group) == len(waiting)  # last, and into the last leaf
    mark = tree.settings.joined(leaf.mark, mark) if marks else leaf.mark
    if leaf.moved and beyond:
        return _write_leaf(tree, place, leaf, [], mark=leaf.mark)[0], False
    if beyond:
        plan = merged(tree, Leaf("", ""), group)
        like = Leaf("", "", mark=mark, packed=plan.packed, top=plan.top)
        split.extend(tree, place, leaf, plan.blocks, like=like)
        return len(group), marks
    written, whole = _write_leaf(tree, place, leaf, group, mark=mark)
    return written, marks and whole


def _write_leaf(tree: Tree, place: Place, leaf: Leaf, group: list[Message], mark: str) -> tuple[int, bool]:
    """Answers how many were written, and whether that is all, so that the mark was written too."""
    if place.high:
        leaf = tree.with_tier(leaf)
    plan = merged(tree, leaf, group)
    tree.set_aside(plan.damaged)
    new = replace(leaf, ids=plan.ids, mark=mark, packed=plan.packed, top=plan.top)
    room = max(tree.settings.capacity, len(leaf.ids))
    if leaf.moved or (len(plan.ids) > room and not plan.appends):
        split.divide(tree, place, leaf, plan.ids, blocks=plan.blocks, like=new)
    elif len(plan.ids) <= room:
        if new != leaf or plan.blocks:
            commit_leaf(tree, leaf, new, plan.blocks, parent=place.parent)
        elif not tree.current(leaf):  # nothing to do, as far as we remember
            raise Changed("the leaf has changed", where=leaf.name)
    else:
        # Full at the end: fill it up and seal it. It is never written again and may cool down; the rest of
        # the page finds the seal and opens the next leaf.
        stay, end = plan.ids[:room], key_in(plan.ids[room])
        blocks = {one: plan.blocks[one] for one in stay[len(leaf.ids) :]}
        full = replace(new, ids=stay, mark=leaf.mark, end=end, top=block_id(int(end) - 1))
        commit_leaf(tree, leaf, full, blocks, parent=place.parent)
        return sum(message.key < end for message in group), False
    return len(group), True


def _write_mark(tree: Tree, mark: str) -> None:
    spot = tree.find(block_id(HIGHEST))
    if spot is None:
        split.plant(tree)
        return _write_mark(tree, mark)
    place, leaf = spot
    mark = tree.settings.joined(leaf.mark, mark)
    if leaf.mark != mark or not tree.current(leaf):
        _write_leaf(tree, place, leaf, [], mark=mark)
    return None

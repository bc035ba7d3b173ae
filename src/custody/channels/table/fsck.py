"""Checking a whole table, and mending what can be mended.

`check` walks from the root and reads everything. `repair` mends and may be cut short and run again: it writes
messages to their right places before it takes them from wrong ones, and takes those in that only leaves have which
nothing names any more. It never deletes such a leaf; that is the sweep's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise

from custody.channels.blobs.port import Broken, Foreign, NoBlob, Older, Shut
from custody.channels.snowflake import HIGHEST, block_id
from custody.channels.table import orphans, split
from custody.channels.table.commit import commit_index, commit_leaf, is_vouched, rewrite_leaf
from custody.channels.table.delete import delete
from custody.channels.table.node import (
    FIRST,
    Entry,
    Index,
    Leaf,
    Message,
    Records,
    Removed,
    found,
    is_damaged,
    is_foreign,
    key_in,
    named,
    owner,
    records,
)
from custody.channels.table.orphans import listed
from custody.channels.table.tree import Place, Tree
from custody.channels.table.upsert import upsert
from custody.errors import BadInput, CustodyError

CODES = {
    "index.missing": "there are leaves but no index",
    "index.order": "fences do not rise, or do not begin where they should",
    "child.missing": "an index names a blob that is not there or cannot be read",
    "leaf.older": "an earlier copy is in the place of a leaf",
    "leaf.unknown": "an earlier version wrote these leaves: whether each is the newest is not known",
    "leaf.order": "blocks are not in order",
    "leaf.outside": "messages are in a leaf that is not for them",
    "split.unfinished": "a leaf is sealed for copying and still in use",
    "block.damaged": "a block's lines are not messages",
    "table.foreign": "a blob of another channel is in the place of one of this",
    "block.foreign": "messages of another channel are among those of this",
    "mark.damaged": "what was written with the last page makes no sense",
    "shut": "a blob that may be whole is not given here, or not understood",
    "orphan": "a blob that no index names",
}


@dataclass(frozen=True, slots=True)
class Finding:
    code: str
    where: str
    detail: str = ""


@dataclass(slots=True)
class Survey:
    """What a walk has seen."""

    findings: list[Finding] = field(default_factory=list)
    named: set[str] = field(default_factory=set)
    bad_indexes: dict[str, Place] = field(default_factory=dict)
    bad_leaves: dict[str, Place] = field(default_factory=dict)
    moved: dict[str, Place] = field(default_factory=dict)
    lost: list[tuple[str, str]] = field(default_factory=list)  # parts whose blobs are not there or make no sense
    shut: list[tuple[str, str]] = field(default_factory=list)  # and those that are only not given: they are left alone
    torn: dict[str, tuple[Place, bool]] = field(default_factory=dict)  # their blobs; is there something under the name?
    blocks: dict[str, list[str]] = field(default_factory=dict)  # by leaf, those that are not what their names say
    foreign: set[str] = field(default_factory=set)  # blobs that say that they are another's
    strangers: dict[str, list[str]] = field(default_factory=dict)  # by leaf, blocks with messages of another channel
    bad_mark: str = ""  # the leaf that has it
    messages: int = 0
    unknown: int = 0  # leaves of which nobody has counted how often they were written

    def add(self, code: str, where: str, detail: str = "") -> None:
        self.findings.append(Finding(code, where, detail))


def check(tree: Tree, content: bool = True) -> Survey:
    """Walk over all of a table; without its content only over what its blobs say of themselves."""
    tree.forget_all()
    survey = Survey()
    _walk(tree, Place((), tree.root, FIRST, ""), survey, content)
    if survey.unknown:
        survey.add("leaf.unknown", tree.prefix, f"{survey.unknown} of them; `fsck --repair` writes down what is there")
    loose = [blob for blob in listed(tree) if blob.name not in survey.named]
    unwritten = {name for name, (_, there) in survey.torn.items() if not there}  # begun, and never committed
    told = [blob for blob in loose if (blob.size or blob.facts.metadata.get("mark")) and blob.name not in unwritten]
    if not survey.named and (not told or not survey.torn):
        return Survey()  # a channel without a table, or one that was just to be made
    others = tree.root in survey.foreign  # all that is there came with its root
    for blob in loose:
        if others or blob.facts.metadata.get("of", owner(blob.name)) != owner(blob.name):
            survey.foreign.add(blob.name)
        if blob.name not in survey.torn:
            survey.add("table.foreign" if blob.name in survey.foreign else "orphan", blob.name)
    return survey


def _walk(tree: Tree, place: Place, survey: Survey, content: bool) -> bool:
    """Visit a blob and all below it; False if it is not there or makes no sense."""
    name = place.leaf
    try:
        if name.startswith(tree.prefix + "leaf/"):
            _visit_leaf(tree, place, tree.newest(place, tree.load(name)), survey, content=content)
        else:
            _visit_index(tree, place, tree.index(name), survey, content=content)
    except Shut as shut:
        survey.shut.append((place.low, place.high))
        survey.named.add(name)
        survey.add("shut", name, str(shut))
        return True
    except Removed:
        return True
    except (NoBlob, Broken) as error:
        survey.lost.append((place.low, place.high))
        survey.torn[name] = place, isinstance(error, Broken)
        survey.foreign |= {name} if isinstance(error, Foreign) else set()
        missing = "child.missing" if place.path else "index.missing"
        missing = "leaf.older" if isinstance(error, Older) else missing
        survey.add("table.foreign" if name in survey.foreign else missing, name, error.message)
        return False
    survey.named.add(name)
    return True


def _visit_index(tree: Tree, place: Place, index: Index, survey: Survey, content: bool) -> None:
    fences = index.fences
    good = fences[:1] == (place.low,) and all(low < high for low, high in pairwise(fences))
    if not good:
        survey.add("index.order", index.name)
    rising = sorted(range(len(fences)), key=lambda position: fences[position])
    limits = pairwise((*sorted(fences), place.high))
    for position, (low, high) in zip(rising, limits, strict=True):
        child = Place((*place.path, (index, position)), tree.prefix + index.entries[position].blob, low, high)
        good &= _walk(tree, child, survey, content)
    if not good:
        survey.bad_indexes[index.name] = place


def _visit_leaf(tree: Tree, place: Place, leaf: Leaf, survey: Survey, content: bool) -> None:
    survey.unknown += not is_vouched(place, leaf)
    if list(leaf.ids) != sorted(set(leaf.ids)):
        survey.add("leaf.order", leaf.name)
        survey.bad_leaves[leaf.name] = place
    if content:
        _visit_blocks(tree, leaf, survey)
    outside = [key for key in map(key_in, leaf.ids) if key < place.low or not place.holds(key)]
    if outside:
        survey.add("leaf.outside", leaf.name, f"{len(outside)} from {outside[0]}")
        survey.bad_leaves[leaf.name] = place
    if leaf.moved:
        survey.add("split.unfinished", leaf.name)
        survey.moved[leaf.name] = place
    if leaf.mark and not _makes_sense(tree, leaf.mark):
        survey.add("mark.damaged", leaf.name)
        survey.bad_mark = leaf.name


def _visit_blocks(tree: Tree, leaf: Leaf, survey: Survey) -> None:
    blocks = tree.read(leaf, 0, len(leaf.ids))
    for (one, after), block in zip(pairwise((*leaf.ids, "")), blocks, strict=True):
        known = _readable(block)
        if not known or named(min(known), block) != one or (after > one and max(known) >= after):
            survey.add("block.damaged", leaf.name, one)
            survey.blocks.setdefault(leaf.name, []).append(one)
        elif any(is_foreign(lines[-1], tree.channel) for lines in known.values()):
            survey.add("block.foreign", leaf.name, one)
            survey.strangers.setdefault(leaf.name, []).append(one)
        survey.messages += len(known)


def _makes_sense(tree: Tree, mark: str) -> bool:
    try:
        tree.settings.joined(mark, mark)
    except (CustodyError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return False
    return True


def _readable(block: bytes) -> Records:
    try:
        return records(block) if block.endswith(b"\n") else {}
    except (ValueError, LookupError, TypeError, BadInput):
        return {}


def _sound(tree: Tree, leaf: Leaf) -> Records:
    """The messages of the blocks that are still what their names say."""
    blocks = zip(leaf.ids, tree.read(leaf, 0, len(leaf.ids)), strict=True)
    return {key: lines for one, block in blocks if not is_damaged(one, block) for key, lines in records(block).items()}


# --- Mending ---


def repair(tree: Tree) -> list[Finding]:
    """Mend what can be mended; answers what is still wrong afterwards."""
    survey = check(tree)
    for name in survey.foreign:
        tree.shelve(name)
    if tree.root in survey.torn:
        tree.shelve(tree.root)
        tree.forget_all()
        split.plant(tree)
    for name, place in survey.bad_indexes.items():
        _mend_index(tree, name, place, set(survey.torn))
    tree.forget_all()
    for name, place in survey.bad_leaves.items():
        _mend_leaf(tree, name, place)
    orphans.take_in(tree, (one for one in orphans.unnamed(tree) if one.name not in survey.torn))
    for name, (_, there) in survey.torn.items():
        if there and name != tree.root:
            if name.startswith(tree.prefix + "leaf/"):
                orphans.take(tree, name)  # blocks that are still what their names say
            tree.shelve(name)
    for name, place in survey.moved.items():
        _finish(tree, name, place.low)
    if survey.bad_mark:
        _without_mark(tree, survey.bad_mark)
    return check(tree).findings


def drop_damaged(tree: Tree) -> list[tuple[str, str]]:
    """Take blocks out that are not what their names say, and set them aside; answers from where to where each was.

    For tables whose rows can be made again: of messages they stay in their places until somebody shows them.
    """
    return _taken_out(tree, check(tree).blocks)


def drop_foreign(tree: Tree) -> list[tuple[str, str]]:
    """The same with messages of another channel: whatever they are, here they are nobody's."""
    return _taken_out(tree, check(tree).strangers)


def set_all_aside(tree: Tree) -> None:
    """Of a table that is another's: none of it is deleted, and nothing of it is here any more."""
    for blob in listed(tree):
        tree.shelve(blob.name)
    tree.forget_all()


def _taken_out(tree: Tree, found_in: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    spans = list[tuple[str, str]]()
    for name, blocks in found_in.items():
        leaf = tree.load(name)
        content = dict(zip(leaf.ids, tree.read(leaf, 0, len(leaf.ids)), strict=True))
        tree.set_aside({one: content[one] for one in blocks})
        after = dict(pairwise((*leaf.ids, leaf.end)))
        spans += [
            (key_in(one), key_in(after[one]) or block_id(max(int(leaf.top), int(key_in(one))) + 1)) for one in blocks
        ]
        place = tree.locate(key_in(blocks[0]))
        kept = tuple(one for one in leaf.ids if one not in blocks)
        if place:
            rewrite_leaf(tree, place, leaf, replace(leaf, ids=kept), blocks={})
    return spans


def _mend_index(tree: Tree, name: str, place: Place, torn: set[str]) -> None:
    """Its children in order, and where one is lost an empty leaf, so that nothing else is taken for what was there."""
    tree.forget_all()
    index = tree.index(name)
    kept = {entry.fence: entry for entry in index.entries if tree.prefix + entry.blob not in torn}
    for fence in sorted({place.low, *index.fences} - kept.keys()):
        leaf = commit_leaf(tree, None, Leaf(tree.fresh_name("leaf", fence), ""), {}, parent=name)
        kept[fence] = Entry(fence, tree.short(leaf.name), leaf.turn)
    parent = place.path[-1][0].name if place.path else ""
    anew = replace(index, entries=())  # trust none of its blocks
    commit_index(tree, anew, name, [kept[fence] for fence in sorted(kept)], parent=parent, moved=index.moved)


def _without_mark(tree: Tree, name: str) -> None:
    """What a mark said is not known any more: less is claimed, and asked for again."""
    with suppress(NoBlob, Broken):  # it was lost besides
        leaf = tree.load(name)
        place = tree.locate(key_in(leaf.ids[0]) if leaf.ids else block_id(HIGHEST))
        commit_leaf(tree, leaf, replace(leaf, mark=""), {}, parent=place.parent if place else tree.root)


def _mend_leaf(tree: Tree, name: str, place: Place) -> None:
    leaf = tree.load(name)
    content = _sound(tree, leaf)
    strays = {key: lines for key, lines in content.items() if key < place.low or not place.holds(key)}
    _write(tree, strays)
    leaf = tree.load(name)
    kept = {one for one in leaf.ids if key_in(one) not in strays}
    rewrite_leaf(tree, place, leaf, replace(leaf, ids=tuple(sorted(kept))), blocks={})


def _write(tree: Tree, content: Records) -> None:
    upsert(tree, list(_versions(content)))
    for key, lines in content.items():
        if buried := found(key, lines).deleted_at:
            delete(tree, [key], buried)


def _versions(content: Records) -> Iterator[Message]:
    for key in sorted(content):
        for line in content[key]:
            yield Message(key, line)


def _finish(tree: Tree, name: str, low: str) -> None:
    spot = tree.find(low)
    if spot and spot[1].name == name and spot[1].moved:
        split.divide(tree, *spot, spot[1].ids, {}, spot[1])

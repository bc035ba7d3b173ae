"""The two commits that change a table, of a leaf and of an index, each only if nobody was faster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate, pairwise

from custody.channels.blobs.port import Changed, NoBlob
from custody.channels.table.node import Entry, Index, Leaf, owner
from custody.channels.table.tree import Tree


def commit_leaf(tree: Tree, old: Leaf | None, new: Leaf, blocks: Mapping[str, bytes], parent: str) -> Leaf:
    """Make a leaf what `new` says, staging these blocks. It must still be `old`; None says that it is new."""
    if blocks:
        tree.blobs.stage(new.name, blocks.items())
    new = replace(new, of=owner(new.name))
    facts = new.facts(tree.short(parent))
    condition = old.etag if old else ""
    etag = tree.blobs.commit(new.name, new.ids, facts, if_match=condition, if_absent=old is None)
    return tree.keep(replace(new, etag=etag, starts=_starts(old, new.ids, blocks)))


def _starts(old: Leaf | None, ids: tuple[str, ...], blocks: Mapping[str, bytes]) -> tuple[int, ...]:
    had = old.ids if old else ()
    if old and ids[: len(had)] == had and len(ids) == len(had) + len(blocks):  # only added at the end
        added = accumulate((len(blocks[one]) for one in ids[len(had) :]), initial=old.starts[-1])
        return (*old.starts[:-1], *added)
    sizes = {one: stop - start for one, (start, stop) in zip(had, pairwise(old.starts if old else ()), strict=True)}
    sizes |= {one: len(data) for one, data in blocks.items()}
    return tuple(accumulate((sizes[one] for one in ids), initial=0))


def commit_index(
    tree: Tree, old: Index | None, name: str, entries: Iterable[Entry], parent: str, moved: bool = False
) -> Index:
    new = Index.of(name, "", entries, moved)
    had = set(old.entries) if old else set()
    blocks = [entry.block() for entry in new.entries]
    tree.blobs.stage(name, [block for entry, block in zip(new.entries, blocks, strict=True) if entry not in had])
    condition = old.etag if old else ""
    etag = tree.blobs.commit(
        name,
        [one for one, _ in blocks],
        new.facts(tree.short(parent)),
        if_match=condition,
        if_absent=old is None,
    )
    tree.indexes[name] = replace(new, etag=etag)
    return tree.indexes[name]


def is_signed(tree: Tree) -> bool:
    try:
        return tree.index(tree.root).signed
    except NoBlob:
        return True


def sign(tree: Tree) -> None:
    """Write the root anew as it is, with whose it is; whoever is faster writes that as well."""
    if not is_signed(tree):
        index = tree.index(tree.root)
        with suppress(Changed):
            commit_index(tree, index, index.name, index.entries, parent="", moved=index.moved)

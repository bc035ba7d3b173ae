"""What the doctor looks at in archives: whose are they, what do they wait for, what was left lying?"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress

from custody.errors import CustodyError
from custody.formats.shell import command
from custody.kernel.model.names.names import clashes
from custody.kernel.operations.findings import Finding, left_lying, look_alikes, waiting
from custody.kernel.stores import Store
from custody.kernel.stores.registers.collections import agreeing, is_agreed, others_in
from custody.workflows.archives.hook_places import UNHEARD
from custody.workflows.archives.ownership import commit_gates
from custody.workflows.archives.table import Archives
from custody.workflows.findings import faulty, stands_still
from custody.workflows.tasks import leftover_folders, network
from custody.workflows.tasks.runner import Runner

FOREIGN = "archive.foreign"


def findings(store: Store, shop: Runner | None, collections: Collection[str]) -> Iterator[Finding]:
    archives = Archives(store)
    yield from look_alikes("archives", {each.name for each in archives.list()})
    yield from _repositories(store)
    for kept in archives.list():
        if gone := archives.gone(kept.name):
            yield Finding("warning", f"archive {kept.name}: {gone}", command("archive graph", kept.name))
    yield from waiting((f"archive {kept.name}", text) for kept, text in network.waiting(store))
    yield from shared_findings(store, collections)
    if shop is not None:
        with suppress(OSError):  # not ours to look into
            yield from left_lying(leftover_folders.left(shop))


def _repositories(store: Store) -> Iterator[Finding]:
    """Archives whose repositories are somebody else's, and to which nobody has agreed; and those that stand still."""
    archives = Archives(store)
    for kept in archives.list():
        waits = None
        with suppress(CustodyError):  # it cannot be reached: that is told below
            waits = archives.waits_for_a_grant(kept)
        if waits and not kept.frozen:  # else it is told with what comes after it
            do = command("archive grant", kept.name, "repository", waits.value, why="I know its owner")
            what = f"archive {kept.name} takes nothing in: its repository is not ours: {waits.foreign}"
            yield Finding("warning", what, do)
        if (kept.frozen or not waits) and (found := stands_still(store, kept)):
            how = "is taken in but for a part" if found.goes_on else "stands still"
            yield Finding("warning", f"archive {kept.name} {how}: {found.what}", found.do)
        if unasked := archives.unasked(kept):
            what = f"archive {kept.name}: commits of its tasks are refused: {unasked}"
            yield Finding("warning", what, commit_gates.hint(unasked))
        elif unseen := archives.unseen(kept):
            what, _, do = unseen.partition("; ")
            yield Finding("warning", f"archive {kept.name}: {what}", do)
        if unheard := archives.unheard(kept):
            what = f"archive {kept.name}: its hook is not run, so commits are found by looking only: {unheard}"
            yield Finding("warning", what, UNHEARD)
        if bad := faulty(store, kept):
            yield Finding("warning", f"archive {kept.name}: {bad.what}", bad.do)
    for group in store.queue.failures():
        if group.code == FOREIGN:
            what = (
                f"{group.count} of {group.kind} failed since the repository is not ours: once that is granted, resume"
            )
            yield Finding("warning", what, f"custody job resume --cause {FOREIGN}")


def shared_findings(store: Store, profiles: Collection[str]) -> Iterator[Finding]:
    """Archives whose name is a collection of others too, or looks like one: rights count in both."""
    archives = {kept.name for kept in Archives(store).list()}
    for those in clashes({*archives, *profiles}):
        if archives.issuperset(those):
            continue  # told with other names
        what = f"these collections of archives and deposits look alike: {', '.join(those)}"
        yield Finding("warning", what, "give one of them another name: what is granted for one is read as the other's")
    for kept in Archives(store).list():
        if others := others_in(store, kept.name, profiles):
            what = f"archive {kept.name} shares its collection ({others}): who has rights in one has them in the other"
            if is_agreed(store, kept.name):
                yield Finding("fine", f"{what}; an operator has agreed")
            else:
                yield Finding("warning", what, f"if that is meant: {agreeing(kept.name)}")

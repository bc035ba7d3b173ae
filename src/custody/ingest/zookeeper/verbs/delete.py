"""Deleting: a mark first, then everything that belongs to it: what a crash leaves over, the next look finishes.

A deleted job stays, marked, until its batch goes: the report lists it. The history of all of them stays for good.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

from custody.errors import Refused, StateConflict, Unavailable
from custody.ingest.zookeeper import tree
from custody.ingest.zookeeper.client.multi import Check, Create, Delete, Op, Set, moved, nobody_has
from custody.ingest.zookeeper.client.session import Session
from custody.ingest.zookeeper.follower import follow
from custody.ingest.zookeeper.journal import Entry, Happened
from custody.ingest.zookeeper.rows import Seen, Tree, read, read_one

PAGE = 100
DELETED = {"state": "deleted", "ended": "deleted"}
CLEANING = "cleaning"


def delete(at: Tree, name: str, agent: str, why: str, state: str = "") -> bool:
    """A job is marked, if it is still in this state; a batch goes with everything in it. False when there is nothing to
    do."""
    seen = read_one(at.session, name)
    if seen is None or seen.status.state == "deleted":
        return bool(seen and seen.is_batch and remove_batch(at, name))
    if state and seen.status.state != state:
        raise StateConflict(f"{name} is {seen.status.state} by now, not {state}", hint="look again")
    if seen.is_batch:
        _mark(at, seen, agent, why, ops=[])
        return remove_batch(at, name)
    before = tree.places(name, seen.batch, seen.status.state, seen.priority)
    after = tree.places(name, seen.batch, "deleted", seen.priority)
    at.session.ensure(f"{tree.home(seen.batch)}/states/batch-deleted")
    _mark(at, seen, agent, why, ops=moved(before, after))
    return True


def _mark(at: Tree, seen: Seen, agent: str, why: str, ops: Sequence[Op]) -> None:
    now, move, home, us = at.now(), at.db.new_move(), tree.home(seen.name), tree.ours(seen.name)
    status = replace(seen.status, state="deleted", modified=now, message=why)
    record = replace(seen.record, holder=None, move=move, status=seen.version + 1).write()
    verdict = at.session.commit(
        [
            *nobody_has(home),
            Set(f"{home}/status", tree.write_status(status, seen.is_batch), seen.version),
            Create(us, record) if seen.token is None else Set(us, record, seen.token),
            *ops,
            Entry(move, [_happened(seen, agent, why)]).op(),
        ]
    )
    if verdict.answer == "refused":
        found = read_one(at.session, seen.name)
        if found is not None and found.lock:
            raise Refused(f"{seen.name} is being worked on", code="leased", hint="wait until it has ended")
        raise StateConflict(f"{seen.name} was moved at the same moment", hint="look again")


def _happened(seen: Seen, agent: str, why: str) -> Happened:
    told = {**DELETED, "from": seen.status.state, "why": why}
    return Happened(
        job=seen.id,
        type="deleted",
        outcome="none",
        agent=agent,
        detail=told,
        token=(seen.token or 0) + 1,
        status=seen.version + 1,
    )


def remove_batch(at: Tree, name: str) -> bool:
    """Every node of a marked batch and of its jobs: the jobs first, each in one `multi`, and the batch last."""
    lists = [f"{tree.home(name)}/states/{which}" for which in tree.BATCH_LISTS]
    jobs = sorted({job for found in at.session.names_many(lists) for job in found})
    for start in range(0, len(jobs), PAGE):
        _remove_jobs(at, jobs[start : start + PAGE])
    submission = at.session.get(f"{tree.home(name)}/submission")
    uuid = str(tree.load(submission.data).get("batchID", "")) if submission else ""
    extra = [f"{tree.UUIDS}/{uuid}"] if uuid and at.session.get(f"{tree.UUIDS}/{uuid}") else []
    at.known.clear()
    ops = [*(Delete(path) for path in extra), *removal(at.session, [tree.home(name), tree.ours(name)])]
    return bool(ops) and at.session.commit(ops).done


def _remove_jobs(at: Tree, names: Sequence[str]) -> None:
    """So many at a time: whatever has to be asked is asked for all of them at once."""
    found = read(at.session, names)
    nodes = below(at.session, [path for name in names for path in (tree.home(name), tree.ours(name))])
    places = [path for seen in found if seen for path in _places(seen)]
    there = {path for path, node in zip(places, at.session.get_many(places), strict=True) if node}
    moves = []
    for name, seen in zip(names, found, strict=True):
        ops = _deepest_first([*nodes[tree.home(name)], *nodes[tree.ours(name)]])
        if seen is not None:
            check = Check(f"{tree.home(name)}/status", seen.version)
            ops = [check, *(Delete(path) for path in _places(seen) if path in there), *ops]
            if seen.status.state != "deleted":
                ops.append(Entry(at.db.new_move(), [_happened(seen, CLEANING, "its batch is gone")]).op())
        if ops:
            moves.append(ops)
    at.session.commit_many(moves)
    with contextlib.suppress(Unavailable):  # then the history is written later
        follow(at)


def _places(seen: Seen) -> list[str]:
    return sorted(tree.places(seen.name, seen.batch, seen.status.state, seen.priority))


def removal(session: Session, roots: Sequence[str]) -> list[Op]:
    """Everything below these nodes and they themselves, deepest first."""
    found = below(session, roots)
    return _deepest_first([path for root in roots for path in found[root]])


def _deepest_first(paths: Sequence[str]) -> list[Op]:
    return [Delete(path) for path in sorted(paths, key=lambda path: (-path.count("/"), path))]


def below(session: Session, roots: Sequence[str]) -> dict[str, list[str]]:
    """Every node at and below each of these; level by level, all of them at once."""
    there = session.get_many(roots)
    found = {root: [root] if node else [] for root, node in zip(roots, there, strict=True)}
    level = [(root, root) for root, node in zip(roots, there, strict=True) if node and node.children]
    while level:
        names = session.names_many([path for _, path in level])
        children = [(root, f"{path}/{name}") for (root, path), each in zip(level, names, strict=True) for name in each]
        for root, path in children:
            found[root].append(path)
        looks = session.get_many([path for _, path in children])
        level = [child for child, node in zip(children, looks, strict=True) if node and node.children]
    return found


def make_room(at: Tree) -> int:
    """In a full tree the oldest completed batch goes now: it has been reported, and its history is kept elsewhere."""
    for name in at.session.names(tree.BATCHES):
        node = at.session.get(f"{tree.home(name)}/status")
        status = tree.read_status(node.data, of_batch=True) if node else None
        if status is not None and status.state in ("completed", "deleted"):
            with contextlib.suppress(Refused):  # another process makes room with it at this moment
                delete(at, name, CLEANING, "the tree is full, and this batch has completed")
            return 1
    return 0

"""Moving a job or a batch: one `multi` with everything that changes, or nothing.

A worker's move carries the token of its claim and its own lock; an administrator's carries neither, and is refused
while anyone holds the lock. Both carry the version of the status they move from, so that a move of another service
in between refuses ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from custody.errors import BadInput, Refused, Unavailable
from custody.ingest.states import JOB
from custody.ingest.zookeeper import beside, journal, places, tree
from custody.ingest.zookeeper.client.multi import Create, Delete, Op, Set, moved, nobody_has, unlock
from custody.ingest.zookeeper.journal import Entry, Happened
from custody.ingest.zookeeper.rows import Seen, Tree, as_job, read_one
from custody.ingest.zookeeper.sidecar import Record
from custody.ingest.zookeeper.tree import Status
from custody.kernel.model.job import Answer, Change
from custody.kernel.stores.rules.events import PRIORITISED

MOST_MESSAGE = 10_000
REPORTED = ("reporting", "update-reporting")
ASKS = ("processing", *REPORTED)
"""Where a move needs to know what is in the tree. A question waits behind what was sent before it."""


def settle(at: Tree, changes: Sequence[Change]) -> list[Answer]:
    """Each is done or refused by itself. All are sent before the first answer is waited for."""
    now = at.now()
    found = {change.id: _seen(at, change) for change in changes}
    ready = [change for change in changes if found[change.id] is not None]
    ready.sort(key=lambda change: change.frm not in ASKS)  # those that must read something first
    sent: list[tuple[Change, Seen]] = []
    answers: dict[int, Answer] = {}

    def moves() -> Iterator[list[Op]]:
        for change in ready:
            seen = found[change.id]
            assert seen is not None
            new = after(seen, change, now)
            try:
                ops = ops_of(at, seen, new, change)
            except (BadInput, Refused) as error:  # what cannot be written is refused by itself, and nothing is sent
                answers[change.id] = Answer(change.id, False, code=error.code, why=str(error))
            else:
                sent.append((change, new))
                yield ops

    verdicts = at.session.commit_many(moves())
    if any(verdict.answer == "unknown" for verdict in verdicts):
        raise Unavailable("ZooKeeper did not answer: what became of it will be found out", code="store.down")
    for (change, new), verdict in zip(sent, verdicts, strict=True):
        answers[change.id] = _done(at, change, new) if verdict.done else explain(at, change)
    promote_emptied(at, {found[change.id].batch for change in ready if tree.list_of(change.to) != tree.list_of("")})  # type: ignore[union-attr]
    return [answers.get(change.id) or explain(at, change) for change in changes]


def _seen(at: Tree, change: Change) -> Seen | None:
    """As it was when it was claimed; as it is now, for an administrator."""
    if change.token is None:
        found = read_one(at.session, tree.name_of(change.id))
        return found if found and found.status.state == change.frm else None
    held = at.held.get(change.id)
    return held if held and held.token == change.token else None


def _done(at: Tree, change: Change, new: Seen) -> Answer:
    at.drop(change.id, change.token)
    if not new.is_batch and JOB.is_working(change.to) and change.to not in at.external:
        written = new.facts if change.facts is None else tree.load(tree.dump(new.facts))  # as anyone would read them
        at.recent.put(replace(new, facts=written))
    forget_look(at, change)
    return Answer(change.id, True, (change.token or 0) + 1)


def forget_look(at: Tree, change: Change) -> None:
    """It is worth a look again at once."""
    name = tree.name_of(change.id)
    at.rest.wake(name, f"{change.frm}/{name}", f"{change.to}/{name}")


def after(seen: Seen, change: Change, now: int) -> Seen:
    """As it will be when the move is done."""
    status = Status(
        state=change.to,
        modified=now,
        message=_message(seen, change),
        last_passed=change.last_passed or seen.status.last_passed,
        retries=seen.status.retries + change.retries,
    )
    back = (seen.kept_back or "") if change.to == change.frm else ""
    writes = change.facts is not None or back != (seen.kept_back or "")
    return replace(
        seen,
        status=status,
        version=seen.version + 1,
        record=_record(seen, change, now),
        token=0 if seen.token is None else seen.token + 1,
        facts=seen.facts if change.facts is None else change.facts,
        kept_back=back if writes else seen.kept_back,
        priority=seen.priority if change.priority is None else change.priority,
        changed=now,
        lock=None,
        session=0,
    )


def ops_of(at: Tree, seen: Seen, new: Seen, change: Change) -> list[Op]:
    home, us, record = tree.home(seen.name), tree.ours(seen.name), new.record.write()
    entry = journal.of_change(change, new.token or 0, new.version, new.status.retries)
    return [
        *([] if change.token is not None else nobody_has(home)),
        Create(us, record) if seen.token is None else Set(us, record, seen.token),
        *([] if change.token is None else [unlock(home), Delete(tree.held(seen.name, change.token))]),
        Set(f"{home}/status", tree.write_status(new.status, seen.is_batch), seen.version),
        *(_batch_ops(at, seen, change, new.changed) if seen.is_batch else _job_ops(at, seen, new, change)),
        *facts_ops(seen, change.facts, change.keep, change.move, back=new.kept_back or ""),
        entry.op(),
    ]


def _record(seen: Seen, change: Change, now: int) -> Record:
    old = seen.record
    stays, by_person = change.to == change.frm, change.token is None
    due = now + int(change.delay * 1_000_000) if change.delay else old.due if stays and by_person else None
    return Record(
        attempts=old.attempts + change.attempts if stays else 0,
        crashes=old.crashes if stays else 0,
        due=due,
        place=old.place if change.place is None else change.place,
        lane=old.lane if change.lane is None else change.lane,
        code=change.code or (old.code if stays and by_person else None),
        key=old.key,
        move=change.move,
        status=seen.version + 1,
    )


def _message(seen: Seen, change: Change) -> str:
    if change.type == PRIORITISED:  # why it is where it is, is still so
        return seen.status.message
    told = change.detail.get("reason") or change.detail.get("why") or ""
    return str(told)[:MOST_MESSAGE]


def _job_ops(at: Tree, seen: Seen, new: Seen, change: Change) -> list[Op]:
    leaves = tree.places(seen.name, seen.batch, change.frm, seen.priority)
    if change.token is None:  # what was claimed was put right then
        leaves = places.found(at, [seen]).get(seen.name, leaves)
    comes_to = tree.places(seen.name, seen.batch, change.to, new.priority)
    ensure_lists(at, comes_to - leaves)
    home, ops = tree.home(seen.name), moved(leaves, comes_to)
    if new.priority != seen.priority:
        ops.append(Set(f"{home}/priority", str(new.priority).encode()))
    if "space_needed" in change.keep:
        ops.append(Set(f"{home}/space_needed", beside.write_space(change.keep["space_needed"])))
    if change.frm == "processing" and change.to == JOB.next("processing", "pass"):
        facts = {**seen.facts, **new.facts}
        ops += _put(at, home, beside.handover(facts, bool(seen.payload.get("update"))))
    return ops


def ensure_lists(at: Tree, paths: Iterable[str]) -> None:
    """Batches that another service made have only the lists that were needed so far."""
    folders = sorted({path.rpartition("/")[0] for path in paths if path.startswith(tree.BATCHES)} - at.known)
    if not folders:
        return
    for folder, there in zip(folders, at.session.get_many(folders), strict=True):
        batch = folder.removesuffix(f"/states/{folder.rpartition('/')[2]}")
        if there is None and at.session.get_many([batch])[0] is not None:
            at.session.ensure(folder)
        at.known.add(folder)


def _put(at: Tree, home: str, values: Mapping[str, bytes]) -> list[Op]:
    paths = [f"{home}/{name}" for name in values]
    there = at.session.get_many(paths)
    return [
        Set(path, data) if node else Create(path, data)
        for path, data, node in zip(paths, values.values(), there, strict=True)
    ]


def _batch_ops(at: Tree, seen: Seen, change: Change, now: int) -> list[Op]:
    home, ops = tree.home(seen.name), []
    if change.frm == "pending" and change.to in ("processing", "failed"):
        ops += lists_ops(seen)
    if change.to != change.frm and seen.kept_back:
        ops.append(Create(f"{tree.QUEUES}/pending/{seen.kept_back}"))
    if change.frm in REPORTED and change.to not in REPORTED:
        ops += _report_ops(at, home, now)
    return ops


def lists_ops(seen: Seen) -> list[Op]:
    """The lists of a batch, from the moment it is taken."""
    if seen.lists:
        return []
    states = f"{tree.home(seen.name)}/states"
    return [*([] if seen.taken else [Create(states)]), *(Create(f"{states}/{name}") for name in tree.BATCH_LISTS)]


def _report_ops(at: Tree, home: str, now: int) -> list[Op]:
    """What was told, kept in the tree: in the node itself and, when there is more than it can hold, below it."""
    failed, completed = at.session.names_many([f"{home}/states/batch-failed", f"{home}/states/batch-completed"])
    first, *more = beside.write_report(now, failed, completed)
    report = f"{home}/status-report"
    old = at.session.names(report)
    return [
        *(Delete(f"{report}/{name}") for name in old),
        *_put(at, home, {"status-report": first}),
        *(Create(f"{report}/{number:010d}", piece) for number, piece in enumerate(more, start=1)),
    ]


def facts_ops(
    seen: Seen, facts: Mapping[str, Any] | None, new: Mapping[str, Any], move: str, back: str = ""
) -> list[Op]:
    """What its steps have kept; the identifier also where every service looks for it."""
    ops: list[Op] = []
    if facts is not None or back != (seen.kept_back or ""):
        data = tree.dump({"move": move, "facts": dict(seen.facts if facts is None else facts), "kept_back": back})
        path = f"{tree.ours(seen.name)}/facts"
        ops.append(Create(path, data) if seen.kept_back is None else Set(path, data))
    if "primary" in new and not seen.is_batch:
        identifiers = tree.write_identifiers(str(new["primary"]), seen.payload.get("local_ids", ()))
        ops.append(Set(f"{tree.home(seen.name)}/identifiers", identifiers))
    return ops


def explain(at: Tree, change: Change) -> Answer:
    """Nothing was written. Was it our own move, whose answer got lost? Otherwise say why not."""
    name = tree.name_of(change.id)
    seen = read_one(at.session, name)
    if seen is None:
        at.drop(change.id, change.token)
        return Answer(change.id, False, code="not-found", why=f"there is no {name} any more")
    if seen.record.move == change.move:
        at.drop(change.id, change.token)
        return Answer(change.id, True, seen.token or 0)
    if change.token is not None:
        at.drop(change.id, change.token)
        return Answer(change.id, False, code="lease.lost", why=f"{name} was claimed or moved by someone else")
    if seen.status.state != change.frm:
        return Answer(change.id, False, code="state.conflict", why=f"{name} is {seen.status.state}, not {change.frm}")
    holder = as_job(seen, at.now()).holder
    return Answer(change.id, False, code="leased", why=f"{name} is being worked on by {holder or 'someone'}")


# A batch whose last job has ended


def promote_emptied(at: Tree, batches: set[str]) -> None:
    names = sorted(batches)
    looks = at.session.get_many([f"{tree.home(name)}/states/batch-processing" for name in names])
    for name, working in zip(names, looks, strict=True):
        seen = read_one(at.session, name) if working is not None and not working.children else None
        if seen is not None and seen.status.state == "processing" and not seen.open:
            promote(at, seen)


def promote(at: Tree, seen: Seen) -> Seen:
    """Processing → reporting. Deleting the list is refused unless it is empty, so no job can slip in meanwhile."""
    now, move = at.now(), at.db.new_move()
    working = f"{tree.home(seen.name)}/states/batch-processing"
    record = Record(key=seen.record.key, move=move, status=seen.version + 1).write()
    told = {"state": "reporting", "ended": None}
    happened = Happened(
        job=seen.id,
        type="emptied",
        outcome="success",
        agent="engine",
        detail=told,
        token=(seen.token or 0) + 1,
        status=seen.version + 1,
    )
    us = tree.ours(seen.name)
    verdict = at.session.commit(
        [
            *nobody_has(tree.home(seen.name)),
            Set(f"{tree.home(seen.name)}/status", tree.write_status(Status("reporting", now), True), seen.version),
            Delete(working),
            Create(working),
            Create(us, record) if seen.token is None else Set(us, record, seen.token),
            Entry(move, [happened]).op(),
        ]
    )
    at.rest.wake(seen.name)
    return (read_one(at.session, seen.name) or seen) if verdict.answer != "refused" else seen

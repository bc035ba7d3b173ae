"""Why something in the tree is not being worked on: the very conditions that a claim asks, each with a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from custody.errors import NotFound, Unavailable
from custody.ingest.states import BATCH, BATCH_KIND, JOB, JOB_KIND
from custody.ingest.zookeeper import tree
from custody.ingest.zookeeper.holds import Holds, read_holds
from custody.ingest.zookeeper.rows import Seen, Tree, as_job, read_one
from custody.kernel.model.event import job_subject
from custody.kernel.model.job import HeldBy
from custody.kernel.model.why import Reason
from custody.kernel.stores.rows import Tx
from custody.kernel.stores.why import who_and_why

SIGN_OF_LIFE = 30_000_000


def blockers(seen: Seen, holds: Holds, now: int, place: str, external: frozenset[str]) -> list[Reason]:
    """What keeps anyone from claiming it now. Empty: it can be claimed."""
    job = as_job(seen, now)
    if job.ended:
        clears = "an operator resumes it" if job.state == "failed" else "nothing: there is nothing left to do"
        return [Reason("ended", f"it has ended: {job.state}", clears, job.changed)]
    if seen.lock is not None:
        return [Reason("leased", f"{job.holder} is working on it", "it settles", seen.record.since or seen.lock.made)]
    if seen.vanished:
        return [Reason("expired", f"{job.holder} vanished while working on it", "the next free worker takes it over")]
    return list(_waits(seen, holds, now, place, external=external))


def _waits(seen: Seen, holds: Holds, now: int, place: str, external: frozenset[str]) -> Iterator[Reason]:
    state, record = seen.status.state, seen.record
    if not (BATCH if seen.is_batch else JOB).is_working(state):
        yield _resting(seen, holds)
    elif seen.is_batch and state != "pending" and seen.open:
        yield Reason("open", f"{seen.open} of its jobs have not ended", "the last of them ends", seen.changed)
    if not seen.is_batch and state in external:
        yield Reason("external", f"{state} is done by another service", "that service takes it", seen.changed)
    if record.due is not None and record.due > now:
        seconds = (record.due - now) // 1_000_000
        told = _why_later(seen)
        yield Reason("due", f"it may not start before its time ({seconds} s from now){told}", "the time comes")
    if pause := holds.pause(BATCH_KIND if seen.is_batch else JOB_KIND, seen.lane):
        yield Reason(
            "paused",
            f"the {pause.scope} {pause.name} is paused by {pause.who}: {pause.why}",
            f"the pause is over: custody hold lift {pause.scope} {pause.name}",
            pause.since,
        )
    if record.place not in ("", place):
        yield Reason(
            "place", f"it is pinned to {record.place}, where its files are", f"a worker of {record.place} claims it"
        )


def _why_later(seen: Seen) -> str:
    """What the last try said."""
    message = seen.status.message
    if seen.record.code:
        return f": try {seen.record.attempts} failed, {seen.record.code}: {message}"
    return f": {message}" if message else ""


def _resting(seen: Seen, holds: Holds) -> Reason:
    if seen.is_batch and seen.status.state == "processing":
        return Reason("open", f"{seen.open} of its jobs have not ended", "the last of them ends", seen.changed)
    hold = hold_on(seen, holds)
    if hold:
        name = tree.shown(int(hold.name)) if hold.scope == "batch" else hold.name
        return Reason(
            "held",
            f"{hold.scope} {name} is held by {hold.who}: {hold.why}",
            f"the hold on {hold.scope} {name} is lifted and the job is released",
            hold.since,
        )
    return _held(seen, f": {seen.status.message}" if seen.status.message else "")


def _held(seen: Seen, told: str) -> Reason:
    return Reason("held", f"it is {seen.status.state}{told}", "an operator releases it", seen.changed)


def hold_on(seen: Seen, holds: Holds) -> HeldBy | None:
    return holds.on(seen.collection, 0 if seen.is_batch else tree.id_of(seen.batch))


def why(at: Tree, name: str, place: str) -> Sequence[Reason]:
    """Never empty for what is neither running nor ended."""
    seen = read_one(at.session, name)
    if seen is None:
        raise NotFound(f"there is no {name}", code="job.unknown", hint="`custody job list` shows what there is")
    holds = read_holds(at.session)
    found = blockers(seen, holds, at.now(), place, external=at.external)
    if found and found[0].code == "held" and not hold_on(seen, holds) and (told := _who_and_why(at, seen)):
        return [_held(seen, told), *found[1:]]
    return found or [_in_queue(at, seen)]


def _who_and_why(at: Tree, seen: Seen) -> str:
    """The tree has the reason only; who gave it is in the history, once that has been written and if it can be read."""
    if seen.record.status != seen.version:  # another service moved it
        return ""
    subject, move = job_subject(seen.id), seen.record.move

    def look(tx: Tx) -> str:
        rows = tx.run("event_of_move", subject=subject, move=move)
        return who_and_why(tx, subject, int(rows[0][0]), seen.status.state) if rows else ""

    with suppress(Unavailable):
        return at.db.read(look)
    return ""


def _in_queue(at: Tree, seen: Seen) -> Reason:
    state = seen.status.state
    if not _serving(at, seen):
        return Reason(
            "no-worker", "it is ready, but no worker for it has been seen", "`custody worker run`", seen.changed
        )
    if seen.is_batch:
        return _in_line(seen, len(_batches_before(at, seen)))
    ahead = at.session.names(f"{tree.QUEUES}/{state}")
    own = tree.entry(state, seen.priority, seen.name).rpartition("/")[2]
    if own not in ahead:
        return _not_queued(at, seen)
    if state == "provisioning":
        needed = seen.facts.get("space_needed")
        size = "an unknown number of" if needed is None else f"{needed:,}"
        return Reason("space", f"it waits for room on the working disk: {size} bytes", "there is room", seen.changed)
    return _in_line(seen, ahead.index(own))


def _in_line(seen: Seen, ahead: int) -> Reason:
    line = f"{ahead} go first" if ahead else "nothing is ahead of it"
    return Reason("queue", f"it is ready; {line}", "a worker becomes free", seen.changed)


def _batches_before(at: Tree, seen: Seen) -> list[str]:
    names = [name for name in at.session.names(tree.BATCHES) if tree.is_batch(name) and name < seen.name]
    nodes = at.session.get_many([f"{tree.home(name)}/status" for name in names])
    found = [tree.read_status(node.data, of_batch=True) if node else None for node in nodes]
    return [name for name, status in zip(names, found, strict=True) if status and status.state == seen.status.state]


def _not_queued(at: Tree, seen: Seen) -> Reason:
    batch = read_one(at.session, seen.batch)
    if batch is not None and (batch.kept_back or "").endswith(seen.name):
        return Reason(
            "fan-out",
            f"{seen.batch} is still becoming jobs, and this one is kept back so that it cannot report early",
            "the last of its jobs is made",
            seen.changed,
        )
    return Reason("orphan", "it is in no queue: whoever moved it last stopped half-way", "`custody doctor --repair`")


def _serving(at: Tree, seen: Seen) -> bool:
    wanted = f"{BATCH_KIND if seen.is_batch else JOB_KIND}|{seen.status.state}|"
    rows = at.db.read(lambda tx: tx.run("workers", since=tx.now - SIGN_OF_LIFE))
    return any(wanted.startswith(prefix) for row in rows for prefix in row[4].split("\n") if prefix)

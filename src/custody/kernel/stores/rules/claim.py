"""Claiming, renewing and settling: every write that moves a job carries its token and the state it moves from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from custody.errors import BadInput, LeaseLost, NotFound, Refused, StateConflict
from custody.kernel.model.authority.acting import Acting
from custody.kernel.model.job import Answer, Change, Claim, Job, NewJob
from custody.kernel.model.quick import quick
from custody.kernel.stores.rows import Row, Tx, hold_from, job_from, kept_text
from custody.kernel.stores.rules import graph, items
from custody.kernel.stores.rules.events import write_event
from custody.kernel.stores.rules.submit import MICROSECONDS, Submitted, add_needs, microseconds, submit

_claim = quick(Claim)
SubmitIn = Callable[[Tx, Sequence[NewJob], str, Acting], list[Submitted]]
Left = tuple[int, int, int]
"""A job that was left behind: when its lease ended, its id, and how suspect it is."""
LAST = "\U0010ffff"
"""Sorts after every text."""


def ready_queues(tx: Tx, prefix: str, after: str, limit: int) -> list[str]:
    """Queues with something ready, found by stepping through the ready index, one look-up each."""
    rows = tx.run("ready_queues", after=after or prefix, before=prefix + LAST, limit=limit)
    return [row[0] for row in rows]


def claim(tx: Tx, queues: Sequence[str], holder: str, lease: int, limit: int, move: str) -> list[Claim]:
    """A few from each queue in turn, so that no archive or collection waits for another's backlog."""
    claims: list[Claim] = []
    left = limit
    for index, queue in enumerate(queues):
        if not _is_open(tx, queue):
            continue
        share = -(-left // (len(queues) - index))
        rows = tx.run("claim", queue=queue, holder=holder, lease=lease, limit=share, move=move)
        claims += as_claims(tx, rows, holder)
        left = limit - len(claims)
        if left <= 0:
            break
    return sorted(claims, key=lambda claim: (claim.job.priority, claim.id))


def _is_open(tx: Tx, queue: str) -> bool:
    # The first of a queue speaks for all: they share kind and lane. So a paused queue costs one look, not one per job.
    rows = tx.run("queue_open", queue=queue)
    return bool(rows and rows[0][0])


def claim_expired(
    tx: Tx, serves: Sequence[str], place: str | None, holder: str, lease: int, most: int, move: str
) -> list[Claim]:
    """Jobs whose holder vanished, those left behind first going first."""
    left = sorted(expired(tx, serves, place, limit=most))
    rows = [
        row
        for _, job_id, _ in left[:most]
        for row in tx.run("claim_expired", id=job_id, holder=holder, lease=lease, move=move)
    ]
    return as_claims(tx, rows, holder)


def expired(tx: Tx, serves: Sequence[str], place: str | None, limit: int) -> list[Left]:
    """A few for each of the queues' beginnings that are served."""
    rows = [tx.run("expired", prefix=prefix, before=prefix + LAST, place=place, limit=limit) for prefix in serves]
    return [(until, job_id, suspect) for found in rows for until, job_id, suspect in found]


def claim_jobs(tx: Tx, ids: Sequence[int], holder: str, lease: int, move: str) -> list[Claim]:
    claims = []
    for job_id in sorted(ids):
        rows = tx.run("claim_job", id=job_id, holder=holder, lease=lease, move=move)
        claims += [as_claim(tx, row, holder) for row in rows]
    return claims


def as_claims(tx: Tx, rows: Sequence[Row], holder: str) -> list[Claim]:
    """In quiet times, when nothing is held, nobody has to ask for each."""
    if not rows or tx.run("anything_held"):
        return [as_claim(tx, row, holder) for row in rows]
    jobs = [job_from(row) for row in rows]
    return [_claim(job, job.token, holder) for job in jobs]


def as_claim(tx: Tx, row: Row, holder: str) -> Claim:
    job = job_from(row)
    holds = tx.run("hold_on", collection=job.collection, batch=str(job.parent or ""))
    return Claim(job, job.token, holder, hold_from(holds[0]) if holds else None)


def settle_each(tx: Tx, changes: Sequence[Change]) -> list[Answer]:
    """Each is done or refused by itself: what one brings with it cannot undo its neighbours."""
    return [_by_itself(tx, change) for change in changes]


def _by_itself(tx: Tx, change: Change) -> Answer:
    tx.run("mark")
    try:
        answer = settle(tx, change)
    except (BadInput, Refused, NotFound) as error:
        tx.run("back_to_mark")
        answer = Answer(change.id, False, code=error.code, why=str(error))
    tx.run("drop_mark")
    return answer


def settle(tx: Tx, change: Change) -> Answer:
    """One move, and all that comes of it."""
    was_open = change.token is not None or _was_open(tx, change.id)
    statement = "move" if change.token is None else "settle"
    rows = tx.run(statement, **values(change))
    if not rows:
        return explain_refusal(tx, change)
    job = job_from(rows[0])
    told = detail(change, job.retries)
    write_event(
        tx,
        job.subject,
        job.seq,
        change.type,
        outcome=change.outcome,
        agent=change.agent,
        detail=told,
        token=job.token,
        move=change.move,
    )
    follow(tx, change, job, was_open)
    return Answer(job.id, True, job.token)


def _was_open(tx: Tx, job_id: int) -> bool:
    # What a worker holds has not ended; an administrator may move a job from one end to another.
    rows = tx.run("lock_job", id=job_id)
    return bool(rows) and job_from(rows[0]).ended is None


def follow(tx: Tx, change: Change, job: Job, was_open: bool) -> None:
    """What a move brings with it: new jobs, items and events, and the news for those who wait."""
    if change.remove:
        forget(tx, job)  # first: its key is free for what may come of its own events
    if change.then:
        submit(tx, change.then, change.move, change.acting)
    items.record(tx, change.items, change.events, change.agent)
    if change.look:
        items.look_again(tx, *change.look)
    add_needs(tx, job.id, change.needs)
    if change.ended:
        graph.after_end(tx, job, was_open)
    elif not was_open:
        graph.after_reopening(tx, job)
    elif change.frm != change.to:
        graph.became_ready(tx, job)
    if change.open and job.open == 0:
        graph.leave_when_empty(tx, job.id)


def forget(tx: Tx, job: Job) -> None:
    tx.run("delete_edges_of", id=job.id)
    tx.run("delete_job", id=job.id)
    if job.ended is None:
        graph.after_delete(tx, job)


def values(change: Change) -> dict[str, Any]:
    given = {
        "id": change.id,
        "from_state": change.frm,
        "to_state": change.to,
        "runnable": int(change.runnable),
        "ended": change.ended,
        "move": change.move,
        "priority": change.priority,
        "lane": change.lane,
        "place": change.place,
        "last_passed": change.last_passed,
        "code": change.code,
        "retries": change.retries,
        "facts": None if change.facts is None else kept_text(change.facts, "job facts"),
        "open": change.open,
        "delay": microseconds(change.delay),
    }
    if change.token is None:
        return given
    return given | {"token": change.token, "claimed": change.claimed, "attempts": change.attempts}


FORGOTTEN = "forgotten"
"""In the last event of a job whose row goes with its end."""
FOLDED = frozenset(
    {"from", "state", "ended", "priority", "lane", "place", "last_passed", "facts", "retries", "code", FORGOTTEN}
)
"""Names in an event that say what became of the row: a handler's own words must not be taken for them."""


def detail(change: Change, retries: int) -> dict[str, Any]:
    """What the event says: enough to fold the row from it."""
    told = {name: value for name, value in change.detail.items() if name not in FOLDED}
    if len(told) < len(change.detail):
        told["said"] = {name: value for name, value in change.detail.items() if name in FOLDED}
    told |= {"from": change.frm, "state": change.to, "ended": change.ended}
    more = {
        "priority": change.priority,
        "lane": change.lane,
        "place": change.place,
        "last_passed": change.last_passed,
    }
    told |= {name: value for name, value in more.items() if value is not None}
    if change.keep:
        told["facts"] = dict(change.keep)
    if change.retries:
        told["retries"] = retries
    if change.code:
        told["code"] = change.code
    if change.remove:
        told[FORGOTTEN] = True
    return told


def explain_refusal(tx: Tx, change: Change) -> Answer:
    """Nothing was written. Was it our own move, whose answer got lost? Otherwise say why not."""
    earlier = tx.run("event_of_move", subject=f"job/{change.id}", move=change.move)
    if earlier:
        return Answer(change.id, True, earlier[0][1], onward=_next_again(tx, change))
    rows = tx.run("job", id=change.id)
    if not rows:
        return Answer(change.id, False, code="not-found", why=f"there is no job {change.id} any more")
    job = job_from(rows[0])
    if change.token is not None and (job.token, job.move) != (change.token, change.claimed):
        return Answer(change.id, False, code="lease.lost", why=f"job {job.id} was claimed or moved by someone else")
    if job.revoked:
        return Answer(change.id, False, code="revoked", why=f"job {job.id} was asked to stop ({job.revoked})")
    if job.state != change.frm:
        return Answer(change.id, False, code="state.conflict", why=f"job {job.id} is {job.state}, not {change.frm}")
    return Answer(change.id, False, code="leased", why=f"job {job.id} is being worked on by {job.holder}")


def _next_again(tx: Tx, change: Change) -> Claim | None:
    """The job that was claimed with this move; for as long as if it were claimed now, since nobody knows by how much
    the first answer is older."""
    if change.onward is None:
        return None
    holder, lease = change.onward.holder, int(change.onward.seconds * MICROSECONDS)
    for row in tx.run("claimed_by_move", move=change.move, holder=holder):
        claim = as_claim(tx, row, holder)
        renew(tx, claim, lease)
        return claim
    return None


def must(answer: Answer) -> Answer:
    """The answer, or the error it stands for."""
    if answer.done:
        return answer
    raise _ERRORS.get(answer.code, Refused)(answer.why, code=answer.code)


_ERRORS = {"lease.lost": LeaseLost, "state.conflict": StateConflict, "not-found": NotFound}


def fence(claim: Claim) -> dict[str, Any]:
    """What a statement has to compare, so that it writes to the job that was claimed and to no other."""
    return {"id": claim.id, "token": claim.token, "claimed": claim.move}


def renew(tx: Tx, claim: Claim, lease: int) -> str | None:
    """None while all is well; otherwise "lost", or how the job was revoked."""
    rows = tx.run("renew", **fence(claim), holder=claim.holder, lease=lease)
    answer: str | None = rows[0][0] if rows else "lost"
    return answer


def keep(
    tx: Tx,
    claim: Claim,
    facts: dict[str, Any],
    new: dict[str, Any],
    children: Sequence[NewJob],
    move: str,
    agent: str,
    submit_in: SubmitIn = submit,
) -> list[Submitted]:
    """Save facts, and children, at once, under the claim's token."""
    rows = tx.run("keep", **fence(claim), facts=kept_text(facts, "job facts"), open=0)
    if not rows:
        raise LeaseLost(f"job {claim.id} was claimed or moved by someone else: nothing was kept")
    told: dict[str, Any] = {"facts": new} | ({"children": len(children)} if children else {})
    write_event(
        tx,
        claim.job.subject,
        rows[0][0],
        "kept",
        outcome="none",
        agent=agent,
        detail=told,
        token=claim.token,
        move=move,
    )
    return submit_in(tx, children, move, claim.acting)


def delete(tx: Tx, job: Job, agent: str, why: str, move: str) -> bool:
    """Remove a job; its events stay, and those who waited for it are told."""
    if not tx.run("delete_job", id=job.id):
        return False
    note = {"state": "deleted", "ended": "deleted", "from": job.state, "why": why}
    write_event(
        tx,
        job.subject,
        job.seq + 1,
        "deleted",
        outcome="none",
        agent=agent,
        detail=note,
        token=job.token + 1,
        move=move,
    )
    tx.run("delete_edges_of", id=job.id)
    graph.after_delete(tx, job)
    return True


def tick(tx: Tx, limit: int) -> int:
    """Jobs whose time has come have one need less."""
    due = tx.run("due_jobs", limit=limit)
    for (job_id,) in due:
        for row in tx.run("come_due", id=job_id):
            job = job_from(row)
            if not job.unmet:
                graph.became_ready(tx, job)
    return len(due)

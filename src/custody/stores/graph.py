"""What one job's end does to others: needs met, skips, supersession, and the parent's count.

Everything here runs inside the transaction of the move that causes it, after that move's own row is locked.
Rows are always locked in the order of their ids within one step, so two settles cannot wait for each other
for ever (and if they do across steps, the database says so and the verb is run again).
"""

from __future__ import annotations

from collections import Counter

from custody.model.job import Job
from custody.stores.history import write_event
from custody.stores.rows import Tx, job_from

ENGINE = "engine"


def after_end(tx: Tx, job: Job, ended: str) -> None:
    """`job` has just ended as `ended`: tell everyone who waited."""
    met = Counter(row[0] for row in tx.run("meet_edges", target=job.id, ended=ended))
    for waiter in sorted(met):
        _count_down(tx, waiter, met[waiter])
    if ended != "passed":
        for (waiter,) in tx.run("disappointed", target=job.id):
            end_quietly(tx, _locked(tx, waiter), "skip", f"needed job {job.id}, which {_ended_how(ended)}")
    if job.parent is not None:
        count_child(tx, job.parent, -1)


def after_reopening(tx: Tx, job: Job) -> None:
    """An ended job has something to do again."""
    if job.parent is not None:
        count_child(tx, job.parent, +1)
    became_ready(tx, job)


def count_child(tx: Tx, parent: int, by: int) -> None:
    """Change a parent's count of open children; whoever brings it to nothing moves the parent on."""
    rows = tx.run("child_ended", id=parent, by=by)
    if rows and rows[0][19] == 0:
        leave_when_empty(tx, parent)


def leave_when_empty(tx: Tx, parent: int) -> None:
    move = tx.new_move()
    for row in tx.run("emptied", id=parent, move=move):
        job = job_from(row)
        write_event(
            tx,
            job.subject,
            job.seq,
            "emptied",
            "success",
            ENGINE,
            {"state": job.state, "ended": None},
            job.token,
            move,
        )


def became_ready(tx: Tx, job: Job) -> None:
    """A job that has nothing left to wait for: supersede what it makes pointless, or notice that it is."""
    if job.line is None or job.unmet or job.ended:
        return
    newer = tx.run("newer_superseder", line=job.line, task=job.task, position=job.position)
    if newer:
        end_quietly(tx, job, "supersede", f"job {newer[0][0]} had already superseded it")
    elif job.supersedes:
        _supersede_older(tx, job)


def _supersede_older(tx: Tx, job: Job) -> None:
    waits_for = 0
    for row in tx.run("older_instances", line=job.line, task=job.task, position=job.position):
        older = job_from(row)
        if older.holder is None:
            end_quietly(tx, older, "supersede", f"superseded by job {job.id}")
        else:
            # Still running: it is told to stop, and the newer one starts only when it is confirmed dead.
            revoke(tx, older, "supersede", ENGINE, f"superseded by job {job.id}")
            tx.run("insert_edge", job=job.id, target=older.id, wants="finished", otherwise="wait", met=0)
            waits_for += 1
    tx.run("mark_superseding", id=job.id)
    if waits_for:
        tx.run("count_up", id=job.id, by=waits_for)


def revoke(tx: Tx, job: Job, how: str, agent: str, why: str) -> Job | None:
    """Ask a leased job's holder to stop; None when it had been asked already."""
    for row in tx.run("revoke", id=job.id, revoked=how):
        told = job_from(row)
        detail = {"why": why, "asked": how, "holder": told.holder}
        write_event(tx, told.subject, told.seq, "revoked", "none", agent, detail, told.token, "")
        return told
    return None


_QUIET = {"skip": "skipped", "supersede": "superseded"}


def end_quietly(tx: Tx, job: Job, signal: str, why: str) -> None:
    """End an unleased job without anyone having worked on it."""
    state, move = _QUIET[signal], tx.new_move()
    rows = tx.run(
        "move", id=job.id, from_state=job.state, to_state=state, runnable=0, ended=state, move=move, priority=None,
        lane=None, place=None, last_passed=None, facts=None, code=None, retries=0, open=0, delay=0,
    )  # fmt: skip
    for row in rows:
        ended = job_from(row)
        detail = {"from": job.state, "state": state, "ended": state, "why": why}
        write_event(tx, ended.subject, ended.seq, state, "none", ENGINE, detail, ended.token, move)
        after_end(tx, ended, state)


def _count_down(tx: Tx, waiter: int, by: int) -> None:
    for row in tx.run("count_down", id=waiter, by=by):
        job = job_from(row)
        if job.ended == "skipped":
            _rearm(tx, job)
        elif not job.unmet:
            became_ready(tx, job)


def _rearm(tx: Tx, job: Job) -> None:
    """What was skipped because a need failed comes back when a retry of that need succeeds."""
    move = tx.new_move()
    rows = tx.run(
        "move", id=job.id, from_state="skipped", to_state="queued", runnable=1, ended=None, move=move, priority=None,
        lane=None, place=None, last_passed=None, facts=None, code=None, retries=0, open=0, delay=0,
    )  # fmt: skip
    for row in rows:
        back = job_from(row)
        detail = {"from": "skipped", "state": "queued", "ended": None}
        write_event(tx, back.subject, back.seq, "rearmed", "none", ENGINE, detail, back.token, move)
        after_reopening(tx, back)
        _rearm_dependents(tx, back.id)


def _rearm_dependents(tx: Tx, job_id: int) -> None:
    # Those behind it were skipped because it was: they wait again. Their edges never counted as met.
    for waiter, _wants, otherwise, met in tx.run("edges_to", id=job_id):
        if otherwise == "skip" and not met:
            job = _locked(tx, waiter)
            if job.ended == "skipped":
                _rearm(tx, job)


def _locked(tx: Tx, job_id: int) -> Job:
    return job_from(tx.run("lock_job", id=job_id)[0])


def _ended_how(ended: str) -> str:
    return {"failed": "failed", "skipped": "was skipped", "deleted": "was deleted"}.get(ended, f"was {ended}")


def resolve_deleted(tx: Tx, job_id: int) -> None:
    """A deleted job satisfies no one who needs its success, and is skipped around by those who asked for it."""
    met = Counter(row[0] for row in tx.run("meet_edges", target=job_id, ended="deleted"))
    for waiter in sorted(met):
        _count_down(tx, waiter, met[waiter])
    for (waiter,) in tx.run("disappointed", target=job_id):
        end_quietly(tx, _locked(tx, waiter), "skip", f"needed job {job_id}, which was deleted")

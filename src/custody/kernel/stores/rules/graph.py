"""What one job's end does to others: needs met, skips, supersession, and the parent's count.

Everything here runs inside the transaction of the move that causes it, after that move's own row is locked.
Rows are always locked in the order of their ids within one step, so two settles cannot wait for each other
for ever (and if they do across steps, the database says so and the verb is run again).

One end may bring about others, which bring about others: a chain of skips is as long as the work that was
planned. So news is spread from a list, never by recursion, and parents are counted once, at the end.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from custody.kernel.model.job import Job
from custody.kernel.stores.rows import Tx, job_from
from custody.kernel.stores.rules.events import write_event

ENGINE = "engine"


@dataclass(slots=True)
class News:
    """Jobs that have just ended, or come back, and whose waiters do not know it yet; and what parents must count."""

    of: deque[Job] = field(default_factory=deque)
    children: Counter[int] = field(default_factory=Counter)

    def ended(self, job: Job) -> None:
        self.of.append(job)
        self.counts(job, -1)

    def reopened(self, job: Job) -> None:
        self.counts(job, +1)

    def counts(self, job: Job, by: int) -> None:
        if job.parent is not None:
            self.children[job.parent] += by


def after_end(tx: Tx, job: Job, was_open: bool = True) -> None:
    """`job` has just ended: tell everyone who waited. (An end may follow an end, as when a failure is accepted.)"""
    news = News(deque([job]))
    if was_open:
        news.counts(job, -1)
    spread(tx, news)


def after_reopening(tx: Tx, job: Job) -> None:
    """An ended job has something to do again."""
    news = News()
    news.reopened(job)
    gone = len(tx.run("give_up_on_gone", id=job.id))
    if gone:
        job = job_from(tx.run("count_down", id=job.id, by=gone)[0])
    _became_ready(tx, job, news)
    spread(tx, news)


def after_delete(tx: Tx, job: Job) -> None:
    """A deleted job satisfies no one who needs its success, and those who asked for it are skipped."""
    news = News()
    if job.ended is None:
        news.counts(job, -1)
    _tell(tx, job.id, "deleted", news)
    spread(tx, news)


def became_ready(tx: Tx, job: Job) -> None:
    """A job that may have nothing left to wait for: supersede what it makes pointless, or notice that it is."""
    news = News()
    _became_ready(tx, job, news)
    spread(tx, news)


def skip(tx: Tx, job: Job, why: str) -> None:
    """End a job that waits for what can no longer come."""
    news = News()
    _end_quietly(tx, job, "skipped", why, news=news)
    spread(tx, news)


def spread(tx: Tx, news: News) -> None:
    """Tell everyone who waits, until there is nobody left to tell."""
    while news.of:
        job = news.of.popleft()
        if job.ended is None:
            _rearm_dependents(tx, job.id, news)
        else:
            _tell(tx, job.id, job.ended, news)
    for parent, by in sorted(news.children.items()):
        if by:
            count_child(tx, parent, by)


def _tell(tx: Tx, target: int, ended: str, news: News) -> None:
    met = Counter(row[0] for row in tx.run("meet_edges", target=target, ended=ended))
    for waiter in sorted(met):
        for row in tx.run("count_down", id=waiter, by=met[waiter]):
            after_count(tx, job_from(row), news)
    disappoint(tx, target, ended, news)


def disappoint(tx: Tx, target: int, ended: str, news: News) -> None:
    """Skip those who can no longer have what they needed of this job, and asked to be skipped then."""
    for (waiter,) in tx.run("disappointed", target=target):
        _end_quietly(tx, _locked(tx, waiter), "skipped", f"needed job {target}, which {ended_how(ended)}", news=news)


def after_count(tx: Tx, job: Job, news: News) -> None:
    """`job` has just had a need met."""
    if job.ended == "skipped":
        _rearm(tx, job, news)
    elif not job.unmet:
        _became_ready(tx, job, news)


# Parents


def count_child(tx: Tx, parent: int, by: int) -> None:
    """Change a parent's count of open children; whoever brings it to nothing moves the parent on."""
    rows = tx.run("child_ended", id=parent, by=by)
    if rows and job_from(rows[0]).open == 0:
        leave_when_empty(tx, parent)


def leave_when_empty(tx: Tx, parent: int) -> None:
    move = tx.new_move()
    for row in tx.run("emptied", id=parent, move=move):
        job = job_from(row)
        told = {"state": job.state, "ended": None}
        write_event(
            tx,
            job.subject,
            job.seq,
            "emptied",
            outcome="success",
            agent=ENGINE,
            detail=told,
            token=job.token,
            move=move,
        )


# Supersession


def _became_ready(tx: Tx, job: Job, news: News) -> None:
    if job.line is None or job.unmet or job.ended or not job.runnable:
        return
    tx.run("lock_line", line=job.line, task=job.task)
    newer = tx.run("newer_superseder", line=job.line, task=job.task, position=job.position)
    if newer:
        _end_quietly(tx, job, "superseded", f"job {newer[0][0]} had already superseded it", news=news)
    elif job.supersedes:
        _supersede_older(tx, job, news)


def _supersede_older(tx: Tx, job: Job, news: News) -> None:
    waits_for = 0
    for row in tx.run("older_instances", line=job.line, task=job.task, position=job.position):
        older = job_from(row)
        if older.holder is None:
            _end_quietly(tx, older, "superseded", f"superseded by job {job.id}", news=news)
        else:
            # Still running: it is told to stop, and the newer one starts only when it is confirmed dead.
            revoke(tx, older, "supersede", ENGINE, why=f"superseded by job {job.id}")
            edge = {"job": job.id, "target": older.id, "wants": "finished", "otherwise": "wait", "met": 0}
            waits_for += len(tx.run("need_more", **edge))
    tx.run("mark_superseding", id=job.id)
    if waits_for:
        tx.run("count_up", id=job.id, by=waits_for)


def supersede(tx: Tx, older: Job, by: int) -> None:
    """End an instance that another job has made pointless; while it runs, ask it to stop."""
    news = News()
    if older.holder is None:
        _end_quietly(tx, older, "superseded", f"superseded by job {by}", news=news)
    else:
        revoke(tx, older, "supersede", ENGINE, why=f"superseded by job {by}")
    spread(tx, news)


def revoke(tx: Tx, job: Job, how: str, agent: str, why: str) -> Job | None:
    """Ask a leased job's holder to stop; None when it had been asked already."""
    for row in tx.run("revoke", id=job.id, revoked=how):
        told = job_from(row)
        detail = {"why": why, "asked": how, "holder": told.holder}
        write_event(
            tx, told.subject, told.seq, "revoked", outcome="none", agent=agent, detail=detail, token=told.token, move=""
        )
        return told
    return None


def _end_quietly(tx: Tx, job: Job, state: str, why: str, news: News) -> None:
    """End an unleased job without anyone having worked on it."""
    move = tx.new_move()
    rows = tx.run(
        "move",
        id=job.id,
        from_state=job.state,
        to_state=state,
        runnable=0,
        ended=state,
        move=move,
        priority=None,
        lane=None,
        place=None,
        last_passed=None,
        facts=None,
        code=None,
        retries=0,
        open=0,
        delay=0,
    )
    for row in rows:
        ended = job_from(row)
        detail = {"from": job.state, "state": state, "ended": state, "why": why}
        write_event(
            tx,
            ended.subject,
            ended.seq,
            state,
            outcome="none",
            agent=ENGINE,
            detail=detail,
            token=ended.token,
            move=move,
        )
        news.ended(ended)


# Skipped, and back


def _rearm(tx: Tx, job: Job, news: News) -> None:
    """What was skipped because a need failed comes back when a retry of that need succeeds."""
    if _still_pointless(tx, job.id):
        return
    move = tx.new_move()
    rows = tx.run(
        "move",
        id=job.id,
        from_state="skipped",
        to_state="queued",
        runnable=1,
        ended=None,
        move=move,
        priority=None,
        lane=None,
        place=None,
        last_passed=None,
        facts=None,
        code=None,
        retries=0,
        open=0,
        delay=0,
    )
    for row in rows:
        back = job_from(row)
        detail = {"from": "skipped", "state": "queued", "ended": None}
        write_event(
            tx,
            back.subject,
            back.seq,
            "rearmed",
            outcome="none",
            agent=ENGINE,
            detail=detail,
            token=back.token,
            move=move,
        )
        news.reopened(back)
        news.of.append(back)
        _became_ready(tx, back, news)


def _still_pointless(tx: Tx, job_id: int) -> bool:
    """Another need of it has failed as well. Each is locked against ending meanwhile, as when a job is submitted."""
    for target, _wants, otherwise, met, *_ in tx.run("edges_from", id=job_id):
        if otherwise == "skip" and not met:
            rows = tx.run("share_job", id=target)
            if not rows or rows[0][0] is not None:
                return True
    return False


def _rearm_dependents(tx: Tx, job_id: int, news: News) -> None:
    # Those behind it were skipped because it was: they wait again. Their edges never counted as met.
    for (waiter,) in tx.run("left_behind", id=job_id):
        for row in tx.run("lock_job", id=waiter):  # none, if it has been deleted since
            job = job_from(row)
            if job.ended == "skipped":
                _rearm(tx, job, news)


def _locked(tx: Tx, job_id: int) -> Job:
    return job_from(tx.run("lock_job", id=job_id)[0])


def ended_how(ended: str) -> str:
    return {"failed": "failed", "passed": "passed"}.get(ended, f"was {ended}")

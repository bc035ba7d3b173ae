"""Why a job is not being worked on: the claim's own conditions, each with a sentence.

A job that is neither running nor ended never has an empty answer.
"""

from __future__ import annotations

from collections.abc import Iterator

from custody.errors import NotFound
from custody.formats.shell import command
from custody.kernel.model.graph import satisfied
from custody.kernel.model.job import Job
from custody.kernel.model.why import Reason
from custody.kernel.stores.rows import Row, Tx, hold_from, job_from
from custody.kernel.stores.rules.events import last_move

MOST_SAID = 300
HELD = " is held by "


def why(tx: Tx, job_id: int, place: str) -> list[Reason]:
    rows = tx.run("why", id=job_id, place=place)
    if not rows:
        raise NotFound(f"there is no job {job_id}", code="job.unknown", hint="`custody job list` shows what there is")
    work_to_do, needs_met, unleased, kind_open, lane_open, here, *columns = rows[0]
    job = job_from(columns)
    if job.ended:
        told = _last_word(tx, job)
        return [Reason("ended", f"it has ended: {job.state}{f' ({told})' if told else ''}", _after(job), job.changed)]
    reasons: list[Reason] = []
    if not unleased:
        return [_leased(tx, job)]
    if not work_to_do:
        reasons.append(_resting(tx, job))
    if not needs_met:
        reasons += _needs(tx, job)
    if not kind_open:
        reasons.append(_hold(tx, "kind", job.kind))
    if not lane_open:
        reasons.append(_hold(tx, "lane", job.lane))
    if not here:
        reasons.append(
            Reason(
                "place",
                f"it is pinned to {job.place}, where its files are",
                f"a worker of {job.place} claims it",
            )
        )
    return reasons or [_in_queue(tx, job)]


def _last_word(tx: Tx, job: Job) -> str:
    """Why it failed, or was skipped, superseded or cancelled, as its history has it; what is to be looked at of one
    that passed with a warning."""
    last = last_move(tx, job.subject, job.seq)
    if job.ended == "passed" and (last is None or last.outcome != "warning"):
        return ""
    told = last.detail if last else {}
    kept = job.facts.get("why") or job.facts.get("reason")
    said = str(told.get("why") or told.get("reason") or kept or job.code or "")
    return said if len(said) <= MOST_SAID else f"…{said[-MOST_SAID:]}"


def _after(job: Job) -> str:
    return "an operator resumes it" if job.ended in ("failed", "cancelled") else "nothing: there is nothing left to do"


def _leased(tx: Tx, job: Job) -> Reason:
    if job.revoked:
        return Reason(
            "revoked",
            f"{job.holder} was asked to stop ({job.revoked}) and has not confirmed it yet",
            "the holder says that its work is dead, or its lease ends",
            job.changed,
        )
    if job.until <= tx.now:
        return Reason(
            "expired",
            f"{job.holder} vanished while working on it",
            "the next free worker takes it over",
            job.until,
        )
    return Reason("leased", f"{job.holder} is working on it", "it settles", job.changed)


def _resting(tx: Tx, job: Job) -> Reason:
    if job.open and job.state != "held":  # one that is held may count itself among its jobs
        return Reason("open", f"{job.open} of its jobs have not ended", "the last of them ends", job.changed)
    held = tx.run("hold_on", collection=job.collection, batch=str(job.parent or ""))
    if held:
        hold = hold_from(held[0])
        return Reason(
            "held",
            f"{hold.scope} {hold.name} is held by {hold.who}: {hold.why}",
            f"the hold on {hold.scope} {hold.name} is lifted and the job is released",
            hold.since,
        )
    told = who_and_why(tx, job.subject, job.seq, job.state)
    return Reason("held", f"it is {job.state}{told}", "an operator releases it", job.changed)


def who_and_why(tx: Tx, subject: str, seq: int, state: str) -> str:
    """Of the move that brought it where it is."""
    last = last_move(tx, subject, seq)
    if last is None or last.detail.get("state") != state or not last.detail.get("why"):
        return ""
    said = str(last.detail["why"])
    if HELD in said:  # so a worker found it; whoever lifted that hold since has released nothing
        return f": {said.replace(HELD, ' was held by ', 1)}"
    return f" by {last.agent}: {said}"


def _needs(tx: Tx, job: Job) -> Iterator[Reason]:
    if job.due is not None:
        seconds = max(0, job.due - tx.now) // 1_000_000
        told, until = _why_later(tx, job)
        if until:
            yield Reason("due", f"{told} (looked at again in {seconds} s)", until, job.changed)
        else:
            text = f"it may not start before its time ({seconds} s from now){f': {told}' if told else ''}"
            yield Reason("due", text, "the time comes", job.changed)
    for row in tx.run("edges_from", id=job.id):
        if not row[3]:
            yield _need(row)


def _why_later(tx: Tx, job: Job) -> tuple[str, str]:
    """What the last try said, when it was that which put it off; and what would end it, if that is more than time."""
    last = last_move(tx, job.subject, job.seq)
    if last is None or last.type not in ("waited", "retried"):
        return "", ""
    if last.type == "waited":
        return str(last.detail.get("why", "")), str(last.detail.get("until", ""))
    return f"try {job.attempts} failed, {job.code}: {last.detail.get('reason', '')}", ""


def _need(row: Row) -> Reason:
    target, wants, _, _, kind, key, state, ended, task, position = row
    name = f"job {target}" + (
        f" ({task} at {position})" if task else f" ({kind}{' ' + key if key else ''})" if kind else ""
    )
    if state is None:
        return Reason(
            "needs",
            f"it needs job {target}, which was deleted",
            "an operator cancels and resumes it",
            job=target,
        )
    if ended and not satisfied(wants, ended):
        return Reason(
            "blocked",
            f"it is blocked by {name}, which is {state}",
            f"job {target} is resumed or accepted",
            job=target,
        )
    return Reason("needs", f"it waits for {name}, which is {state}", f"job {target} ends", job=target)


def _hold(tx: Tx, scope: str, name: str) -> Reason:
    hold = hold_from(tx.run("hold", scope=scope, name=name)[0])
    return Reason(
        "paused",
        f"the {scope} {name} is paused by {hold.who}: {hold.why}",
        f"the pause is over: {command('hold lift', scope, name)}",
        hold.since,
    )


def _in_queue(tx: Tx, job: Job) -> Reason:
    ahead = tx.run("ahead", queue=job.queue, priority=job.priority, id=job.id)[0][0]
    serving = [row[0] for row in tx.run("workers", since=tx.now - 30_000_000) if _serves(row, job)]
    if not serving:
        return Reason(
            "no-worker",
            "it is ready, but no worker for it has been seen",
            "`custody worker run`",
            job.changed,
        )
    line = "nothing is ahead of it" if not ahead else f"{ahead} {'or more ' if ahead == 1000 else ''}go first"
    return Reason("queue", f"it is ready; {line}", "a worker becomes free", job.changed)


def _serves(row: Row, job: Job) -> bool:
    prefixes = [prefix for prefix in row[4].split("\n") if prefix]
    return any(f"{job.kind}|{job.state}|".startswith(prefix) for prefix in prefixes)

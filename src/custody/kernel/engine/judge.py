"""From what a handler returned to the move that the store writes: pure, and the same for every kind of work."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from custody.errors import CustodyError, Unavailable
from custody.kernel.engine.kinds import Kind
from custody.kernel.model.job import Change, Claim
from custody.kernel.model.outcome import Facts, Failed, Hold, Outcome, Passed, Wait
from custody.kernel.model.quick import quick

REVOKED = {"cancel": "cancelled", "supersede": "superseded"}
MOST_TRACEBACK = 8_000
FORGED = "job.forged"
_change = quick(Change)  # one is made for every job


def judge(
    kind: Kind, claim: Claim, outcome: Outcome, facts: Mapping[str, Any], chance: float, move: str, tried: int = 0
) -> Change:
    """The move that follows from an outcome; of so many tries, or as many as there were attempts."""
    match outcome:
        case Passed():
            return _passed(kind, claim, outcome, facts, move)
        case Failed(transient=True) if (tried or claim.job.attempts) < kind.tries:
            return _retried(kind, claim, outcome, facts, chance, move)
        case Failed() if not kind.machine.allows(claim.job.state, "fail"):
            return _retried(kind, claim, outcome, facts, chance, move)  # a state that never fails
        case Failed():
            return _failed(kind, claim, outcome, facts, move)
        case Wait():
            return _waited(claim, outcome, facts, move)
        case Hold():
            return _signalled(kind, claim, "hold", "held", {"why": outcome.why}, move)


def surprise(error: BaseException) -> Failed:
    """An exception as an outcome: ours carry their code, and their type says whether trying again may help."""
    if isinstance(error, CustodyError):
        reason = str(error)
        return Failed(error.code, reason, transient=isinstance(error, Unavailable), detail=error.facts)
    trace = "".join(traceback.format_exception(error))[-MOST_TRACEBACK:]
    name = type(error).__name__
    return Failed("surprise", f"{name}: {error}", transient=True, detail={"traceback": trace})


def poison(claim: Claim) -> Failed:
    return Failed(
        "poison",
        "its workers die of it, the last while it was tried with special care; it will not be tried again by itself",
        detail={"crashes": claim.job.crashes},
    )


def refused(kind: Kind, claim: Claim, why: str, move: str) -> Change:
    """The end of a job that its application cannot have made: in any state, not tried again, no fault of a worker. An
    operator may resume it: what it was held against may have been wrong."""
    machine, job = kind.machine, claim.job
    failed = [state for state, end in machine.ends.items() if end == "failed"]
    to = next((state for state in failed if machine.allows(state, "resume")), failed[0])
    return _change(
        job.id, job.state, to, "failed", "failure", claim.holder, False, machine.end(to), claim.token, move,
        claimed=job.move, detail={"reason": why}, code=FORGED,
    )  # fmt: skip


def revoked(
    kind: Kind, claim: Claim, how: str, move: str, facts: Mapping[str, Any] | None = None, keep: Facts | None = None
) -> Change:
    """The one thing a revoked holder may still say: that its work is dead. What it left behind is kept."""
    change = _signalled(kind, claim, how, REVOKED[how], {"why": "its work was stopped"}, move)
    return replace(change, keep=keep, facts=_all_facts(facts or {}, keep)) if keep else change


def _passed(kind: Kind, claim: Claim, outcome: Passed, facts: Mapping[str, Any], move: str) -> Change:
    job = claim.job
    to = kind.machine.next(job.state, "pass")
    return _change(
        job.id, job.state, to, "passed", "warning" if outcome.warning else "success", claim.holder,
        kind.machine.is_working(to), kind.machine.end(to), claim.token, move, claimed=job.move,
        detail=outcome.detail, keep=outcome.keep, facts=_all_facts(facts, outcome.keep), then=outcome.then,
        items=outcome.items, events=outcome.events, priority=outcome.priority, lane=outcome.lane, place=outcome.place,
        last_passed=job.state, open=_own_count(claim), remove=outcome.forget, look=outcome.look, by=job.by,
    )  # fmt: skip


def _failed(kind: Kind, claim: Claim, outcome: Failed, facts: Mapping[str, Any], move: str) -> Change:
    job = claim.job
    to = kind.machine.next(job.state, "fail")
    return _change(
        job.id, job.state, to, "failed", "failure", claim.holder, kind.machine.is_working(to), kind.machine.end(to),
        claim.token, move, claimed=job.move, detail={"reason": outcome.reason, **outcome.detail}, keep=outcome.keep,
        code=outcome.code, facts=_all_facts(facts, outcome.keep), then=outcome.then, events=outcome.events, by=job.by,
    )  # fmt: skip


def _retried(kind: Kind, claim: Claim, outcome: Failed, facts: Mapping[str, Any], chance: float, move: str) -> Change:
    job = claim.job
    pause = kind.backoff.seconds(job.attempts, chance)
    told = {"reason": outcome.reason, "attempt": job.attempts, "again_in": round(pause, 3), **outcome.detail}
    return _change(
        job.id, job.state, job.state, "retried", "failure", claim.holder, True, None, claim.token, move,
        claimed=job.move, detail=told, keep=outcome.keep, facts=_all_facts(facts, outcome.keep),
        code=outcome.code, delay=pause,
    )  # fmt: skip


def _waited(claim: Claim, outcome: Wait, facts: Mapping[str, Any], move: str) -> Change:
    job = claim.job
    return _change(
        job.id, job.state, job.state, "waited", "none", claim.holder, True, None, claim.token, move,
        claimed=job.move, keep=outcome.keep,
        detail={"why": outcome.why, "again_in": outcome.seconds} | ({"until": outcome.until} if outcome.until else {}),
        facts=_all_facts(facts, outcome.keep), delay=outcome.seconds, attempts=-1, needs=outcome.needs,
    )  # fmt: skip


def _signalled(kind: Kind, claim: Claim, signal: str, type_: str, detail: Mapping[str, Any], move: str) -> Change:
    job = claim.job
    to = kind.machine.next(job.state, signal)
    return _change(
        job.id, job.state, to, type_, "none", claim.holder, kind.machine.is_working(to), kind.machine.end(to),
        claim.token, move, claimed=job.move, detail=detail,
    )  # fmt: skip


def _all_facts(facts: Mapping[str, Any], keep: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What is to stand there after the move; None, where nothing is added: as they are, whatever we believe."""
    return {**facts, **keep} if keep else None


def _own_count(claim: Claim) -> int:
    """A job that fans out counts itself among its open children until it is done doing so."""
    return -1 if claim.job.when_empty is not None else 0

"""From what a handler returned to the move that the store writes: pure, and the same for every kind of work."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any

from custody.errors import CustodyError, Unavailable
from custody.kernel.engine.changes import claimed_change, new_change
from custody.kernel.engine.kinds import Kind
from custody.kernel.model.job import Change, Claim
from custody.kernel.model.outcome import Facts, Failed, Hold, Outcome, Passed, Wait

MOST_TRACEBACK = 8_000
FORGED = "job.forged"


def judge(
    kind: Kind, claim: Claim, outcome: Outcome, *, facts: Mapping[str, Any], chance: float, move: str, tried: int = 0
) -> Change:
    """The move that follows from an outcome; of so many tries, or as many as there were attempts."""
    match outcome:
        case Passed():
            return _passed(kind, claim, outcome, facts, move=move)
        case Failed(transient=True) if (tried or claim.job.attempts) < kind.tries:
            pause = kind.backoff.seconds(claim.job.attempts, chance)
            return _retried(kind, claim, outcome, facts, move=move, pause=pause)
        case Failed() if not kind.machine.allows(claim.job.state, "fail"):  # a state that never fails
            pause = kind.backoff.seconds(claim.job.attempts, chance)
            return _retried(kind, claim, outcome, facts, move=move, pause=pause)
        case Failed():
            return _failed(kind, claim, outcome, facts, move=move)
        case Wait():
            return _waited(kind, claim, outcome, facts, move=move)
        case Hold():
            return claimed_change(claim, kind.machine, "hold", move=move, detail={"why": outcome.why})


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
    machine = kind.machine
    failed = [state for state, end in machine.ends.items() if end == "failed"]
    to = next((state for state in failed if machine.allows(state, "resume")), failed[0])
    return claimed_change(claim, machine, "fail", move=move, to=to, detail={"reason": why}, code=FORGED)


def revoked(
    kind: Kind, claim: Claim, how: str, *, move: str, facts: Mapping[str, Any] | None = None, keep: Facts | None = None
) -> Change:
    """The one thing a revoked holder may still say: that its work is dead. What it left behind is kept."""
    kept = {"keep": keep, "facts": _all_facts(facts or {}, keep)} if keep else {}
    return claimed_change(claim, kind.machine, how, move=move, detail={"why": "its work was stopped"}, **kept)


def _passed(kind: Kind, claim: Claim, outcome: Passed, facts: Mapping[str, Any], move: str) -> Change:
    """As `claimed_change` would make it, but without its detours: most work passes, and this is half the price."""
    job, machine = claim.job, kind.machine
    to = machine.next(job.state, "pass")
    return new_change(
        id=job.id,
        frm=job.state,
        to=to,
        type="passed",
        outcome="warning" if outcome.warning else "success",
        agent=claim.holder,
        runnable=machine.is_working(to),
        ended=machine.end(to),
        token=claim.token,
        move=move,
        detail=outcome.detail,
        keep=outcome.keep,
        then=outcome.then,
        items=outcome.items,
        events=outcome.events,
        priority=outcome.priority,
        lane=outcome.lane,
        place=outcome.place,
        last_passed=job.state,
        open=_own_count(claim),
        facts=_all_facts(facts, outcome.keep),
        remove=outcome.forget,
        look=outcome.look,
        by=job.by,
        claimed=job.move,
    )


def _failed(kind: Kind, claim: Claim, outcome: Failed, facts: Mapping[str, Any], move: str) -> Change:
    return claimed_change(
        claim,
        kind.machine,
        "fail",
        move=move,
        detail={"reason": outcome.reason, **outcome.detail},
        keep=outcome.keep,
        code=outcome.code,
        facts=_all_facts(facts, outcome.keep),
        then=outcome.then,
        events=outcome.events,
        by=claim.job.by,
    )


def _retried(kind: Kind, claim: Claim, outcome: Failed, facts: Mapping[str, Any], *, move: str, pause: float) -> Change:
    attempt = claim.job.attempts
    return claimed_change(
        claim,
        kind.machine,
        "retry",
        move=move,
        detail={"reason": outcome.reason, "attempt": attempt, "again_in": round(pause, 3), **outcome.detail},
        keep=outcome.keep,
        facts=_all_facts(facts, outcome.keep),
        code=outcome.code,
        delay=pause,
    )


def _waited(kind: Kind, claim: Claim, outcome: Wait, facts: Mapping[str, Any], move: str) -> Change:
    return claimed_change(
        claim,
        kind.machine,
        "wait",
        move=move,
        detail={"why": outcome.why, "again_in": outcome.seconds} | ({"until": outcome.until} if outcome.until else {}),
        keep=outcome.keep,
        facts=_all_facts(facts, outcome.keep),
        delay=outcome.seconds,
        attempts=-1,
        needs=outcome.needs,
    )


def _all_facts(facts: Mapping[str, Any], keep: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What is to stand there after the move; None, where nothing is added: as they are, whatever we believe."""
    return {**facts, **keep} if keep else None


def _own_count(claim: Claim) -> int:
    """A job that fans out counts itself among its open children until it is done doing so."""
    return -1 if claim.job.when_empty is not None else 0

"""One claim through a pipeline: is it still wanted? → is anything of it still alive? → call → judge."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, cast

from custody.engine.judge import judge, poison, revoked, surprise
from custody.engine.kinds import Kind
from custody.engine.work import Work
from custody.model.errors import LeaseLost
from custody.model.job import Change
from custody.model.outcome import Failed, Hold, Outcome


def run(kind: Kind, work: Work, chance: float, move: str) -> Change | None:
    """Work on one claim; the move to settle, or None when nothing may be said any more."""
    job = work.job
    try:
        if job.suspect or job.revoked:
            kind.confirm_dead(job)  # lease expiry is not death
        if job.revoked:
            return revoked(kind, work.claim, job.revoked, work.facts, move)
        outcome = _before(kind, work) or _call(kind, work)
    except LeaseLost:
        return None
    except Exception as error:
        outcome = surprise(error)
    return conclude(kind, work, outcome, chance, move)


def conclude(kind: Kind, work: Work, outcome: Outcome, chance: float, move: str) -> Change | None:
    """What may be said at the end, given that the work may have been told to stop meanwhile."""
    if work.lost:
        return None
    if work.stop_reason in ("cancel", "supersede"):
        return revoked(kind, work.claim, work.stop_reason, work.facts, move)
    return judge(kind, work.claim, outcome, work.facts, chance, move)


def _before(kind: Kind, work: Work) -> Outcome | None:
    """Outcomes that need no handler: put aside as poison, or held."""
    job, hold = work.job, work.claim.hold
    if job.crashes >= kind.crashes and kind.machine.allows(job.state, "fail"):
        return poison(work.claim)
    if hold is not None and kind.machine.allows(job.state, "hold"):
        return Hold(f"{hold.scope} {hold.name} is held by {hold.who}: {hold.why}")
    return None


def _call(kind: Kind, work: Work) -> Outcome:
    if kind.handler is None:
        raise TypeError(f"{kind.kind} in state {kind.state} has a pass, not a handler")
    value: Any = kind.handler(work)
    if inspect.iscoroutine(value):
        value = asyncio.run(value)
    if value is None:
        return Failed("surprise", f"the handler for {kind.kind} returned nothing; it must return an outcome")
    return cast(Outcome, value)

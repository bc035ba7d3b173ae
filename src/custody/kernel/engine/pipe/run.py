"""One claim: is it still wanted? → is anything of it still alive? → call → judge."""

from __future__ import annotations

import asyncio
import inspect
import random
import time
from asyncio import CancelledError
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from custody.errors import LeaseLost
from custody.kernel.engine.judge import judge, poison, refused, revoked, surprise
from custody.kernel.engine.kinds import Kind, Serving
from custody.kernel.engine.listeners import Listener
from custody.kernel.engine.pipe.prefetch import Prefetch
from custody.kernel.engine.pipe.values import Finished, Lost
from custody.kernel.engine.recovery.strays import stay
from custody.kernel.engine.work import Work
from custody.kernel.model.job import Change, Onward
from custody.kernel.model.outcome import Failed, Hold, Outcome
from custody.kernel.ports import Store

NOT_DEAD = "not confirmed dead"
LATE = "late"
IN_A_ROW = 32  # so often the next of a queue is taken with the end of the one before it


class Runner:
    """Runs what was claimed, in whatever thread asks."""

    def __init__(
        self,
        store: Store,
        serving: Serving,
        *,
        holder: str,
        lease: float,
        prefetch: Prefetch,
        listener: Listener,
        rng: random.Random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._serving, self._holder, self._lease = store, serving, holder, lease
        self._prefetch, self._listener, self._rng, self._clock = prefetch, listener, rng, clock
        self.in_a_row = IN_A_ROW  # 0: nothing goes onward

    def run(self, work: Work) -> Finished | Lost:
        """Run one; what is to be settled, or that nothing may be said about it."""
        if self._is_late(work):
            return Lost(work, LATE)
        started = self._clock()
        self._listener.started(work.job)
        kind = self._serving.of(work.job)
        change = run(kind, work, chance=self._rng.random(), move=self._store.new_move(), store=self._store)
        self._prefetch.add(self._clock() - started)
        if change is None:
            return Lost(work, work.stop_reason)
        return Finished(work, self._with_next(kind, work, change) if kind.onward and change.ended else change)

    def _is_late(self, work: Work) -> bool:
        """Is its lease over, or nearly? This process stood still, or was renewing in vain: somebody else may have begun
        it, so it is given back unbegun. (Of one that was stopped nothing is begun anyway.)"""
        return not work.stopped and work.trusted_until <= self._clock()

    def run_in_thread(self, work: Work) -> Finished | Lost:
        """Run one, and outlive whatever it throws: else it would be held, and renewed, for ever."""
        try:
            return self.run(work)
        except BaseException as error:
            kind, move = self._serving.of(work.job), self._store.new_move()
            change = conclude(kind, work, surprise(error), chance=self._rng.random(), move=move)
            return Finished(work, change) if change else Lost(work, work.stop_reason)

    def _with_next(self, kind: Kind, work: Work, change: Change) -> Change:
        """Its end may make the next one ready, which is then ours. Not for ever: others, and other queues, have their
        turn."""
        if kind.at_most or work.in_a_row >= self.in_a_row:
            return change
        return replace(change, onward=Onward(work.job.queue, self._holder, self._lease))


def run(kind: Kind, work: Work, *, chance: float, move: str, store: Store) -> Change | None:
    """Work on one claim; the move to settle, or None when nothing may be said any more."""
    if work.lost or not _is_dead(kind, work):
        return None
    if work.stopped:  # while it waited for its turn
        return conclude(kind, work, Failed("stopped"), chance=chance, move=move)
    try:
        if work.job.revoked:
            return revoked(kind, work.claim, work.job.revoked, move=move)
        if why := forged(kind, work, store):
            return refused(kind, work.claim, why, move)
        return conclude(kind, work, _before(kind, work) or _call(kind, work), chance=chance, move=move)
    except LeaseLost:
        return None
    except (Exception, SystemExit, CancelledError) as error:  # a handler that wants to end the process ends only itself
        return conclude(kind, work, surprise(error), chance=chance, move=move)


def _is_dead(kind: Kind, work: Work) -> bool:
    """Lease expiry is not death: is anything of an earlier attempt still alive?"""
    if not (work.job.suspect or work.job.revoked):
        return True
    try:
        try:
            kind.confirm_dead(work.job)
        finally:
            stay(work.claim.pid, "asking whether job {} is dead", work.job.id)
    except Exception as error:
        work.stop(f"{NOT_DEAD}: {error}")  # whoever claims it next has to ask again
        return False
    work.confirmed = True
    return True


def conclude(kind: Kind, work: Work, outcome: Outcome, *, chance: float, move: str) -> Change | None:
    """What may be said at the end, given that the work may have been told to stop meanwhile."""
    if work.lost:
        return None
    if work.stop_reason in ("cancel", "supersede"):
        keep = {} if isinstance(outcome, Hold) else outcome.keep
        return revoked(kind, work.claim, work.stop_reason, move=move, facts=work.facts, keep=keep)
    if work.stop_reason == "shutdown" and isinstance(outcome, Failed):
        return None  # it was we who stopped it: that is no failure of the work
    if not isinstance(outcome, Hold) and outcome.keep and not work.is_sure_of_its_facts():
        return None
    tried = work.tried(kind.tries) if isinstance(outcome, Failed) and outcome.transient else 0
    return judge(kind, work.claim, outcome, facts=work.facts, chance=chance, move=move, tried=tried)


def forged(kind: Kind, work: Work, store: Store) -> str:
    """Why an application cannot have made this job; empty when it can. Held against its shape before anything of it is
    believed, then against what is true in the store."""
    maker, job = kind.maker, work.job
    if maker is None or maker.is_open:
        return ""
    if told := maker.fault(job.payload):
        return f"its payload {told}"
    if not job.by and job.created >= store.acting_since():
        return "nobody is known to have made it"
    try:
        return maker.verify(store, job) if maker.verify else ""
    finally:
        stay(work.claim.pid, "asking who made job {}", job.id)


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
    try:
        value: Any = kind.handler(work)
        if inspect.iscoroutine(value):
            value = asyncio.run(value)
    finally:
        stay(work.claim.pid, "the body of job {} ({})", work.job.id, kind.kind)
    if not isinstance(value, Outcome):
        returned = "nothing" if value is None else f"a {type(value).__name__}"
        return Failed("surprise", f"the handler for {kind.kind} returned {returned}; it must return an outcome")
    return value

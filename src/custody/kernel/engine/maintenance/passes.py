"""Passes: a kind may look at all its waiting jobs at once instead of at each by itself.

One process at a time decides, under a named lease. It says what becomes of some jobs; the others are untouched
and uncharged. What it decided is claimed and settled like any other work, so a pass that was overtaken
can do no harm.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from custody.kernel.engine.judge import judge
from custody.kernel.engine.kinds import Kind, Serving
from custody.kernel.engine.listeners import Listener, report
from custody.kernel.engine.pipe.settler import Settler
from custody.kernel.engine.pipe.values import Finished, Settled
from custody.kernel.engine.recovery.strays import stay
from custody.kernel.engine.work import Work
from custody.kernel.model.job import Claim, Filter, Job
from custody.kernel.model.outcome import Hold, Outcome
from custody.kernel.ports import Store

MOST_JOBS = 10_000
REST = 4  # times as long as a pass took, nothing is passed over again


class Passes:
    """Each kind that has a pass, when its time has come."""

    def __init__(
        self,
        store: Store,
        serving: Serving,
        *,
        chance: Callable[[], float],
        clock: Callable[[], float],
        listener: Listener,
    ) -> None:
        self._store, self._serving, self._chance, self._clock, self._listener = store, serving, chance, clock, listener
        self._next: dict[str, float] = {}

    def run(self, holder: str, lease: float, at_once: bool) -> int:
        """Those whose time has come, or all; answers how many jobs moved."""
        kinds = [
            kind for kind in self._serving.passes() if at_once or self._next.get(kind.prefix, 0.0) <= self._clock()
        ]
        return sum(self._pass(kind, holder, lease) for kind in kinds)

    def _pass(self, kind: Kind, holder: str, lease: float) -> int:
        began = self._clock()
        try:
            return run_pass(self._store, kind, holder, seconds=lease, chance=self._chance)
        except Exception as error:  # one kind's trouble is not that of the others
            report(self._listener, error, f"the pass over {kind.kind} in state {kind.state}")
            return 0
        finally:  # one that looks at very many jobs takes its time, and must not take all of ours
            now = self._clock()
            self._next[kind.prefix] = max(began + kind.every, now + REST * (now - began))


def run_pass(store: Store, kind: Kind, holder: str, *, seconds: float, chance: Callable[[], float]) -> int:
    """Decide once over all that wait; answers how many jobs moved."""
    if not store.queue.ready_queues(kind.prefix, limit=1):
        return 0
    lease = store.leases.claim(f"pass/{kind.kind}/{kind.state}", holder, seconds)
    if lease is None:
        return 0
    try:
        every = store.queue.every(Filter(kind=kind.kind, state=kind.state))
        waiting = islice((job for job in every if not job.holder), MOST_JOBS)
        chosen = _decide(kind, [job for job in waiting if job.unmet == 0])
        store.leases.renew(lease, seconds)  # decided too slowly: someone else may be deciding
        claims = store.queue.claim_jobs(sorted(chosen), holder, seconds)
        return _settle(
            store, kind, [_finished(store, kind, claim, chosen[claim.id], chance=chance()) for claim in claims]
        )
    finally:
        store.leases.settle(lease)


def _decide(kind: Kind, waiting: Sequence[Job]) -> Mapping[int, Outcome]:
    if kind.decide is None:
        raise TypeError(f"{kind.kind} in state {kind.state} has no pass")
    here = os.getpid()
    try:
        return kind.decide(waiting)
    finally:
        stay(here, "the pass over {} in state {}", kind.kind, kind.state)


def _finished(store: Store, kind: Kind, claim: Claim, outcome: Outcome, chance: float) -> Finished:
    outcome, facts = _held_or(kind, claim, outcome), claim.job.facts
    return Finished(
        Work(claim, store.queue), judge(kind, claim, outcome, facts=facts, chance=chance, move=store.new_move())
    )


def _settle(store: Store, kind: Kind, finished: list[Finished]) -> int:
    """Say it, without waiting for a store that is away: the next pass decides again."""
    settler, moved = Settler(store, Serving((kind,))), 0
    while finished:
        again: list[Finished] = []
        for said in settler.attempt(finished):
            moved += sum(end.answer.done for end in said.ends if isinstance(end, Settled))
            again += said.again
        finished = again
    return moved


def _held_or(kind: Kind, claim: Claim, outcome: Outcome) -> Outcome:
    if claim.hold is not None and kind.machine.allows(claim.job.state, "hold"):
        return Hold(f"{claim.hold.scope} {claim.hold.name} is held by {claim.hold.who}: {claim.hold.why}")
    return outcome

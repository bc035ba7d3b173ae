"""What still waits when a worker that runs until it is idle ends: told once, in words or for programs.

Whoever runs it from a timer sees nothing else: a deposit whose callback is refused for a day would be in processing for
a day, without a word. It is no failure of the run, which ends with 0: what was to be done by now is done.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any

from custody.cli import runtime
from custody.cli.open_store import label
from custody.kernel.model.job import Filter, Job
from custody.kernel.model.machine import Machines
from custody.kernel.model.why import Reason
from custody.kernel.stores import Store
from custody.opening import Opened
from custody.web.operations import reasons as looking

MOST_ASKED = 500
"""Jobs that are asked what they wait for; the others are counted."""
NOT_WAITING = frozenset({"open", "leased", "ended"})
"""What has its jobs told about, is being worked on, or is over by now."""
OF_MANY = frozenset({"held", "paused", "no-worker", "place", "elsewhere", "external"})
"""Reasons whose words are the same for all that wait for it; in others there are numbers and times of each job."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Jobs of one kind that wait for the same."""

    kind: str
    count: int
    example: int
    reason: Reason
    next: int | None = None  # when the first of them goes on by itself, in microseconds


@dataclass(frozen=True, slots=True)
class Left:
    groups: Sequence[Waiting]
    unasked: int  # further jobs that have not ended

    def for_programs(self, ended: str, settled: int) -> dict[str, Any]:
        groups = [{**asdict(each), "reason": asdict(each.reason)} for each in self.groups]
        return {"ended": ended, "settled": settled, "waiting": groups, "more": self.unasked}

    def tell(self, now: int) -> None:
        for each in self.groups:
            what = f"{runtime.counted(each.count, 'job')} of {each.kind}"
            runtime.tell_reason(f"waits: {what}, such as {label(each.example)}", each.reason, now)
        if self.unasked:
            print(f"waits: {self.unasked} more; `custody job why JOB` says what one waits for")


def left(
    store: Store, machines: Machines, kinds: Collection[str], opened: Callable[[str], Opened | None], place: str
) -> Left:
    """All of these kinds that have not ended, by what they wait for, the commonest first."""
    groups: dict[tuple[str, str, str], Waiting] = {}
    counts = [
        (kind, state, count)
        for kind, state, count in store.queue.counts()
        if kind in kinds and state != "deleted" and machines.of(kind).end(state) is None
    ]
    asked = 0
    for job in islice(_jobs(store, counts), MOST_ASKED):
        asked += 1
        for reason in looking.why(store, job, opened, place)[:1]:
            if reason.code not in NOT_WAITING:
                gist = reason.text if reason.code in OF_MANY else job.code or ""
                known = groups.setdefault((job.kind, reason.code, gist), Waiting(job.kind, 0, job.id, reason))
                first = min(filter(None, (known.next, job.due)), default=None)
                groups[job.kind, reason.code, gist] = replace(known, count=known.count + 1, next=first)
    unasked = sum(count for _, _, count in counts) - asked if asked == MOST_ASKED else 0
    return Left(sorted(groups.values(), key=lambda each: -each.count), unasked)


def _jobs(store: Store, counts: Sequence[tuple[str, str, int]]) -> Iterator[Job]:
    for kind, state, _ in counts:
        yield from (job for job in store.queue.every(Filter(kind=kind, state=state)) if job.ended is None)

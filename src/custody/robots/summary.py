"""What became of each item in a run, as what it is: a time-out is no failure, and a busy lock is not nothing."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from custody.errors import CustodyError
from custody.kernel.engine.listeners import NOTHING, Listener
from custody.kernel.model.job import Answer, Change, Filter, Job
from custody.kernel.stores import Store
from custody.robots.items.late_events import keep_refused
from custody.robots.robot import Robot
from custody.robots.runner import BUSY

WORDS = {
    "success": "went well",
    "warning": "with a warning",
    "failure": "failed",
    "stopped": "stopped as a loop",
    "not ready": "no longer ready",
    "postponed": "postponed",
    "busy": "lock busy",
    "again": "to be tried again",
    "timeout": "timed out",
    "broken": "could not be worked on",
    "late": "lost, said too late",
    "left": "never started",
}
BAD = ("failure", "timeout", "broken")


@dataclass(slots=True)
class Tally:
    """Listens to a worker and counts; late events are kept aside on the way."""

    store: Store
    then: Listener = NOTHING
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    troubles: list[CustodyError] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def started(self, job: Job) -> None:
        self.then.started(job)

    def settled(self, job: Job, change: Change, answer: Answer) -> None:
        keep_refused(self.store, job, change, answer)
        self._count(job, word_of(change) if answer.done else "late")
        self.then.settled(job, change, answer)

    def lost(self, job: Job, reason: str) -> None:
        self._count(job, "late")
        self.then.lost(job, reason)

    def trouble(self, error: CustodyError) -> None:
        with self.lock:
            self.troubles.append(error)
        self.then.trouble(error)

    def _count(self, job: Job, word: str) -> None:
        with self.lock:
            self.counts.setdefault(job.kind.removeprefix("robot/"), Counter())[word] += 1

    def leftovers(self, robots: Sequence[Robot]) -> None:
        """Items that are ready and that nobody has begun: counted as what they are, at the end of a cycle."""
        for robot in robots:
            ready = Filter(kind=robot.kind, state="queued")
            waiting = sum(not job.unmet and job.holder is None for job in self.store.queue.every(ready))
            if waiting:
                self.counts.setdefault(robot.name, Counter())["left"] = waiting

    def any_bad(self) -> bool:
        return any(counts[word] for counts in self.counts.values() for word in BAD)

    def lines(self) -> list[str]:
        return [
            f"{name}: " + ", ".join(f"{counts[word]} {text}" for word, text in WORDS.items() if counts[word])
            for name, counts in sorted(self.counts.items())
        ]


def word_of(change: Change) -> str:
    """One of WORDS for a move."""
    if change.events:
        event = change.events[0]
        return event.outcome if event.robot else "stopped"
    if change.type == "waited":
        return "busy" if str(change.detail.get("why", "")).startswith(BUSY) else "postponed"
    if change.type == "failed":
        return "timeout" if change.code == "robot.timeout" else "broken"
    return {"retried": "again", "passed": "not ready"}.get(change.type, change.type)

"""The queue as one would explain it on paper: plain rows, no SQL, no indexes, nothing kept that can be counted.

`unmet`, `open` and readiness are recomputed whenever someone asks. Whatever the stores keep instead, to be quick,
must always agree with this.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from custody.kernel.model.graph import Edge, satisfied
from custody.kernel.model.job import Job
from custody.kernel.model.machine import WORK
from custody.kernel.model.suspicion import after_death

STATE_OF_END = {"passed": "done"}  # others are called as they ended


@dataclass
class Need:
    edge: Edge
    met: bool


@dataclass
class Row:
    id: int
    state: str = "queued"
    ended: str | None = None
    priority: int = 50
    due: int | None = None
    needs: list[Need] = field(default_factory=list)
    parent: int | None = None
    when_empty: str | None = None
    line: str | None = None
    position: int = 0
    supersedes: bool = False
    has_superseded: bool = False
    token: int = 1
    holder: str | None = None
    until: int = 0
    attempts: int = 0
    crashes: int = 0
    retries: int = 0
    suspect: int = 0
    revoked: str | None = None

    @property
    def unmet(self) -> int:
        return sum(not need.met for need in self.needs) + (self.due is not None)

    @property
    def runnable(self) -> bool:
        return self.state in ("queued", "reporting")

    @property
    def ready(self) -> bool:
        return self.runnable and not self.unmet and self.holder is None


class Queue:
    def __init__(self, now: int) -> None:
        self.now = now
        self.rows: dict[int, Row] = {}
        self.paused = False
        self._news: deque[Row] = deque()
        self._lost_a_child: set[int] = set()

    def open(self, parent: int) -> int:
        return sum(row.parent == parent and row.ended is None for row in self.rows.values())

    # The verbs. Each answers what the store should answer.

    def submit(self, row: Row, needs: Iterable[Edge]) -> None:
        row.needs = [Need(edge, satisfied(edge.wants, self.rows[edge.on].ended)) for edge in needs]  # type: ignore[arg-type]
        self.rows[row.id] = row
        if any(self._hopeless(need) for need in row.needs):
            self._end_unworked(row, "skipped")
        else:
            self._may_be_ready(row)
        self._spread()

    def claim(self, holder: str, seconds: float, limit: int) -> list[int]:
        ready = [] if self.paused else [row for row in self.rows.values() if row.ready and row.state == "queued"]
        chosen = sorted(ready, key=lambda row: (row.priority, row.id))[:limit]
        for row in chosen:
            self._lease(row, holder, seconds)
            row.suspect = min(row.suspect, 2)
        return [row.id for row in chosen]

    def expired(self) -> list[int]:
        lost = [row for row in self.rows.values() if row.holder is not None and row.until <= self.now]
        return [row.id for row in sorted(lost, key=lambda row: (row.until, row.id))]

    def take_over(self, holder: str, seconds: float, most: int) -> list[int]:
        chosen = self.expired()[:most]
        for job in chosen:
            row = self.rows[job]
            row.suspect, points = after_death(row.suspect)
            row.crashes += points
            self._lease(row, holder, seconds)
        return chosen

    def suspect(self, job: int, token: int, mark: int) -> bool:
        if not self._holds(job, token):
            return False
        self.rows[job].suspect = mark
        return True

    def renew(self, job: int, token: int, seconds: float) -> str | None:
        if not self._holds(job, token):
            return "lost"
        self.rows[job].until = self.now + int(seconds * 1_000_000)
        return self.rows[job].revoked

    def release(self, job: int, token: int) -> bool:
        row = self.rows.get(job)
        if row is None or not self._holds(job, token) or row.revoked:
            return False
        row.attempts -= 1
        self._free(row)
        return True

    def settle(self, job: int, token: int, ended: str | None, delay: float) -> bool:
        row = self.rows.get(job)
        if row is None or not self._holds(job, token):
            return False
        if row.revoked and ended not in ("cancelled", "superseded"):
            return False
        self._free(row)
        row.revoked, row.suspect = None, 0
        if ended:
            self._end(row, ended)
        else:
            row.attempts -= 1
            row.due = self.now + int(delay * 1_000_000) if delay else None
        self._spread()
        return True

    def waiting(self, job: int) -> list[int]:
        """Who has not ended and waits for it."""
        return [row.id for row in self._waiting_for(job) if row.ended is None]

    def go_on(self, waited: Iterable[int], holder: str, seconds: float) -> int | None:
        """Of those who waited for a job that has just ended: the one that its holder goes on with."""
        ready = [row for job in waited if (row := self.rows[job]).ready and row.state == "queued"]
        if self.paused or not ready:
            return None
        row = min(ready, key=lambda row: (row.priority, row.id))
        self._lease(row, holder, seconds)
        return row.id

    def order(self, job: int, to: str) -> bool:
        """An administrator's move to another state of the machine for plain work."""
        row = self.rows[job]
        if row.holder is not None:
            return False
        was_open, ended = row.ended is None, WORK.end(to)
        row.token += 1
        row.attempts = row.crashes = 0
        row.due = None
        row.state, row.ended = to, ended
        if ended:
            self._news.append(row)
            if was_open and row.parent is not None:
                self._lost_a_child.add(row.parent)
        else:
            for need in row.needs:
                need.met = need.met or (not was_open and need.edge.on not in self.rows)  # to go on without it
            self._may_be_ready(row)
        self._spread()
        return True

    def revoke(self, job: int, how: str) -> bool:
        row = self.rows[job]
        if row.holder is None or row.revoked:
            return False
        row.revoked = how
        return True

    def delete(self, job: int) -> bool:
        row = self.rows[job]
        if row.holder is not None:
            return False
        del self.rows[job]
        if row.parent is not None and row.ended is None:
            self._lost_a_child.add(row.parent)
        self._tell(job, "deleted")
        self._spread()
        return True

    def tick(self) -> int:
        come = [row for row in self.rows.values() if row.due is not None and row.due <= self.now]
        for row in sorted(come, key=lambda row: (row.due, row.id)):
            row.due = None
            self._may_be_ready(row)
        self._spread()
        return len(come)

    # What comes of it.

    def _holds(self, job: int, token: int) -> bool:
        row = self.rows.get(job)
        return row is not None and row.holder is not None and row.token == token

    def _lease(self, row: Row, holder: str, seconds: float) -> None:
        row.holder, row.until = holder, self.now + int(seconds * 1_000_000)
        row.token += 1
        row.attempts += 1

    def _free(self, row: Row) -> None:
        row.holder, row.until = None, 0
        row.token += 1

    def _end(self, row: Row, how: str) -> None:
        if row.ended is None and row.parent is not None:
            self._lost_a_child.add(row.parent)
        row.state, row.ended, row.due = STATE_OF_END.get(how, how), how, None
        row.attempts = row.crashes = 0
        self._news.append(row)

    def _end_unworked(self, row: Row, how: str) -> None:
        row.token += 1
        self._end(row, how)

    def _spread(self) -> None:
        while self._news:
            row = self._news.popleft()
            if row.ended:
                self._tell(row.id, row.ended)
            else:
                for waiter in self._waiting_for(row.id):
                    self._rearm(waiter)
        for parent in sorted(self._lost_a_child):
            row_ = self.rows.get(parent)
            if row_ and row_.when_empty and not row_.ended and self.open(parent) == 0:
                row_.state, row_.when_empty = row_.when_empty, None
                row_.token += 1
        self._lost_a_child.clear()

    def _waiting_for(self, target: int) -> list[Row]:
        return [
            row
            for _, row in sorted(self.rows.items())
            if any(need.edge.on == target and not need.met for need in row.needs)
        ]

    def _tell(self, target: int, ended: str) -> None:
        met = []
        for row in self._waiting_for(target):
            for need in row.needs:
                if need.edge.on == target and not need.met and satisfied(need.edge.wants, ended):  # type: ignore[arg-type]
                    need.met = True
                    met.append(row)
        for row in met:
            if row.ended == "skipped":
                self._rearm(row)
            else:
                self._may_be_ready(row)
        for row in self._waiting_for(target):
            asked = any(n.edge.on == target and not n.met and n.edge.otherwise == "skip" for n in row.needs)
            if asked and row.ended is None:
                self._end_unworked(row, "skipped")

    def _hopeless(self, need: Need) -> bool:
        target = self.rows.get(need.edge.on)
        return not need.met and need.edge.otherwise == "skip" and (target is None or target.ended is not None)

    def _rearm(self, row: Row) -> None:
        if row.ended != "skipped" or any(self._hopeless(need) for need in row.needs):
            return
        row.state, row.ended = "queued", None
        row.token += 1
        row.attempts = row.crashes = 0
        self._news.append(row)
        self._may_be_ready(row)

    def _may_be_ready(self, row: Row) -> None:
        if row.line is None or row.unmet or row.ended or not row.runnable:
            return
        others = [other for _, other in sorted(self.rows.items()) if other.line == row.line]
        if any(other.position > row.position and other.has_superseded for other in others):
            self._end_unworked(row, "superseded")
            return
        if not row.supersedes:
            return
        for older in others:
            if older.position < row.position and older.ended is None:
                self._supersede(older, row)
        row.has_superseded = True

    def _supersede(self, older: Row, newer: Row) -> None:
        if older.holder is None:
            self._end_unworked(older, "superseded")
            return
        older.revoked = older.revoked or "supersede"
        newer.needs = [need for need in newer.needs if need.edge.on != older.id]
        newer.needs.append(Need(Edge(older.id, "finished"), False))


def seen(row: Row, open_: int) -> tuple[object, ...]:
    """A row of the model, as far as stores and model must agree."""
    return (
        row.id,
        row.state,
        row.ended,
        row.runnable,
        row.priority,
        row.unmet,
        row.due,
        open_,
        row.when_empty,
        row.token,
        row.holder,
        row.until,
        row.attempts,
        row.crashes,
        row.retries,
        row.suspect,
        row.revoked,
    )


def stored(job: Job) -> tuple[object, ...]:
    """The same of a job in a store."""
    return (
        job.id,
        job.state,
        job.ended,
        job.runnable,
        job.priority,
        job.unmet,
        job.due,
        job.open,
        job.when_empty,
        job.token,
        job.holder,
        job.until,
        job.attempts,
        job.crashes,
        job.retries,
        job.suspect,
        job.revoked,
    )

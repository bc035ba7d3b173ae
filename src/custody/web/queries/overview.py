"""What the overview shows, looked up seldom and shown often.

Counting a million jobs takes a while, so what was counted is kept for a moment that grows with its price, and an
expensive count is renewed beside the requests, never in one. Whoever changes something lets it be forgotten.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from custody.kernel.model.event import Event
from custody.kernel.model.job import Failures, Filter, HeldBy, Job
from custody.kernel.model.machine import Machines
from custody.kernel.model.why import Reason
from custody.kernel.stores import Store
from custody.kernel.stores.recovery.losses import losses
from custody.kernel.stores.rows import Tx, job_from
from custody.kernel.stores.store import WorkerSeen
from custody.web.sections import Line, Station

T = TypeVar("T")
KEEP_SECONDS = 0.5
PRICE_FACTOR = 20
EXPENSIVE = 0.02  # seconds
DAY = 86_400_000_000
HOUR = 3_600_000_000
MOST_DOTS = 20
PAIR_END = "\U0010ffff"
Pair = tuple[str, str]  # a kind and a state


class Cache:
    """Values by name, each with its price."""

    def __init__(self) -> None:
        self._values: dict[str, tuple[Any, float]] = {}
        self._prices: dict[str, float] = {}
        self._renewing: set[str] = set()
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}

    def get(self, name: str, make: Callable[[], T]) -> T:
        value, until = self._values.get(name, (None, -1.0))
        if time.monotonic() < until:
            return cast(T, value)
        if until > 0 and self._is_expensive(name):
            self._renew_beside(name, make)
            return cast(T, value)
        with self._lock_of(name):
            value, until = self._values.get(name, (None, -1.0))
            return cast(T, value) if time.monotonic() < until else self._make(name, make)

    def forget(self) -> None:
        """What was known may be wrong now; dear things are looked up again soon rather than at once."""
        with self._lock:
            self._values = {name: (value[0], 0.5) for name, value in self._values.items() if self._is_expensive(name)}

    def _make(self, name: str, make: Callable[[], T]) -> T:
        began = time.monotonic()
        value = make()
        price = time.monotonic() - began
        self._prices[name] = price
        self._values[name] = (value, time.monotonic() + max(KEEP_SECONDS, PRICE_FACTOR * price))
        return value

    def _is_expensive(self, name: str) -> bool:
        return self._prices.get(name, 0.0) > EXPENSIVE

    def _lock_of(self, name: str) -> threading.Lock:
        with self._lock:
            return self._locks.setdefault(name, threading.Lock())

    def _renew_beside(self, name: str, make: Callable[[], T]) -> None:
        with self._lock:
            if name in self._renewing:
                return
            self._renewing.add(name)

        def work() -> None:
            try:
                self._make(name, make)
            finally:
                self._renewing.discard(name)

        threading.Thread(target=work, name=f"custody-glance-{name}", daemon=True).start()


@dataclass(frozen=True, slots=True)
class Lately:
    """What became of the jobs of a kind since yesterday."""

    kind: str
    passed: int
    failed: int


@dataclass(frozen=True, slots=True)
class StationNow:
    """One place on a line, as it stands."""

    station: Station
    kind: str
    count: int
    running: int
    workers: int
    oldest: int | None  # since when the one that waits longest could have been claimed
    late: bool

    @property
    def waiting(self) -> int:
        return self.count - self.running

    @property
    def dots(self) -> tuple[str, ...]:
        """One for each job up to twenty, those being worked on first."""
        running = min(self.running, MOST_DOTS)
        return ("running",) * running + ("waiting",) * min(self.waiting, MOST_DOTS - running)


@dataclass(frozen=True, slots=True)
class LineNow:
    line: Line
    stations: tuple[StationNow, ...]
    held: int
    failed: int
    done: int  # in the last day
    hours: tuple[int, ...]  # the last 24, oldest first
    blocked: tuple[Job, Reason] | None  # the oldest that waits at the fullest place, and why

    @property
    def total(self) -> int:
        return sum(station.count for station in self.stations)


class Glance:
    def __init__(self, store: Store, machines: Machines, lines: Sequence[Line]) -> None:
        self._store, self._machines, self._lines, self._kept = store, machines, tuple(lines), Cache()

    def forget(self) -> None:
        self._kept.forget()

    def counts(self) -> Mapping[Pair, int]:
        return self._kept.get("counts", lambda: {(k, s): n for k, s, n in self._store.queue.counts()})

    def counts_with_zeros(self) -> Mapping[Pair, int]:
        """Every state of every kind that is known, so that a gauge falls back to nothing."""
        known = {(kind, state): 0 for kind, machine in self._machines.by_kind.items() for state in machine.states()}
        return known | dict(self.counts())

    def leased(self) -> Mapping[Pair, int]:
        def look() -> Mapping[Pair, int]:
            rows = self._store.db.read(lambda tx: tx.run("leased_counts"))
            there = self._store.elsewhere.leased() if self._store.elsewhere else ()
            return Counter({(kind, state): count for kind, state, count, _ in rows}) + Counter(
                (job.kind, job.state) for job in there
            )

        return self._kept.get("leased", look)

    def workers(self) -> Sequence[WorkerSeen]:
        return self._kept.get("workers", self._store.workers)

    def failures(self) -> Sequence[Failures]:
        return self._kept.get("failures", self._store.queue.failures)

    def failed_by_code(self) -> Mapping[Pair, int]:
        """Failed jobs by kind and cause, whatever state that left them in."""
        totals: dict[Pair, int] = {}
        for group in self.failures():
            pair = (group.kind, group.code or "")
            totals[pair] = totals.get(pair, 0) + group.count
        return totals

    def holds(self) -> Sequence[HeldBy]:
        return self._kept.get("holds", self._store.queue.holds)

    def went_back(self) -> Sequence[Event]:
        """The last week's discoveries that what was acknowledged is lacking, unless somebody has taken note of it."""
        return self._kept.get("went back", self._went_back)

    def _went_back(self) -> Sequence[Event]:
        since = self._store.now() - 7 * DAY
        return [loss.event for loss in losses(self._store) if loss.at > since and not loss.is_known]

    def lines(self) -> Sequence[LineNow]:
        return self._kept.get("lines", lambda: [self._line(line) for line in self._lines])

    def brief(self, name: str, make: Callable[[], str]) -> str:
        """A few words about another part of the house."""
        return self._kept.get(f"brief {name}", make)

    def lately(self, kind: str) -> Lately:
        """How jobs of a kind have ended since yesterday; of very many, the newest are counted."""
        machine, since = self._machines.of(kind), self._store.now() - DAY

        def look(tx: Tx) -> Lately:
            ends = {end: 0 for end in ("passed", "failed")}
            for state in (state for one, state in self.counts() if one == kind):
                end = machine.end(state) or ""
                if end in ends:
                    ends[end] += len(tx.run("web_ended_since", kind=kind, state=state, since=since))
            return Lately(kind, ends["passed"], ends["failed"])

        return self._kept.get(f"lately {kind}", lambda: self._store.db.read(look))

    def oldest_seconds(self) -> Mapping[Pair, float]:
        """Of every state in which a worker has something to do, zero when nothing waits."""
        now = self._store.now()
        pairs = [pair for pair in self.counts_with_zeros() if self._machines.of(pair[0]).is_working(pair[1])]
        found = {pair: self._oldest(*pair) for pair in pairs}
        return {pair: (now - since) / 1e6 if since else 0.0 for pair, since in found.items()}

    def _oldest(self, kind: str, state: str) -> int | None:
        prefix = f"{kind}|{state}|"

        def look() -> int | None:
            rows = self._store.db.read(
                lambda tx: tx.run("web_oldest_ready", prefix=prefix, prefix_end=prefix + PAIR_END)
            )
            oldest: int | None = rows[0][0]
            there = self._store.elsewhere.since(kind, state) if self._store.elsewhere else ()
            return min([*([oldest] if oldest else []), *there], default=None)

        return self._kept.get(f"oldest {prefix}", look)

    def _line(self, line: Line) -> LineNow:
        stations = tuple(self._station(line, station) for station in line.stations)
        hours = self._hours(line)
        return LineNow(
            line=line,
            stations=stations,
            held=self.counts().get((line.kind, "held"), 0),
            failed=self._failed(line),
            done=sum(hours),
            hours=hours,
            blocked=self._blocked(stations),
        )

    def _failed(self, line: Line) -> int:
        machine = self._machines.of(line.kind)
        return sum(
            n for (kind, state), n in self.counts().items() if kind == line.kind and machine.end(state) == "failed"
        )

    def _station(self, line: Line, station: Station) -> StationNow:
        pair = (line.kind, station.state)
        count, running = self.counts().get(pair, 0), self.leased().get(pair, 0)
        oldest = self._oldest(*pair) if count else None
        late = oldest is not None and self._store.now() - oldest > station.late * 1_000_000
        prefix = f"{line.kind}|{station.state}|"
        serving = sum(any(prefix.startswith(each) for each in w.serves.split("\n") if each) for w in self.workers())
        return StationNow(
            station=station,
            kind=line.kind,
            count=max(count, running),
            running=running,
            workers=serving,
            oldest=oldest,
            late=late,
        )

    def _hours(self, line: Line) -> tuple[int, ...]:
        def look() -> tuple[int, ...]:
            now = self._store.now()
            rows = self._store.db.read(
                lambda tx: tx.run("web_ended_since", kind=line.kind, state=line.done, since=now - DAY)
            )
            there = self._store.elsewhere.since(line.kind, line.done) if self._store.elsewhere else ()
            ends = [*(changed for (changed,) in rows), *(at for at in there if at > now - DAY)]
            ages = [min(23, max(0, now - at) // HOUR) for at in ends]
            return tuple(ages.count(hour) for hour in range(23, -1, -1))

        return self._kept.get(f"hours {line.kind}", look)

    def _blocked(self, stations: Sequence[StationNow]) -> tuple[Job, Reason] | None:
        """One sentence about where most wait."""
        fullest = max(stations, key=lambda station: station.waiting, default=None)
        if fullest is None or not fullest.waiting:
            return None
        job = self._first(fullest.kind, fullest.station.state)
        if job is None:
            return None
        reasons = [reason for reason in self._store.queue.why(job.id) if reason.code not in ("leased", "ended")]
        return (job, reasons[0]) if reasons else None

    def _first(self, kind: str, state: str) -> Job | None:
        rows = self._store.db.read(lambda tx: tx.run("web_first_at", kind=kind, state=state))
        if rows or self._store.elsewhere is None:
            return job_from(rows[0]) if rows else None
        return next(self._store.elsewhere.every(Filter(kind=kind, state=state)), None)

"""Crashes at every point: a store whose process dies before or after its k-th verb, and a stage to play on.

*Before* means that the verb was never executed; *after*, that it was, and nobody heard the answer. Whoever used the
store is gone either way: nothing in the process may run on, not even what stands in a `finally`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from custody.errors import Refused
from custody.kernel.engine import Kind, Serving, Settings, Worker
from custody.kernel.model.job import Job, NewJob
from custody.kernel.model.machine import Machine, Machines
from custody.kernel.operations.jobs import Operator
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.sql.database import Database
from custody.kernel.stores.sqlite.database import SqliteDatabase
from faults.verbs import VerbDatabase
from kernel.stores.clock import MIDNIGHT, HandClock

T = TypeVar("T")
Mode = Literal["before", "after"]
MODES: tuple[Mode, ...] = ("before", "after")
LEASE = 30.0


class Crash(BaseException):
    """The process is gone."""


@dataclass(frozen=True, slots=True)
class Point:
    """The k-th verb after a start, before or after it is executed."""

    verb: int
    mode: Mode


class CrashingDatabase(VerbDatabase):
    """Counts the verbs that write, and dies at one of them."""

    def __init__(self, db: Database, point: Point | None) -> None:
        super().__init__(db)
        self._point = point
        self.verbs = 0
        self.dead = False

    def verb(self, act: Callable[[], T]) -> T:
        self._live()
        self.verbs += 1
        if self._point == Point(self.verbs, "before"):
            self._die()
        value = act()
        if self._point == Point(self.verbs, "after"):
            self._die()
        return value

    def seen(self, act: Callable[[], T]) -> T:
        self._live()
        return act()

    def _live(self) -> None:
        if self.dead:
            raise Crash

    def _die(self) -> None:
        self.dead = True
        raise Crash


@dataclass
class Stage:
    """A store, a clock, a client with a notebook, an operator, and workers that live for one run each."""

    db: Database
    clock: HandClock
    machines: dict[str, Machine] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)  # the client's: on paper, so it survives
    effects: list[str] = field(default_factory=list)  # what handlers did to the world
    crashes: int = 0
    point: Point | None = None
    verbs: int = 0

    def __post_init__(self) -> None:
        self.start(None)

    def start(self, point: Point | None) -> None:
        """A new process: nothing is left of the old one but the store."""
        self.point = point
        self._crashing = CrashingDatabase(self.db, point)
        self.store = Store.over("stage", self._crashing)
        self.operator = Operator(self.store, Machines(self.machines), "ada")

    def crashed(self) -> None:
        self.crashes += 1
        self.clock.advance(LEASE + 1)

    def at(self, seconds: float) -> None:
        """Not before so many seconds after the beginning."""
        self.clock.set(max(self.clock.now(), MIDNIGHT + int(seconds * 1_000_000)))

    def act(self, name: str, act: Callable[[], T]) -> T:
        """Something a client or an operator does once; after a crash, again unless it was noted."""
        if name not in self.notes:
            try:
                self.notes[name] = act()
            except Refused:
                if not self.crashes:
                    raise
                self.notes[name] = None  # it had been done, and only the answer was lost
        value: T = self.notes[name]
        return value

    def submit(self, key: str, kind: str = "parcel", **fields: Any) -> int:
        return self.act(f"submit {key}", lambda: self.store.queue.submit_one(NewJob(kind, key=key, **fields)).id)

    def run(self, *kinds: Kind, **settings: Any) -> int:
        """A worker that works until there is nothing left to do, and is then forgotten."""
        worker = Worker(self.store, Serving(kinds), Settings(threads=2, lease=LEASE, **settings), rng=random.Random(0))
        return worker.run_until_idle()

    def get(self, key: str, kind: str = "parcel") -> Job:
        job = self.store.queue.by_key(kind, key)
        assert job is not None, f"there is no {kind} {key}"
        return job

    def picture(self) -> dict[str, object]:
        """How everything ended, without what may differ: ids, tokens, times, and how often it was tried."""
        jobs = {}
        for job in self.store.queue.every():
            events = [(event.type, event.outcome) for event in self.store.records.all_events(job.subject)]
            label = f"{job.kind} {job.key or job.payload}"
            assert label not in jobs, f"two jobs {label}"
            jobs[label] = (job.state, job.ended, job.code, job.priority, dict(job.facts), job.unmet, job.open, events)
        items = {item.id: self._events(f"item/{item.id}") for item in self.store.records.items()}
        slots = {each.name: self.store.schedules.slots(each.name) for each in self.store.schedules.list()}
        made = {name: [(slot, outcome) for slot, _, outcome in found] for name, found in slots.items()}
        leases = [lease.name for lease in self.store.leases.list() if lease.until > self.clock.now()]
        return {"jobs": jobs, "items": items, "slots": made, "leases": leases, "holds": len(self.store.queue.holds())}

    def _events(self, subject: str) -> list[tuple[str, str]]:
        return [(event.type, event.outcome) for event in self.store.records.all_events(subject)]


class Memory:
    """One store in memory, emptied for every stage: half the price of a new one."""

    def __init__(self) -> None:
        self.clock = HandClock()
        database = open_store("sqlite://:memory:", self.clock).db
        assert isinstance(database, SqliteDatabase)
        self._database, self._db = database, database._writer._db
        names = [row[0] for row in self._db.execute("select name from sqlite_master where type = 'table'")]
        self._tables = [name for name in names if name not in ("schema_version", "application_version", "satisfies")]

    def stage(self) -> Stage:
        for table in self._tables:
            self._db.execute(f"delete from {table}")
        self.clock.set(MIDNIGHT)
        return Stage(self._database, self.clock)


Scenario = Callable[[Stage], None]


def play(scenario: Scenario, stage: Stage, plan: Iterable[Point] = ()) -> Stage:
    """Play to the end, through every crash of the plan; then nobody crashes any more."""
    for point in (*plan, None):
        stage.start(point)
        try:
            scenario(stage)
        except Crash:
            stage.crashed()
            continue
        stage.verbs = stage._crashing.verbs
        break
    stage.start(None)
    return stage


def points(verbs: int, modes: Sequence[Mode] = MODES) -> list[Point]:
    return [Point(verb, mode) for verb in range(1, verbs + 1) for mode in modes]

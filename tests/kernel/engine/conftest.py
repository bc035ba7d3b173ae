"""An engine over a store in memory, with a clock that only moves when told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from custody.kernel.engine import Kind, Serving, Settings, Work, Worker
from custody.kernel.model.job import Job, NewJob
from custody.kernel.model.outcome import Outcome
from custody.kernel.stores import Store, open_store


@dataclass
class HandClock:
    at: int = 1_700_000_000_000_000

    def now(self) -> int:
        return self.at

    def advance(self, seconds: float) -> None:
        self.at += int(seconds * 1_000_000)


@dataclass
class Bench:
    """A store, a clock, and workers that run when asked."""

    store: Store
    clock: HandClock
    seen: list[int] = field(default_factory=list)

    def worker(self, *kinds: Kind, **settings: object) -> Worker:
        return Worker(self.store, Serving(kinds), Settings(**settings))  # type: ignore[arg-type]

    def run(self, handler: Callable[[Work], Outcome], kind: str = "parcel", **options: object) -> int:
        return self.worker(Kind(kind, handler, **options)).run_until_idle()  # type: ignore[arg-type]

    def submit(self, kind: str = "parcel", **fields: object) -> int:
        return self.store.queue.submit_one(NewJob(kind, **fields)).id  # type: ignore[arg-type]

    def job(self, number: int) -> Job:
        return self.store.queue.get(number)

    def types(self, number: int) -> list[str]:
        return [event.type for event in self.store.records.events(f"job/{number}")]


@pytest.fixture
def bench() -> Iterator[Bench]:
    clock = HandClock()
    with open_store("sqlite://:memory:", clock) as store:
        yield Bench(store, clock)

"""What runs for weeks must not grow: memory, open files, the log beside the database; nor slow down."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from pathlib import Path
from statistics import median, quantiles

import apsw
import psycopg
import pytest

from custody.kernel.engine import Kind, Serving, Settings, Work, Worker
from custody.kernel.model.job import NewJob
from custody.kernel.model.outcome import Outcome, Passed
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.sqlite.database import SqliteDatabase
from custody.kernel.stores.sqlite.readers import MOST_SPARE
from faults.processes import until
from faults.troubled import in_thread
from prove.plugin import Scaled, Tell
from rig.descriptors import descriptors_below
from rig.postgres import Postgres

pytestmark = pytest.mark.slow

WAVE = 2_000
LOOKS = 25


@dataclass(slots=True)
class Sum:
    """How many have been done."""

    done: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, work: Work) -> Outcome:
        with self.lock:
            self.done += 1
        return Passed()

    def has(self, count: int) -> bool:
        return self.done >= count


@contextmanager
def at_work(store: Store) -> Iterator[Callable[[int], None]]:
    """A worker that stays; what is yielded gives it so many waves of jobs, and returns when they are done."""
    ran, given = Sum(), 0
    worker = Worker(store, Serving((Kind("parcel", ran.add),)), Settings(threads=2))
    thread = in_thread(worker)

    def waves(count: int) -> None:
        nonlocal given
        for _ in range(count):
            store.queue.submit([NewJob("parcel", {"number": number}) for number in range(WAVE)])
            given += WAVE
            until(partial(ran.has, given))  # the store is not asked: it would count a million each time

    try:
        yield waves
        until(lambda: store.queue.counts() == [("parcel", "done", given)])
        assert ran.done == given
    finally:
        worker.stop()
        thread.join()


def use_every_reader(store: Store) -> None:
    """As many connections for looking as are kept, each with a full cache: they would come when many look at once, and
    fill when they do, which may be late."""
    assert isinstance(store.db, SqliteDatabase)
    readers, meeting = store.db._readers, threading.Barrier(MOST_SPARE)

    def look(_: int) -> None:
        def work(db: apsw.Connection) -> None:
            meeting.wait(60)
            db.execute("select sum(length(payload)) from job").fetchall()
            db.execute("select sum(length(detail)) from event").fetchall()

        readers.look(work)

    with ThreadPoolExecutor(MOST_SPARE) as many:
        list(many.map(look, range(MOST_SPARE)))


def memory() -> int:
    """Bytes of this process that are really there."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def trend(seen: list[int]) -> float:
    """Steady growth from one look to the next, whatever is taken or given back at once now and then: the median of what
    every two looks say."""
    return median((later - earlier) / (j - i) for (i, earlier), (j, later) in combinations(enumerate(seen), 2))


def test_steady_growth_is_seen_and_a_step_is_not_taken_for_it() -> None:
    assert trend([100, 101, 102, 103, 104]) == 1
    assert trend([100, 103, 101, 130, 104, 105]) > 0.9
    assert trend([100] * 9 + [106] + [100] * 9) == 0
    assert trend([100] * 5 + [106] * 15) == 0


@pytest.mark.proves("G21")
def test_nothing_grows_while_it_runs(tmp_path: Path, scaled: Scaled[int], tell: Tell) -> None:
    waves = scaled(4, 100, 5_000)
    with open_store(f"sqlite:///{tmp_path}/custody.db") as store, at_work(store) as work_off:
        warm = max(2, waves // 4)  # until every cache has its size
        work_off(warm)
        use_every_reader(store)
        seen, files = [memory()], len(descriptors_below(tmp_path))
        stages = min(LOOKS, waves - warm)
        for stage in range(stages):
            work_off((waves - warm) * (stage + 1) // stages - (waves - warm) * stage // stages)
            seen.append(memory())
        grown = trend(seen) * stages / seen[0]
        tell(
            f"{waves * WAVE} jobs: memory {seen[0] >> 20} MiB, at the end {seen[-1] >> 20}, grown steadily by {grown:.2%}",
            jobs=waves * WAVE,
            memory_grown=max(0.0, grown),
            files_left=len(descriptors_below(tmp_path)) - files,
        )
        assert len(descriptors_below(tmp_path)) == files
        assert {path.name for path in tmp_path.iterdir()} <= {"custody.db", "custody.db-wal", "custody.db-shm"}
        assert (tmp_path / "custody.db-wal").stat().st_size < 64 << 20
    assert [path.name for path in tmp_path.iterdir()] == ["custody.db"]


@pytest.mark.proves("G16")
def test_a_transaction_that_stays_open_elsewhere_does_not_slow_claims_down(
    postgres: Postgres, postgres_url: str, scaled: Scaled[tuple[int, float]], tell: Tell
) -> None:
    """It ends after some minutes: what was claimed since it began cannot be cleared away until then, and whoever
    claims from the same queue walks over it."""
    waves, seconds = scaled((2, 60.0), (500, 300.0), (5_000, 300.0))
    with (
        open_store(postgres_url) as store,
        open_store(postgres.fresh_database()) as untroubled,
        at_work(store) as work_off,
        psycopg.connect(postgres_url) as forgotten,
    ):
        work_off(1)
        forgotten.execute("set transaction isolation level repeatable read")
        seen, beside = forgotten.execute("select count(*) from job").fetchone(), 0
        end = time.monotonic() + seconds
        while beside < waves and time.monotonic() < end:
            work_off(min(10, waves))
            beside += min(10, waves)
        slower = claims_slower(store, untroubled)
        again = forgotten.execute("select count(*) from job").fetchone()
        assert again == seen, "it was open all the time, and still sees what was there before"
        forgotten.rollback()
        work_off(waves - beside)
        size = grown(postgres_url)
        tell(
            f"{waves * WAVE} jobs, {beside * WAVE} of them beside an open transaction: claims of another kind "
            f"{slower:.1f} times as slow, table {size:.1f} times as large as need be",
            jobs=waves * WAVE,
            slower=slower,
            size=size,
        )


def grown(url: str) -> float:
    """The size of the jobs and their indexes, in sizes of what they would be if they had been written once."""
    ask = "select pg_total_relation_size('job')"
    with psycopg.connect(url, autocommit=True) as db:
        (before,) = db.execute(ask).fetchone() or (0,)
        db.execute("vacuum full job")
        (after,) = db.execute(ask).fetchone() or (0,)
    return float(before / after)


def claims_slower(store: Store, untroubled: Store, times: int = 100, rounds: int = 9) -> float:
    """How many times as long nearly the worst of many claims takes, against an empty database of the same server.

    In turns, and the median of the rounds: others use this machine, too, now more, now less.
    """
    return median(claim_p99(store, times) / claim_p99(untroubled, times) for _ in range(rounds))


def claim_p99(store: Store, times: int) -> float:
    return quantiles(claim_seconds(store, times), n=100)[98]


def claim_seconds(store: Store, times: int) -> list[float]:
    store.queue.submit([NewJob("probe") for _ in range(times)])
    took = []
    for _ in range(times):
        began = time.monotonic()
        (claim,) = store.queue.claim(["probe|queued||"], "prober", 60, 1)
        took.append(time.monotonic() - began)
        store.queue.release([claim])
        store.queue.delete(claim.job.id, "prober", "was only a probe")
    return took

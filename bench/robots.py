"""How fast robots are woken and how little that depends on the number of items.

    python -m bench.robots [--quick | --long] [--json FILE]

On SQLite and on PostgreSQL (BENCH_STORES=sqlite for one of them). The items and their newest events are made in
bulk, by the database itself, before any clock starts: 20 robots, and 20,000 items in the quick form, 200,000 usually,
10 million in the long form (some 15 GB in SQLite and 40 GB in PostgreSQL, one after the other). What is measured:

    drain       items through a robot that does nothing: claimed, decided, event recorded, next look; a hundred at once.
                The peer takes and deletes rows and inserts bare events, a hundred at once, and decides nothing.
    append      events with one interested trigger among all, a thousand in a transaction; the peer inserts bare rows.
    single      the same, one in a transaction, on disk before the next begins.
    wake        milliseconds from an event in the store to the start of the next robot's work (push, median).
    poll        milliseconds for a look that finds nothing to do.
    sweep       items a second that the periodic repair looks at, for one robot; told only, as it is nobody's wait.
    flat …      wake and poll with all items against a tenth of them (long: a hundredth): they must not depend on it.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import psycopg

from bench.robot_items import FILL, name_of
from bench.rounds import Options, Row, main
from bench.server import database, postgres
from custody.kernel.engine import Serving, Settings, Worker
from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import Item
from custody.kernel.stores import Store, open_store
from custody.robots import Report, Robot, robot
from custody.robots.runner import kinds, subscribe
from custody.robots.sweep import END, repair

POLLS, WAKES, ROUNDS, SINGLES, ROBOTS = 200, 40, 3, 200, 20


# The robots


def line(count: int, last: Callable[[Item, Report], None] = lambda item, report: None) -> list[Robot]:
    """Robots that have all had their turn with every item, and one more that waits for the event `Go`."""
    before = [
        make(f"done-{n}", f"E{n}", {"past": {f"E{n - 1}"} if n else set(), "absent": {f"E{n}"}}) for n in range(count)
    ]
    return [*before, make("next", "Next", {"past": {"Go"}, "absent": {"Next"}}, last)]


def make(
    name: str, event: str, when: dict[str, set[str]], work: Callable[[Item, Report], None] = lambda i, r: None
) -> Robot:
    return robot(name=name, version="1", event=event, when=when, at_once=200)(work)


# What is measured


def append(store: Store, first: int, count: int) -> float:
    """Events a second, a thousand in a transaction, each of which makes one robot ready."""
    started = time.perf_counter()
    for at in range(first, first + count, 1000):
        events = [NewEvent(name_of(number), "Go") for number in range(at, min(at + 1000, first + count))]
        store.records.put([], events, "bench")
    return count / (time.perf_counter() - started)


def single(store: Store, first: int, count: int) -> float:
    """Events a second, each on disk before the next."""
    started = time.perf_counter()
    for number in range(first, first + count):
        store.records.append(NewEvent(name_of(number), "Go", agent="bench"))
    return count / (time.perf_counter() - started)


def drain(store: Store, robots: Sequence[Robot], count: int) -> float:
    """Items a second through the last robot, which were made ready before."""
    worker = Worker(store, Serving(tuple(kinds(store, robots[-1:]))), Settings(threads=2, schedules=False))
    started = time.perf_counter()
    worker.run_until_quiet()
    assert worker.settled_count == count, (worker.settled_count, count)
    return count / (time.perf_counter() - started)


def wake(store: Store, first: int, count: int) -> list[float]:
    """Milliseconds from an event to the start of the robot that waited for it."""
    begun = threading.Event()
    robots = [make("next", "Next", {"past": {"Go"}, "absent": {"Next"}}, lambda item, report: begun.set())]
    worker = Worker(store, Serving(tuple(kinds(store, robots))), Settings(threads=2, schedules=False))
    thread = threading.Thread(target=worker.run_forever)
    thread.start()
    took = []
    try:
        for number in range(first, first + count):
            time.sleep(0.02)  # until it sleeps again
            begun.clear()
            started = time.perf_counter()
            store.records.append(NewEvent(name_of(number), "Go", agent="bench"))
            assert begun.wait(30)
            took.append((time.perf_counter() - started) * 1000)
    finally:
        worker.stop()
        thread.join()
    return took


def poll(store: Store) -> list[float]:
    """Milliseconds for a look that finds nothing."""
    took = []
    for _ in range(POLLS):
        started = time.perf_counter()
        store.queue.claim(store.queue.ready_queues("robot/next|queued|"), "bench", 30, 100)
        took.append((time.perf_counter() - started) * 1000)
    return took


def swept(store: Store, robots: Sequence[Robot]) -> float:
    """Items a second that the repair looks at and finds as they should be, one robot's share of it."""
    robot = robots[len(robots) // 2]
    started = time.perf_counter()
    looked = repair(store, robot)
    return looked / (time.perf_counter() - started)


# The peers: the least that a database must do for the same rows

Rates = tuple[float, float, float]
BARE = "create table bare (id integer primary key, item text, type text, outcome text, detail text)"
QUEUE = "create table waiting (id integer primary key, item text)"


def bare_sqlite(folder: Path, count: int) -> Rates:
    """Bare events appended in batches and one by one, and bare rows taken with an event each, a second."""
    db = apsw.Connection(str(folder / f"bare-{time.monotonic_ns()}.db"))
    for text in ("pragma journal_mode = wal", "pragma synchronous = full", BARE, QUEUE):
        db.execute(text)

    def insert(rows: list[Any]) -> None:
        db.executemany("insert into bare (item, type, outcome, detail) values (?, 'Go', 'success', '{}')", rows)

    def take() -> list[Any]:
        wanted = "delete from waiting where id in (select id from waiting order by id limit 100) returning item"
        return list(db.execute(wanted))

    rates = _bare(
        count, insert, take, lambda: db, lambda rows: db.executemany("insert into waiting (item) values (?)", rows)
    )
    db.close()
    return rates


def bare_postgres(url: str, count: int) -> Rates:
    with psycopg.connect(url, autocommit=True) as db, db.cursor() as cursor:
        for name, text in (("bare", BARE), ("waiting", QUEUE)):
            cursor.execute(f"drop table if exists {name}")
            cursor.execute(text.replace("integer primary key", "bigint generated always as identity primary key"))

        def insert(rows: list[Any]) -> None:
            cursor.executemany(
                "insert into bare (item, type, outcome, detail) values (%s, 'Go', 'success', '{}')", rows
            )

        def take() -> list[Any]:
            first = "select id from waiting order by id limit 100"
            return cursor.execute(f"delete from waiting where id = any (array ({first})) returning item").fetchall()

        def queue(rows: list[Any]) -> None:
            cursor.executemany("insert into waiting (item) values (%s)", rows)

        rates = _bare(count, insert, take, db.transaction, queue)
        cursor.execute("drop table bare; drop table waiting")
    return rates


def _bare(count: int, insert: Any, take: Any, transaction: Any, queue: Any) -> Rates:
    rows = [(name_of(number),) for number in range(count)]
    started = time.perf_counter()
    for at in range(0, count, 1000):
        with transaction():
            insert(rows[at : at + 1000])
    appended = count / (time.perf_counter() - started)
    started = time.perf_counter()
    for at in range(SINGLES):
        with transaction():
            insert(rows[at : at + 1])
    alone = SINGLES / (time.perf_counter() - started)
    with transaction():
        queue(rows)
    started = time.perf_counter()
    while True:
        with transaction():
            taken = take()
            insert(taken)
        if not taken:
            return appended, alone, count / (time.perf_counter() - started)


# One database after the other


@dataclass(slots=True)
class Sized:
    """What was measured with so many items."""

    items: int
    made: float  # seconds for making them
    poll: list[float]
    wake: list[float]
    append: list[float]
    bare: list[Rates]
    single: float
    drain: float
    sweep: float

    def __str__(self) -> str:
        middle = statistics.median
        return (
            f"  {self.items:>10,} items  made in {self.made:.0f} s  poll {middle(self.poll):.2f} ms  "
            f"wake {middle(self.wake):.1f} ms  append {middle(self.append):,.0f}/s  single {self.single:,.0f}/s  "
            f"drain {self.drain:,.0f}/s  sweep {self.sweep:,.0f}/s"
        )


def measure(options: Options) -> Sequence[Row]:
    items = 20_000 if options.quick else 10_000_000 if options.long else 200_000
    count = 1_000 if options.quick else 10_000
    sizes = [items // 100, items // 10, items] if options.long else [items // 10, items]
    rows: list[Row] = []
    for dialect in [name for name in FILL if name in os.environ.get("BENCH_STORES", name)]:
        with CONTESTS[dialect]() as fresh:
            sized = []
            for size in sizes:
                with fresh() as (url, bare):
                    sized.append(one_size(dialect, url, size, min(count, size // 10), bare))
                    print(sized[-1], flush=True)
        rows += judged(dialect, sized)
    return rows


Fresh = Callable[[], AbstractContextManager[tuple[str, Callable[[int], Rates]]]]
"""An empty store, and its peer; gone when left, since ten million items are tens of gigabytes."""


@contextmanager
def of_sqlite() -> Iterator[Fresh]:
    @contextmanager
    def fresh() -> Iterator[tuple[str, Callable[[int], Rates]]]:
        with tempfile.TemporaryDirectory(prefix="custody-bench-") as name:
            yield f"sqlite:///{Path(name, 'robots.db')}", partial(bare_sqlite, Path(name))

    yield fresh


@contextmanager
def of_postgres() -> Iterator[Fresh]:
    with postgres(wal_level="minimal", max_wal_senders="0", max_wal_size="4GB") as server:

        @contextmanager
        def fresh() -> Iterator[tuple[str, Callable[[int], Rates]]]:
            with database(server) as url:
                yield url, partial(bare_postgres, url)

        yield fresh


CONTESTS: dict[str, Callable[[], AbstractContextManager[Fresh]]] = {"sqlite": of_sqlite, "postgres": of_postgres}


def one_size(dialect: str, url: str, items: int, count: int, bare: Callable[[int], Rates]) -> Sized:
    robots = line(ROBOTS)
    with open_store(url) as store:
        subscribe(store, robots)
        store.db.write(lambda tx: [tx.run("set_filled", kind=each.kind, filled=END) for each in robots])
    started = time.perf_counter()
    FILL[dialect](url, items, [f"E{n}" for n in range(ROBOTS)])
    made = time.perf_counter() - started
    print(f"  {dialect}: {items:,} items with {ROBOTS} events each, made in {made:.0f} s", flush=True)
    with open_store(url) as store:
        store.listen()
        polled, woken = poll(store), wake(store, items - WAKES - 10, WAKES)
        appended, peers = [], []
        for turn in range(ROUNDS):  # in turns, so that a busy machine slows both
            appended.append(append(store, 1 + turn * count, count))
            peers.append(bare(count))
        alone = single(store, 1 + ROUNDS * count, SINGLES)
        drained = drain(store, robots, count * ROUNDS + SINGLES)
        return Sized(items, made, polled, woken, appended, peers, alone, drained, swept(store, robots))


def judged(dialect: str, sized: Sequence[Sized]) -> Iterator[Row]:
    least, most = sized[0], sized[-1]
    appended, alone, drained = (statistics.median(rates) for rates in zip(*most.bare, strict=True))
    spread = (max(most.append) - min(most.append)) / statistics.median(most.append)
    yield Row(f"robots.{dialect}-drain", most.drain, drained, DRAIN[dialect])
    yield Row(f"robots.{dialect}-append", statistics.median(most.append), appended, APPEND[dialect], spread=spread)
    yield Row(f"robots.{dialect}-single", most.single, alone, 0.25)
    for name, limit, few, many in (("wake", 20.0, least.wake, most.wake), ("poll", 2.0, least.poll, most.poll)):
        yield Row(f"robots.{dialect}-{name}", statistics.median(many), statistics.median(few), limit, "ms", limit=True)
        of = f"of {least.items:,}"
        yield Row(f"robots.{dialect}-flat-{name}", _best(many) / _best(few), 1.0, 1.5, of, limit=True)
    yield Row(f"robots.{dialect}-sweep", most.sweep, least.sweep, 0)


def _best(took: list[float]) -> float:
    """The lower quartile: what a busy neighbour has not made slower."""
    return statistics.quantiles(took, n=4)[0]


# What the design's 5,000 a second are of the peer on a machine with two busy cores, less a third for its neighbours.
# SQLite's bare rows cost next to nothing, and wait for the disk where ours need the processor.
DRAIN = {"sqlite": 0.02, "postgres": 0.15}
APPEND = {"sqlite": 0.005, "postgres": 0.1}


if __name__ == "__main__":
    sys.exit(main(__doc__, measure))

"""How fast robots are woken and how little that depends on the number of items.

    python -m bench.robots [--quick | --long] [--json FILE]

On SQLite and on PostgreSQL. The items and their newest events are made in bulk, by the database itself, before any
clock starts: 20 robots, and 20,000 items in the quick form, 200,000 usually, 10 million in the long form (the
history behind them is left out, as no robot reads it). What is measured:

    drain       items through a robot that does nothing: claimed, decided, event recorded, next look; a hundred at once.
                The peer takes and deletes rows and inserts bare events, a hundred at once, and decides nothing.
    append      events with one interested trigger among all, a thousand in a transaction; the peer inserts bare rows.
    single      the same, one in a transaction, on disk before the next begins.
    wake        milliseconds from an event in the store to the start of the next robot's work (push, median).
    poll        milliseconds for a look that finds nothing to do.
    flat …      wake and poll with all items against a tenth of them: they must not depend on it.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import psycopg

from bench.rounds import Options, Row, main
from bench.server import database, postgres
from custody.engine import Serving, Settings, Worker
from custody.model.event import NewEvent
from custody.model.item import Item
from custody.robots import Report, Robot, robot
from custody.robots.cycle import END, kinds, subscribe
from custody.stores import Store, open_store

POLLS, WAKES, ROUNDS, SINGLES, ROBOTS = 200, 40, 3, 200, 20


# The data: made by the database itself

ITEM = "'item-' || substr('00000000' || n, -8)"
COLUMNS = {
    "item": "(id, types, collection, seq, changed, fingerprint, detail, created)",
    "latest": "(item, type, seq, outcome, seen)",
}


def fill_sqlite(url: str, items: int, types: Sequence[str]) -> None:
    db = apsw.Connection(url.removeprefix("sqlite:///"))
    db.execute("pragma synchronous = off")
    numbers = f"with recursive one (n) as (select 1 union all select n + 1 from one where n < {items})"
    with db:
        db.execute(
            f"insert into item {COLUMNS['item']} {numbers} select {ITEM}, ' object ', '', 1, 1, '', '{{}}', 0 from one"
        )
        for seq, name in enumerate(types, 2):
            db.execute(
                f"insert into latest {COLUMNS['latest']} {numbers} "
                f"select {ITEM}, '{name}', {seq}, 'success', {seq} from one"
            )
    db.close()


def fill_postgres(url: str, items: int, types: Sequence[str]) -> None:
    name = "'item-' || lpad(n::text, 8, '0')"
    series = f"from generate_series(1, {items}) as one (n)"
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("set synchronous_commit = off")
        db.execute(f"insert into item {COLUMNS['item']} select {name}, ' object ', '', 1, 1, '', '{{}}', 0 {series}")
        for seq, kind in enumerate(types, 2):
            db.execute(
                f"insert into latest {COLUMNS['latest']} select {name}, '{kind}', {seq}, 'success', {seq} {series}"
            )
        db.execute("vacuum analyze")


FILL: dict[str, Callable[[str, int, Sequence[str]], None]] = {"sqlite": fill_sqlite, "postgres": fill_postgres}


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


def name_of(number: int) -> str:
    return f"item-{number:08}"


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
class Taken:
    """What was measured in one database, with a tenth of the items and with all."""

    wake: list[list[float]]
    poll: list[list[float]]
    append: list[float]
    bare: list[Rates]
    single: float = 0.0
    drain: float = 0.0


def measure(options: Options) -> Sequence[Row]:
    items = 20_000 if options.quick else 10_000_000 if options.long else 200_000
    count = 1_000 if options.quick else 10_000
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="custody-bench-") as name, postgres() as server:
        folder = Path(name)
        taken = Taken([], [], [], [])
        for share in (10, 1):
            url = f"sqlite:///{folder / f'robots-{share}.db'}"
            one_size("sqlite", url, items // share, count, share == 1, taken, lambda: bare_sqlite(folder, count))
        rows += judged("sqlite", taken)
        taken = Taken([], [], [], [])
        for share in (10, 1):
            with database(server) as url:
                bare = partial(bare_postgres, url, count)
                one_size("postgres", url, items // share, count, share == 1, taken, bare)
        rows += judged("postgres", taken)
    return rows


def one_size(
    dialect: str, url: str, items: int, count: int, whole: bool, taken: Taken, bare: Callable[[], Rates]
) -> None:
    with open_store(url) as store:
        subscribe(store, line(ROBOTS))
        store.db.write(lambda tx: [tx.run("set_filled", robot=each.name, filled=END) for each in line(ROBOTS)])
    FILL[dialect](url, items, [f"E{n}" for n in range(ROBOTS)])
    with open_store(url) as store:
        store.listen()
        taken.poll.append(poll(store))
        taken.wake.append(wake(store, items - WAKES - 10, WAKES))
        if whole:
            for turn in range(ROUNDS):  # in turns, so that a busy machine slows both
                taken.append.append(append(store, 1 + turn * count, count))
                taken.bare.append(bare())
            taken.single = single(store, 1 + ROUNDS * count, SINGLES)
            taken.drain = drain(store, line(ROBOTS), count * ROUNDS + SINGLES)


def judged(dialect: str, taken: Taken) -> Iterator[Row]:
    appended, alone, drained = (statistics.median(rates) for rates in zip(*taken.bare, strict=True))
    spread = (max(taken.append) - min(taken.append)) / statistics.median(taken.append)
    yield Row(f"robots.{dialect}-drain", taken.drain, drained, DRAIN[dialect])
    yield Row(f"robots.{dialect}-append", statistics.median(taken.append), appended, APPEND[dialect], spread=spread)
    yield Row(f"robots.{dialect}-single", taken.single, alone, 0.25)
    for name, most, found in (("wake", 20.0, taken.wake), ("poll", 2.0, taken.poll)):
        few, all_ = found
        yield Row(f"robots.{dialect}-{name}", statistics.median(all_), statistics.median(few), most, "ms", limit=True)
        yield Row(f"robots.{dialect}-flat-{name}", _best(all_) / _best(few), 1.0, 1.5, "of a tenth", limit=True)


def _best(took: list[float]) -> float:
    """The lower quartile: what a busy neighbour has not made slower."""
    return statistics.quantiles(took, n=4)[0]


# What 5,000 a second are of the peer on an idle machine; SQLite's bare rows cost next to nothing.
DRAIN = {"sqlite": 0.005, "postgres": 0.1}
APPEND = {"sqlite": 0.001, "postgres": 0.05}


if __name__ == "__main__":
    sys.exit(main(__doc__, measure))

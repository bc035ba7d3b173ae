"""The engine against a bare loop on the same database, and against huey, side by side in one run.

    python -m bench.engine [--quick] [--json FILE]

Ours runs with everything on: fsync at every commit, tokens, one event per move. The bare loop does the least that a
queue on SQLite must do (claim and complete in batches, fsynced, no history); huey is the usual choice for SQLite.
Ratios count, absolute times do not. Exit 1 when a row falls short of its target.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import apsw

from custody.engine import Kind, Serving, Settings, Worker
from custody.model.job import NewJob
from custody.model.outcome import Passed
from custody.stores import open_store


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    ours: float  # per second
    peer: float
    target: float  # ours / peer

    @property
    def ratio(self) -> float:
        return self.ours / self.peer if self.peer else 0.0

    def __str__(self) -> str:
        grade = "ok" if self.ratio >= self.target else "short"
        return (
            f"RESULT name={self.name} ours={self.ours:.0f} peer={self.peer:.0f} ratio={self.ratio:.2f} "
            f"target={self.target:.2f} {grade}"
        )


def timed(count: int, work: Callable[[], None]) -> float:
    """How many per second."""
    started = time.perf_counter()
    work()
    return count / (time.perf_counter() - started)


def ours_submit(folder: Path, count: int) -> float:
    with open_store(f"sqlite:///{folder / 'ours-submit.db'}") as store:
        jobs = [NewJob("parcel", {"n": n}) for n in range(count)]

        def submit() -> None:
            for at in range(0, count, 1000):
                store.queue.submit(jobs[at : at + 1000])

        return timed(count, submit)


def ours_drain(folder: Path, count: int) -> float:
    with open_store(f"sqlite:///{folder / 'ours-drain.db'}") as store:
        for at in range(0, count, 1000):
            store.queue.submit([NewJob("parcel", {"n": n}) for n in range(at, min(count, at + 1000))])
        worker = Worker(store, Serving((Kind("parcel", lambda work: Passed()),)), Settings(threads=2, schedules=False))
        rate = timed(count, worker.run_until_quiet)
        assert worker.settled_count == count
        return rate


def bare_drain(folder: Path, count: int) -> float:
    """Claim and complete in batches of a hundred, fsynced: no token, no history, no worker."""
    db = apsw.Connection(str(folder / "bare.db"))
    db.execute("pragma journal_mode = wal")
    db.execute("pragma synchronous = full")
    db.execute(
        "create table job (id integer primary key, state text, payload text); create index ready on job (state, id)"
    )
    with db:
        db.executemany("insert into job (state, payload) values ('queued', '{}')", ((),) * count)

    def drain() -> None:
        while True:
            with db:
                rows = db.execute(
                    "update job set state = 'running' where id in "
                    "(select id from job where state = 'queued' order by id limit 100) returning id"
                ).fetchall()
            if not rows:
                return
            with db:
                db.executemany("update job set state = 'done' where id = ?", rows)

    rate = timed(count, drain)
    db.close()
    return rate


def huey_drain(folder: Path, count: int) -> float:
    """The same with huey and fsync on; 0 where it is not installed."""
    try:
        from huey import SqliteHuey
    except ImportError:
        return 0.0
    queue = SqliteHuey(filename=str(folder / "huey.db"), fsync=True, results=False)

    def work(n: int) -> None: ...

    parcel = queue.task()(work)
    for n in range(count):
        parcel(n)

    def drain() -> None:
        while (task := queue.dequeue()) is not None:
            queue.execute(task)

    return timed(count, drain)


def measure(count: int, rounds: int) -> list[Row]:
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="custody-bench-") as name:
            folder = Path(name)
            for what in (ours_submit, ours_drain, bare_drain, huey_drain):
                found.setdefault(what.__name__, []).append(what(folder, count))
    middle = {name: statistics.median(values) for name, values in found.items()}
    rows = [
        Row("drain-against-bare-sqlite", middle["ours_drain"], middle["bare_drain"], 0.1),
        Row("submit-against-bare-drain", middle["ours_submit"], middle["bare_drain"], 0.1),
    ]
    if middle["huey_drain"]:
        rows.append(Row("drain-against-huey", middle["ours_drain"], middle["huey_drain"], 5.0))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer jobs and rounds")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    options = parser.parse_args()
    rows = measure(2_000 if options.quick else 20_000, 3)
    for row in rows:
        print(row)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) | {"ratio": row.ratio} for row in rows], indent=1))
    return 0 if all(row.ratio >= row.target for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

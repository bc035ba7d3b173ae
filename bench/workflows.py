"""Workflows on PostgreSQL: hooks, planning, readiness and starting, each beside the least that could do the same.

    python -m bench.workflows [--quick] [--json FILE]

The repository is a stand-in that answers at once. Limits that were set in milliseconds or tasks per second are judged
against what a bare statement or a bare sandbox takes on the same machine in the same minute; what they came to is told.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from bench.hooks import Hooks, answered
from bench.repository import TASKS, StandIn
from bench.rounds import ROUNDS, Figures, Options, Row, in_turns, main, skipped, timed
from bench.sandboxed import bare_starts, task_starts
from bench.server import database, postgres
from custody.border.sandbox.sandbox import available
from custody.kernel.engine import Serving, Settings, Worker
from custody.kernel.model.graph import Edge
from custody.kernel.model.job import NewJob
from custody.kernel.stores import Store, open_store
from custody.workflows.archives import table
from custody.workflows.archives.notices import notify
from custody.workflows.kinds import planning

BARE_INSERTS = 2_830  # a second, one at a time and durable, on the machine that the limits were set for
PLANNED = 3_000  # tasks a second are wanted there
BARE_SLOWEST, HOOK_SLOWEST = 1.0, 10.0  # ms there: of a hundred bare inserts at 200 a second, and wanted of hooks
BARE_START, TASK_START = 9.0, 50.0  # ms there: a bare sandbox, and wanted from ready to started
FLAT = 1 / 1.3  # a claim may cost this much more, a revision too
CLAIMS = 300
HOOKED = [f"hooked{number}" for number in range(8)]


def measure(options: Options) -> Sequence[Row]:
    table.SYSTEMS["stand-in"] = lambda location, store: StandIn()
    revisions, waiting = (100, 5_000) if options.quick else (1_000, 100_000)
    with postgres() as server:
        return [
            *_planning(server, revisions),
            *_hooks(server, 400 if options.quick else 4_000),
            *_claims(server, waiting),
            *_starts(server, 10 if options.quick else 40),
        ]


@contextmanager
def _fresh(server: Any, *archive: str) -> Iterator[Store]:
    with database(server) as url, open_store(url) as store:
        for name in archive:
            _add(store, name)
        yield store


def _add(store: Store, name: str) -> None:
    store.db.write(
        lambda tx: tx.run("wf_add_archive", name=name, system="stand-in", location="/", uuid="stand-in", last=0)
    )


# Planning


def _planning(server: Any, revisions: int) -> Iterator[Row]:
    tenth = revisions // 10
    figures = in_turns(
        {
            "planning": lambda: _plan(server, revisions),
            "planning a tenth": lambda: _plan(server, tenth),
            "bare inserts": lambda: _bare_inserts(server, 1_000),
            "plain submits": lambda: _plain_submits(server, tenth),
        }
    )
    yield figures.against("workflows.planning-against-bare-inserts", "planning", "bare inserts", PLANNED / BARE_INSERTS)
    yield figures.against("workflows.planning-against-plain-submits", "planning", "plain submits", 0.0)
    yield figures.against(
        f"workflows.planning-{revisions}-revisions-against-{tenth}", "planning", "planning a tenth", FLAT
    )


def _plan(server: Any, revisions: int) -> float:
    """Tasks planned per second, with the edges between them, by one thread."""
    with _fresh(server, "planned") as store:
        notify(store, "planned", revisions)
        worker = Worker(store, Serving((planning(store),)), Settings(threads=1, schedules=False))
        rate = timed(revisions * TASKS, worker.run_until_idle)
        planned = store.db.read(lambda tx: tx.run("wf_of_line", line="planned", first=revisions, last=revisions))
        assert len(planned) == TASKS + 1, f"{len(planned)} jobs of the last revision"
        return rate


def _plain_submits(server: Any, revisions: int) -> float:
    """The same number of jobs, twenty at a time, that wait for nothing."""
    with _fresh(server) as store:

        def submit() -> None:
            for revision in range(revisions):
                store.queue.submit([NewJob("plain", {"n": n, "revision": revision}) for n in range(TASKS)])

        return timed(revisions * TASKS, submit)


def _bare_inserts(server: Any, count: int) -> float:
    """Rows per second, one at a time and durable, with nothing around them."""
    with database(server) as url, psycopg.connect(url, autocommit=True) as db:
        db.execute("create table bare (id bigint generated always as identity primary key, payload text)")
        insert = "insert into bare (payload) values (%s)"

        def act() -> None:
            for number in range(count):
                db.execute(insert, (str(number),), prepare=True)

        return timed(count, act)


# Hooks


def _hooks(server: Any, count: int) -> Iterator[Row]:
    """Two hundred a second, each from a connection of its own; beside them bare inserts at the same pace."""
    found: dict[str, list[float]] = {"hooks": [], "bare": [], "middle": []}
    for _ in range(ROUNDS):
        with _fresh(server, *HOOKED) as store, answered(store, HOOKED) as addresses:
            took = Hooks(addresses, store.url, count).run()
        slowest = [sorted(times)[len(times) * 99 // 100] for times in (took.hooks, took.bare)]
        found["hooks"].append(1000 / slowest[0])
        found["bare"].append(1000 / slowest[1])
        found["middle"].append(statistics.median(took.hooks))
        print(f"  99 of 100 hooks within {slowest[0]:.2f} ms, bare inserts within {slowest[1]:.2f} ms", flush=True)
    figures = Figures(found)
    yield figures.against("workflows.hook-p99-against-bare-insert", "hooks", "bare", BARE_SLOWEST / HOOK_SLOWEST)
    yield Row("workflows.hook-p99", 1000 / figures.median("hooks"), 1000 / figures.median("bare"), 0.0, "ms")
    yield Row("workflows.hook-p50", figures.median("middle"), 0.0, 0.0, "ms")


# Claiming


def _claims(server: Any, waiting: int) -> Iterator[Row]:
    with _fresh(server) as alone, _fresh(server) as among:
        gate = among.queue.submit_one(NewJob("gate")).id
        for at in range(0, waiting, 1000):
            among.queue.submit(
                [NewJob("claimed", {"n": at + n}, needs=[Edge(gate)]) for n in range(min(1000, waiting - at))]
            )
        figures = in_turns({"claims": _claim(alone), "claims among waiting": _claim(among)})
    yield figures.against(f"workflows.claim-among-{waiting}-waiting", "claims among waiting", "claims", FLAT)


def _claim(store: Store) -> Callable[[], float]:
    def claim() -> None:
        for _ in range(CLAIMS):
            assert store.queue.claim(["claimed|queued||"], "bench", 60)

    def measured() -> float:
        store.queue.submit([NewJob("claimed", {"ready": n}) for n in range(CLAIMS)])
        return timed(CLAIMS, claim)

    return measured


# Starting


def _starts(server: Any, count: int) -> Iterator[Row]:
    if not available():
        skipped("workflows.ready-to-started", available().reason)
        return
    found: dict[str, list[float]] = {"task": [], "bare": []}
    with tempfile.TemporaryDirectory(prefix="custody-bench-") as name, _fresh(server, "started") as store:
        with task_starts(store, "started", Path(name)) as start:
            for _ in range(ROUNDS):
                found["bare"].append(1000 / statistics.median(bare_starts(Path(name), count)))
                found["task"].append(1000 / statistics.median(start() for _ in range(count)))
                print(
                    f"  ready to started {1000 / found['task'][-1]:.1f} ms, bare sandbox {1000 / found['bare'][-1]:.1f}"
                )
    figures = Figures(found)
    yield figures.against("workflows.ready-to-started-against-bare-sandbox", "task", "bare", BARE_START / TASK_START)
    yield Row("workflows.ready-to-started-p50", 1000 / figures.median("task"), 1000 / figures.median("bare"), 0.0, "ms")


if __name__ == "__main__":
    sys.exit(main(__doc__, measure))

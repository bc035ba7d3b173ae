"""Does it stay as fast when much is there already? Claims beside many waiting, blocked and finished jobs; chains.

    python -m bench.growing [--quick | --long] [--json FILE]

Each store is filled once, then all are measured in turns: five claims of a hundred, and their settles. The cost
beside the most is divided by the cost beside a thousand. `--long` goes to a million.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg

from bench.peers.contest import CUSTODY, running
from bench.rounds import Options, Row, in_turns, main
from bench.server import database, postgres
from custody.kernel.model.graph import Edge
from custody.kernel.model.job import Change, Claim, NewJob
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.sqlite.connection import connect
from custody.kernel.stores.sqlite.file_address import file_of

CLAIMS, BATCH = 5, 100
PAGE = 10_000
DONE = "update job set state = 'done', runnable = 0, ended = 'passed' where kind = 'parcel'"


def waiting(store: Store, count: int) -> None:
    for at in range(0, count, PAGE):
        store.queue.submit([NewJob("parcel", {"n": n}) for n in range(at, min(count, at + PAGE))])


def blocked(store: Store, count: int) -> None:
    (gate,) = store.queue.submit([NewJob("gate")])
    for at in range(0, count, PAGE):
        store.queue.submit([NewJob("parcel", needs=[Edge(gate.id)]) for _ in range(at, min(count, at + PAGE))])


def finished(store: Store, count: int) -> None:
    waiting(store, count)
    _tell(store.url, DONE)


STATES: dict[str, Callable[[Store, int], None]] = {"waiting": waiting, "blocked": blocked, "finished": finished}


def _tell(url: str, *statements: str) -> None:
    if url.startswith("sqlite"):
        db = connect(file_of(url))
        for sql in statements:
            db.execute(sql)
        db.close()
        return
    with psycopg.connect(url.partition("?")[0], autocommit=True) as server:
        for sql in statements:
            server.execute(sql)


def measure(options: Options) -> Sequence[Row]:
    most = 20_000 if options.quick else 1_000_000 if options.long else 100_000
    rows = []
    with postgres() as server:
        rows += _flat(lambda: database(server), most, "postgres")
        rows += _chains(server, 10_000 if options.quick else 100_000)
    rows += _flat(_file, most, "sqlite")
    return rows


@contextmanager
def _file() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="custody-bench-") as folder:
        yield f"sqlite:///{folder}/store.db"


def _flat(place: Callable[[], Any], most: int, name: str) -> list[Row]:
    with ExitStack() as stack:
        contest = {}
        for state, fill in STATES.items():
            for count in (1_000, most):
                store = stack.enter_context(open_store(stack.enter_context(place())))
                fill(store, count)
                _tell(store.url, "vacuum", "analyze")
                contest[f"{name} {state} {count}"] = _cost(store, "parcel" if state == "waiting" else "letter")
        figures = in_turns(contest, 7)
    rows = []
    for state in STATES:
        # The least of each: a busy machine only ever adds.
        ratio = min(figures.by_name[f"{name} {state} {most}"]) / min(figures.by_name[f"{name} {state} 1000"])
        rows.append(Row(f"flat.{name}.{state}.{most}", ratio, 1.0, 1.3, "times the cost beside 1,000", limit=True))
    return rows


def _cost(store: Store, kind: str) -> Callable[[], float]:
    """Microseconds for a job's claim and settle."""

    def cost() -> float:
        store.queue.submit([NewJob(kind, {"n": n}) for n in range(CLAIMS * BATCH)])
        began = time.monotonic()
        for _ in range(CLAIMS):
            claims = store.queue.claim([f"{kind}|queued||"], "bench", 60, BATCH)
            answers = store.queue.settle([_passed(store, claim) for claim in claims])
            assert [answer.done for answer in answers] == [True] * BATCH
        return (time.monotonic() - began) / (CLAIMS * BATCH) * 1e6

    return cost


def _passed(store: Store, claim: Claim) -> Change:
    move = store.new_move()
    return Change(
        claim.id,
        "queued",
        "done",
        "passed",
        "success",
        "bench",
        False,
        "passed",
        claim.token,
        move,
        claimed=claim.move,
    )


def _chains(server: Any, edges: int) -> list[Row]:
    """Chains of ten: every job but the first of its chain waits for the one before."""
    length = 10
    count = edges * length // (length - 1) // length * length

    def drain(chained: bool) -> Callable[[], float]:
        def rate() -> float:
            with database(server) as url, running(CUSTODY, url) as (ours,):
                kind = {"kind": "chained"} if chained else {}
                ours.ask("chain", count=count, length=length) if chained else ours.ask("fill", count=count)
                told = ours.ask("drain", count=count, **kind)
                assert told["count"] == count
                return float(count / (told["ended"] - told["began"]))

        return rate

    figures = in_turns({"chains": drain(True), "plain": drain(False)})
    return [figures.against(f"chain.{edges}-edges.against-plain-drain", "chains", "plain", 0.5)]


if __name__ == "__main__":
    sys.exit(main(__doc__, measure))

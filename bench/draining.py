"""How fast a full queue is worked off: one and two worker processes on PostgreSQL, one on SQLite.

    python -m bench.draining [--quick] [--json FILE]

Jobs that do nothing, submitted before the clock starts; from the first worker's start to the last job's end. Beside
the peers on PostgreSQL stand celery with a durable Redis and Temporal with its own server. The bare loops say what
the machine and the language allow: claim and complete in batches, no worker, no handler.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.limits import bare_postgres_drain, bare_sqlite_drain, pgbench_drain
from bench.peers.contest import (
    CELERY,
    CUSTODY,
    DBOS,
    GRAPHILE,
    HUEY,
    PG_BOSS,
    PGQUEUER,
    PROCRASTINATE,
    TEMPORAL,
    Peer,
    drain_rate,
    present,
    running,
)
from bench.rounds import Measure, Options, Row, in_turns, main
from bench.server import Servers, database, servers

SLOW = {PROCRASTINATE: 50, DBOS: 100, CELERY: 40, TEMPORAL: 200}  # so many times fewer jobs: the rate is what counts
BATCH = {1: 100, 2: 500}  # pgqueuer's best, for one and for two processes


def on_postgres(options: Options) -> list[Row]:
    count = 40_000 if options.quick else 100_000
    peers = present([CUSTODY, PGQUEUER, GRAPHILE, PG_BOSS, PROCRASTINATE, DBOS, CELERY, TEMPORAL])
    with servers(peers) as there:
        contest: dict[str, Measure] = {}
        for processes in (1, 2):
            for peer in peers:
                if not (processes == 2 and peer in SLOW):
                    contest[f"{peer.name} {processes}"] = _drain(there, peer, processes, count // SLOW.get(peer, 1))
        contest["bare loop"] = _bare(there, bare_postgres_drain, count)
        contest["pgbench"] = _bare(there, pgbench_drain, count)
        figures = in_turns(contest)
    rows = []
    for processes in (1, 2):
        for peer in peers[1:]:
            if f"{peer.name} {processes}" in contest:
                target = {"pgqueuer": 1.5, "graphile-worker": 0, "pg-boss": 0}.get(peer.name, 1.5)
                name = f"drain.postgres.{processes}-process.{peer.name}"
                rows.append(figures.against(name, f"custody {processes}", f"{peer.name} {processes}", target))
    rows.append(figures.against("drain.postgres.bare-loop", "custody 1", "bare loop", 0))
    rows.append(figures.against("drain.postgres.pgbench", "custody 1", "pgbench", 0))
    return rows


def _drain(there: Servers, peer: Peer, processes: int, count: int) -> Measure:
    def measure() -> float:
        with there.place(peer) as url:
            with running(peer, url) as (first,):
                if peer is not CUSTODY:
                    first.ask("prepare")
                first.ask("submit_one" if peer is DBOS else "fill", count=count)
            with running(peer, url, processes) as contestants:
                return drain_rate(contestants, count, **({"batch": BATCH[processes]} if peer is PGQUEUER else {}))

    return measure


def _bare(there: Servers, loop: Callable[[str, int], float], count: int) -> Measure:
    def measure() -> float:
        with database(there.postgres) as url:
            return loop(url, count)

    return measure


def on_sqlite(options: Options) -> list[Row]:
    count = 5_000 if options.quick else 20_000
    peers = present([CUSTODY, HUEY, DBOS])
    contest: dict[str, Measure] = {f"{peer.name} sqlite": _sqlite_drain(peer, count) for peer in peers}
    contest["bare sqlite"] = _sqlite_bare(count)
    figures = in_turns(contest)
    rows = [
        figures.against(f"drain.sqlite.{peer.name}", "custody sqlite", f"{peer.name} sqlite", 5.0) for peer in peers[1:]
    ]
    return [*rows, figures.against("drain.sqlite.bare-loop", "custody sqlite", "bare sqlite", 0)]


def _sqlite_drain(peer: Peer, count: int) -> Measure:
    def measure() -> float:
        some = count // SLOW.get(peer, 1)
        with tempfile.TemporaryDirectory(prefix="custody-bench-") as folder:
            path = f"{folder}/{peer.name}.db"
            url = path if peer is HUEY else f"sqlite:///{path}"
            with running(peer, url) as (first,):
                if peer is DBOS:
                    first.ask("prepare")
                first.ask("submit_one" if peer is DBOS else "fill", count=some)
            with running(peer, url) as contestants:
                return drain_rate(contestants, some)

    return measure


def _sqlite_bare(count: int) -> Measure:
    def measure() -> float:
        with tempfile.TemporaryDirectory(prefix="custody-bench-") as folder:
            return bare_sqlite_drain(Path(folder), count)

    return measure


def measure(options: Options) -> Sequence[Row]:
    return [*on_postgres(options), *on_sqlite(options)]


if __name__ == "__main__":
    sys.exit(main(__doc__, measure))

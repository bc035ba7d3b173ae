"""How fast jobs are submitted to PostgreSQL: one by one, by sixteen callers at once, in bulk, with and without keys.

    python -m bench.submitting [--quick] [--json FILE]

Every submit is durable when it is answered. Ours writes the job and its first event; the peers write the job.
celery writes it to a durable Redis, Temporal starts a workflow on its own server.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from bench.limits import copy_rate, insert_rate
from bench.peers.contest import (
    CELERY,
    CUSTODY,
    DBOS,
    GRAPHILE,
    PG_BOSS,
    PGQUEUER,
    PROCRASTINATE,
    TEMPORAL,
    Peer,
    present,
    running,
)
from bench.rounds import Figures, Measure, Options, Row, in_turns, main
from bench.server import Servers, database, servers

CALLERS = 16
ONE_BY_ONE = {"pgqueuer": 1.2}  # the others: 1.0
AT_ONCE = {"pgqueuer": 5.0, "procrastinate": 5.0, "celery": 1.0, "temporal": 1.0}
SLOW = {DBOS: 4, TEMPORAL: 20}  # so many times fewer jobs, one by one and by many callers
BULK = {"pgqueuer": 2.0, "graphile-worker": 1.2, "pg-boss": 1.2, "procrastinate": 2.0}


def measure(options: Options) -> Sequence[Row]:
    few, many = (1_500, 50_000) if options.quick else (3_000, 100_000)
    peers = present([CUSTODY, PGQUEUER, GRAPHILE, PG_BOSS, PROCRASTINATE, DBOS, CELERY, TEMPORAL])
    with servers(peers) as there:
        contest: dict[str, Measure] = {}
        for peer in peers:
            contest[f"one {peer.name}"] = _rate(there, peer, "submit_one", few // SLOW.get(peer, 1))
            if peer.name in BULK or peer is CUSTODY:
                slow = 4 if peer is PROCRASTINATE else 1
                contest[f"bulk {peer.name}"] = _rate(there, peer, "submit_bulk", many // slow)
            if peer.name in AT_ONCE or peer is CUSTODY:
                many_callers = 4 * few // SLOW.get(peer, 1)
                contest[f"callers {peer.name}"] = _rate(there, peer, "submit_callers", many_callers, callers=CALLERS)
            if peer in (CUSTODY, PGQUEUER):
                contest[f"keyed {peer.name}"] = _rate(there, peer, "submit_bulk", many, keyed=True)
        contest["bare insert"] = lambda: _bare(there, insert_rate, few)
        contest["bare copy"] = lambda: _bare(there, copy_rate, many)
        figures = in_turns(contest)
    return list(_rows(figures, [peer.name for peer in peers[1:]]))


def _rows(figures: Figures, peers: Sequence[str]) -> Sequence[Row]:
    def against(act: str, name: str, target: float) -> Row:
        return figures.against(f"submit.{act}.{name}", f"{act} custody", f"{act} {name}", target)

    rows = [against("one", name, ONE_BY_ONE.get(name, 1.0)) for name in peers]
    rows += [against("callers", name, AT_ONCE[name]) for name in peers if name in AT_ONCE]
    rows += [against("bulk", name, BULK[name]) for name in peers if name in BULK]
    rows += [against("keyed", "pgqueuer", 1.0)] if "pgqueuer" in peers else []
    rows.append(figures.against("submit.one.bare-insert", "one custody", "bare insert", 0))
    rows.append(figures.against("submit.bulk.bare-copy", "bulk custody", "bare copy", 0))
    return rows


def _rate(there: Servers, peer: Peer, act: str, count: int, **more: Any) -> Measure:
    def rate() -> float:
        with there.place(peer) as url, running(peer, url) as (contestant,):
            if peer is not CUSTODY:
                contestant.ask("prepare")
            contestant.ask(act, count=max(20, count // 20), **more)  # connections, plans and pages are warm for all
            return float(contestant.ask(act, count=count, **more))

    return rate


def _bare(there: Servers, rate: Any, count: int) -> float:
    with database(there.postgres) as url:
        return float(rate(url, count))


if __name__ == "__main__":
    sys.exit(main(__doc__, measure))

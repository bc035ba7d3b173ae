"""How soon an idle worker begins: from just before a submit to the handler's first line, one job at a time.

    python -m bench.waking [--quick] [--json FILE]

The worker and the submitter are in one process, as the peers are measured; on PostgreSQL the wake-up is the store's.
celery waits at a durable Redis, Temporal's worker at its own server: both stand beside PostgreSQL here.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.limits import bare_sqlite_commit
from bench.peers.contest import CELERY, CUSTODY, GRAPHILE, HUEY, PGQUEUER, TEMPORAL, Peer, present, running
from bench.rounds import ROUNDS, Figures, Options, Row, main
from bench.server import servers

SLOW = {HUEY: 4, CELERY: 2, TEMPORAL: 4}  # so many times fewer jobs
IN_COMMITS = 2.0 / 0.217
"""2 ms where one fsynced commit takes 0.217 ms: a submit and a claim are one each, and disks differ."""
ELSEWHERE = {CELERY: "redis", TEMPORAL: "server"}


def measure(options: Options) -> Sequence[Row]:
    count = 60 if options.quick else 300
    found: dict[str, list[float]] = {}
    there = present([CUSTODY, PGQUEUER, GRAPHILE, CELERY, TEMPORAL])
    small = present([CUSTODY, HUEY])
    with servers(there) as places:
        for turn in range(ROUNDS):
            for peer in there if turn % 2 == 0 else reversed(there):
                with places.place(peer) as url:
                    _note(found, _label(peer), _wake(peer, url, count // SLOW.get(peer, 1)))
            for peer in small:
                with tempfile.TemporaryDirectory(prefix="custody-bench-") as folder:
                    path = f"{folder}/{peer.name}.db"
                    url = path if peer is HUEY else f"sqlite:///{path}"
                    _note(found, f"{peer.name} sqlite", _wake(peer, url, count // SLOW.get(peer, 1)))
                    if peer is CUSTODY:
                        found.setdefault("bare commit", []).append(bare_sqlite_commit(Path(folder)))
                        found.setdefault("in commits", []).append(
                            found["custody sqlite p50"][-1] / found["bare commit"][-1]
                        )
    return _rows(Figures(found), there[1:], [peer.name for peer in small[1:]])


def _label(peer: Peer) -> str:
    return f"{peer.name} {ELSEWHERE.get(peer, 'postgres')}"


def _wake(peer: Peer, url: str, count: int) -> list[float]:
    with running(peer, url) as (contestant,):
        if peer in (PGQUEUER, GRAPHILE):
            contestant.ask("prepare")
        took: Any = contestant.ask("wake", count=count)
    return sorted(took)


def _note(found: dict[str, list[float]], name: str, took: list[float]) -> None:
    p50, p99 = statistics.median(took), took[len(took) * 99 // 100]
    found.setdefault(f"{name} p50", []).append(p50)
    found.setdefault(f"{name} p99", []).append(p99)
    print(f"  {name:<28} p50 {p50:8.2f} ms   p99 {p99:8.2f} ms", flush=True)


def _rows(figures: Figures, there: Sequence[Peer], small: Sequence[str]) -> list[Row]:
    # Shorter is better: the ratio is peer to ours, so that one rule judges every row.
    def sooner(name: str, ours: str, peer: str, target: float) -> Row:
        return Row(name, figures.median(peer), figures.median(ours), target, "ms", spread=figures.spread(ours))

    rows = [
        sooner(f"wake.postgres.{peer.name}.p50-theirs-to-ours", "custody postgres p50", f"{_label(peer)} p50", 1.0)
        for peer in there
    ]
    rows += [
        sooner(f"wake.sqlite.{name}.p50-theirs-to-ours", "custody sqlite p50", f"{name} sqlite p50", 1.0)
        for name in small
    ]
    rows.append(figures.within("wake.postgres.p99", "custody postgres p99", 10.0, "ms"))
    rows.append(figures.within("wake.sqlite.p50", "custody sqlite p50", 0, "ms", "bare commit"))
    rows.append(figures.within("wake.sqlite.p50-in-bare-commits", "in commits", IN_COMMITS, "bare commits"))
    return rows


if __name__ == "__main__":
    sys.exit(main(__doc__, measure))

"""What the history costs: its share of a drain, whether sealing keeps up with it, how fast it is verified.

    python -m bench.recording [--quick] [--json FILE]

The share is measured from outside, because nothing can be switched off: as many events, written alone in batches of
the same size, against the whole drain. Sealing and verification run over the events that the drain has left.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import psycopg

from bench.peers.contest import CUSTODY, drain_rate, running
from bench.rounds import Figures, Options, Row, main
from bench.server import database, postgres
from custody.kernel.history.keys import make_key
from custody.kernel.history.ledger import seal_once, verify_all
from custody.kernel.stores import open_store

ROUNDS = 3
VERIFY_OF_HASHING = 0.36
"""50,000 events a second on a machine that writes and hashes 140,000 events a second in plain Python: a quiet
machine of the sort that the figure was set for. A busy one slows both."""
BATCH = 500
EVENTS = """
    insert into event (subject, seq, type, outcome, agent, at, detail, token, move)
    select 'alone/' || number, 1, 'passed', 'success', 'bench', 0, %(detail)s, 1, 'bench'
    from unnest(%(numbers)s::bigint[]) as one (number)"""
DETAIL = '{"ended":"passed","from":"queued","last_passed":"queued","state":"done"}'


def measure(options: Options) -> Sequence[Row]:
    count = 10_000 if options.quick else 50_000
    found: dict[str, list[float]] = {}
    with postgres() as server, tempfile.TemporaryDirectory(prefix="custody-bench-") as folder:
        for turn in range(ROUNDS):
            with database(server) as url:
                told = _one_round(url, count, Path(folder) / f"key-{turn}")
            for name, value in told.items():
                found.setdefault(name, []).append(value)
            print(
                f"  round {turn + 1}  " + "  ".join(f"{name} {value:,.4g}" for name, value in told.items()), flush=True
            )
    figures = Figures(found)
    return [
        figures.within("history.share-of-drain", "share", 0.25, "of the drain"),
        figures.against("history.sealing-keeps-up", "sealed", "drain", 1.0),
        figures.against("history.verify-against-bare-hashing", "verified", "hashing", VERIFY_OF_HASHING),
    ]


def _one_round(url: str, count: int, key: Path) -> dict[str, float]:
    with running(CUSTODY, url) as (contestant,):
        contestant.ask("fill", count=count)
        drain = drain_rate([contestant], count)
    alone = _events_alone(url, count)
    with open_store(url) as store:
        signer = make_key(key, "bench")
        began, sealed = time.monotonic(), 0
        while (block := seal_once(store.ledger, signer, store.now())) is not None:
            sealed += block.count
        seal_rate = sealed / (time.monotonic() - began)
        began = time.monotonic()
        report = verify_all(store.ledger, [signer.public], [])
        verified = sealed / (time.monotonic() - began)
        assert report.sound, report.faults[:3]
    return {"drain": drain, "share": drain / alone, "sealed": seal_rate, "verified": verified, "hashing": _hashing()}


def _events_alone(url: str, count: int) -> float:
    """Events per second, when nothing else is written."""
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("truncate sealed, block")
        began = time.monotonic()
        for at in range(0, count, BATCH):
            db.execute(EVENTS, {"detail": DETAIL, "numbers": list(range(at, at + BATCH))}, prepare=True)
        rate = count / (time.monotonic() - began)
        db.execute("delete from event where subject like 'alone/%%'", {})
    return rate


def _hashing() -> float:
    """Events a second whose body and leaf are only written as JSON and hashed, in plain Python."""
    body = {"agent": "bench", "detail": json.loads(DETAIL)}
    leaf = ["custody event 1", "job/12", 2, "0" * 64, "passed", "success", 1_794_770_705_380_070, 2, "f2c8", "0" * 64]
    count = 20_000
    began = time.monotonic()
    for _ in range(count):
        for part in (body, leaf):
            sha256(json.dumps(part, sort_keys=True, separators=(",", ":")).encode()).digest()
    return count / (time.monotonic() - began)


if __name__ == "__main__":
    sys.exit(main(__doc__, measure))

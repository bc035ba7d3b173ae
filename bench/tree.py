"""A move on ZooKeeper against a bare `multi` of the same operations, and many at once against one at a time.

    python -m bench.tree [--quick] [--json FILE]

Both sides send the very same operations to the same server. Alone, one move is one `multi` and is waited for: the
difference is what our verb adds, looking up the claim, writing JSON, reading the answer. Together, the library sends
each `multi` before it waits for the first; so do we, and we put many moves into one. The last row is what that brings.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from bench.rounds import Options, Row, in_turns, main
from bench.server import zookeeper
from custody.formats.checkm.form import Row as ManifestRow
from custody.ingest.states import JOB
from custody.ingest.submission.submission import batch_job, row_jobs
from custody.ingest.zookeeper import open_tree
from custody.ingest.zookeeper.client.multi import Check, Create, Delete, Op, Set
from custody.ingest.zookeeper.verbs.move import after, ops_of
from custody.kernel.model.job import Change, Claim
from custody.kernel.ports import WholeQueue
from custody.kernel.stores import Store

ROUNDS = 5
PIECE = 100


def plant(queue: WholeQueue, jobs: int) -> None:
    """A batch with so many pending jobs."""
    made = queue.submit_one(batch_job({"profile": "bench", "payload": "http://127.0.0.1/x"}, None))
    (claim,) = queue.claim(["ingest/batch|pending||"], "bench", 60, 1)
    rows = (ManifestRow(number, f"http://127.0.0.1/{number}", f"{number}.checkm") for number in range(1, jobs + 1))
    children = list(row_jobs(made.id, claim.job.payload, rows, "object-manifest", 5))
    for start in range(0, jobs, PIECE):
        queue.keep(claim, {"fanned": start}, {"fanned": start}, children[start : start + PIECE], "bench")
    queue.settle([_passed(claim, "pending", "processing", "fanned out")])


def _passed(claim: Claim, frm: str, to: str, move: str) -> Change:
    return Change(
        claim.id,
        frm,
        to,
        "passed",
        "success",
        "bench",
        True,
        None,
        claim.token,
        move,
        last_passed=frm,
        claimed=claim.move,
    )


def changes(store: Store, count: int) -> list[Change]:
    claims = store.queue.claim(["ingest/job|pending||"], "bench", 60, count)
    to = JOB.next("pending", "pass")
    return [_passed(claim, "pending", to, store.new_move()) for claim in claims]


def together(store: Store, count: int) -> float:
    wanted = changes(store, count)
    return _timed(count, lambda: store.queue.settle(wanted))


def one_by_one(store: Store, count: int) -> float:
    wanted = changes(store, count)
    return _timed(count, lambda: [store.queue.settle([change]) for change in wanted])


def bare(store: Store, count: int) -> float:
    """What our verb would send, sent by kazoo alone: each before the first answer is waited for."""
    moves = bare_moves(store, count)
    return _timed(count, lambda: _send(_zk(store), moves))


def bare_alone(store: Store, count: int) -> float:
    """The same, each when the one before it was answered."""
    moves = bare_moves(store, count)
    return _timed(count, lambda: [_sent(_zk(store), ops).get() for ops in moves])


def bare_moves(store: Store, count: int) -> list[list[Op]]:
    at: Any = store.queue._at  # type: ignore[attr-defined]
    now = at.now()
    seen = [(at.held[change.id], change) for change in changes(store, count)]
    return [ops_of(at, old, after(old, change, now), change) for old, change in seen]


def _zk(store: Store) -> Any:
    return store.queue._at.session.zk  # type: ignore[attr-defined]


def _send(zk: Any, moves: Sequence[Sequence[Op]]) -> None:
    for each in [_sent(zk, ops) for ops in moves]:
        each.get()


def _sent(zk: Any, ops: Sequence[Op]) -> Any:
    request = zk.transaction()
    for op in ops:
        match op:
            case Create():
                request.create(op.path, op.data, ephemeral=op.ephemeral, sequence=op.sequence)
            case Set():
                request.set_data(op.path, op.data, op.version)
            case Delete():
                request.delete(op.path, op.version)
            case Check():
                request.check(op.path, op.version)
    return request.commit_async()


def _timed(count: int, work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return count / (time.perf_counter() - started)


def rows(store: Store, count: int) -> Iterator[Row]:
    contest = {"together": together, "bare": bare, "one by one": one_by_one, "bare, one by one": bare_alone}
    plant(store.queue, len(contest) * count * ROUNDS)
    found = in_turns({name: partial(each, store, count) for name, each in contest.items()}, ROUNDS)
    yield found.against("tree-move", "together", "bare", 0.8)
    yield found.against("tree-move.alone", "one by one", "bare, one by one", 0.8)
    yield found.against("tree-pipelining", "together", "one by one", 3.0)


def measure(options: Options) -> Sequence[Row]:
    with tempfile.TemporaryDirectory() as folder, zookeeper() as server:
        with open_tree(f"{server}/bench?with=sqlite:///{folder}/history.db") as store:
            return list(rows(store, 500 if options.quick else 1_000))


if __name__ == "__main__":
    sys.exit(main(__doc__, measure))

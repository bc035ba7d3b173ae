"""A commit whose answer never came, and a server that has crashed meanwhile: what was done is found out all the same.

After a crash PostgreSQL gives out again the ids of transactions that never reached its disk. Whoever asks by id
alone may then be told of a stranger's transaction that it was committed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import psycopg
import pytest

from custody.kernel.model.authority.acting import system
from custody.kernel.model.job import NewJob
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.postgres.connection import Connection
from custody.kernel.stores.postgres.database import PostgresDatabase
from custody.kernel.stores.postgres.pool import Pool
from custody.kernel.stores.rows import Tx
from custody.kernel.stores.rules.submit import submit_one
from faults.audit import audit
from rig.postgres import Postgres
from rig.proxy import Proxy

pytestmark = [pytest.mark.kills, pytest.mark.slow]


@pytest.fixture
def store(postgres_url: str) -> Iterator[Store]:
    with open_store(postgres_url) as store:
        yield store


def restart(server: Postgres) -> None:
    server.stop("immediate")
    server.start()


def strangers_take(transaction: str, url: str) -> bool:
    """Others go on after the restart; one of them is given this very id."""
    with psycopg.connect(url, autocommit=True) as db:
        while True:
            row = db.execute("select pg_current_xact_id()::text").fetchone()
            assert row is not None
            if int(row[0]) >= int(transaction):
                return bool(row[0] == transaction)


def once(act: Callable[[Tx], None]) -> Callable[[Tx], None]:
    """The first time only: a transaction that is run again is not disturbed again."""
    left = [act]
    return lambda tx: left.pop()(tx) if left else None


def transaction_of(tx: Tx) -> str:
    row = tx.db.execute("select pg_current_xact_id()::text").fetchone()  # type: ignore[attr-defined]
    return str(row[0])


WRITES: dict[str, Callable[[Tx], Any]] = {
    "a job": lambda tx: submit_one(tx, NewJob("parcel", key="a"), "move-1", system("ann")).id,
    "a note without a move": lambda tx: tx.run(
        "insert_event", subject="hold/x", seq=1, type="held", outcome="none", agent="ann", detail="{}", token=0, move=""
    ),
    "a number drawn": lambda tx: tx.run("bump", name="arks", by=1)[0][0],
}

THERE = {
    "a job": "select count(*) from job",
    "a note without a move": "select count(*) from event",
    "a number drawn": "select value from counter",
}


@pytest.mark.parametrize("what", WRITES)
def test_a_strangers_commit_is_not_taken_for_ours(
    store: Store, postgres: Postgres, postgres_url: str, what: str
) -> None:
    taken: list[bool] = []

    def crash(tx: Tx) -> None:
        transaction = transaction_of(tx)
        restart(postgres)
        taken.append(strangers_take(transaction, postgres_url))

    disturb = once(crash)

    def work(tx: Tx) -> Any:
        value = WRITES[what](tx)
        disturb(tx)
        return value

    value = store.db.write(work)
    assert taken == [True], "the id was given out again, or this proves nothing"
    with psycopg.connect(postgres_url) as db:
        assert db.execute(THERE[what]).fetchone() == (1,), f"{value} was acknowledged"


def test_an_id_that_the_server_does_not_know_any_more_was_not_committed(store: Store, postgres: Postgres) -> None:
    disturb = once(lambda tx: restart(postgres))

    def work(tx: Tx) -> int:
        job = submit_one(tx, NewJob("parcel", key="a"), "move-1", system("ann")).id
        disturb(tx)
        return job

    assert store.queue.get(store.db.write(work)).key == "a"
    assert audit(store) == []


class RestartingPool:
    """A pool behind which the server crashes just before somebody asks how a commit went."""

    def __init__(self, pool: Pool, cut: threading.Event, server: Postgres) -> None:
        self._pool, self._cut, self._server = pool, cut, server
        self.address = pool.address
        self.restarts = 0

    def connection(self) -> AbstractContextManager[Connection]:
        if self._cut.is_set() and not self.restarts:
            self.restarts += 1
            restart(self._server)
        return self._pool.connection()

    def drop_spare(self) -> None:
        self._pool.drop_spare()

    def must_be_writable(self) -> None:
        self._pool.must_be_writable()


def test_what_was_committed_before_the_crash_is_recognised_and_not_done_again(
    postgres: Postgres, postgres_url: str
) -> None:
    with Proxy(postgres.port) as proxy:
        store = open_store(postgres_url.replace(f":{postgres.port}/", f":{proxy.port}/"))
        assert isinstance(store.db, PostgresDatabase)
        cut = proxy.cut_answer(b"commit")
        pool = RestartingPool(store.db._pool, cut, postgres)
        store.db._transactions._pool = pool  # type: ignore[assignment]
        runs: list[int] = []

        def work(tx: Tx) -> int:
            runs.append(1)
            return submit_one(tx, NewJob("parcel"), tx.new_move(), system("ann")).id

        job = store.db.write(work)
        assert cut.is_set()
        assert (pool.restarts, len(runs)) == (1, 1)
        assert [each.id for each in store.queue.every()] == [job]
        store.close()

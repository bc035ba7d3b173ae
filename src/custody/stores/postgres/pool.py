"""A small pool of connections: the last one used is the next one given, broken ones are dropped."""

from __future__ import annotations

import select
import threading
import time

from psycopg.pq import TransactionStatus

from custody.model.errors import Unavailable
from custody.stores.postgres.connection import Address, Connection, broken, connect

MOST_SPARE = 8
WARM_SECONDS = 0.001
"""A connection that was in use so shortly before is taken as it is: to ask takes a fortieth of a small submit."""


class Pool:
    """Never makes a caller wait: there are as many connections as transactions under way, and a few to spare."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._lock = threading.Lock()
        self._spare: list[Connection] = []
        self._closed = False

    def connection(self) -> _Lent:
        return _Lent(self)

    def drop_spare(self) -> None:
        """The server went away: what is left in the pool is as dead as the one that found out."""
        with self._lock:
            spare, self._spare = self._spare, []
        for db in spare:
            db.close()

    def close(self) -> None:
        self._closed = True
        self.drop_spare()

    def take(self) -> Connection:
        with self._lock:
            if self._closed:
                raise Unavailable("the store is closed", code="store.closed")
            while self._spare:
                db = self._spare.pop()
                if time.monotonic() - db.used_at < WARM_SECONDS or not _has_ended(db):
                    return db
                db.close()
        return connect(self.address)

    def give_back(self, db: Connection) -> None:
        if not broken(db) and db.pgconn.transaction_status == TransactionStatus.IDLE:
            with self._lock:
                if not self._closed and len(self._spare) < MOST_SPARE:
                    db.used_at = time.monotonic()
                    self._spare.append(db)
                    return
        db.close()


class _Lent:
    """A connection for the length of a `with`; a class, because a generator costs more than all it would do here."""

    __slots__ = ("_db", "_pool")

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def __enter__(self) -> Connection:
        self._db = self._pool.take()
        return self._db

    def __exit__(self, *trouble: object) -> None:
        self._pool.give_back(self._db)


def _has_ended(db: Connection) -> bool:
    """A server that speaks unasked has hung up. Better noticed now than in the middle of a verb."""
    ear = select.poll()
    ear.register(db.fileno(), select.POLLIN)
    return bool(ear.poll(0))

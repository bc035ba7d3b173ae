"""A small pool of connections: the last one used is the next one given, broken ones are dropped.

A server that is away, starts or is being promoted is waited for, as long as the store's patience lasts: whoever has no
connection has certainly done nothing yet. And a new connection is used for nothing until it was looked up what of our
own is there (receipts.py), and whether the database is still as it must be (condition.py).
"""

from __future__ import annotations

import math
import select
import threading
import time
from collections.abc import Callable, Mapping

import psycopg
from psycopg.pq import TransactionStatus

from custody.errors import CustodyError, Unavailable, Unsafe
from custody.kernel.stores.postgres.connection import Connection, Session, broken, translate
from custody.kernel.stores.postgres.prepared import hang_up
from custody.kernel.stores.postgres.server.address import Address
from custody.kernel.stores.postgres.server.causes import passes
from custody.kernel.stores.postgres.server.condition import Seen, asked, look, restored_meanwhile
from custody.kernel.stores.postgres.server.failover import Way

MOST_SPARE = 8
WARM_SECONDS = 0.001
"""A connection that was in use so shortly before is taken as it is: to ask takes a fortieth of a small submit."""
LOOK_SECONDS = 2.0
"""After which it is asked again, by whoever comes next, whether the database is as it must be."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0

Told = Callable[[CustodyError], None]


def nobody(error: CustodyError) -> None:
    """Nobody wants to hear what is waited for."""


class Pool:
    """Never makes a caller wait for another: there are as many connections as transactions under way, and a few to
    spare."""

    def __init__(
        self,
        address: Address,
        seen: Mapping[str, int] | None = None,
        on_change: Callable[[Connection, Session, bool], None] = lambda db, before, another: None,
        condition: Seen | None = None,
    ) -> None:
        self.address, self.way = address, Way(address, seen)
        self._on_change = on_change
        self.condition = condition  # None until the schema is there
        self._looked_at = 0.0
        self.doubted = False
        self._lock = threading.Lock()
        self._spare: list[Connection] = []
        self._closed = False
        self._shaken = False  # a connection was lost: the next one may lead elsewhere
        self._last: Session | None = None

    def connection(self) -> _Lent:
        return _Lent(self)

    def drop_spare(self) -> None:
        """The server went away: what is left in the pool is as dead as the one that found out."""
        with self._lock:
            spare, self._spare = self._spare, []
            self._shaken = True
        for db in spare:
            db.close()

    def close(self) -> None:
        self._closed = True
        self.drop_spare()

    def take(self) -> Connection:
        while db := self._one_to_spare():
            if time.monotonic() - self._looked_at < LOOK_SECONDS or self._is_as_before(db):
                return db
        return self.wait_for_one(self.address.waits)

    def _one_to_spare(self) -> Connection | None:
        with self._lock:
            if self._closed:
                raise Unavailable("the store is closed", code="store.closed")
            while self._spare:
                db = self._spare.pop()
                if time.monotonic() - db.used_at < WARM_SECONDS or not _has_ended(db):
                    return db
                db.close()
                self._shaken = True
        return None

    def give_back(self, db: Connection) -> None:
        if not broken(db) and db.pgconn.transaction_status == TransactionStatus.IDLE:
            with self._lock:
                if not self._closed and len(self._spare) < MOST_SPARE:
                    db.used_at = time.monotonic()
                    self._spare.append(db)
                    return
        db.close()

    def wait_for_one(self, seconds: float, told: Told = nobody) -> Connection:
        """A new connection; a server that may be there in a moment is waited for."""
        stop_at, pause = time.monotonic() + seconds, FIRST_PAUSE
        while True:
            try:
                return self._connect()
            except (Unavailable, Unsafe) as error:
                if self._closed or not passes(error) or time.monotonic() + pause > stop_at:
                    raise
                told(error)
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def must_lend_two(self) -> None:
        """Refuse a pooler that has one session for all of us: a lease could not be renewed while anything else is done.

        It is tried, since nothing else tells: in session mode whoever has a session keeps it, though it is idle."""
        with self.connection() as first:
            if first.own:
                return
            try:
                self.way.connect().close()
            except CustodyError as error:
                raise Unsafe(
                    f"the pooler before PostgreSQL lends this process one session and no second one ({error.message})",
                    code="postgres.pool",
                    hint="set pool_mode = transaction or a larger default_pool_size, or give a direct address",
                ) from error

    def _connect(self) -> Connection:
        db = self.way.connect(of_all=self._shaken)
        try:
            self._know(db)
        except psycopg.Error as error:
            db.close()
            raise translate(error) from error
        except BaseException:
            db.close()
            raise
        db.silent = self._ask_elsewhere
        self._shaken = False
        return db

    def watch(self, db: Connection) -> None:
        """From now on: the schema is there."""
        try:
            self.condition, self._looked_at = look(db, self.address.unsafe, asked()), time.monotonic()
        except psycopg.Error as error:
            raise translate(error) from error

    def doubt(self) -> None:
        """Something shows that history went back: whoever comes next looks up all that we were told of."""
        self.doubted, self._looked_at = True, -math.inf

    def must_be_writable(self) -> None:
        if self.condition is not None and self.condition.lacks is not None:
            self._looked_at = 0.0  # it may have been granted since
            with self.connection():
                pass
            if self.condition.lacks is not None:
                raise self.condition.lacks

    def _know(self, db: Connection) -> None:
        before, here = self._last, db.session
        another = before is not None and (before.system, before.life) != (here.system, here.life)
        self._compare(db, another)
        self._last = here

    def _compare(self, db: Connection, another: bool) -> None:
        """Ask what the database is like, and then whether what we were told is there."""
        known = self.condition
        if known is None:
            return
        seen, self._looked_at = look(db, self.address.unsafe, known.wanted), time.monotonic()
        another = another or self.doubted or seen.tables != known.tables
        if self._last is not None:
            self._on_change(db, self._last, another)
        self.doubted = False
        if seen.generation != known.generation:
            raise restored_meanwhile()
        self.condition = seen

    def _is_as_before(self, db: Connection) -> bool:
        """False if it is of no use any more: a new one may be."""
        self._looked_at, before = time.monotonic(), self._looked_at
        try:
            self._compare(db, another=False)
        except (CustodyError, psycopg.Error) as error:
            self._looked_at = before
            db.close()
            if isinstance(error, CustodyError) and not passes(error):
                raise
            self._shaken = True
            return False
        return True

    def _ask_elsewhere(self, waiting: Connection) -> None:
        """An answer keeps us waiting. If a new connection leads to a newer timeline, nobody will answer for good: a
        primary that stands still was replaced. A long wait by itself is none of our business."""
        try:
            with self.way.connect(of_all=True) as other:
                there, here = other.session, waiting.session
        except CustodyError:
            return
        if there.system == here.system and there.timeline > here.timeline:
            self._shaken = True
            hang_up(waiting)


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

"""One transaction, its retries, and what is done when its answer gets lost.

A transaction tells us its id before it does anything. If the connection breaks while the commit is under way,
nobody can know from here whether it happened; but the server knows how the transaction with that id ended. So
the verb connects again and asks: *committed* makes the value it had computed the answer, *aborted* lets it run
again, and while the old session still lingers it is ended first. No caller ever sees "perhaps", unless the server
stays away for longer than `PATIENCE`.

A server that has crashed meanwhile gives the ids of transactions that never reached its disk a second time. So
after a restart *committed* may be said of a stranger, and counts only if what our transaction wrote is there. What
leaves no trace (a renewal, a tick, a number drawn) is simply done again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from psycopg import errors

from custody.model.errors import CustodyError, Unavailable
from custody.stores.clock import Clock
from custody.stores.postgres.connection import Connection, broken, translate
from custody.stores.postgres.pool import Pool
from custody.stores.postgres.texts import SERVER_TIME, texts
from custody.stores.postgres.wire import CUT
from custody.stores.rows import Row, Tx

T = TypeVar("T")

ATTEMPTS = 20
"""Runs of one verb that others' locks or a lost connection may cost it."""
PATIENCE = 30.0
"""Seconds for which a lost commit is asked about before the verb gives up."""

AGAIN = (errors.DeadlockDetected, errors.SerializationFailure)
_BEGIN = f"begin; select pg_current_xact_id()::text, {SERVER_TIME}, pg_postmaster_start_time()::text"
_LOOK = "begin isolation level repeatable read read only; set local plan_cache_mode = auto"


@dataclass(frozen=True, slots=True)
class Trace:
    """What to look for when it is not certain that a transaction was committed."""

    move: str = ""
    subject: str = ""
    seq: int = 0

    @classmethod
    def of(cls, name: str, values: Mapping[str, Any]) -> Trace | None:
        moves = values.get("move") or values.get("moves")
        if moves:
            return cls(move=moves.split(CUT, 1)[0])
        return cls(subject=values["subject"], seq=values["seq"]) if name == "insert_event" else None


@dataclass(frozen=True, slots=True)
class Begun:
    """A transaction that is under way: its id, its time, and since when its server runs."""

    id: str
    time: int
    life: str
    pid: int


class PostgresTx:
    """Named statements on one connection, and one time."""

    def __init__(
        self,
        db: Connection,
        statements: Mapping[str, str],
        new_move: Callable[[], str],
        own_time: int | None,
        time_: int | None,
    ) -> None:
        self.db, self.statements, self.new_move = db, statements, new_move
        self._own_time, self._time = own_time, time_
        self.trace: Trace | None = None  # something that only this transaction can have written

    @property
    def now(self) -> int:
        if self._time is None:
            self._time = int(self.db.execute(f"select {SERVER_TIME}").fetchall()[0][0])
        return self._time

    def run(self, name: str, /, **values: Any) -> list[Row]:
        if self._own_time is not None:
            values["now"] = self._own_time
        self.trace = Trace.of(name, values) or self.trace
        try:
            cursor = self.db.execute(self.statements[name], values)
        except psycopg.DataError as error:
            raise translate(error) from error
        rows: list[Row] = cursor.fetchall() if cursor.description else []  # type: ignore[assignment]
        return rows


class Transactions:
    def __init__(self, pool: Pool, clock: Clock | None, new_move: Callable[[], str]) -> None:
        self._pool, self._clock, self._new_move = pool, clock, new_move

    def write(self, work: Callable[[PostgresTx], T]) -> T:
        """Run in one transaction; when this returns, it is on disk. `work` may be run more than once."""
        for attempt in range(ATTEMPTS):
            try:
                with self._pool.connection() as db:
                    return self._once(db, work)
            except AGAIN:
                time.sleep(random.uniform(0, 0.002 * (attempt + 1)))  # let the other one finish first
            except _Vanished:
                self._pool.drop_spare()
        raise Unavailable(
            f"others were in the way {ATTEMPTS} times in a row", code="store.busy", hint="try again in a moment"
        )

    def read(self, work: Callable[[Tx], T]) -> T:
        """One consistent look that writes nothing."""
        for _ in range(ATTEMPTS):
            try:
                with self._pool.connection() as db:
                    return self._look(db, work)
            except _Vanished:
                self._pool.drop_spare()
        raise Unavailable("PostgreSQL keeps hanging up", code="store.down")

    def now(self) -> int:
        return self._clock.now() if self._clock else self.read(lambda tx: tx.now)

    def _once(self, db: Connection, work: Callable[[PostgresTx], T]) -> T:
        own = self._clock.now() if self._clock else None
        try:
            begun = _begin(db)
            tx = PostgresTx(db, texts(own is not None, True), self._new_move, own, begun.time if own is None else own)
            value = work(tx)
        except BaseException as error:
            raise _undone(db, error) from error
        try:
            db.execute("commit")
        except psycopg.Error as error:
            if not broken(db):
                raise translate(error) from error
            if not self._committed(begun, tx, error):
                raise _Vanished from error
        return value

    def _look(self, db: Connection, work: Callable[[Tx], T]) -> T:
        own = self._clock.now() if self._clock else None
        try:
            db.execute(_LOOK)
            value = work(PostgresTx(db, texts(own is not None, False), self._new_move, own, own))
            db.execute("rollback")
        except BaseException as error:
            raise _undone(db, error) from error
        return value

    def _committed(self, begun: Begun, tx: PostgresTx, lost: Exception) -> bool:
        """Find out how a transaction ended whose answer we never got."""
        stop_at = time.monotonic() + PATIENCE
        while time.monotonic() < stop_at:
            try:
                with self._pool.connection() as db:
                    how = _how_it_ended(db, begun, tx)
            except (CustodyError, psycopg.OperationalError):
                how = None  # still away
            if how in ("committed", "aborted"):
                return how == "committed"
            self._pool.drop_spare()
            time.sleep(0.02)
        raise Unavailable(
            f"the connection was lost during a commit and PostgreSQL stayed away for {PATIENCE:.0f} s",
            code="store.unknown",
            hint="look at the job before doing it again",
            transaction=begun.id,
        ) from lost


class _Vanished(Exception):
    """The connection broke and nothing was written."""


def _begin(db: Connection) -> Begun:
    cursor = db.execute(_BEGIN)
    cursor.nextset()
    transaction, server_time, life = cursor.fetchall()[0]
    return Begun(transaction, server_time, life, db.info.backend_pid)


def _undone(db: Connection, error: BaseException) -> BaseException:
    """Roll back, and say what to raise: the same again, one of ours, or that the connection is gone."""
    if broken(db):
        return _Vanished() if isinstance(error, psycopg.Error) else error
    try:
        db.execute("rollback")
    except psycopg.Error:
        db.close()
    if isinstance(error, AGAIN):
        return error
    return translate(error) if isinstance(error, Exception) else error


def _how_it_ended(db: Connection, begun: Begun, tx: PostgresTx) -> str | None:
    restarted = db.execute("select pg_postmaster_start_time()::text").fetchall()[0][0] != begun.life
    how = how_it_ended(db, begun.id, begun.pid)
    if restarted:  # numbers that never reached the disk are given out again: only a trace of ours proves it
        return "committed" if how == "committed" and _is_there(db, tx) else "aborted"
    return how


def how_it_ended(db: Connection, transaction: str, pid: int) -> str | None:
    """ "committed", "aborted", or None while it has not ended; then its session, which may not have noticed that
    we are gone, is ended with all its locks."""
    try:
        row = db.execute(
            "select pg_xact_status(%(id)s::xid8), (select pg_terminate_backend(pid) from pg_stat_activity"
            " where pid = %(pid)s and backend_xid = %(id)s::xid8::xid)",
            {"id": transaction, "pid": pid},
        ).fetchone()
    except errors.InvalidParameterValue:
        return "aborted"  # a number not yet given out here: the server that took over never saw it
    return row[0] if row and row[0] != "in progress" else None


def _is_there(db: Connection, tx: PostgresTx) -> bool:
    if tx.trace is None:
        return False
    sought = {"move": tx.trace.move, "subject": tx.trace.subject, "seq": tx.trace.seq, "at": tx.now}
    return bool(db.execute(_TRACE_OF_MOVE if tx.trace.move else _TRACE_OF_EVENT, sought).fetchall())


_TRACE_OF_MOVE = (
    "select 1 from event where id > (select coalesce(max(id), 0) - 1000000 from event) and move = %(move)s"
    " union all select 1 from job where move = %(move)s limit 1"
)
_TRACE_OF_EVENT = "select 1 from event where subject = %(subject)s and seq = %(seq)s and at = %(at)s"

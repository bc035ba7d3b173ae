"""Transactions and their retries: what is done when rows are locked crosswise or a connection is lost.

What `write` returns is on disk, here and on the standby that the server waits for. How a lost or doubtful answer is
found out is told in in_doubt.py, what is said to begin a transaction in transaction_words.py.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import psycopg
from psycopg import errors

from custody.errors import Unavailable
from custody.kernel.stores.clock import Clock
from custody.kernel.stores.postgres.connection import Behind, Connection, broken, no_standby, standby, translate
from custody.kernel.stores.postgres.dialect import SERVER_TIME, texts
from custody.kernel.stores.postgres.in_doubt import (
    Begun,
    Moved,
    Traces,
    begin,
    found_out,
    not_on_a_standby,
    still_waits,
    was_committed,
)
from custody.kernel.stores.postgres.pool import Pool
from custody.kernel.stores.postgres.prepared import ask, run, say
from custody.kernel.stores.postgres.transaction_words import COMMIT, CONFIRMED_COMMIT
from custody.kernel.stores.rows import Row, Tx

T = TypeVar("T")

ATTEMPTS = 20
"""Runs of one verb that others' locks or a lost connection may cost it."""

AGAIN = (errors.DeadlockDetected, errors.SerializationFailure, errors.InvalidSqlStatementName)
"""Locked crosswise; or what was prepared is forgotten (prepared.py)."""
OTHERWISE = (errors.ObjectNotInPrerequisiteState, errors.FeatureNotSupported, errors.ReadOnlySqlTransaction)
"""What a standby says to whoever wants to write; but others may say so, too."""


class PostgresTx:
    """Named statements on one connection, and one time."""

    def __init__(
        self,
        db: Connection,
        statements: Mapping[str, str],
        new_move: Callable[[], str],
        own_time: int | None,
        time_: int | None,
        above: int = 0,
    ) -> None:
        """`above`: the highest number of a job that is known to be given out before this begins."""
        self.db, self.statements, self.new_move = db, statements, new_move
        self._own_time, self._time, self._above = own_time, time_, above
        self.traces = Traces()

    @property
    def now(self) -> int:
        if self._time is None:
            self._time = int(self.db.execute(f"select {SERVER_TIME}").fetchall()[0][0])
        return self._time

    def run(self, name: str, /, **values: Any) -> list[Row]:
        self._complete(name, values)
        try:
            return run(self.db, self.statements[name], values)
        except (psycopg.DataError, UnicodeEncodeError) as error:
            raise translate(error) from error

    def ask(self, name: str, /, **values: Any) -> list[tuple[str, ...]]:
        """As `run`, for a small statement that is a transaction by itself; the rows come as text."""
        self._complete(name, values)
        try:
            return ask(self.db, name, self.statements[name], values)
        except (psycopg.DataError, UnicodeEncodeError) as error:
            raise translate(error) from error

    def stream(self, name: str, many: Iterable[dict[str, Any]]) -> list[Row]:
        """The rows of one statement with many values, which are asked for while the server is still at work."""
        if not self.db.own:  # only what is prepared has the plan that we want, and there it cannot be
            return [row for values in many for row in self.run(name, **values)]
        with self.db.pipeline():
            cursors = [self._send(name, values) for values in many]
        return [row for cursor in cursors for row in cursor.fetchall()]

    def _complete(self, name: str, values: dict[str, Any]) -> None:
        values["above"] = self._above
        if self._own_time is not None:
            values["now"] = self._own_time
        self.traces.note(name, values)

    def _send(self, name: str, values: dict[str, Any]) -> psycopg.Cursor[tuple[Any, ...]]:
        self._complete(name, values)
        try:
            # Prepared at its first use: only a prepared statement has the plan that transaction_words.py asks for.
            return self.db.execute(self.statements[name], values, prepare=True)
        except (psycopg.DataError, UnicodeEncodeError) as error:
            raise translate(error) from error


class Transactions:
    def __init__(
        self, pool: Pool, clock: Clock | None, new_move: Callable[[], str], highest: Callable[[], int] = lambda: 0
    ) -> None:
        self._pool, self._clock, self._new_move, self._highest = pool, clock, new_move, highest
        self._strict = pool.address.synchronous

    def write(self, work: Callable[[PostgresTx], T]) -> T:
        """Run in one transaction; when this returns, it is on disk. `work` may be run more than once."""
        self._pool.must_be_writable()
        return self._again_and_again(lambda db: self._once(db, work), _nothing)

    def at_once(self, work: Callable[[PostgresTx], T], found: Callable[[Tx], T | None]) -> T:
        """As `write`, for work that is a single statement: that is a transaction by itself, in one round trip
        instead of three. If the answer is lost, `found` says what was done, or None: then it is done again. (Where the
        session is not ours alone, it is a transaction as any other: its id must be known before it is committed.)"""

        def once(db: Connection) -> T:
            return self._alone(db, work) if db.own and not self._strict else self._once(db, work)

        return self._again_and_again(once, found)

    def read(self, work: Callable[[Tx], T]) -> T:
        """One consistent look that writes nothing."""
        return self._again_and_again(lambda db: self._look(db, db.words.look, work), _nothing)

    def glance(self, work: Callable[[Tx], T]) -> T:
        """Looks that each are a transaction by themselves: one round trip instead of three."""
        return self._again_and_again(
            lambda db: self._glance(db, work) if db.own else self._look(db, db.words.glance, work), _nothing
        )

    def now(self) -> int:
        return self._clock.now() if self._clock else self.read(lambda tx: tx.now)

    def _again_and_again(self, once: Callable[[Connection], T], found: Callable[[Tx], T | None]) -> T:
        for attempt in range(ATTEMPTS):
            try:
                with self._pool.connection() as db:
                    return once(db)
            except AGAIN:
                time.sleep(random.uniform(0, 0.002 * (attempt + 1)))  # let the other one finish first
            except _Vanished:
                self._pool.drop_spare()
            except Behind:
                self._pool.doubt()  # nothing was written; before anything is, all that we were told of is looked up
            except _Lost as lost:
                if (answer := self._found_out(lost.db, found)) is not None:
                    return answer
        raise Unavailable(
            f"others were in the way {ATTEMPTS} times in a row", code="store.busy", hint="try again in a moment"
        )

    def _found_out(self, lost: Connection, found: Callable[[Tx], T | None]) -> T | None:
        return found_out(self._pool, lost.session, lambda db, begun: found(self._tx(db, begun)))

    def _tx(self, db: Connection, begun: Begun) -> PostgresTx:
        own = self._clock.now() if self._clock else None
        time_ = begun.time if own is None else own
        return PostgresTx(
            db, texts(own is not None, True), self._new_move, own_time=own, time_=time_, above=self._highest()
        )

    def _once(self, db: Connection, work: Callable[[PostgresTx], T]) -> T:
        try:
            begun = begin(db)
            if self._strict and not begun.has_standby:
                raise no_standby("no synchronous standby")
            tx = self._tx(db, begun)
            value = work(tx)
        except BaseException as error:
            raise _undone(db, error) from error
        db.warnings.clear()
        try:
            # A transaction that writes nothing, as one that finds its key used, waits for no standby by itself.
            say(db, CONFIRMED_COMMIT if begun.has_standby else COMMIT)
            waited = still_waits(self._pool, db)
        except psycopg.Error as error:
            if not broken(db):
                raise translate(error) from error
            if not was_committed(self._pool, begun, tx.traces, tx.now):
                raise _Vanished from error
            return value
        if "WARNING" in db.warnings and not was_committed(self._pool, begun, tx.traces, tx.now):
            raise _Vanished
        if not waited:
            raise not_on_a_standby()
        return value

    def _alone(self, db: Connection, work: Callable[[PostgresTx], T]) -> T:
        own = self._clock.now() if self._clock else None
        db.warnings.clear()
        try:
            words = texts(own is not None, True)
            value = work(PostgresTx(db, words, self._new_move, own_time=own, time_=own, above=self._highest()))
        except AGAIN:
            raise
        except psycopg.Error as error:
            raise (_Lost(db) if broken(db) else _explained(db, error)) from error
        if "WARNING" in db.warnings:
            db.close()  # with its session it is over, and can be found out
            raise _Lost(db)
        return value

    def _glance(self, db: Connection, work: Callable[[Tx], T]) -> T:
        own = self._clock.now() if self._clock else None
        try:
            return work(
                PostgresTx(
                    db=db, statements=texts(own is not None, False), new_move=self._new_move, own_time=own, time_=own
                )
            )
        except AGAIN:
            raise
        except psycopg.Error as error:
            raise (_Vanished() if broken(db) else translate(error)) from error

    def _look(self, db: Connection, words: bytes, work: Callable[[Tx], T]) -> T:
        own = self._clock.now() if self._clock else None
        try:
            say(db, words)
            value = work(
                PostgresTx(
                    db=db, statements=texts(own is not None, False), new_move=self._new_move, own_time=own, time_=own
                )
            )
            say(db, b"commit")
        except BaseException as error:
            raise _undone(db, error) from error
        return value


class _Vanished(Exception):
    """The connection broke and nothing was written."""


class _Lost(Exception):
    """The connection broke and nobody knows yet whether something was written."""

    def __init__(self, db: Connection) -> None:
        super().__init__()
        self.db = db


def _nothing(tx: Tx) -> None:
    """It left no trace of its own to look for."""


def _undone(db: Connection, error: BaseException) -> BaseException:
    """Roll back, and say what to raise: the same again, one of ours, or that the connection is gone."""
    if broken(db):
        return _Vanished() if isinstance(error, psycopg.Error) else error
    try:
        say(db, b"rollback")
    except psycopg.Error:
        db.close()
    if isinstance(error, AGAIN):
        return error
    if isinstance(error, Moved):
        db.close()
        return _Vanished()
    return _explained(db, error) if isinstance(error, Exception) else error


def _explained(db: Connection, error: Exception) -> Exception:
    """In our words; whether it is a standby is asked of the server itself."""
    if isinstance(error, OTHERWISE) and not broken(db):
        try:
            if say(db, b"select pg_is_in_recovery()") == [("t",)]:
                return standby()
        except psycopg.Error:
            db.close()
    return translate(error)

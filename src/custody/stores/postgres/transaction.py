"""One transaction, its retries, and what is done when its answer gets lost.

A transaction tells us its id before it does anything. If the connection breaks while the commit is under way,
nobody can know from here whether it happened; but the server knows how the transaction with that id ended. So
the verb connects again and asks: *committed* makes the value it had computed the answer, *aborted* lets it run
again, and while the old session still lingers it is ended first. No caller ever sees "perhaps", unless the server
stays away for longer than `PATIENCE`.

A server that has crashed meanwhile gives the ids of transactions that never reached its disk a second time. So
after a crash *committed* may be said of a stranger, and counts only if something that our transaction wrote is
there. What leaves no trace (a renewal, a tick, a number drawn) is simply done again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
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
_BEGIN = f"begin; select pg_current_xact_id()::text, {SERVER_TIME}"
_LOOK = "begin isolation level repeatable read read only; set local plan_cache_mode = auto"


MOST_TRACES = 100


@dataclass(frozen=True, slots=True)
class Traces:
    """What only this transaction can have written: its moves, and its events of what makes no moves."""

    moves: set[str] = field(default_factory=set)
    events: set[tuple[str, int]] = field(default_factory=set)

    def note(self, name: str, values: Mapping[str, Any]) -> None:
        moves = values.get("move") or values.get("moves")
        if moves and len(self.moves) < MOST_TRACES:
            self.moves.add(moves.split(CUT, 1)[0])
        elif name == "insert_event" and len(self.events) < MOST_TRACES:
            self.events.add((values["subject"], values["seq"]))

    def are_there(self, db: Connection, at: int) -> bool:
        sought = {"moves": list(self.moves), "subjects": [subject for subject, _ in self.events],
                  "seqs": [seq for _, seq in self.events], "at": at}  # fmt: skip
        return bool(db.execute(_TRACES, sought).fetchall())


_TRACES = """
    select 1 from event
    where id > (select coalesce(max(id), 0) - 1000000 from event) and move = any(%(moves)s::text[])
    union all select 1 from job where move = any(%(moves)s::text[])
    union all select 1 from event join unnest(%(subjects)s::text[], %(seqs)s::bigint[]) as sought (subject, seq)
        using (subject, seq) where at = %(at)s
    limit 1"""


@dataclass(frozen=True, slots=True)
class Begun:
    """A transaction that is under way: its id and its time, and the session it runs in."""

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
        self.traces = Traces()

    @property
    def now(self) -> int:
        if self._time is None:
            self._time = int(self.db.execute(f"select {SERVER_TIME}").fetchall()[0][0])
        return self._time

    def run(self, name: str, /, **values: Any) -> list[Row]:
        cursor = self._send(name, values)
        rows: list[Row] = [] if cursor.rownumber is None else cursor.fetchall()  # type: ignore[assignment]
        return rows

    def stream(self, name: str, many: Iterable[dict[str, Any]]) -> list[Row]:
        """The rows of one statement with many values, which are asked for while the server is still at work."""
        with self.db.pipeline():
            cursors = [self._send(name, values) for values in many]
        return [row for cursor in cursors for row in cursor.fetchall()]

    def _send(self, name: str, values: dict[str, Any]) -> psycopg.Cursor[tuple[Any, ...]]:
        if self._own_time is not None:
            values["now"] = self._own_time
        self.traces.note(name, values)
        try:
            return self.db.execute(self.statements[name], values)
        except psycopg.DataError as error:
            raise translate(error) from error


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
                    how = how_it_ended(db, begun, lambda: tx.traces.are_there(db, tx.now))
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
    transaction, server_time = cursor.fetchall()[0]
    return Begun(transaction, server_time, db.life, db.info.backend_pid)


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


def how_it_ended(db: Connection, begun: Begun, left_traces: Callable[[], bool]) -> str | None:
    """ "committed", "aborted", or None while it has not ended."""
    try:
        how: str | None = db.execute("select pg_xact_status(%s::xid8)", (begun.id,)).fetchall()[0][0]
    except errors.InvalidParameterValue:  # "in the future": it never reached the disk, and its id is free again
        return "aborted"
    if db.life != begun.life:
        return "committed" if how == "committed" and left_traces() else "aborted"
    if how == "in progress":
        # The old session may not have noticed that we are gone: it is ended, with its locks.
        db.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where pid = %s and backend_xid = %s::xid8::xid",
            (begun.pid, begun.id),
        )
        return None
    return how

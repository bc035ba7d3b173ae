"""One writer thread with group commit.

Moves that arrive while a commit is under way go into the next one together: no timer, and one that is alone
is committed at once. Each move has a savepoint of its own, so one refusal never undoes a neighbour, and
nothing is answered before the commit that carries it is on disk.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import apsw

from custody.stores.clock import Clock
from custody.stores.reply import Reply
from custody.stores.sqlite.connection import SqliteTx, closed, translate

T = TypeVar("T")
Work = Callable[[SqliteTx], Any]

MOST_MOVES = 256
MOST_SECONDS = 0.005  # then other processes get their turn


class Writer:
    def __init__(self, db: apsw.Connection, clock: Clock, new_move: Callable[[], str]) -> None:
        self._db, self._clock, self._new_move = db, clock, new_move
        self._inbox: queue.SimpleQueue[tuple[Work, Reply[Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._loop, name="custody-writer", daemon=True)
        self._door = threading.Lock()  # whoever was let in is served, though it is closed behind him
        self._closed = False
        self._thread.start()

    def write(self, work: Callable[[SqliteTx], T]) -> T:
        """Run `work` in a transaction and return its value once that is on disk."""
        reply: Reply[T] = Reply()
        with self._door:
            if self._closed:
                raise closed()
            self._inbox.put((work, reply))
        return reply.wait()

    def close(self) -> None:
        with self._door:
            self._closed = True
            self._inbox.put(None)
        self._thread.join()
        self._db.close()

    def _loop(self) -> None:
        while (first := self._inbox.get()) is not None:
            self._commit_group(first)

    def _commit_group(self, first: tuple[Work, Reply[Any]]) -> None:
        taken: list[Reply[Any]] = []
        answers: list[tuple[Any, Exception | None]] = []
        stop_at = time.monotonic() + MOST_SECONDS
        entry: tuple[Work, Reply[Any]] | None = first
        try:
            self._db.execute("begin immediate")
            tx = SqliteTx(self._db, self._clock.now(), self._new_move)
            while entry is not None:
                taken.append(entry[1])
                answers.append(self._run(entry[0], tx))
                more = len(answers) < MOST_MOVES and time.monotonic() < stop_at
                entry = self._next_waiting() if more else None
            self._db.execute("commit")
        except Exception as error:
            if self._db.in_transaction:
                self._db.execute("rollback")
            for reply in taken or [first[1]]:
                reply.fail(translate(error))
            return
        for reply, (value, failure) in zip(taken, answers, strict=True):
            if failure is None:
                reply.give(value)
            else:
                reply.fail(failure)

    def _run(self, work: Work, tx: SqliteTx) -> tuple[Any, Exception | None]:
        self._db.execute("savepoint move")
        try:
            value = work(tx)
        except Exception as error:
            if self._db.in_transaction:
                self._db.execute("rollback to move")
                self._db.execute("release move")
                return None, translate(error)
            raise  # the disk gave up: SQLite has rolled everything back
        self._db.execute("release move")
        return value, None

    def _next_waiting(self) -> tuple[Work, Reply[Any]] | None:
        try:
            entry = self._inbox.get_nowait()
        except queue.Empty:
            return None
        if entry is None:
            self._inbox.put(None)  # closing: finish this commit first
        return entry


class InlineWriter:
    """The same promises for a database in memory, in the caller's own thread: what tests and simulations use."""

    def __init__(self, db: apsw.Connection, clock: Clock, new_move: Callable[[], str]) -> None:
        self._db, self._clock, self._new_move = db, clock, new_move
        self._lock = threading.RLock()
        self._closed = False

    def write(self, work: Callable[[SqliteTx], T]) -> T:
        with self._lock:
            if self._closed:
                raise closed()
            self._db.execute("begin immediate")
            try:
                value = work(SqliteTx(self._db, self._clock.now(), self._new_move))
                self._db.execute("commit")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("rollback")
                raise
            return value

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._db.close()

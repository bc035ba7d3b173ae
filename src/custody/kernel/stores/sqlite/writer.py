"""One write at a time, with group commit.

Moves that arrive while a commit is under way go into the next one together (kernel/stores/sql/group_commit.py): no
timer, no thread, and one that is alone is committed at once, by whoever asks for it. Each move has a savepoint of its
own, so one refusal never undoes a neighbour, and nothing is answered before the commit that carries it is on disk.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import apsw

from custody.errors import CustodyError, Unsafe
from custody.kernel.stores.clock import Clock
from custody.kernel.stores.recovery.losses import STORE, WENT_BACK
from custody.kernel.stores.rules.events import write_note
from custody.kernel.stores.sql import forks
from custody.kernel.stores.sql.group_commit import GroupCommit, Request, is_inside
from custody.kernel.stores.sqlite.connection import VALUES, SqliteTx, closed, connect, foreign, leave_alone, translate
from custody.kernel.stores.sqlite.file_guard import TAKEN_BACK, InPlace, robbed

T = TypeVar("T")
Work = Callable[[SqliteTx], Any]
Done = tuple[Any, Exception | None]

MOST_MOVES = 256
MOST_SECONDS = 0.005  # then other processes get their turn
LOOK_SECONDS = 0.001  # between looks whether a fork is over


class Writer:
    def __init__(
        self, path: str, clock: Clock, new_move: Callable[[], str], opened: apsw.Connection | None = None
    ) -> None:
        self._path, self._clock, self._new_move = path, clock, new_move
        self._opened = opened
        self._guard = InPlace(path, opened) if opened else None
        self._before: InPlace | None = None
        self._line: GroupCommit[Work, Done] = GroupCommit(self._commit_group)
        self._closed = False
        self._pause: Request[Work, Done] | None = None

    @property
    def _db(self) -> apsw.Connection:
        """Opened by the first who writes, if none was given; for the leader alone."""
        if self._opened is None:
            opened = connect(self._path, create=False)  # after a fork: it is there, or it is not ours to make
            guard = InPlace(self._path, opened, self._before)
            self._opened, self._guard = opened, guard
        return self._opened

    def _put_down(self) -> None:
        """Close the connection, between the two halves of letting its files go. One who was interrupted may do it
        again."""
        opened, guard = self._opened, self._guard
        self._before = guard or self._before
        if guard is not None and guard.is_robbed():
            leave_alone(self._path, opened, robbed(self._path))
        else:
            if guard is not None:
                guard.let_go()
            if opened is not None:
                opened.close()
            if guard is not None:
                guard.close()
        self._opened = self._guard = None

    def __del__(self) -> None:
        """Leave nothing open of a store that nobody has closed."""
        with suppress(Exception):
            self._put_down()

    def pause(self, seconds: float) -> bool:
        """Close the connection, and write nothing until `go_on`. False if others did not end in that time."""
        self.go_on()  # where an earlier fork was interrupted and could not tell
        self._pause = Request(_PAUSE, here=forks.UnderWay())
        held = self._line.hold(self._pause, seconds)
        if held:
            self._put_down()
        return held

    def go_on(self) -> None:
        if self._pause is not None:
            self._line.let_go(self._pause)
            self._pause = None

    def rests(self) -> bool:
        """Nothing is open, and nobody is about to open it."""
        return self._opened is None and self._line.is_held_by(self._pause)

    def write(self, work: Callable[[SqliteTx], T]) -> T:
        """Run `work` in a transaction and return its value once that is on disk."""
        value, failure = self._line.do(work)
        if failure is not None:
            raise failure
        return value  # type: ignore[no-any-return]

    def close(self) -> None:
        """Whoever stands in line already is served first."""
        self._line.do(_CLOSE)

    def _commit_group(self, first: Request[Work, Done]) -> Done:
        if self._closed:
            return None, closed()
        if first.thing is _CLOSE:
            self._closed = True
            if self._opened is None:  # only a writer can fold the log back into the file
                with suppress(CustodyError):  # and what is not there any more has none
                    self._opened = connect(self._path, create=False)
            self._put_down()
            return None, None
        company: list[Request[Work, Done]] = []
        answers: list[Done] = []
        is_done = False
        self._line.let_the_crowd_return()
        try:
            self._start()
            stop_at = time.monotonic() + MOST_SECONDS  # from here: it may have waited long for another process
            tx = SqliteTx(self._db, self._clock.now(), self._new_move)
            answers.append(self._run(first.thing, tx))
            while len(answers) < MOST_MOVES and time.monotonic() < stop_at and (one := self._line.take(_is_work)):
                company.append(one)
                answers.append(self._run(one.thing, tx))
            self._end()
            is_done = True
            _give(company, answers)
        except Exception as error:
            self._roll_back()
            raise translate(error) from error
        except BaseException:  # put into this thread by the program, and nothing to the others
            if is_done:
                _give(company, answers)
            elif self._roll_back():
                self._line.put_back(company)
            raise  # where nobody knows whether it was committed they are told that
        return answers[0]

    def _start(self) -> None:
        db = self._db
        if self._guard is not None:
            self._guard.ready()
        self._roll_back()  # what one who was interrupted has left open
        db.execute("begin immediate")
        if self._guard is not None:
            try:
                self._guard.begun()
            except Unsafe as error:
                if error.code == TAKEN_BACK:
                    self._note(error)
                raise

    def _note(self, error: Unsafe) -> None:
        """Tell the history that it went back, if what is there is whole: nobody who opens it later could see it. The
        last that this process writes."""
        with suppress(apsw.Error):
            if self._db.execute("pragma quick_check(1)").fetchall() == [("ok",)]:
                detail: dict[str, Any] = {"missing": None, "subjects": [], "noticed": error.message}
                tx = SqliteTx(self._db, self._clock.now(), self._new_move)
                write_note(tx, STORE, WENT_BACK, "store", detail=detail, outcome="failure")
                self._db.execute("commit")

    def _end(self) -> None:
        if self._guard is not None:
            self._guard.ending()
        self._db.execute("commit")
        if self._guard is not None:
            self._guard.check()

    def is_robbed(self) -> bool:
        """Has the program closed our descriptors? Then nothing of this may be closed any more."""
        return self._guard is not None and self._guard.is_robbed()

    def _roll_back(self) -> bool:
        if self._db.in_transaction:
            self._db.execute("rollback")
            return True
        return False

    def _run(self, work: Work, tx: SqliteTx) -> Done:
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


def _CLOSE(tx: SqliteTx) -> None:
    """Stands in line for the end."""


def _PAUSE(tx: SqliteTx) -> None:
    """Stands in line for a fork."""


def _give(company: Sequence[Request[Work, Done]], answers: Sequence[Done]) -> None:
    for one, answer in zip(company, answers[1:], strict=True):
        if not one.reply.given:
            one.reply.give(answer)


def _is_work(work: Work) -> bool:
    return work is not _CLOSE and work is not _PAUSE


class InlineWriter:
    """The same promises for a database in memory, in the caller's own thread: what tests and simulations use."""

    def __init__(self, db: apsw.Connection, clock: Clock, new_move: Callable[[], str]) -> None:
        self._db, self._clock, self._new_move = db, clock, new_move
        self._lock = threading.RLock()
        self._here = threading.Lock()  # held as long as somebody writes
        self._closed = False
        self._by = self._paused_by = 0  # the thread that writes, and the one that forks

    def write(self, work: Callable[[SqliteTx], T]) -> T:
        return self._serve(lambda: self._write(work))

    def _serve(self, act: Callable[[], T]) -> T:
        """Not while another thread forks."""
        me = threading.get_ident()
        while True:
            with self._lock:
                if self._here.locked():
                    raise is_inside()
                with self._here:
                    self._by = me
                    if self._paused_by in (0, me) or not forks.is_under_way():
                        return act()
            time.sleep(LOOK_SECONDS)

    def _write(self, work: Callable[[SqliteTx], T]) -> T:
        if self._closed:
            raise closed()
        try:
            if self._db.in_transaction:  # one who was interrupted has left it open
                self._db.execute("rollback")
            self._db.execute("begin immediate")
            value = work(SqliteTx(self._db, self._clock.now(), self._new_move))
            self._db.execute("commit")
        except BaseException as error:
            if self._db.in_transaction:
                self._db.execute("rollback")
            if isinstance(error, (apsw.Error, *VALUES)):
                raise translate(error) from error
            raise
        return value

    def close(self) -> None:
        self._closed = True
        self._serve(self._db.close)

    def pause(self, seconds: float) -> None:
        """Let nobody in until `go_on`, and wait for whoever is."""
        self._paused_by = threading.get_ident()
        until = time.monotonic() + seconds
        while self._here.locked() and self._by != self._paused_by and time.monotonic() < until:
            time.sleep(LOOK_SECONDS)

    def go_on(self) -> None:
        self._paused_by = 0


class Foreign:
    """In a child, what cannot be carried over a fork: a database in memory, or a file in the middle of a verb."""

    def __init__(self, in_memory: bool) -> None:
        self._in_memory = in_memory

    def write(self, work: Callable[[SqliteTx], T]) -> T:
        raise foreign(self._in_memory)

    def close(self) -> None:
        """It is not ours to close."""

"""A SQLite file (or memory) as the store's database: writes through one writer, reads beside it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import apsw

from custody.errors import BadInput, CustodyError, NotFound, Refused
from custody.kernel.model.authority.acting import Acting
from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import NewItem
from custody.kernel.model.job import Answer, Change, Claim, NewJob
from custody.kernel.stores.clock import Clock
from custody.kernel.stores.rows import Tx
from custody.kernel.stores.rules import claim as moves
from custody.kernel.stores.rules import items
from custody.kernel.stores.rules.settle import settle_many
from custody.kernel.stores.rules.submit import Submitted, submit
from custody.kernel.stores.sql import forks
from custody.kernel.stores.sql.migrations import Reached, missing, next_step, statements_of
from custody.kernel.stores.sqlite.connection import VALUES, SqliteTx, closed, connect, foreign, leave_alone, translate
from custody.kernel.stores.sqlite.file_guard import must_have_one_name, robbed
from custody.kernel.stores.sqlite.foreign_wal import must_belong
from custody.kernel.stores.sqlite.readers import Readers
from custody.kernel.stores.sqlite.settle import SqliteMany
from custody.kernel.stores.sqlite.writer import LOOK_SECONDS, Foreign, InlineWriter, Writer
from custody.kernel.stores.wakeups import Bell

T = TypeVar("T")

FORK_SECONDS = 10.0
"""For which a fork waits until nobody is in the middle of something."""


class SqliteDatabase:
    dialect = "sqlite"

    def __init__(self, path: str, clock: Clock, new_move: Callable[[], str], existing: bool = False) -> None:
        self.in_memory = path == ":memory:"
        self.path = path if self.in_memory else os.path.abspath(path)  # wherever the program goes meanwhile
        self.clock, self.new_move = clock, new_move
        self._watch: apsw.Connection | None = None
        self._closed = self._stopped_watching = False
        self._writer: Writer | InlineWriter | Foreign = Foreign(self.in_memory)
        self._opened, self._over = threading.Event(), threading.Event()
        forks.follow(self)  # first: what is open while another thread forks is known to the fork
        try:
            self._begin(self._migrated(existing))
        except BaseException:
            self._closed = True
            self._over.set()
            raise
        finally:
            self._opened.set()

    def _migrated(self, existing: bool) -> apsw.Connection:
        if not self.in_memory:
            must_have_one_name(self.path)  # said first: a restore that was interrupted leaves two
            must_belong(self.path)
        if existing and not (os.path.exists(self.path) and os.path.getsize(self.path)):
            raise missing(f"there is no store {self.path}")
        db = connect(self.path)
        try:
            if existing and not _reached(db).numbers:
                raise missing(f"{self.path} is no store of ours")
            self._migrate(db)
        except BaseException as error:
            db.close()
            if isinstance(error, apsw.Error):
                raise translate(error) from error
            raise
        return db

    def _begin(self, opened: apsw.Connection | None) -> None:
        """Hold all that this process has open of the file, and the locks around it: a fork closes what stands here."""
        self._writer = (
            InlineWriter(opened or connect(self.path), self.clock, self.new_move)
            if self.in_memory
            else Writer(self.path, self.clock, self.new_move, opened)
        )
        self._readers = Readers(self.path)
        self._watch = None
        self._watching = threading.Lock()
        self.bell = Bell()

    # A fork: SQLite knows which locks a process has from its own memory, and a child would believe that it has those of
    # its parent. So nothing is open while one is made.

    def before_fork(self) -> None:
        if not self._opened.wait(FORK_SECONDS) or (self._closed and not self._over.wait(FORK_SECONDS)) or self._closed:
            return
        if isinstance(self._writer, InlineWriter):
            self._writer.pause(FORK_SECONDS)  # nobody is inside of SQLite, whose own locks a child could never open
        if not isinstance(self._writer, Writer):
            return
        self._stopped_watching = True
        until = time.monotonic() + FORK_SECONDS
        while self._watching.locked():  # not taken here: one who is interrupted just then would keep it
            if time.monotonic() > until:
                return
            time.sleep(LOOK_SECONDS)
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        if self._readers.pause(FORK_SECONDS):
            self._writer.pause(FORK_SECONDS)

    def after_fork(self) -> None:
        if isinstance(self._writer, Writer | InlineWriter):  # also where another thread has begun to close it
            self._writer.go_on()
        if isinstance(self._writer, Writer):
            self._readers.go_on()
        self._stopped_watching = False

    def in_child(self) -> None:
        if self._closed and self._over.is_set():
            return
        if not self._closed and self._rests():
            self._begin(None)
            return
        leave_alone(self.path, dict(vars(self)), foreign(self.in_memory))
        self._closed, self._watching = True, threading.Lock()
        self._opened = self._over = _happened()  # the next fork has nothing to wait for
        self._writer = Foreign(self.in_memory)

    def _rests(self) -> bool:
        """Is nothing open, as a fork must find it? Seen from what is there: whoever was to put it down may have been
        interrupted."""
        return (
            isinstance(self._writer, Writer)
            and self._opened.is_set()
            and self._watch is None
            and not self._watching.locked()
            and self._readers.rest()
            and self._writer.rests()
        )

    def write(self, work: Callable[[Tx], T]) -> T:
        forks.catch_up()
        return self._writer.write(work)

    def read(self, work: Callable[[Tx], T]) -> T:
        """One consistent look. In memory there is one connection; on a file, readers never wait for the writer."""
        forks.catch_up()
        if not isinstance(self._writer, Writer):
            return self._writer.write(work)

        def look(db: apsw.Connection) -> T:
            db.execute("begin")
            try:
                return work(SqliteTx(db, self.clock.now(), self.new_move))
            except (apsw.Error, *VALUES) as error:
                raise translate(error) from error
            finally:
                if db.in_transaction:  # else the disk gave up, and that is what is to be told
                    db.execute("rollback")

        return self._readers.look(look)

    def glance(self, work: Callable[[Tx], T]) -> T:
        return self.read(work)

    def now(self) -> int:
        return self.clock.now()

    # The hot verbs

    def submit(self, jobs: list[NewJob], move: str, acting: Acting) -> list[Submitted]:
        return self.write(lambda tx: submit(tx, jobs, move, acting))

    def submit_in(self, tx: Tx, jobs: Sequence[NewJob], move: str, acting: Acting) -> list[Submitted]:
        return submit(tx, jobs, move, acting)

    def acknowledged(self, made: Sequence[Submitted]) -> None:
        """Nothing to do: no other server takes over whose disk could have less."""

    def claim(self, queues: list[str], holder: str, lease: int, limit: int, move: str) -> list[Claim]:
        return self.write(lambda tx: moves.claim(tx, queues, holder, lease, limit=limit, move=move))

    def renew(self, claims: list[Claim], lease: int) -> dict[int, str]:
        def work(tx: Tx) -> dict[int, str]:
            answers = {claim.id: moves.renew(tx, claim, lease) for claim in claims}
            return {job: answer for job, answer in answers.items() if answer is not None}

        return self.write(work)

    def settle(self, changes: list[Change]) -> list[Answer]:
        try:
            return self.write(lambda tx: settle_many(SqliteMany(tx), changes))
        except (BadInput, Refused, NotFound):
            # What one of them brings with it cannot be saved; one by one, only that one is refused.
            return self.write(lambda tx: moves.settle_each(tx, changes))

    def append(self, event: NewEvent, agent: str) -> int:
        return self.write(lambda tx: items.append(tx, event, agent))

    def record(self, new: Sequence[NewItem], events: Sequence[NewEvent], agent: str) -> None:
        self.write(lambda tx: items.record(tx, new, events, agent))

    def look(self, ids: Sequence[str], types: Iterable[str]) -> dict[str, items.Look]:
        """With all types: here it costs less to read them than to choose."""
        return self.read(lambda tx: items.look(tx, ids))

    def at_once(self, name: str, move: str, /, **values: Any) -> list[tuple[str, ...]] | None:
        """Never: here a trip costs next to nothing, and no statement writes to several tables."""
        return None

    def troubles(self) -> list[CustodyError]:
        """None: a file is not replaced by another that knows less."""
        return []

    def must_serve_several(self) -> None:
        """It does: they stand in one line."""

    def changed_elsewhere(self) -> int:
        """A number that moves when another process has committed: a cheap wake-up between processes."""
        if self.in_memory:
            return 0
        forks.catch_up()
        while (number := self._data_version()) is None:
            time.sleep(LOOK_SECONDS)
        return number

    def _data_version(self) -> int | None:
        """None while another thread forks."""
        with self._watching:  # one connection for all who ask: its numbers mean nothing to another
            if self._closed:
                raise closed()
            if self._stopped_watching and forks.is_under_way():
                return None
            if self._watch is None:
                self._watch = connect(self.path, read_only=True)
            try:
                number: int = self._watch.pragma("data_version")
            except apsw.Error as error:
                raise translate(error) from error
            return number

    def listen(self) -> str:
        """Nothing to do: the bell is rung in this process, and `changed_elsewhere` asks about others."""
        return ""

    def close(self) -> None:
        """Looks and writes that are under way are finished first; whoever comes later is told that it is closed."""
        forks.catch_up()
        if isinstance(self._writer, Foreign):
            return
        if isinstance(self._writer, Writer) and self._writer.is_robbed():
            leave_alone(self.path, dict(vars(self)), robbed(self.path))
            self._closed, self._writer = True, Foreign(self.in_memory)
            self._over.set()
            return
        with self._watching:
            self._closed = True
            if self._watch is not None:
                self._watch.close()
        try:
            self._readers.close()
            self._writer.close()  # last, as only a writer can fold the log back into the file
        finally:
            self._over.set()

    def _migrate(self, db: apsw.Connection) -> None:
        while next_step("sqlite", _reached(db)):
            db.execute("begin immediate")
            try:
                # Asked again: another process that started with us may have done it.
                if step := next_step("sqlite", _reached(db)):
                    for statement in statements_of(step.script.text) if step.is_run else ():
                        db.execute(statement)
                    table, values = step.record
                    places = ", ".join("?" * (len(values) + 1))
                    db.execute(f"insert into {table} values ({places})", (*values, self.clock.now()))
                db.execute("commit")
            except BaseException:
                if db.in_transaction:
                    db.execute("rollback")
                raise


def _happened() -> threading.Event:
    """An event of its own: one that was copied may have been in use at the fork."""
    event = threading.Event()
    event.set()
    return event


def _reached(db: apsw.Connection) -> Reached:
    def rows(table: str, columns: str) -> list[Any]:
        is_there = db.execute("select 1 from sqlite_master where name = ?", (table,)).fetchall()
        return db.execute(f"select {columns} from {table}").fetchall() if is_there else []

    numbers = (number for (number,) in rows("schema_version", "version"))
    return Reached(frozenset(numbers), frozenset(rows("application_version", "application, version")))

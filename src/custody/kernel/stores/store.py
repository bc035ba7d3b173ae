"""A store: one database, seen through the ports the engine needs."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import NoReturn

from custody.errors import CustodyError, Refused
from custody.kernel.ports import Elsewhere, WholeQueue
from custody.kernel.stores.leases import SqlLeases
from custody.kernel.stores.ledger import SqlLedger
from custody.kernel.stores.queue import SqlQueue
from custody.kernel.stores.records import SqlRecords
from custody.kernel.stores.registers.grants import SqlGrants
from custody.kernel.stores.registers.open_kinds import SqlKinds, offer
from custody.kernel.stores.rows import Tx
from custody.kernel.stores.schedules import SqlSchedules
from custody.kernel.stores.sql import forks
from custody.kernel.stores.sql.database import Database

DRAWN = 256
FORGOTTEN = 7 * 24 * 3600 * 1_000_000
"""Microseconds after which nobody asks any more when a worker was last seen."""


@dataclass(frozen=True, slots=True)
class WorkerSeen:
    """A worker's last sign of life. Nothing depends on it: a job's lease is all that counts."""

    id: str
    host: str
    pid: int
    place: str
    serves: str
    started: int
    seen: int


class RandomMoves:
    """Random ids, drawn from the system many at a time: at each drawing other threads get their turn before us."""

    def __init__(self) -> None:
        self._drawn: deque[str] = deque()
        forks.follow(self)

    def __call__(self) -> str:
        while True:
            try:
                return self._drawn.popleft()  # needs no lock: two never get the same
            except IndexError:
                text = secrets.token_hex(8 * DRAWN)
                self._drawn.extend(text[at : at + 16] for at in range(0, len(text), 16))

    def before_fork(self) -> None:
        """Drawn for one process ..."""

    def after_fork(self) -> None:
        """... which goes on with them ..."""

    def in_child(self) -> None:
        """... alone: two processes must not give the same name to two moves."""
        self._drawn = deque()


@dataclass(frozen=True, slots=True)
class Store:
    url: str = field(repr=False)  # it may hold a password
    db: Database
    queue: WholeQueue
    leases: SqlLeases
    records: SqlRecords
    schedules: SqlSchedules
    ledger: SqlLedger
    grants: SqlGrants
    kinds: SqlKinds
    elsewhere: Elsewhere | None = None  # jobs that are in no table

    @classmethod
    def over(cls, url: str, db: Database) -> Store:
        return cls(
            url=url,
            db=db,
            queue=SqlQueue(db),
            leases=SqlLeases(db),
            records=SqlRecords(db),
            schedules=SqlSchedules(db),
            ledger=SqlLedger(db),
            grants=SqlGrants(db),
            kinds=SqlKinds(db),
        )

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled: what would arrive in another process is no store, though its address could be one."""
        raise Refused(
            "a store is opened by each process: it cannot be pickled, nor handed to another process",
            code="store.pickled",
            hint="pass its URL, and call open_store(url) there; a process that is forked may use it as it is",
        )

    def now(self) -> int:
        return self.db.now()

    def acting_since(self) -> int:
        """Since when it is written down who asked for a job; one that is older may have nobody."""
        return int(self.db.glance(lambda tx: tx.run("acting_since"))[0][0])

    def settings(self) -> dict[str, str]:
        """What the promises of this store rest on, as its database has it set now."""
        return {name: value for name, value in self.db.write(lambda tx: tx.run("settings"))}

    def confirm(self) -> None:
        """What was seen before this is, when it returns, on every disk it has to be on: for an answer that only repeats
        what was found by looking."""
        self.db.write(lambda tx: None)

    def troubles(self) -> Sequence[CustodyError]:
        """What this process found out about its store since it was last asked: that history went back."""
        return self.db.troubles()

    def new_move(self) -> str:
        return self.db.new_move()

    def must_serve_several(self) -> None:
        """Refuse where only one thread of this process can be served at a time: a worker renews while it settles."""
        self.db.must_serve_several()

    # Wake-ups, which are hints

    def listen(self) -> str:
        """Hear of what other processes do; answers why not, if that cannot be."""
        return self.db.listen()

    def wake(self) -> None:
        self.db.bell.ring()

    def heard(self) -> tuple[int, int]:
        return self.db.bell.heard(), self.db.changed_elsewhere()

    def wait(self, heard: tuple[int, int], seconds: float) -> bool:
        return self.db.bell.wait(heard[0], seconds) or self.db.changed_elsewhere() != heard[1]

    # Workers say that they live; only people read it

    def sign_of_life(
        self, worker: str, host: str, pid: int, place: str, serves: str, offers: Sequence[str] = ()
    ) -> None:
        """That it lives, what it serves, and what of that may be asked for from outside."""

        def work(tx: Tx) -> None:
            offer(tx, offers)
            tx.run("beat_worker", id=worker, host=host, pid=pid, place=place, serves=serves)
            tx.run("forget_workers", before=tx.now - FORGOTTEN)  # of one that was killed nobody else takes leave

        self.db.write(work)

    def farewell(self, worker: str) -> None:
        self.db.write(lambda tx: tx.run("drop_worker", id=worker))

    def workers(self, within_seconds: float = 30) -> list[WorkerSeen]:
        since = int(within_seconds * 1_000_000)
        rows = self.db.read(lambda tx: tx.run("workers", since=tx.now - since))
        return [WorkerSeen(*row) for row in rows]

    def close(self) -> None:
        self.db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

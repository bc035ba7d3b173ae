"""A store: one database, seen through the ports the engine needs."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from custody.stores.database import Database
from custody.stores.leases import SqlLeases
from custody.stores.queue import SqlQueue
from custody.stores.records import SqlRecords
from custody.stores.timetable import SqlSchedules


def random_move() -> str:
    return secrets.token_hex(8)


@dataclass(frozen=True, slots=True)
class Store:
    url: str
    db: Database
    queue: SqlQueue
    leases: SqlLeases
    records: SqlRecords
    schedules: SqlSchedules

    @classmethod
    def over(cls, url: str, db: Database) -> Store:
        return cls(url, db, SqlQueue(db), SqlLeases(db), SqlRecords(db), SqlSchedules(db))

    def now(self) -> int:
        return self.db.now()

    def close(self) -> None:
        self.db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


NewMove = Callable[[], str]

"""A database seen verb by verb, so that something can go wrong before or after each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from custody.errors import CustodyError
from custody.kernel.model.authority.acting import Acting
from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import NewItem
from custody.kernel.model.job import Answer, Change, Claim, NewJob
from custody.kernel.stores.rows import Tx
from custody.kernel.stores.rules.items import Look
from custody.kernel.stores.rules.submit import Submitted
from custody.kernel.stores.sql.database import Database

T = TypeVar("T")


class VerbDatabase(ABC):
    """Passes everything on; whoever inherits says what becomes of a verb and of a look."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.dialect, self.bell = db.dialect, db.bell

    @abstractmethod
    def verb(self, act: Callable[[], T]) -> T:
        """One write, all or nothing."""

    @abstractmethod
    def seen(self, act: Callable[[], T]) -> T:
        """One read."""

    def write(self, work: Callable[[Tx], T]) -> T:
        return self.verb(lambda: self._db.write(work))

    def submit(self, jobs: list[NewJob], move: str, acting: Acting) -> list[Submitted]:
        return self.verb(lambda: self._db.submit(jobs, move, acting))

    def submit_in(self, tx: Tx, jobs: Sequence[NewJob], move: str, acting: Acting) -> list[Submitted]:
        return self._db.submit_in(tx, jobs, move, acting)

    def claim(self, queues: list[str], holder: str, lease: int, limit: int, move: str) -> list[Claim]:
        return self.verb(lambda: self._db.claim(queues, holder, lease, limit, move))

    def renew(self, claims: list[Claim], lease: int) -> dict[int, str]:
        return self.verb(lambda: self._db.renew(claims, lease))

    def settle(self, changes: list[Change]) -> list[Answer]:
        return self.verb(lambda: self._db.settle(changes))

    def append(self, event: NewEvent, agent: str) -> int:
        return self.verb(lambda: self._db.append(event, agent))

    def record(self, new: Sequence[NewItem], events: Sequence[NewEvent], agent: str) -> None:
        self.verb(lambda: self._db.record(new, events, agent))

    def at_once(self, name: str, move: str, /, **values: Any) -> list[tuple[str, ...]] | None:
        return self.verb(lambda: self._db.at_once(name, move, **values))

    def read(self, work: Callable[[Tx], T]) -> T:
        return self.seen(lambda: self._db.read(work))

    def glance(self, work: Callable[[Tx], T]) -> T:
        return self.seen(lambda: self._db.glance(work))

    def look(self, ids: Sequence[str], types: Iterable[str]) -> dict[str, Look]:
        return self.seen(lambda: self._db.look(ids, types))

    def acknowledged(self, made: Sequence[Submitted]) -> None:
        self._db.acknowledged(made)

    def troubles(self) -> list[CustodyError]:
        return self._db.troubles()

    def must_serve_several(self) -> None:
        self._db.must_serve_several()

    def now(self) -> int:
        return self._db.now()

    def new_move(self) -> str:
        return self._db.new_move()

    def changed_elsewhere(self) -> int:
        return self._db.changed_elsewhere()

    def listen(self) -> str:
        return self._db.listen()

    def close(self) -> None:
        self._db.close()

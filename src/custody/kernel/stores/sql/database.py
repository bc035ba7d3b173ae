"""What the shared part of the store needs from a database: transactions, one clock, and the hot verbs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from custody.errors import CustodyError
from custody.kernel.model.authority.acting import Acting
from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import NewItem
from custody.kernel.model.job import Answer, Change, Claim, NewJob
from custody.kernel.stores.rows import Tx
from custody.kernel.stores.rules.items import Look
from custody.kernel.stores.rules.submit import Submitted
from custody.kernel.stores.wakeups import Bell

T = TypeVar("T")


class Database(Protocol):
    dialect: str

    @property
    def bell(self) -> Bell: ...

    def write(self, work: Callable[[Tx], T]) -> T:
        """Run in one transaction; when this returns, it is on disk."""
        ...

    def read(self, work: Callable[[Tx], T]) -> T:
        """Run in one consistent look that writes nothing."""
        ...

    def glance(self, work: Callable[[Tx], T]) -> T:
        """As `read`, for looks whose statements need not agree with each other: each is asked by itself."""
        ...

    def now(self) -> int:
        """The store's time."""
        ...

    def new_move(self) -> str: ...

    # The hot verbs are written once per database: only there does it matter how rows travel.

    def submit(self, jobs: list[NewJob], move: str, acting: Acting) -> list[Submitted]: ...

    def submit_in(self, tx: Tx, jobs: Sequence[NewJob], move: str, acting: Acting) -> list[Submitted]:
        """The same within a transaction that has more to do."""
        ...

    def acknowledged(self, made: Sequence[Submitted]) -> None:
        """What such a transaction has made will be told to somebody: were it lost, that is to be noticed."""
        ...

    def claim(self, queues: list[str], holder: str, lease: int, limit: int, move: str) -> list[Claim]: ...

    def renew(self, claims: list[Claim], lease: int) -> dict[int, str]: ...

    def settle(self, changes: list[Change]) -> list[Answer]: ...

    def append(self, event: NewEvent, agent: str) -> int: ...

    def record(self, new: Sequence[NewItem], events: Sequence[NewEvent], agent: str) -> None: ...

    def look(self, ids: Sequence[str], types: Iterable[str]) -> dict[str, Look]:
        """Items with at least those of their newest events that have these types, in as few trips as there can be."""
        ...

    def at_once(self, name: str, move: str, /, **values: Any) -> list[tuple[str, ...]] | None:
        """A statement that writes and is a transaction by itself, in one trip; its rows as text. None where the
        database has no such statement, or where it cannot be known what it answered: then it is done the common way,
        which finds what is there already."""
        ...

    def troubles(self) -> list[CustodyError]: ...

    def must_serve_several(self) -> None:
        """Refuse where only one thread of this process can be served at a time."""
        ...

    def changed_elsewhere(self) -> int: ...

    def listen(self) -> str: ...

    def close(self) -> None: ...

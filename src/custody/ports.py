"""What the engine needs from a store, on one page.

`Queue` is implemented by the SQL stores and, for ingest, by ZooKeeper; the rest by the SQL stores (named leases
also by ZooKeeper). No step may ask which store it runs on. Every verb that writes answers done or refused;
a lost answer is found out inside the verb.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from custody.model.event import Event, NewEvent
from custody.model.item import Item, Latest, NewItem
from custody.model.job import Answer, Change, Claim, Job, NewJob
from custody.model.lease import Lease
from custody.model.why import Reason


class SubmittedJob(Protocol):
    @property
    def id(self) -> int: ...

    @property
    def new(self) -> bool: ...


class Queue(Protocol):
    """Jobs: submit, claim, renew, settle, move, get, why, and time."""

    def submit(self, jobs: Sequence[NewJob], agent: str = "") -> Sequence[SubmittedJob]: ...

    def ready_queues(self, prefix: str, after: str = "", limit: int = 64) -> list[str]: ...

    def claim(self, queues: Sequence[str], holder: str, seconds: float, limit: int = 1) -> list[Claim]: ...

    def claim_expired(self, serves: Sequence[str], holder: str, seconds: float) -> Claim | None: ...

    def claim_jobs(self, ids: Sequence[int], holder: str, seconds: float) -> list[Claim]: ...

    def renew(self, claims: Sequence[Claim], seconds: float) -> dict[int, str]: ...

    def release(self, claims: Sequence[Claim]) -> int: ...

    def settle(self, changes: Sequence[Change]) -> list[Answer]: ...

    def keep(
        self, claim: Claim, facts: Mapping[str, Any], new: Mapping[str, Any], children: Sequence[NewJob], agent: str
    ) -> Sequence[SubmittedJob]: ...

    def move(self, change: Change) -> Answer: ...

    def revoke(self, job_id: int, how: str, agent: str, why: str) -> bool: ...

    def delete(self, job_id: int, agent: str, why: str) -> bool: ...

    def get(self, job_id: int) -> Job: ...

    def why(self, job_id: int, place: str = "") -> Sequence[Reason]: ...

    def tick(self, limit: int = 500) -> int: ...


class Leases(Protocol):
    """Names held for a while: claim, renew, settle."""

    def claim(self, name: str, holder: str, seconds: float) -> Lease | None: ...

    def renew(self, lease: Lease, seconds: float) -> Lease: ...

    def settle(self, lease: Lease) -> bool: ...

    def get(self, name: str) -> Lease | None: ...


class Records(Protocol):
    """Items, and what happened to anything."""

    def put(self, new: Sequence[NewItem], events: Sequence[NewEvent] = (), agent: str = "") -> None: ...

    def append(self, event: NewEvent) -> int: ...

    def note(self, subject: str, type_: str, agent: str, **detail: object) -> int: ...

    def item(self, item_id: str) -> Item: ...

    def latest(self, item_id: str) -> dict[str, Latest]: ...

    def events(self, subject: str, after: int = 0, limit: int = 1000) -> list[Event]: ...


class Schedules(Protocol):
    """What becomes due."""

    def run_due(self, agent: str = "scheduler") -> int: ...

    def next_due(self) -> int | None: ...

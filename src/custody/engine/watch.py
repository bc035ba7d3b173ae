"""What a worker tells those who watch it: logs and metrics are listeners, not part of the loop."""

from __future__ import annotations

from typing import Protocol

from custody.model.errors import CustodyError
from custody.model.job import Answer, Change, Job


class Watch(Protocol):
    def started(self, job: Job) -> None: ...

    def settled(self, job: Job, change: Change, answer: Answer) -> None: ...

    def lost(self, job: Job, reason: str) -> None: ...

    def trouble(self, error: CustodyError) -> None: ...


class _Nothing:
    def started(self, job: Job) -> None: ...

    def settled(self, job: Job, change: Change, answer: Answer) -> None: ...

    def lost(self, job: Job, reason: str) -> None: ...

    def trouble(self, error: CustodyError) -> None: ...


NOTHING: Watch = _Nothing()

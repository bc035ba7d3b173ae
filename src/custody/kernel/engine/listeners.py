"""What a worker tells those who watch it: logs and metrics are listeners, not part of the loop."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from custody.errors import CustodyError
from custody.kernel.engine.recovery.strays import stay
from custody.kernel.model.job import Answer, Change, Job


class Listener(Protocol):
    def started(self, job: Job) -> None: ...

    def settled(self, job: Job, change: Change, answer: Answer) -> None: ...

    def lost(self, job: Job, reason: str) -> None: ...

    def trouble(self, error: CustodyError) -> None: ...


class _Nothing:
    def started(self, job: Job) -> None: ...

    def settled(self, job: Job, change: Change, answer: Answer) -> None: ...

    def lost(self, job: Job, reason: str) -> None: ...

    def trouble(self, error: CustodyError) -> None: ...


NOTHING: Listener = _Nothing()


def report(listener: Listener, error: Exception, where: str) -> None:
    """Tell of trouble that stops nobody; what is no error of ours is told as a surprise, with the place."""
    if not isinstance(error, CustodyError):
        error = CustodyError(f"{type(error).__name__}: {error}", code="surprise", where=where)
    listener.trouble(error)


class Unharmed:
    """Whoever watches may fail (a full disk, a broken pipe): that is no reason to stop working."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._pid = os.getpid()

    def started(self, job: Job) -> None:
        with self._told():
            self._listener.started(job)

    def settled(self, job: Job, change: Change, answer: Answer) -> None:
        with self._told():
            self._listener.settled(job, change, answer)

    def lost(self, job: Job, reason: str) -> None:
        with self._told():
            self._listener.lost(job, reason)

    def trouble(self, error: CustodyError) -> None:
        with self._told():
            self._listener.trouble(error)

    @contextmanager
    def _told(self) -> Iterator[None]:
        with suppress(Exception):
            try:
                yield
            finally:
                stay(self._pid, "telling those who watch")

"""A value that another thread will hand over. As `concurrent.futures.Future`, at a fraction of its price: one waits."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

T = TypeVar("T")


class Reply(Generic[T]):
    __slots__ = ("_error", "_gate", "_value", "given")

    def __init__(self) -> None:
        self._gate = threading.Lock()  # bare and closed; whoever hands over opens it
        self._gate.acquire()
        self._error: BaseException | None = None
        self.given = False

    def wait(self, seconds: float = -1) -> T:
        """What was handed over; raises it if it was an error, and `TimeoutError` if it did not come in time."""
        if not self._gate.acquire(timeout=seconds):
            raise TimeoutError
        if self._error is not None:
            raise self._error
        return self._value

    def give(self, value: T) -> None:
        self._value = value
        self._open()

    def fail(self, error: BaseException) -> None:
        self._error = error
        self._open()

    def _open(self) -> None:
        self.given = True
        self._gate.release()

"""A value that another thread will hand over. As `concurrent.futures.Future`, at a fraction of its price: one waits."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

T = TypeVar("T")


class Reply(Generic[T]):
    __slots__ = ("_gate", "_said")

    def __init__(self) -> None:
        self._gate = threading.Lock()  # bare and closed; whoever hands over opens it
        self._gate.acquire()
        self._said: tuple[T | None, BaseException | None] | None = None

    @property
    def given(self) -> bool:
        return self._said is not None

    def came(self, seconds: float) -> bool:
        """Wait for it; false if it did not come in that time."""
        return self._said is not None or self._gate.acquire(timeout=seconds) or self._said is not None

    def taken(self) -> T:
        """What has come; raises it if it was an error."""
        assert self._said is not None
        value, error = self._said
        if error is not None:
            raise error
        return value  # type: ignore[return-value]

    def give(self, value: T) -> None:
        self._say((value, None))

    def fail(self, error: BaseException) -> None:
        self._say((None, error))

    def _say(self, said: tuple[T | None, BaseException | None]) -> None:
        """What was said first holds, also if whoever said it was interrupted before the gate was open: see `came`."""
        if self._said is None:
            self._said = said
            self._gate.release()

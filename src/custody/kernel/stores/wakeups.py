"""Wake-ups are a hint. With all of them lost, everything still completes within the poll interval."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from itertools import count


class Bell:
    """Rung when there may be something to do; waiting for it always has a time-out.

    There is no lock around it, which one who is interrupted (kernel/stores/sql/group_commit.py) would keep: each step
    is one that cannot be left half done."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._rings = 0
        self._waiting: deque[threading.Lock] = deque()

    def ring(self) -> None:
        self._rings = next(self._numbers)
        with suppress(IndexError):
            while True:
                self._waiting.popleft().release()

    def heard(self) -> int:
        """The number of the last ring; give it to `wait` so that none in between is missed."""
        return self._rings

    def wait(self, since: int, seconds: float) -> bool:
        gate = threading.Lock()
        gate.acquire()
        self._waiting.append(gate)
        if self._rings == since:
            gate.acquire(timeout=max(0.0, min(seconds, threading.TIMEOUT_MAX)))
        with suppress(ValueError):  # if it was not opened
            self._waiting.remove(gate)
        return self._rings != since

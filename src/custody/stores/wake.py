"""Wake-ups are a hint. With all of them lost, everything still completes within the poll interval."""

from __future__ import annotations

import threading


class Bell:
    """Rung when there may be something to do; waiting for it always has a time-out."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._rings = 0

    def ring(self) -> None:
        with self._condition:
            self._rings += 1
            self._condition.notify_all()

    def heard(self) -> int:
        """The number of rings so far; give it to `wait` so that none in between is missed."""
        return self._rings

    def wait(self, since: int, seconds: float) -> bool:
        with self._condition:
            return self._condition.wait_for(lambda: self._rings != since, seconds)

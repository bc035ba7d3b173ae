"""How often one caller may ask: a bucket that fills by itself. In memory, so each process counts its own.

Known callers are counted by their token, everyone else by the address they ask from, and more strictly: whoever
tries tokens one after the other is slowed down, and nobody who has one is slowed down with them.

Whoever asks too often is not sent away at once: who asks again as soon as he is answered would have the server do
little else.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

MOST_CALLERS: Final = 20_000  # the one that was silent longest is forgotten


@dataclass(frozen=True, slots=True)
class Rate:
    """So many requests a second in the long run, so many at once."""

    per_second: float
    burst: int


KNOWN: Final = Rate(100, 400)
UNKNOWN: Final = Rate(10, 100)


class Rates:
    def __init__(self, rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = rate, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, who: str) -> float:
        """Take one turn: zero, or in how many seconds the next one comes."""
        now = self._clock()
        with self._lock:
            left, at = self._left.pop(who, (float(self._rate.burst), now))
            left = min(self._rate.burst, left + (now - at) * self._rate.per_second)
            allowed = left >= 1
            self._left[who] = (left - 1 if allowed else left, now)
            if len(self._left) > MOST_CALLERS:
                self._left.popitem(last=False)
        return 0.0 if allowed else (1 - left) / self._rate.per_second


class Doorstep:
    """Where those wait who are about to be sent away; more than so many are sent away at once."""

    def __init__(self, seconds: float = 0.25, most: int = 1_000) -> None:
        self._seconds, self._room = seconds, most

    async def wait(self) -> None:
        if self._room < 1:
            return
        self._room -= 1
        try:
            await asyncio.sleep(self._seconds)
        finally:
            self._room += 1

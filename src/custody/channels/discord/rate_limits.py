"""How often Discord may be asked: the line everybody stands in, the buckets of each route, the ban to avoid.

Three limits hold at once. All requests of one bot together: 50 a second, so places in one line are given out
evenly at 45 and never in bursts. Each route of each channel: a bucket that Discord describes in the headers
of every answer and nowhere else, so it is learnt. And per address: who is told 401, 403 or 429 ten thousand
times in ten minutes is shut out altogether; we stop long before.

Places in the line come from `Slots`, because all workers of one bot must share it; `Spaced` is for one
process. No clock is read here but the given one, and that only for waiting.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Protocol

from custody.errors import Unavailable

LONGEST = 3_600.0  # seconds that anybody waits before asking again, whatever an answer or a clock once said

Now = Callable[[], float]


class Slots(Protocol):
    def take(self) -> float:
        """Take the next place in the line; answers in how many seconds it comes up."""

    def pause(self, seconds: float) -> None:
        """Nobody's turn comes before so many seconds have passed."""


class Spaced:
    """Places for the threads of one process: evenly spaced, none saved up while nobody asks."""

    def __init__(self, per_second: float = 45.0, now: Now = time.monotonic) -> None:
        self._gap = 1 / per_second
        self._now = now
        self._next = 0.0
        self._guard = threading.Lock()

    def take(self) -> float:
        with self._guard:
            now = self._now()
            turn = max(self._next, now)
            self._next = turn + self._gap
            return turn - now

    def pause(self, seconds: float) -> None:
        with self._guard:
            self._next = max(self._next, self._now() + seconds)


@dataclass(frozen=True, slots=True)
class Route:
    """A way to ask, with the channel or guild that has buckets of its own."""

    template: str
    top: int

    def path(self, **parts: object) -> str:
        return self.template.format(top=self.top, **parts)


@dataclass(slots=True)
class _Window:
    remaining: int
    resets: float
    limit: int


class Buckets:
    """What the headers have said so far. Routes may share a bucket; its name tells."""

    def __init__(self, now: Now = time.monotonic) -> None:
        self._now = now
        self._names: dict[str, str] = {}
        self._windows: dict[tuple[str, int], _Window] = {}
        self._guard = threading.Lock()

    def wait(self, route: Route) -> float:
        """Seconds until the route may be asked; if that is now, the question is counted."""
        with self._guard:
            window = self._windows.get(self._key(route))
            now = self._now()
            if window is None:
                return 0.0
            if now >= window.resets:
                window.remaining = max(window.limit, 1)
            if window.remaining <= 0:
                return window.resets - now
            window.remaining -= 1
            return 0.0

    def learn(self, route: Route, headers: Mapping[str, str]) -> None:
        remaining, after = headers.get("x-ratelimit-remaining", ""), reset_after(headers)
        if not _is_count(remaining) or after is None:
            return
        limit = headers.get("x-ratelimit-limit", "")
        with self._guard:
            if bucket := headers.get("x-ratelimit-bucket"):
                self._names[route.template] = bucket
            window = _Window(int(remaining), self._now() + min(after, LONGEST), int(limit) if _is_count(limit) else 1)
            self._windows[self._key(route)] = window

    def close(self, route: Route, seconds: float) -> None:
        """The bucket is empty for so long."""
        with self._guard:
            key = self._key(route)
            limit = self._windows[key].limit if key in self._windows else 1
            self._windows[key] = _Window(0, self._now() + seconds, limit)

    def _key(self, route: Route) -> tuple[str, int]:
        return self._names.get(route.template, route.template), route.top


@dataclass(slots=True)
class Budget:
    """Invalid requests of the last minutes. The ban is per address, so this is one per process at least."""

    most: int = 1_000  # a tenth of what would shut us out: others may share our address
    seconds: float = 600.0
    now: Now = time.monotonic
    _times: deque[float] = field(default_factory=deque)

    def spend(self) -> None:
        self._times.append(self.now())

    def check(self) -> None:
        """Refuse to ask while too many questions were invalid."""
        now = self.now()
        while self._times and self._times[0] <= now - self.seconds:
            self._times.popleft()
        if len(self._times) >= self.most:
            wait = self._times[0] + self.seconds - now
            raise Unavailable(
                f"{len(self._times)} invalid requests in {self.seconds / 60:.0f} minutes",
                code="discord.budget",
                hint="something is asked for that is not allowed; see which channels are unreadable",
                retry_after=wait,
            )


def reset_after(headers: Mapping[str, str]) -> float | None:
    """Seconds until a bucket is full again, from an answer's headers.

    The absolute time is compared with the server's own date, never with our clock; servers that speak this
    protocol without being Discord give it in milliseconds.
    """
    if (after := _number(headers.get("x-ratelimit-reset-after"))) is not None:
        return after
    at = _number(headers.get("x-ratelimit-reset"))
    if at is None or "date" not in headers:
        return None
    at = at / 1000 if at > 1e11 else at
    try:
        return max(0.0, at - parsedate_to_datetime(headers["date"]).timestamp())
    except (ValueError, TypeError, OverflowError):  # it is no date
        return None


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return None if math.isnan(number) else max(0.0, number)

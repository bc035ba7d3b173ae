"""How long to wait for a stranger, and when to stop.

Everything that waits does so in short slices and calls `tick` in between; `tick` raises when the caller
has cancelled, when the whole task is out of time, or when its present phase (connecting, the answer's
header, a body that crawls) is.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from custody.errors import Refused, Unavailable

SLICE = 0.1  # seconds; nothing blocks for longer without looking up

Cancel = Callable[[], bool]


class Deadline:
    """The clocks of one task."""

    def __init__(self, cancel: Cancel | None, total_seconds: float, where: str = "") -> None:
        self.where = where
        self._cancel = cancel
        self._until = time.monotonic() + total_seconds
        self._look_up = 0.0
        self._phase_until: float | None = None
        self._phase = ("", "")
        self._slow = (0, 0.0)
        self._window = (0.0, 0)

    def phase(self, seconds: float, code: str, sentence: str) -> None:
        """From now on the present phase has this long."""
        self._slow = (0, 0.0)
        self._phase_until = time.monotonic() + seconds
        self._phase = (code, sentence)

    def body(self, slow_bytes: int, slow_seconds: float) -> None:
        """From now on bytes arrive, and must not arrive too slowly."""
        self._phase_until = None
        self._slow = (slow_bytes, slow_seconds)
        self._window = (time.monotonic(), 0)

    def arrived(self, count: int) -> None:
        """So many bytes of the body came; look up now and then even if they never stop."""
        start, before = self._window
        self._window = (start, before + count)
        if time.monotonic() >= self._look_up:
            self.tick()

    def idle(self) -> None:
        """No phase any more: only the whole task's time and the caller's wish count."""
        self._phase_until = None
        self._slow = (0, 0.0)

    def tick(self) -> None:
        now = time.monotonic()
        self._look_up = now + SLICE
        if self._cancel is not None and self._cancel():
            raise Refused("stopped on request", code="fetch.cancelled", where=self.where)
        if now >= self._until:
            raise Unavailable("the time for this file is used up", code="fetch.deadline", where=self.where)
        if self._phase_until is not None and now >= self._phase_until:
            code, sentence = self._phase
            raise Unavailable(sentence, code=code, where=self.where)
        self._check_rate(now)

    def sleep(self, seconds: float) -> None:
        self.idle()
        until = time.monotonic() + seconds
        self.tick()
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, SLICE))
            self.tick()

    def _check_rate(self, now: float) -> None:
        slow_bytes, slow_seconds = self._slow
        start, count = self._window
        if not slow_seconds or now - start < slow_seconds:
            return
        if count < slow_bytes * slow_seconds:
            raise Unavailable(
                f"the server sends fewer than {slow_bytes} bytes a second",
                code="body.too_slow",
                where=self.where,
            )
        self._window = (now, 0)

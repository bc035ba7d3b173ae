"""Whether anything may pass through a way out now.

Somebody has to say so again and again: a worker that is stopped, killed or cut off can neither hear that a grant was
withdrawn nor end what it has begun, and a container lives on without it. So the proxy itself holds two times. When
nobody has looked up for a while what is granted, nothing passes, and goes on when somebody has; when the lease has
ended, what goes on is cut, and nothing new begins until there is a lease again: a worker that takes over opens it.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from custody.errors import Refused

NOT_HELD = math.inf


def clock() -> float:
    """The clock of leases, which also runs while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Gate:
    """One sandbox's. Open for ever, unless times are said."""

    def __init__(self, fresh: float = NOT_HELD, lease: float = NOT_HELD, now: Callable[[], float] = clock) -> None:
        self._fresh, self._lease, self._now = fresh, lease, now
        self._changed = threading.Condition()

    def renew(self, fresh: float, lease: float) -> None:
        """What is granted was looked up: that is worth something until `fresh`. The lease ends at `lease`."""
        with self._changed:
            self._fresh, self._lease = fresh, lease
            self._changed.notify_all()

    def enter(self) -> None:
        """Wait until something may pass. Refused when the lease has ended."""
        with self._changed:
            while True:
                at = self._now()
                if at >= self._lease:
                    raise _ended()
                if at < self._fresh:
                    return
                self._changed.wait(min(self._lease - at, threading.TIMEOUT_MAX))

    @property
    def left(self) -> float:
        """Seconds until the lease ends; 0 when it has."""
        with self._changed:
            return max(0.0, self._lease - self._now())


def _ended() -> Refused:
    return Refused(
        "its worker has not confirmed in time that this is still wanted",
        code="egress.lease",
        hint="the way out opens again when a worker goes on with it",
    )

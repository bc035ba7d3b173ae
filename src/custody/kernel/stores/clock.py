"""The one place that reads a wall clock. Everything else is told the time by its transaction."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> int:
        """Microseconds since 1970, UTC."""
        ...


class SystemClock:
    """The host's clock. On SQLite the host is the store's only machine, so this is the store's clock."""

    def now(self) -> int:
        return time.time_ns() // 1000

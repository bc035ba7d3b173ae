"""A clock that moves only when a test says so."""

from __future__ import annotations

MIDNIGHT = 1_735_689_600_000_000  # 2025-01-01 00:00 UTC


class HandClock:
    def __init__(self, at: int = MIDNIGHT) -> None:
        self._at = at

    def now(self) -> int:
        return self._at

    def advance(self, seconds: float) -> int:
        self._at += int(seconds * 1_000_000)
        return self._at

    def set(self, at: int) -> None:
        self._at = at

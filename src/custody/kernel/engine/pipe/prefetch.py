"""How many claimed jobs a worker keeps at hand: enough that its threads never wait, no more than they soon need."""

from __future__ import annotations

from dataclasses import dataclass

BUFFER_SECONDS = 0.05  # of work kept at hand
HOARD_SECONDS = 1.0  # of work at hand is too much: jobs turned out to take longer than those before them
MOST_BUFFERED = 2000
MOST_HELD = 3 * MOST_BUFFERED  # those at hand, and those whose end is being written
WEIGHT = 0.05  # of one job in the mean: a few quick ones must not tempt a worker to claim hundreds


@dataclass(slots=True)
class Prefetch:
    """How long a job takes, as a running mean: decides how many are kept at hand."""

    threads: int
    seconds: float = 0.01

    def add(self, seconds: float) -> None:
        self.seconds += (seconds - self.seconds) * WEIGHT

    def buffer(self) -> int:
        return self.threads + min(MOST_BUFFERED, int(BUFFER_SECONDS * self.threads / max(self.seconds, 1e-6)))

    def room(self, held: int, finished: int) -> tuple[int, int]:
        """For how many more there is room, and for how many there must be: a claim of few costs as much as of many."""
        most = self.buffer()
        room = min(most - held + finished, MOST_HELD - held)
        return room, max(1, min(most // 2, most - self.threads))

    def excess(self, ready: int) -> int:
        """How many of those at hand others should have instead."""
        return max(0, ready - self.buffer()) if ready * self.seconds > HOARD_SECONDS * self.threads else 0

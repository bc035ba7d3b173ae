"""How many claimed jobs a worker keeps at hand: enough that its hands never wait, no more than they soon need."""

from __future__ import annotations

from dataclasses import dataclass

BUFFER_SECONDS = 0.05  # of work kept at hand
MOST_BUFFERED = 2000
MOST_HELD = 3 * MOST_BUFFERED  # those at hand, and those whose end is being written


@dataclass(slots=True)
class Pace:
    """How long a job takes, as a running mean: decides how many are kept at hand."""

    seconds: float = 0.01
    samples: int = 0

    def add(self, seconds: float) -> None:
        self.samples += 1
        self.seconds += (seconds - self.seconds) * max(0.05, 1 / self.samples)

    def buffer(self, threads: int) -> int:
        return threads + min(MOST_BUFFERED, int(BUFFER_SECONDS * threads / max(self.seconds, 1e-6)))

    def room(self, threads: int, held: int, finished: int) -> tuple[int, int]:
        """For how many more there is room, and for how many there must be: a claim of few costs as much as of many."""
        most = self.buffer(threads)
        room = min(most - held + finished, MOST_HELD - held)
        return room, max(1, min(most // 2, most - threads))

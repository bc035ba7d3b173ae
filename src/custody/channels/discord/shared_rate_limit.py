"""One rate limit for all workers: places in a line that the store gives out."""

from __future__ import annotations

from custody.channels.discord.rate_limits import LONGEST
from custody.kernel.stores import Store

PER_SECOND = 45  # of the fifty that are allowed, so that a slow clock or a retry does no harm
SECOND = 1_000_000
MOST = int((LONGEST + 600) * SECOND)  # how far off a turn may be: the longest pause, and the line behind it


class StoreSlots:
    """As `rate_limits.Spaced`, for every process that uses the same store."""

    def __init__(self, store: Store, name: str = "discord", per_second: float = PER_SECOND) -> None:
        self._db, self._name, self._gap = store.db, f"rate/{name}", int(SECOND / per_second)

    def take(self) -> float:
        """Take the next place; answers in how many seconds it comes up."""
        rows = self._db.write(lambda tx: tx.run("ch_take_slot", name=self._name, gap=self._gap, most=MOST))
        return max(0.0, float(rows[0][0]) / SECOND)

    def pause(self, seconds: float) -> None:
        """Nobody's turn comes before so many seconds have passed."""
        pause = int(min(seconds, LONGEST) * SECOND)
        self._db.write(lambda tx: tx.run("ch_pause", name=self._name, pause=pause, most=MOST))

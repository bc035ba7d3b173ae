"""Where there is something to claim: which kinds, which of their queues, and in which order.

Looking costs as much as claiming. So queues that had more than was taken are relied on for a moment, without looking
for others; if they then do not suffice, all that are ready are looked for at once, so nothing is ever overlooked.
Likewise a kind that had enough for all hands goes first for a moment, and then the kind after it: however long the
line of one is, the others have their turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from custody.engine.kinds import Kind, Serving
from custody.ports import Queue

FULL_SECONDS = 0.1  # for which a kind or queue that had enough is relied on
TIMES = 10  # or so many times as long as it took to look

Claim = Callable[[Kind, list[str], int], int]
"""Claim so many from these queues; how many there were."""


class Lookout:
    def __init__(self, queue: Queue, serving: Serving, place: str, clock: Callable[[], float]) -> None:
        self._queue, self._place, self._clock = queue, place, clock
        self._kinds = list(serving.handled())
        self._first, self._first_until = -1, clock()  # the kind that had enough, and how long it goes first
        self._cursors: dict[str, str] = {}
        self._full: dict[str, tuple[list[str], float]] = {}  # queues that had more, and until when we rely on it

    def claim(self, room: int, allowed: Callable[[Kind], int], claim: Claim) -> int:
        """As many as there is room for, and as are allowed of each kind; how many there were."""
        claimed = 0
        for number, kind in self._in_turn():
            share = min(room - claimed, allowed(kind))
            claimed += self._claim_of(kind, share, claim) if share > 0 else 0
            if claimed and claimed >= room:
                self._had_enough(number)
                break
        return claimed

    def _in_turn(self) -> Iterator[tuple[int, Kind]]:
        count = len(self._kinds)
        first = self._first + (self._clock() >= self._first_until)
        return ((number % count, self._kinds[number % count]) for number in range(first, first + count))

    def _had_enough(self, number: int) -> None:
        now = self._clock()
        if number != self._first or now >= self._first_until:
            self._first, self._first_until = number, now + FULL_SECONDS

    def _claim_of(self, kind: Kind, share: int, claim: Claim) -> int:
        known, until = self._full.pop(kind.prefix, ([], 0.0))
        taken = 0
        if self._clock() < until:
            taken = claim(kind, known, share)
            if taken == share:
                self._full[kind.prefix] = [*known[1:], known[0]], until  # another goes first next time
                return taken
        began = self._clock()
        queues = self._ready(kind)
        until = began + max(FULL_SECONDS, TIMES * (self._clock() - began))
        more = claim(kind, queues, share - taken)
        if taken + more == share:
            self._full[kind.prefix] = [*queues[1:], queues[0]], until
        return taken + more

    def _ready(self, kind: Kind) -> list[str]:
        """Queues with ready work that this worker may take, going round from where it stopped last time."""
        after = self._cursors.get(kind.prefix, "")
        found = self._queue.ready_queues(kind.prefix, after)
        if after:
            found += [queue for queue in self._queue.ready_queues(kind.prefix) if queue <= after]
        self._cursors[kind.prefix] = found[0] if len(found) > 1 else ""
        return [queue for queue in found if self._is_mine(queue, kind)]

    def _is_mine(self, queue: str, kind: Kind) -> bool:
        _, state, place, _ = queue.split("|", 3)
        return state == kind.state and place in ("", self._place)

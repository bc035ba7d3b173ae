"""Where there is something to claim: which kinds, which of their queues, and in which order.

Looking costs as much as claiming. So queues that had more than was taken are relied on for a moment, without looking
for others; if they then do not suffice, all that are ready are looked for at once, so nothing is ever overlooked.
Likewise a kind that had enough for all threads goes first for a moment, and then the kind after it: however long the
line of one is, the others have their turn.

What is claimed is yielded at once, and looked after before the next claim is sent: one that raises loses nothing that
was claimed before it. (A list would leave those idle until their leases end.)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import chain, islice

from custody.kernel.engine.kinds import Kind, Serving
from custody.kernel.engine.pipe.values import Claimed
from custody.kernel.engine.recovery.strays import stay
from custody.kernel.engine.settings import Settings
from custody.kernel.ports import Queue

FULL_SECONDS = 0.1  # for which a kind or queue that had enough is relied on
MOST_QUEUES = 64  # looked for, and claimed from, at a time
FEW_LOOKS = 2  # where many were in vain
TIMES = 10  # or so many times as long as it took to look


class Fetcher:
    def __init__(
        self, queue: Queue, serving: Serving, *, holder: str, settings: Settings, clock: Callable[[], float]
    ) -> None:
        self._queue, self._holder, self._settings, self._clock = queue, holder, settings, clock
        self._pid = os.getpid()
        self._kinds = list(serving.handled())
        self._first, self._first_until = -1, clock()  # the kind that had enough, and how long it goes first
        self._cursors: dict[str, str] = {}
        self._in_vain: dict[str, float] = {}  # until when nobody looks beyond the first queues
        self._full: dict[str, tuple[list[str], float]] = {}  # queues that had more, and until when we rely on it

    def fetch(self, room: int, allowed: Callable[[Kind], int]) -> Iterator[Claimed]:
        """Claim as many as there is room for, and as are allowed of each kind."""
        count = 0
        for number, kind in self._in_turn():
            share = min(room - count, allowed(kind))
            if share > 0:
                for claimed in self._fetch_of(kind, share):
                    yield claimed
                    count += len(claimed.claims)
            if count and count >= room:
                self._had_enough(number)
                break

    def is_coming(self, seconds: float) -> bool:
        """Will there be something to claim within so many seconds, if nobody does anything?"""
        return any(
            self._is_mine(queue, kind)
            for kind in self._kinds
            for queue in self._queue.coming_queues(kind.prefix, seconds)
        )

    def _in_turn(self) -> Iterator[tuple[int, Kind]]:
        count = len(self._kinds)
        first = self._first + (self._clock() >= self._first_until)
        return ((number % count, self._kinds[number % count]) for number in range(first, first + count))

    def _had_enough(self, number: int) -> None:
        now = self._clock()
        if number != self._first or now >= self._first_until:
            self._first, self._first_until = number, now + FULL_SECONDS

    def _fetch_of(self, kind: Kind, share: int) -> Iterator[Claimed]:
        known, until = self._full.pop(kind.prefix, ([], 0.0))
        taken = 0
        if self._clock() < until:
            claimed = self._claim(kind, known, share)
            taken = len(claimed.claims)
            if taken == share:
                self._full[kind.prefix] = [*known[1:], known[0]], until  # another goes first next time
            if taken:
                yield claimed
            if taken == share:
                return
        began = self._clock()
        for queues in self._ready(kind):
            until = began + max(FULL_SECONDS, TIMES * (self._clock() - began))
            claimed = self._claim(kind, queues, share - taken)
            taken += len(claimed.claims)
            if taken == share:
                self._full[kind.prefix] = [*queues[1:], queues[0]], until
            if claimed.claims:
                yield claimed
            if taken == share:
                return

    def _claim(self, kind: Kind, queues: list[str], share: int) -> Claimed:
        asked_at = self._clock()
        stay(self._pid, "claiming")
        return Claimed(kind, self._queue.claim(queues, self._holder, self._settings.lease, share), asked_at)

    def _ready(self, kind: Kind) -> Iterator[list[str]]:
        """Queues with ready work that this worker may take, some at a time, going round from where it stopped last
        time. However many are paused, or pinned elsewhere, those behind them are found too; but if that was in vain,
        it is not done again before ten times as long has passed."""
        mine: list[str] = []
        began, after = self._clock(), self._cursors.pop(kind.prefix, "")
        in_vain = began < self._in_vain.get(kind.prefix, 0.0)
        around = chain(self._walk(kind.prefix, after), self._walk(kind.prefix, "", after) if after else ())
        for found in islice(around, FEW_LOOKS if in_vain else None):
            mine += [queue for queue in found if self._is_mine(queue, kind)]
            if len(mine) > 1:
                self._cursors.setdefault(kind.prefix, mine[0])
            if len(mine) >= MOST_QUEUES:
                yield mine
                mine = []
        if mine:
            yield mine
        if not in_vain:  # else looks that were cut short would put off the next long one for ever
            now = self._clock()
            self._in_vain[kind.prefix] = now + TIMES * (now - began)

    def _walk(self, prefix: str, after: str, last: str = "") -> Iterator[list[str]]:
        """Queues below a prefix, after one of them and up to another."""
        while found := self._queue.ready_queues(prefix, after, MOST_QUEUES):
            within = [queue for queue in found if not last or queue <= last]
            yield within
            if len(within) < MOST_QUEUES:
                return
            after = found[-1]

    def _is_mine(self, queue: str, kind: Kind) -> bool:
        _, state, place, _ = queue.split("|", 3)
        return state == kind.state and place in ("", self._settings.place)

"""What a worker holds: leases that the keeper renews, counted by kind against the limits of each."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence

from custody.kernel.engine.kinds import Kind, Serving
from custody.kernel.engine.pipe.keeper import Keeper
from custody.kernel.engine.pipe.prefetch import MOST_BUFFERED
from custody.kernel.engine.pipe.values import Claimed, End, Settled
from custody.kernel.engine.work import Work
from custody.kernel.ports import Queue


class Held:
    def __init__(self, queue: Queue, serving: Serving, keeper: Keeper, threads: int) -> None:
        self._queue, self._serving, self._keeper, self._threads = queue, serving, keeper, threads
        self._busy: Counter[str] = Counter()  # claimed and not yet settled, by prefix
        self._taken: Counter[str] = Counter()  # claimed so far
        self._lock = threading.Lock()  # of the counts: the loop adds, the settler's thread drops

    @property
    def count(self) -> int:
        return self._keeper.count()

    @property
    def busy(self) -> dict[str, int]:
        """How many are held of each kind."""
        return {prefix: count for prefix, count in self._busy.items() if count}

    def alive(self) -> list[Work]:
        """List what is worked on and not lost: the rest is not waited for, as nothing it says would be written."""
        return [work for work in self._keeper.held() if not work.lost]

    def allowed(self, kind: Kind) -> int:
        """Count how many more of a kind may be claimed."""
        limit = kind.at_once or (max(1, self._threads - kind.spare) if kind.spare else MOST_BUFFERED + self._threads)
        limit -= self._busy[kind.prefix]
        return min(limit, kind.at_most - self._taken[kind.prefix]) if kind.at_most else limit

    def add(self, claimed: Claimed) -> list[Work]:
        """Keep what was claimed from now on, whatever becomes of the claims that follow."""
        works = [Work(claim, self._queue) for claim in claimed.claims]
        self._keeper.add(works, claimed.asked_at)
        self._count(works)
        return works

    def add_onward(self, ends: Sequence[End]) -> list[Work]:
        """Keep what was claimed with the end of the one before it."""
        works = []
        for end in ends:
            if isinstance(end, Settled) and (claim := end.answer.onward):
                work = Work(claim, self._queue, end.work.in_a_row + 1)
                self._keeper.add([work], end.asked_at)
                works.append(work)
        if works:
            self._count(works)
        return works

    def uncount(self, works: Sequence[Work]) -> None:
        """Forget that these were claimed: what is given back unbegun does not count against a kind's `at_most`."""
        with self._lock:
            self._taken.subtract(self._prefixes(works))

    def drop(self, works: Sequence[Work]) -> None:
        self._keeper.drop(works)
        with self._lock:
            self._busy.subtract(self._prefixes(works))

    def _count(self, works: Sequence[Work]) -> None:
        prefixes = [*self._prefixes(works)]
        with self._lock:
            self._busy.update(prefixes)
            self._taken.update(prefixes)

    def _prefixes(self, works: Sequence[Work]) -> Iterable[str]:
        return (self._serving.of(work.job).prefix for work in works)

"""With what care suspects are begun: a few at a time, and what was near a death before, alone. See
kernel/model/suspicion.py.

They are held already, and their leases kept; nobody else waits for them. Before one is begun the store is told what
its worker's death would mean. Companies and lone ones take turns. One that is alone keeps the other threads idle, so
that is for a short while only: if long work does not make room, or the lone one itself takes long, other work goes on
beside it, and a death says less.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from custody.kernel.engine.kinds import Serving
from custody.kernel.engine.pipe.threads import Threads
from custody.kernel.engine.work import Work
from custody.kernel.model.suspicion import ALONE, NEAR, ONLY
from custody.kernel.ports import Queue

MOST_IN_COMPANY = 64
FEW = 16  # so many are each begun alone at once: that takes a moment, and spares a worker
PAUSE_SECONDS = 1.0  # for which what is under way may keep a lone one waiting
ALONE_SECONDS = 5.0  # for which a lone one, or a company, may keep the others waiting


@dataclass(slots=True)
class _Lone:
    work: Work
    since: float  # when the threads were paused for it, or it was begun
    begun: bool = False
    alone: bool = False


class Quarantine:
    def __init__(self, queue: Queue, serving: Serving, threads: Threads, clock: Callable[[], float]) -> None:
        self._queue, self._serving, self._threads, self._clock = queue, serving, threads, clock
        self._left: deque[Work] = deque()
        self._near: deque[Work] = deque()
        self._company: set[int] = set()  # begun together
        self._company_since = 0.0
        self._lone: _Lone | None = None
        self._change = threading.Lock()  # of the lone one: begun by one thread, left by another
        self._turn_of_near = False

    @property
    def count(self) -> int:
        return len(self._left) + len(self._near) + len(self._company) + (self._lone is not None)

    def pick(self, works: list[Work]) -> list[Work]:
        """Those among them that may be begun without care; the others are kept here."""
        careful, free = list[Work](), list[Work]()
        for work in works:
            (careful if self._needs_care(work) else free).append(work)
        few = len(self._left) + len(self._near) + len(careful) <= FEW
        for work in careful:
            (self._near if few or work.job.suspect >= NEAR else self._left).append(work)
        return free

    def _needs_care(self, work: Work) -> bool:
        """It is suspect, and its handler would be called."""
        if not work.job.suspect or work.job.revoked:
            return False
        kind = self._serving.of(work.job)
        return work.job.crashes < kind.crashes or not kind.machine.allows(work.job.state, "fail")

    # Beginning

    def begin(self, most: int) -> None:
        """The next company or the next lone one, when its time has come. Called again and again, from one thread."""
        if (lone := self._lone) and not self._makes_way(lone):
            return
        if not (self._left or self._near) or (self._company and not self._is_long(self._company_since)):
            return
        if self._near and (self._turn_of_near or not self._left):
            self._look_after(self._call_forward(self._near.popleft()))
        else:
            self._begin_company(min(most, MOST_IN_COMPANY))
        self._turn_of_near = not self._turn_of_near

    def _call_forward(self, work: Work) -> _Lone:
        with self._change:
            self._threads.pause()
            self._lone = lone = _Lone(work, self._clock())
        return lone

    def _is_long(self, since: float) -> bool:
        return self._clock() - since > ALONE_SECONDS

    def _begin_company(self, most: int) -> None:
        works = [self._left[index] for index in range(min(most, len(self._left)))]
        self._queue.suspect([work.claim for work in works], NEAR)
        for work in works:
            self._left.popleft()
            self._company.add(work.job.id)
        self._company_since = self._clock()
        self._threads.put(works, first=True)

    def _look_after(self, lone: _Lone) -> None:
        if not lone.begun and (lone.work.stopped or self._clock() - lone.since > PAUSE_SECONDS):
            self._queue.suspect([lone.work.claim], ONLY)
            lone.begun = True
            self._threads.put([lone.work], first=True)
            self._threads.resume()
        elif not lone.begun and self._threads.rest():
            self._queue.suspect([lone.work.claim], ALONE)
            lone.begun, lone.alone, lone.since = True, True, self._clock()
            self._threads.put_alone(lone.work)
        elif lone.alone and self._is_long(lone.since):
            self._queue.suspect([lone.work.claim], ONLY)  # before anything is begun that may be to blame
            lone.alone = False
            self._threads.resume()

    def _makes_way(self, lone: _Lone) -> bool:
        """One that takes long is not suspected together with others: those who come last are suspected most."""
        self._look_after(lone)
        if lone.alone or not lone.begun or not self._is_long(lone.since) or not (self._left or self._near):
            return False
        self._queue.suspect([lone.work.claim], NEAR)
        self._dismiss(lone)
        return True

    def _dismiss(self, lone: _Lone) -> None:
        """It is the lone one no longer, and the others go on; but another may have become it since one looked."""
        with self._change:
            if self._lone is lone:
                self._lone = None
                self._threads.resume()

    # Leaving

    def leave(self, works: Sequence[Work]) -> None:
        """They are done with, or lost."""
        lone = self._lone
        if not self._company and lone is None:
            return
        for work in works:
            self._company.discard(work.job.id)
            if lone and lone.work is work:
                self._dismiss(lone)

    def give_back(self) -> list[Work]:
        """At the end: what was not begun."""
        lone = [self._lone.work] if self._lone and not self._lone.begun else []
        works = [*self._left, *self._near, *lone]
        self._left.clear()
        self._near.clear()
        return works

"""Taking over what vanished workers left behind: all that there is room for, at once.

With what care it is begun is another matter (quarantine.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from custody.kernel.engine.kinds import Kind, Serving
from custody.kernel.engine.pipe.values import Claimed
from custody.kernel.engine.recovery.strays import stay
from custody.kernel.engine.settings import Settings
from custody.kernel.model.job import Claim
from custody.kernel.ports import Queue

EXPIRY_SECONDS = 0.5  # between looks for vanished holders


class Rescuer:
    def __init__(
        self, queue: Queue, serving: Serving, *, holder: str, settings: Settings, clock: Callable[[], float]
    ) -> None:
        self._queue, self._serving, self._holder, self._settings, self._clock = queue, serving, holder, settings, clock
        self.next_look = 0.0
        self._pid = os.getpid()

    def rescue(self, room: int, allowed: Callable[[Kind], int]) -> Iterator[Claimed]:
        """Claim, when it is time, as many of each kind as are allowed. What was claimed is yielded at once, whatever
        becomes of the next."""
        if room < 1 or self._clock() < self.next_look:
            return
        self.next_look = self._clock() + EXPIRY_SECONDS
        count = 0
        for kind in self._serving.kinds:
            for claimed in self._rescue_of(kind, min(room - count, allowed(kind))):
                yield claimed
                count += len(claimed.claims)
        if count:
            self.next_look = 0.0  # where one vanished there may be more

    def _rescue_of(self, kind: Kind, most: int) -> Iterator[Claimed]:
        mine: list[Claim] = []
        while not mine and most > 0 and (claimed := self._claim(kind, most)).claims:
            mine = [claim for claim in claimed.claims if kind.handler or claim.job.revoked]
            if mine:
                yield claimed._replace(claims=mine)
            if not kind.handler:  # a pass decides about the others again
                self._queue.release([claim for claim in claimed.claims if not claim.job.revoked])

    def _claim(self, kind: Kind, most: int) -> Claimed:
        asked_at = self._clock()
        stay(self._pid, "taking over")
        lease, place = self._settings.lease, self._settings.place
        claims = self._queue.claim_expired([kind.prefix], self._holder, seconds=lease, place=place, most=most)
        return Claimed(kind, claims, asked_at, rescued=True)

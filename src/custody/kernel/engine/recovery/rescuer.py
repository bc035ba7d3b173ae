"""Taking over what vanished workers left behind: all that there is room for, at once.

With what care it is begun is another matter (quarantine.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable

from custody.kernel.engine.kinds import Kind, Serving
from custody.kernel.engine.recovery.strays import stay
from custody.kernel.model.job import Claim
from custody.kernel.ports import Queue

EXPIRY_SECONDS = 0.5  # between looks for vanished holders

Take = Callable[[list[Claim]], int]
"""Work on these; how many they are."""


class Rescuer:
    def __init__(self, queue: Queue, serving: Serving, lease: float, place: str, clock: Callable[[], float]) -> None:
        self._queue, self._serving, self._lease, self._place, self._clock = queue, serving, lease, place, clock
        self.next_look = 0.0
        self._pid = os.getpid()

    def claim(self, holder: str, room: int, allowed: Callable[[Kind], int], take: Take) -> int:
        """When it is time, as many of each kind as are allowed. What was claimed is taken at once, whatever becomes of
        the next."""
        if room < 1 or self._clock() < self.next_look:
            return 0
        self.next_look = self._clock() + EXPIRY_SECONDS
        taken = 0
        for kind in self._serving.kinds:
            taken += self._claim_of(kind, holder, min(room - taken, allowed(kind)), take)
        if taken:
            self.next_look = 0.0  # where one vanished there may be more
        return taken

    def _claim_of(self, kind: Kind, holder: str, most: int, take: Take) -> int:
        taken = 0
        while not taken and most > 0 and (claims := self._ask(kind, holder, most)):
            taken = take([claim for claim in claims if kind.handler or claim.job.revoked])
            if not kind.handler:  # a pass decides about the others again
                self._queue.release([claim for claim in claims if not claim.job.revoked])
        return taken

    def _ask(self, kind: Kind, holder: str, most: int) -> list[Claim]:
        stay(self._pid, "taking over")
        return self._queue.claim_expired([kind.prefix], holder, self._lease, self._place, most)

"""Taking over what vanished workers left behind: all that there is room for, at once.

With what care it is begun is another matter (suspects.py).
"""

from __future__ import annotations

from collections.abc import Callable

from custody.engine.kinds import Kind, Serving
from custody.model.job import Claim
from custody.ports import Queue

Take = Callable[[list[Claim]], int]
"""Work on these; how many they are."""


class Takeover:
    def __init__(self, queue: Queue, serving: Serving, lease: float, place: str) -> None:
        self._queue, self._serving, self._lease, self._place = queue, serving, lease, place

    def claim(self, holder: str, room: int, allowed: Callable[[Kind], int], take: Take) -> int:
        """As many of each kind as are allowed. What was claimed is taken at once, whatever becomes of the next."""
        taken = 0
        for kind in self._serving.kinds:
            taken += self._claim_of(kind, holder, min(room - taken, allowed(kind)), take)
        return taken

    def _claim_of(self, kind: Kind, holder: str, most: int, take: Take) -> int:
        taken = 0
        while not taken and most > 0 and (claims := self._ask(kind, holder, most)):
            taken = take([claim for claim in claims if kind.handler or claim.job.revoked])
            if not kind.handler:  # a pass decides about the others again
                self._queue.release([claim for claim in claims if not claim.job.revoked])
        return taken

    def _ask(self, kind: Kind, holder: str, most: int) -> list[Claim]:
        return self._queue.claim_expired([kind.prefix], holder, self._lease, self._place, most)

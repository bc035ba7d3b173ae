"""Taking over what vanished workers left behind, and finding the job that killed them.

Most of what a dead worker held was only at hand, or innocent: it is taken over in company, as much as there is room
for. What was among the dead twice is taken over alone: if a worker dies again, it is known of what. So a job that
kills costs four workers, and its neighbours are never charged for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from custody.engine.kinds import Kind, Serving
from custody.engine.work import Work
from custody.model.job import Claim
from custody.ports import Queue

Take = Callable[[list[Claim]], int]
"""Work on these; how many they are."""


class Takeover:
    def __init__(self, queue: Queue, serving: Serving, lease: float, place: str) -> None:
        self._queue, self._serving, self._lease, self._place = queue, serving, lease, place
        self._company: set[int] = set()
        self._alone: int | None = None

    @property
    def busy(self) -> bool:
        """What was taken over is being worked on."""
        return self._alone is not None or bool(self._company)

    def waits(self, room: int) -> bool:
        """No other suspect may be near one that may be the killer; nor are more taken than there is room for."""
        return self._alone is not None or (bool(self._company) and room < 1)

    def claim(self, holder: str, room: int, allowed: Callable[[Kind], int], take: Take) -> int:
        """As many of each kind as are allowed; at least one, however busy we are: it has waited for a lease already.

        What was claimed is taken at once, whatever becomes of the claims that follow.
        """
        taken = 0
        for kind in self._serving.kinds:
            left = room - taken
            if not self.waits(left):
                taken += self._claim_of(kind, holder, min(max(left, 1), allowed(kind)), take)
        return taken

    def _claim_of(self, kind: Kind, holder: str, most: int, take: Take) -> int:
        taken = 0
        while not taken and most > 0 and (claims := self._ask(kind, holder, most)):
            ours = [claim for claim in claims if kind.handler or claim.job.revoked]
            self._remember(ours)
            taken = take(ours)
            self._queue.release([claim for claim in claims if claim not in ours])  # a pass decides about them again
        return taken

    def _ask(self, kind: Kind, holder: str, most: int) -> list[Claim]:
        alone = not self._company
        return self._queue.claim_expired([kind.prefix], holder, self._lease, self._place, most, alone)

    def _remember(self, claims: Sequence[Claim]) -> None:
        for claim in claims:
            if claim.job.suspect > 1:
                self._alone = claim.id
            else:
                self._company.add(claim.id)

    def leave(self, works: Sequence[Work]) -> None:
        for work in works:
            self._company.discard(work.job.id)
            if self._alone == work.job.id:
                self._alone = None

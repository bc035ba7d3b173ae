"""What was acknowledged in this process lately, and whether a server that replaces another still has it.

A standby that is promoted may lack the last of what its primary had acknowledged, unless the primary waited for it. Its
numbers go on from where it stood: so a number alone may be given out twice, for two jobs. What cannot be the same by
chance is a number together with its move: that is a *receipt*. The receipts of the last minute are kept, and looked up
in one statement on the first connection to another server or timeline, before that is used for anything. What is
missing there is told as history that went back, in the history itself.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from custody.model.errors import Unavailable
from custody.stores.postgres.connection import Connection, Session

KEPT_SECONDS = 60.0
MOST = 5_000
SHOWN = 20
STORE = "store"
WENT_BACK = "went-back"

_MISSING = """
    select one.subject, one.move from unnest(%(subjects)s::text[], %(moves)s::text[]) as one (subject, move)
    where not exists (select 1 from event where event.subject = one.subject collate "C" and event.move = one.move)"""


@dataclass(frozen=True, slots=True)
class WentBack:
    """What was acknowledged by one server and is unknown to the one that took its place."""

    missing: tuple[tuple[str, str], ...]  # subject and move
    before: Session
    after: Session

    def detail(self) -> dict[str, Any]:
        """What its event says."""
        return {
            "missing": len(self.missing),
            "subjects": [subject for subject, _ in self.missing[:SHOWN]],
            "timeline": self.after.timeline,
            "before": self.before.timeline,
        }

    def __str__(self) -> str:
        shown = ", ".join(subject for subject, _ in self.missing[:SHOWN])
        return (
            f"history went back: {len(self.missing)} moves that this process had been told of are unknown to the server"
            f" that took over on timeline {self.after.timeline} ({shown})"
        )


def went_back(lost: WentBack) -> Unavailable:
    return Unavailable(
        str(lost),
        code="store.went_back",
        hint="submit what was lost again (`custody doctor` names it), and make the standby synchronous",
        **lost.detail(),
    )


class Receipts:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: deque[tuple[float, Sequence[tuple[int, str]]]] = deque()
        self._count = 0

    def note(self, moves: Sequence[tuple[int, str]]) -> None:
        """Each of these jobs was moved so, and that was acknowledged."""
        if not moves:
            return
        now = self._clock()
        with self._lock:
            self._kept.append((now, moves))
            self._count += len(moves)
            while self._kept[0][0] < now - KEPT_SECONDS or self._count - len(self._kept[0][1]) >= MOST:
                self._count -= len(self._kept.popleft()[1])

    def kept(self) -> list[tuple[str, str]]:
        oldest = self._clock() - KEPT_SECONDS
        with self._lock:
            return [(f"job/{job}", move) for at, moves in self._kept if at >= oldest for job, move in moves]

    def forget(self) -> None:
        with self._lock:
            self._kept.clear()
            self._count = 0


def missing(db: Connection, receipts: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those of which this server knows nothing."""
    asked = list(receipts)
    if not asked:
        return []
    values = {"subjects": [subject for subject, _ in asked], "moves": [move for _, move in asked]}
    return [(str(subject), str(move)) for subject, move in db.execute(_MISSING, values).fetchall()]

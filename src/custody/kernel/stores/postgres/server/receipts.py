"""What was acknowledged in this process lately, and whether a server that replaces another still has it.

A standby that is promoted may lack the last of what its primary had acknowledged, unless the primary waited for it; and
a server that was restored from a backup, or whose disk was put back, lacks all that came after. Its numbers go on from
where it stood: so a number alone may be given out twice, for two jobs. What cannot be the same by chance is a number
together with its move: that is a *receipt*. The receipts of the last minute are kept, and the newest ones for as long
as the process runs. These are looked up, in one statement, on every new connection before it is used for anything, and
every few seconds on those that are there: a restore into the same tables costs no connection. All of them are when the
server was started anew or is another one, and when a number is about to be given out that is not above the highest of
which this process was told: that is refused within the statement that draws it. What is missing is told as
history that went back, in the history itself, and the numbers that this process knows of are passed over.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from custody.errors import Unavailable
from custody.kernel.stores.postgres.connection import Connection, Session
from custody.kernel.stores.recovery.losses import STORE

KEPT_SECONDS = 60.0
MOST = 5_000
NEWEST = 50
"""So many are kept however old they are: history that goes back loses the newest first."""
SHOWN = 20

_MISSING = """
    select one.subject, one.move from unnest(%(subjects)s::text[], %(moves)s::text[]) as one (subject, move)
    where not exists (select 1 from event where event.subject = one.subject collate "C" and event.move = one.move)"""


@dataclass(frozen=True, slots=True)
class WentBack:
    """What was acknowledged by one server and is unknown to the one that took its place."""

    missing: tuple[tuple[str, str], ...]  # subject and move
    before: Session
    after: Session

    @property
    def highest(self) -> int:
        """Of the jobs' numbers that were given out and are unknown now."""
        return max((int(subject.removeprefix("job/")) for subject, _ in self.missing), default=0)

    @property
    def is_restored(self) -> bool:
        """The same server in the same line of history: nobody was promoted."""
        return (self.before.system, self.before.timeline) == (self.after.system, self.after.timeline)

    def detail(self) -> dict[str, Any]:
        """What its event says."""
        return {
            "missing": len(self.missing),
            "subjects": [subject for subject, _ in self.missing[:SHOWN]],
            "moves": [move for _, move in self.missing[:SHOWN]],
            "timeline": self.after.timeline,
            "before": self.before.timeline,
        }

    def __str__(self) -> str:
        shown = ", ".join(subject for subject, _ in self.missing[:SHOWN])
        where = (
            "the database: it was restored, or a copy of its disk was put back"
            if self.is_restored
            else f"the server that took over on timeline {self.after.timeline}"
        )
        return (
            f"history went back: {len(self.missing)} moves that this process had been told of are unknown to {where}"
            f" ({shown})"
        )


def went_back(lost: WentBack) -> Unavailable:
    then = "say `custody store restored --why …`" if lost.is_restored else "make the standby synchronous"
    return Unavailable(
        str(lost),
        code="store.went_back",
        hint=f"submit what was lost again (`custody doctor` names it), and {then}",
        **lost.detail(),
    )


class Receipts:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: deque[tuple[float, Sequence[tuple[int, str]]]] = deque()
        self._count = 0
        self._top: tuple[int, str] | None = None
        self._told: dict[str, tuple[tuple[str, str], ...]] = {}
        self.highest = 0
        """Of the numbers of jobs that this process was told of: whatever is drawn afterwards is above it."""

    def note(self, moves: Sequence[tuple[int, str]]) -> None:
        """Each of these jobs was moved so, and that was acknowledged."""
        if not moves:
            return
        now, top = self._clock(), max(moves)
        with self._lock:
            if top[0] > self.highest:
                self.highest, self._top = top[0], top
            self._kept.append((now, moves))
            self._count += len(moves)
            while self._may_go(now):
                self._count -= len(self._kept.popleft()[1])

    def _may_go(self, now: float) -> bool:
        at, moves = self._kept[0]
        left = self._count - len(moves)
        return left >= NEWEST and (at < now - KEPT_SECONDS or left >= MOST)

    def kept(self) -> list[tuple[str, str]]:
        """Those of the last minute, and in any case the newest and that of the highest number."""
        with self._lock:
            return self._and_others([(f"job/{job}", move) for _, moves in self._kept for job, move in moves])

    def newest(self) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        with self._lock:
            for _, moves in reversed(self._kept):
                found += [(f"job/{job}", move) for job, move in moves[: -NEWEST - 1 : -1]]
                if len(found) >= NEWEST:
                    break
            return self._and_others(found[:NEWEST])

    def _and_others(self, found: list[tuple[str, str]]) -> list[tuple[str, str]]:
        top = [(f"job/{self._top[0]}", self._top[1])] if self._top else []
        return found + [one for one in top if one not in found] + [(STORE, word) for word in self._told]

    def behind(self, words: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """What these words have told of: where one is lost itself, nobody would know of it any more."""
        with self._lock:
            return [one for _, word in words for one in self._told.get(word, ())]

    def told(self, word: str, lost: Sequence[tuple[str, str]], instead: Iterable[tuple[str, str]]) -> None:
        """That these are lost is told by this word, also what was by others, which are lost themselves."""
        gone = set(lost)
        with self._lock:
            for _, other in instead:
                self._told.pop(other, None)
            if lost:
                self._told[word] = tuple(lost)
            if self._top and (f"job/{self._top[0]}", self._top[1]) in gone:
                self._top = None
            left = [(at, [one for one in moves if (f"job/{one[0]}", one[1]) not in gone]) for at, moves in self._kept]
            self._kept = deque((at, moves) for at, moves in left if moves)
            self._count = sum(len(moves) for _, moves in self._kept)


def missing(db: Connection, receipts: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those of which this server knows nothing."""
    asked = list(receipts)
    if not asked:
        return []
    values = {"subjects": [subject for subject, _ in asked], "moves": [move for _, move in asked]}
    return [(str(subject), str(move)) for subject, move in db.execute(_MISSING, values).fetchall()]

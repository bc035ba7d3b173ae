"""Schedules: when something becomes due.

A slot is a moment at which a schedule is due; (schedule, slot) names it, and at most one run ever comes of it.
The next slot is computed from the slot before it, never from "now", so a late scheduler neither drifts nor
doubles. Slots that passed while nobody looked are recorded as missed, never silently dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, get_args

from custody.errors import BadInput
from custody.kernel.model.names.job_keys import OURS
from custody.kernel.model.names.names import fault
from custody.kernel.model.times import Times, slots, times_of, zone_of

Overlap = Literal["skip", "allow"]
Missed = Literal["once", "skip"]


@dataclass(frozen=True, slots=True)
class Schedule:
    """What becomes due, and when."""

    name: str
    spec: str  # "*/5 * * * *", "every 30s" or "@daily"
    kind: str  # of the jobs it makes
    payload: dict[str, Any] = field(default_factory=dict)
    zone: str = "UTC"
    lane: str = ""
    overlap: Overlap = "skip"  # when the last run has not ended
    missed: Missed = "once"  # when several have come unseen: run once for all of them, or not at all
    paused: bool = False
    last_slot: int = 0
    next_slot: int = 0
    by: str = ""  # who set it, or adopted it, last
    why: str = ""  # it is paused by itself; this is what was wrong


@dataclass(frozen=True, slots=True)
class Wanted:
    """What somebody says about a schedule. What is not said (None) stays as it is."""

    spec: str
    kind: str
    payload: dict[str, Any] | None = None
    zone: str | None = None
    lane: str | None = None
    overlap: str | None = None
    missed: str | None = None

    def of(self, name: str, before: Schedule | None) -> Schedule:
        said = {one.name: getattr(self, one.name) for one in fields(self)}
        known = before or Schedule(name, self.spec, self.kind)
        return replace(known, **{part: value for part, value in said.items() if value is not None})


def checked(schedule: Schedule) -> Schedule:
    """Itself, or a typed error that says which part cannot be read."""
    zone_of(schedule.zone)
    next(slots(schedule.spec, schedule.zone, 0))
    if not schedule.name or not schedule.kind:
        raise BadInput("a schedule needs a name and a kind", code="schedule.field")
    for part, value, allowed in (("overlap", schedule.overlap, Overlap), ("missed", schedule.missed, Missed)):
        if value not in get_args(allowed):
            words = " or ".join(get_args(allowed))
            raise BadInput(f"{part} is {words}, not {str(value)[:40]!r}", code="schedule.field")
    return schedule


def check_name(name: str) -> None:
    """Refuse a name that could be taken for another, or for a path."""
    told = fault(name)
    if not told and any(part in ("", ".", "..") or part != part.strip() for part in name.split("/")):
        told = "has something in each part between slashes"
    if not told and name.startswith((OURS, "-")):
        told = f"does not begin with {name[0]}"
    if told:
        raise BadInput(
            f"{name[:100]!r} is no name for a schedule: it {told}",
            code="schedule.name",
            where="schedule name",
            hint="such as nightly, or book/nightly",
        )


def due(schedule: Schedule, now: int, most: int) -> tuple[list[int], int, int]:
    """The newest of the slots that have come, oldest first; how many have come in all; the next that has not.

    However many have come (who was away for years, or whose clock went wrong for a moment, has missed millions): no
    more than about three times as many as are wanted are looked at one by one."""
    times = times_of(schedule.spec, schedule.zone)
    come, slot = _come(times.after(schedule.next_slot), schedule.next_slot, now, most)
    if slot > now:
        return come, len(come), slot
    count = times.number(schedule.next_slot, now)
    coming = times.after(_shortly_before(times, schedule.next_slot, now, count, wanted=most))
    newest: deque[int] = deque(maxlen=most)
    while (slot := next(coming)) <= now:
        newest.append(slot)
    return [*newest], 1 + count, slot


def _come(coming: Iterator[int], slot: int, now: int, most: int) -> tuple[list[int], int]:
    """As many slots as that, from this one on, of those that have come; and the one after them."""
    come: list[int] = []
    while slot <= now and len(come) < most:
        come.append(slot)
        slot = next(coming)
    return come, slot


def _shortly_before(times: Times, early: int, now: int, count: int, wanted: int) -> int:
    """A moment since which as many as wanted have come, and not many more; since `early` it was so many."""
    late = now
    while count > 2 * wanted and late - early > 1:
        middle = (early + late) // 2
        since = times.number(middle, now)
        if since >= wanted:
            early, count = middle, since
        else:
            late = middle
    return early

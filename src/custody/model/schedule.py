"""Schedules: when something becomes due.

A slot is a moment at which a schedule is due; (schedule, slot) names it, and at most one run ever comes of it.
The next slot is computed from the slot before it, never from "now", so a late scheduler neither drifts nor
doubles. Slots that passed while nobody looked are recorded as missed, never silently dropped.

Cron expressions are read in a time zone. On the day clocks go forward, a slot inside the missing hour comes at
the moment the clocks change; on the day they go back, it comes once.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from custody.model.errors import BadInput

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EVERY = re.compile(r"every (\d+)\s*(s|m|h|d)")
_DIGITS = 10
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
A_CENTURY = 36_525 * 86_400  # seconds: what comes later than that, no calendar shows
MICROSECOND = timedelta(microseconds=1)

Overlap = Literal["skip", "allow"]
Missed = Literal["once", "skip"]


@dataclass(frozen=True, slots=True)
class Schedule:
    """What becomes due, and when."""

    name: str
    spec: str  # "*/5 * * * *" or "every 30s"
    kind: str  # of the jobs it makes
    payload: dict[str, Any] = field(default_factory=dict)
    zone: str = "UTC"
    lane: str = ""
    overlap: Overlap = "skip"  # when the last run has not ended
    missed: Missed = "once"  # after a pause: run once for all that was missed, or not at all
    paused: bool = False
    last_slot: int = 0
    next_slot: int = 0


def checked(schedule: Schedule) -> Schedule:
    """Itself, or a typed error that says which part cannot be read."""
    zone_of(schedule.zone)
    next(slots(schedule.spec, schedule.zone, 0))
    if not schedule.name or not schedule.kind:
        raise BadInput("a schedule needs a name and a kind", code="schedule.field")
    return schedule


def slots(spec: str, zone: str, after: int) -> Iterator[int]:
    """The slots after a moment (microseconds), one after the other."""
    every = _EVERY.fullmatch(spec.strip())
    if every:
        seconds = int(every[1][:_DIGITS]) * _UNITS[every[2]]
        if not seconds:
            raise BadInput("every 0 is too often", code="schedule.spec", where=spec[:80])
        if len(every[1]) > _DIGITS or seconds > A_CENTURY:
            raise BadInput(
                "that is too rarely", code="schedule.spec", where=spec[:80], hint="once in a century, at least"
            )
        step = seconds * 1_000_000
        at = after - after % step
        while True:
            at += step
            yield at
    yield from _cron(spec, zone, after)


def _cron(spec: str, zone: str, after: int) -> Iterator[int]:
    try:
        for moment in CronSim(spec, (EPOCH + after * MICROSECOND).astimezone(zone_of(zone))):
            yield (moment.astimezone(UTC) - EPOCH) // MICROSECOND
    except (CronSimError, ValueError, OverflowError) as error:  # it turns as many digits as there are into a number
        raise BadInput(
            f"cannot read {spec[:80]!r} as a schedule: {str(error)[:200]}",
            code="schedule.spec",
            hint='five fields such as "0 3 * * 1-5", or "every 30m"',
        ) from error
    raise BadInput(f"{spec!r} never comes", code="schedule.spec")


def zone_of(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise BadInput(
            f"there is no time zone {name!r}", code="schedule.zone", hint="such as Europe/Copenhagen"
        ) from error


def due(schedule: Schedule, now: int, most: int) -> tuple[list[int], int, int]:
    """The newest of the slots that have come, oldest first; how many have come in all; the next that has not."""
    come: deque[int] = deque(maxlen=most)  # a clock that went wrong for a moment may say: millions
    count, slot = 0, schedule.next_slot
    coming = slots(schedule.spec, schedule.zone, slot)
    while slot <= now:
        come.append(slot)
        count, slot = count + 1, next(coming)
    return [*come], count, slot

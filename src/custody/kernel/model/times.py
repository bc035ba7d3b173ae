"""Times: the slots that the text of a schedule means, one after the other, and how many there are in a stretch.

Cron expressions are read in a time zone. On the day clocks go forward, a slot inside the missing hour comes at
the moment the clocks change; on the day they go back, it comes once.

Who was away for a year must not walk over half a million slots to learn how many there were. Where clocks do not
change, days are counted and each that matters has as many slots as any other; only around a change are they walked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from difflib import get_close_matches
from typing import Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronsim import CronSim, CronSimError

from custody.errors import BadInput

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000
A_DAY = 86_400
A_CENTURY = 36_525 * A_DAY  # seconds: what comes later than that, no calendar shows
MICROSECOND = timedelta(microseconds=1)

_EVERY = re.compile(r"every\s+(?:(\d+)\s*)?([a-z]+)", re.IGNORECASE)
_DIGITS = 10
_UNITS = {
    unit: seconds
    for units, seconds in (
        ("s sec second seconds", 1),
        ("m min minute minutes", 60),
        ("h hour hours", 3600),
        ("d day days", A_DAY),
    )
    for unit in units.split()
}
_NAMED = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_FIELDS = ("second", "minute", "hour", "day-of-month", "month", "day-of-week")
_DAYS = tuple(str(day) for day in range(1, 32))
HOW = 'minute hour day month weekday, such as "0 3 * * 1-5"; or "every 30m"'


class Times(Protocol):
    """What a text means. Moments are microseconds."""

    def after(self, moment: int) -> Iterator[int]:
        """The slots after a moment, one after the other."""
        ...

    def number(self, after: int, until: int) -> int:
        """How many come after the one moment and not after the other."""
        ...


def times_of(spec: str, zone: str) -> Times:
    every = _EVERY.fullmatch(spec.strip())
    if every:
        return Every(_seconds(spec, every[1] or "1", every[2]) * SECOND)
    return Cron(_NAMED.get(spec.strip().lower(), spec), zone_of(zone))


def slots(spec: str, zone: str, after: int) -> Iterator[int]:
    """The slots after a moment (microseconds), one after the other."""
    return times_of(spec, zone).after(after)


def is_by_the_wall_clock(spec: str) -> bool:
    """Does the time zone matter?"""
    return not _EVERY.fullmatch(spec.strip())


def zone_of(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        alike = _alike(name[:100])
        hint = f"did you mean {alike}?" if alike else "such as Europe/Copenhagen"
        raise BadInput(f"there is no time zone {name!r}", code="schedule.zone", hint=hint) from error


def _alike(name: str) -> str:
    """The zone that was perhaps meant: its city was said, or nearly its name."""
    zones = sorted(available_timezones())
    city = name.rpartition("/")[2].replace(" ", "_").casefold()
    same = [zone for zone in zones if "/" in zone and zone.rpartition("/")[2].casefold() == city]
    return next(iter(same or get_close_matches(name, zones, 1)), "")


def _seconds(spec: str, digits: str, unit: str) -> int:
    if unit.lower() not in _UNITS:
        hint = 'seconds, minutes, hours or days, such as "every 30m"; for days of the week "0 3 * * 1-5"'
        raise BadInput(f"{unit[:40]!r} is nothing to count by", code="schedule.spec", where=spec[:80], hint=hint)
    seconds = int(digits[:_DIGITS]) * _UNITS[unit.lower()]
    if not seconds:
        raise BadInput("every 0 is too often", code="schedule.spec", where=spec[:80])
    if len(digits) > _DIGITS or seconds > A_CENTURY:
        raise BadInput("that is too rarely", code="schedule.spec", where=spec[:80], hint="once in a century, at least")
    return seconds


class Every:
    """ "every 30m": as many microseconds apart, whatever the clocks on the walls do."""

    def __init__(self, step: int) -> None:
        self._step = step

    def after(self, moment: int) -> Iterator[int]:
        at = moment - moment % self._step
        while True:
            at += self._step
            yield at

    def number(self, after: int, until: int) -> int:
        return until // self._step - after // self._step


class Cron:
    """A cron expression in a time zone."""

    def __init__(self, spec: str, zone: ZoneInfo) -> None:
        self._spec, self._zone = spec, zone
        try:
            self._fields = CronSim(spec, EPOCH)
        except (CronSimError, ValueError, OverflowError) as error:  # it turns as many digits as there are into a number
            raise _unreadable(spec, error) from error

    def after(self, moment: int) -> Iterator[int]:
        try:
            for local in CronSim(self._spec, (EPOCH + moment * MICROSECOND).astimezone(self._zone)):
                slot = (local.astimezone(UTC) - EPOCH) // MICROSECOND
                if slot > moment:  # in the hour that comes a second time, those of the first are no news
                    yield slot
        except (CronSimError, ValueError, OverflowError) as error:
            raise _unreadable(self._spec, error) from error
        raise BadInput(f"{self._spec!r} never comes", code="schedule.spec")

    def number(self, after: int, until: int) -> int:
        try:
            return self._number(after // SECOND, until // SECOND)
        except (ValueError, OverflowError) as error:  # a clock that has left the calendar
            raise _unreadable(self._spec, error) from error

    def _number(self, at: int, end: int) -> int:
        total = 0
        for change, size in _changes(self._zone, at - 2 * A_DAY, end + 2 * A_DAY):
            first, last = max(at, change - size - 1), min(end, change + size)
            if first < last:
                total += self._counted(at, first) + self._walked(first, last)
                at = last
        return total + self._counted(at, end)

    def _walked(self, after: int, until: int) -> int:
        count = 0
        for slot in self.after(after * SECOND):
            if slot > until * SECOND:
                break
            count += 1
        return count

    def _counted(self, after: int, until: int) -> int:
        """How many there are (in seconds), where clocks do not change in between."""
        if until <= after:
            return 0
        shift = timedelta(seconds=_offset(self._zone, until))
        first, last = ((EPOCH + timedelta(seconds=moment) + shift) for moment in (after, until))
        days = range(first.toordinal(), last.toordinal())
        whole = sum(map(self._comes_on, map(date.fromordinal, days))) * self._in_a_day(time.max)
        return whole + self._begun(last) - self._begun(first)

    def _begun(self, local: datetime) -> int:
        return self._in_a_day(local.time()) if self._comes_on(local.date()) else 0

    def _comes_on(self, day: date) -> bool:
        return day.month in self._fields.months and bool(self._fields.match_day(day))

    def _in_a_day(self, until: time) -> int:
        """How many there are on a day on which it comes, up to this time."""
        hours, minutes = self._fields.hours, self._fields.minutes
        seconds: set[int] = getattr(self._fields, "seconds", {0})  # earlier versions of the library know of none
        a_minute, an_hour = len(seconds), len(seconds) * len(minutes)
        count: int = sum(hour < until.hour for hour in hours) * an_hour
        if until.hour in hours:
            count += sum(minute < until.minute for minute in minutes) * a_minute
            if until.minute in minutes:
                count += sum(second <= until.second for second in seconds)
        return count


def _changes(zone: ZoneInfo, after: int, until: int) -> Iterator[tuple[int, int]]:
    """When its clocks change, and by how much (seconds)."""
    before = _offset(zone, after)
    for day in range(after, until, A_DAY):
        then = _offset(zone, day + A_DAY)
        if then != before:
            yield _first(zone, then, day, day + A_DAY), abs(then - before)
        before = then


def _first(zone: ZoneInfo, wanted: int, early: int, late: int) -> int:
    """The first moment at which its clocks are that much off, between one when they are not and one when they are."""
    while late - early > 1:
        middle = (early + late) // 2
        early, late = (early, middle) if _offset(zone, middle) == wanted else (middle, late)
    return late


def _offset(zone: ZoneInfo, moment: int) -> int:
    off = datetime.fromtimestamp(moment, zone).utcoffset()
    return off // timedelta(seconds=1) if off else 0


def _unreadable(spec: str, error: Exception) -> BadInput:
    message = f"cannot read {spec[:80]!r} as a schedule: {_what_is_wrong(spec, str(error))}"
    return BadInput(message, code="schedule.spec", hint=HOW)


def _what_is_wrong(spec: str, said: str) -> str:
    """What the library says, in words that name the place."""
    fields, name = spec.split(), said.removeprefix("Bad ")
    if len(fields) not in (len(_FIELDS) - 1, len(_FIELDS)):
        return f"five fields are needed, and it has {len(fields)}"
    if name not in _FIELDS:
        return said[:200]
    value = fields[_FIELDS.index(name) - len(_FIELDS)][:40]
    if name == "day-of-month" and value in _DAYS:
        return f"no month that is asked for has a day {value}"
    return f"{value!r} is no {name}"

"""The slots that the text of a schedule means, and how many there are."""

from __future__ import annotations

from bisect import bisect_right
from datetime import datetime
from itertools import islice, pairwise, takewhile

import pytest

from custody.errors import BadInput
from custody.kernel.model import times
from custody.kernel.model.schedule import Schedule, due
from custody.kernel.model.times import slots, times_of
from kernel.stores.test_schedules import HOUR, SECOND, at
from prove.plugin import Scaled, Tell


@pytest.mark.parametrize("spec", ["every 1s", "*/10 * * * *"])
def test_however_many_slots_have_come_only_the_newest_are_kept_in_mind(spec: str) -> None:
    schedule = Schedule("nightly", spec, "sweep", next_slot=600 * SECOND)
    step = next(slots(spec, "UTC", 600 * SECOND)) - 600 * SECOND
    come, count, following = due(schedule, 600 * SECOND + 5000 * step, most=3)
    assert come == [600 * SECOND + n * step for n in (4998, 4999, 5000)]
    assert (count, following) == (5001, 600 * SECOND + 5001 * step)


@pytest.mark.parametrize("spec", ["* * * * *", "0-59 0-23 * * *", "every 1m", "* * 1-7,15 3-10 *"])
def test_months_of_missed_slots_is_counted_without_walking_over_them(
    spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 0

    class Counted(times.CronSim):  # type: ignore[misc]
        def __next__(self) -> datetime:
            nonlocal steps
            steps += 1
            return super().__next__()  # type: ignore[no-any-return]

    first, now = at("2025-03-05 00:00"), at("2025-05-31 12:00")
    all_of_them = [first, *takewhile(lambda slot: slot <= now, slots(spec, "Europe/Copenhagen", first))]
    monkeypatch.setattr(times, "CronSim", Counted)
    schedule = Schedule("nightly", spec, "sweep", zone="Europe/Copenhagen", next_slot=first)
    come, count, following = due(schedule, now, most=100)
    assert (come, count) == (all_of_them[-100:], len(all_of_them))
    assert following > now
    assert steps < 2000, f"{len(all_of_them)} were missed"


ZONES = (
    "UTC",
    "Europe/Copenhagen",
    "America/New_York",
    "America/St_Johns",
    "Antarctica/Troll",
    "Asia/Kathmandu",
    "Pacific/Apia",  # which left out the whole 30 December 2011
)
SPECS = ("*/15 * * * *", "30 1-3 * * *", "0,30 2 * * *", "0 0 * * *", "5-59/9 0-23 * 2-11 *", "0 3 L * *", "0 1 1 * 5")


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("spec", SPECS)
def test_slots_are_counted_and_found_from_any_moment_as_if_one_had_walked(zone: str, spec: str) -> None:
    start = at("2011-01-01 00:00")
    end = start + 400 * 24 * HOUR
    walked = list(takewhile(lambda slot: slot <= end, slots(spec, zone, start)))
    known = times_of(spec, zone)
    moments = [start + hour * HOUR // 2 + 7 * SECOND for hour in range(0, 2 * 24 * 360, 31)]
    for moment in moments:
        behind = bisect_right(walked, moment)
        assert next(known.after(moment)) == walked[behind]
        if moment % 13 == 0:
            assert known.number(moment, end) == len(walked) - behind
    for first, last in pairwise(moments):
        assert known.number(first, last) == bisect_right(walked, last) - bisect_right(walked, first)


def test_a_clock_that_has_left_the_calendar_is_refused_as_times_are() -> None:
    with pytest.raises(BadInput):
        times_of("* * * * *", "Europe/Copenhagen").number(253_400_000_000 * SECOND, 253_500_000_000 * SECOND)


@pytest.mark.proves("G9")
@pytest.mark.parametrize("zone", ["Europe/Copenhagen", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"])
@pytest.mark.parametrize("spec", ["*/15 * * * *", "0 * * * *", "30 1-3 * * *", "30 2 * * *"])
def test_the_slots_of_a_year_rise_and_are_the_same_computed_one_from_the_other(
    zone: str, spec: str, scaled: Scaled[int], tell: Tell
) -> None:
    years = scaled(1, 2 if spec.startswith("*/15") else 10, 100)  # quarters of an hour are many
    for year in range(2024, 2024 + years):
        found = slots_of(year, spec, zone)
        assert len(found) >= 365
        assert all(earlier < later for earlier, later in pairwise(found))
        for earlier, later in pairwise(found):
            if later - earlier != found[1] - found[0] or earlier % (24 * HOUR) < HOUR:
                assert next(slots(spec, zone, earlier)) == later
    tell("", years_of_cron=years)


def slots_of(year: int, spec: str, zone: str) -> list[int]:
    start, end = at(f"{year}-01-01 00:00", zone), at(f"{year + 1}-01-01 00:00", zone)
    return list(takewhile(lambda slot: slot < end, slots(spec, zone, start)))


@pytest.mark.parametrize("zone", ["Europe/Copenhagen", "America/New_York", "Asia/Kathmandu"])
def test_an_hourly_schedule_runs_every_hour_of_the_day_the_clocks_go_back(zone: str) -> None:
    start = at("2025-10-25 00:00", zone)
    hours = list(islice(slots("0 * * * *", zone, start), 24 * 20))
    assert {later - earlier for earlier, later in pairwise(hours)} == {HOUR}


@pytest.mark.parametrize(
    ("said", "means"),
    [
        ("every 5 minutes", "every 5m"),
        ("every 5min", "every 5m"),
        ("Every 2 Hours", "every 2h"),
        ("every day", "every 1d"),
        ("@hourly", "0 * * * *"),
        ("@Daily", "0 0 * * *"),
        (" @weekly ", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
    ],
)
def test_times_may_be_said_as_people_say_them(said: str, means: str) -> None:
    zone, start = "Europe/Copenhagen", at("2025-10-20 00:00")
    assert list(islice(slots(said, zone, start), 10)) == list(islice(slots(means, zone, start), 10))


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("0 25 * * *", "'25' is no hour"),
        ("0 3 * * 8", "'8' is no day-of-week"),
        ("61 * * * *", "'61' is no minute"),
        ("0 0 31 2 *", "no month that is asked for has a day 31"),
        ("0 3 * *", "five fields are needed, and it has 4"),
        ("@reboot", "five fields are needed, and it has 1"),
        ("every monday", "'monday' is nothing to count by"),
    ],
)
def test_a_text_that_cannot_be_read_is_told_where_and_what_to_do(spec: str, said: str) -> None:
    with pytest.raises(BadInput) as told:
        next(slots(spec, "UTC", 0))
    assert said in told.value.message
    assert "0 3 * * 1-5" in told.value.hint


@pytest.mark.parametrize(
    ("said", "meant"),
    [("Europe/Kopenhagen", "Europe/Copenhagen"), ("copenhagen", "Europe/Copenhagen"), ("new york", "America/New_York")],
)
def test_a_time_zone_that_is_nearly_right_is_named(said: str, meant: str) -> None:
    with pytest.raises(BadInput) as told:
        times.zone_of(said)
    assert meant in told.value.hint

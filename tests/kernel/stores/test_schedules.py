"""Schedules: each slot once, whoever looks; what was missed is on record."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from custody.errors import BadInput, NotFound
from custody.kernel.model.authority.acting import Acting, system
from custody.kernel.model.job import NewJob
from custody.kernel.model.names.job_keys import slot_key
from custody.kernel.model.schedule import Schedule, Wanted
from custody.kernel.stores import Store, schedules
from custody.kernel.stores.rows import Tx
from custody.kernel.stores.schedules import advance
from kernel.stores.acts import finish, state
from kernel.stores.clock import HandClock

SECOND = 1_000_000
HOUR = 3600 * SECOND


def at(text: str, zone: str = "UTC") -> int:
    moment = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone))
    return int(moment.timestamp()) * SECOND


def shown(slot: int, zone: str) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=slot)
    return moment.astimezone(ZoneInfo(zone)).strftime("%d. %H:%M %z")


def hourly(store: Store, **more: object) -> None:
    store.schedules.put(Schedule("nightly", "every 1h", "sweep", **more), system("eva"))  # type: ignore[arg-type]


def outcomes(store: Store) -> list[str]:
    """Oldest first."""
    return [outcome for _, _, outcome in reversed(store.schedules.slots("nightly"))]


def test_a_slot_that_has_come_becomes_one_job_with_its_slot(store: Store, clock: HandClock) -> None:
    hourly(store, payload={"deep": True}, lane="night")
    due = clock.advance(seconds=3600)

    assert store.schedules.run_due() == 1
    job = store.queue.by_key("sweep", slot_key("nightly", due))
    assert job is not None
    assert (job.payload, job.lane) == ({"deep": True, "schedule": "nightly", "slot": due}, "night")
    assert store.schedules.slots("nightly") == [(due, job.id, "ran")]


def test_nothing_runs_before_its_slot_and_nothing_twice(store: Store, clock: HandClock) -> None:
    hourly(store)
    clock.advance(seconds=3599)
    assert store.schedules.run_due() == 0

    clock.advance(seconds=1)
    assert [store.schedules.run_due(), store.schedules.run_due()] == [1, 0]
    assert len(store.queue.list()) == 1


def test_the_next_slot_follows_from_the_slot_and_not_from_when_someone_looked(store: Store, clock: HandClock) -> None:
    hourly(store)
    start = clock.now()
    clock.advance(seconds=3600 + 1234)
    store.schedules.run_due()
    assert store.schedules.next_due() == start + 2 * HOUR


def test_slots_missed_while_nobody_looked_run_once_and_are_on_record(store: Store, clock: HandClock) -> None:
    hourly(store)
    clock.advance(seconds=5 * 3600)

    assert store.schedules.run_due() == 1
    assert outcomes(store) == ["missed"] * 4 + ["ran"]
    event = store.records.events("schedule/nightly")[-1]
    assert (event.type, event.outcome, event.detail["slots"]) == ("missed", "warning", 4)


def test_a_schedule_may_rather_skip_what_was_missed(store: Store, clock: HandClock) -> None:
    hourly(store, missed="skip")
    clock.advance(seconds=5 * 3600)
    assert store.schedules.run_due() == 0
    assert outcomes(store) == ["missed"] * 5
    assert store.records.events("schedule/nightly")[-1].detail["slots"] == 5, "as many as are on record"

    clock.advance(seconds=3600)
    assert store.schedules.run_due() == 1


def test_a_very_long_pause_is_recorded_without_a_row_for_every_slot(store: Store, clock: HandClock) -> None:
    store.schedules.put(Schedule("nightly", "every 1m", "sweep"), system("eva"))
    clock.advance(seconds=30 * 24 * 3600)
    assert store.schedules.run_due() == 1
    assert store.records.events("schedule/nightly")[-1].detail["slots"] == 30 * 24 * 60 - 1
    assert len(store.schedules.slots("nightly", limit=5000)) == 1001


def test_a_schedule_that_cannot_be_run_is_paused_and_says_why_and_the_others_go_on(
    store: Store, clock: HandClock
) -> None:
    hourly(store)
    store.schedules.put(Schedule("other", "every 1h", "dust"), system("eva"))
    slot = clock.advance(seconds=3600)
    store.queue.submit_one(NewJob("sweep", {"by": "hand"}, key=slot_key("nightly", slot)))

    assert store.schedules.run_due() == 1
    assert [outcome for _, _, outcome in store.schedules.slots("other")] == ["ran"]
    assert store.schedules.get("nightly").paused
    assert outcomes(store) == []
    told = store.records.events("schedule/nightly")[-1]
    assert (told.type, told.outcome, told.detail["code"]) == ("paused", "failure", "key.conflict")

    store.schedules.pause("nightly", False, "eva")
    clock.advance(seconds=3600)
    assert store.schedules.run_due() == 1, "the other's job has not ended"
    assert outcomes(store) == ["ran"]


def test_what_many_schedules_have_missed_is_recorded_in_portions(
    store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"s{number}" for number in range(10)]
    for name in names:
        store.schedules.put(Schedule(name, "every 1m", "sweep"), system("eva"))
    clock.advance(seconds=30 * 60)
    monkeypatch.setattr(schedules, "MOST_MISSED", 50)
    portions, write = [], store.db.write

    def watched(work: Callable[[Tx], object]) -> object:
        before = recorded()
        answer = write(work)
        portions.append(recorded() - before)
        return answer

    def recorded() -> int:
        return sum(len(store.schedules.slots(name, limit=100)) for name in names)

    monkeypatch.setattr(store.db, "write", watched)
    assert store.schedules.run_due() == len(names)
    assert portions == [60] * 5, "two schedules each, of thirty slots"
    assert store.schedules.run_due() == 0


def test_a_slot_is_skipped_while_the_last_run_has_not_ended(store: Store, clock: HandClock) -> None:
    hourly(store)
    clock.advance(seconds=3600)
    store.schedules.run_due()
    clock.advance(seconds=3600)
    assert store.schedules.run_due() == 0
    assert outcomes(store) == ["ran", "skipped"]

    finish(store, store.queue.list()[0].id)
    clock.advance(seconds=3600)
    assert store.schedules.run_due() == 1
    assert outcomes(store) == ["ran", "skipped", "ran"]


def test_a_schedule_may_allow_runs_to_overlap(store: Store, clock: HandClock) -> None:
    hourly(store, overlap="allow")
    for _ in range(3):
        clock.advance(seconds=3600)
        assert store.schedules.run_due() == 1


def test_a_deleted_run_is_no_obstacle(store: Store, clock: HandClock) -> None:
    hourly(store)
    clock.advance(seconds=3600)
    store.schedules.run_due()
    store.queue.delete(store.queue.list()[0].id, "eva", "stuck")
    clock.advance(seconds=3600)
    assert store.schedules.run_due() == 1


def test_two_schedulers_at_once_make_one_run_per_slot(
    store: Store, another: Callable[[], Store], clock: HandClock
) -> None:
    hourly(store, overlap="allow")
    schedulers = [store, another(), another(), another()]
    gate = threading.Barrier(len(schedulers))
    made: list[int] = []

    def look(mine: Store) -> None:
        gate.wait()
        made.append(mine.schedules.run_due())

    for _ in range(10):
        clock.advance(seconds=3600)
        threads = [threading.Thread(target=look, args=(each,)) for each in schedulers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sum(made) == 10
    assert outcomes(store) == ["ran"] * 10
    assert len(store.queue.list()) == 10


def test_a_scheduler_that_looked_before_another_ran_takes_no_slot(store: Store, clock: HandClock) -> None:
    hourly(store, overlap="allow")
    seen = store.schedules.get("nightly")
    clock.advance(seconds=3600)
    assert store.schedules.run_due() == 1
    assert store.db.write(lambda tx: advance(tx, seen, "late")) == (0, 0)
    assert outcomes(store) == ["ran"]
    clock.advance(seconds=3600)
    assert store.schedules.run_due() == 1
    assert store.db.write(lambda tx: advance(tx, seen, "late")) == (0, 0), "nor does it call one missed that ran"
    assert outcomes(store) == ["ran", "ran"]
    assert "missed" not in [event.type for event in store.records.events("schedule/nightly")]


def test_putting_the_same_schedule_again_forgets_no_slot(store: Store, clock: HandClock) -> None:
    # As every start of an application does, also the first after a week's holiday.
    hourly(store)
    clock.advance(seconds=5 * 3600)
    hourly(store, payload={"deep": True})

    assert store.schedules.run_due() == 1
    assert outcomes(store) == ["missed"] * 4 + ["ran"]
    assert store.schedules.get("nightly").payload == {"deep": True}


@pytest.mark.parametrize("change", [{"spec": "every 2h"}, {"spec": "0 * * * *", "zone": "Asia/Kathmandu"}])
def test_another_time_starts_from_now(store: Store, clock: HandClock, change: dict[str, str]) -> None:
    hourly(store)
    clock.advance(seconds=5 * 3600)
    store.schedules.put(Schedule("nightly", kind="sweep", **change), system("eva"))  # type: ignore[arg-type]
    following = store.schedules.next_due()
    assert following is not None
    assert following > clock.now()
    assert store.schedules.run_due() == 0


def test_a_paused_schedule_misses_nothing_and_starts_again_from_now(store: Store, clock: HandClock) -> None:
    hourly(store)
    store.schedules.pause("nightly", True, "eva")
    clock.advance(seconds=5 * 3600)
    assert store.schedules.next_due() is None
    assert store.schedules.run_due() == 0

    store.schedules.pause("nightly", False, "eva")
    clock.advance(seconds=3600)
    assert store.schedules.run_due() == 1
    assert outcomes(store) == ["ran"]
    assert [event.type for event in store.records.events("schedule/nightly")] == ["set", "paused", "continued"]


@pytest.mark.parametrize("change", ["pause", "other times"])
def test_what_had_come_before_it_was_changed_is_not_dropped_in_silence(
    store: Store, clock: HandClock, change: str
) -> None:
    hourly(store)
    clock.advance(seconds=5 * 3600)
    if change == "pause":
        store.schedules.pause("nightly", True, "eva")
    else:
        store.schedules.put(Schedule("nightly", "every 2h", "dust"), system("eva"))
    assert store.schedules.run_due() == 0
    assert outcomes(store) == ["missed"] * 5
    told = next(event for event in store.records.events("schedule/nightly") if event.type == "missed")
    assert (told.outcome, told.agent, told.detail["slots"]) == ("warning", "eva", 5)


def test_a_schedule_that_was_paused_all_the_time_has_missed_nothing_when_its_times_change(
    store: Store, clock: HandClock
) -> None:
    hourly(store)
    store.schedules.pause("nightly", True, "eva")
    clock.advance(seconds=5 * 3600)
    store.schedules.pause("nightly", True, "eva")
    store.schedules.put(Schedule("nightly", "every 2h", "dust"), system("eva"))
    assert outcomes(store) == []


def test_going_on_with_one_that_was_not_paused_loses_no_slot(store: Store, clock: HandClock) -> None:
    hourly(store)
    clock.advance(seconds=2 * 3600)
    store.schedules.pause("nightly", False, "eva")
    assert store.schedules.run_due() == 1
    assert outcomes(store) == ["missed", "ran"]


def test_what_is_not_said_when_a_schedule_is_changed_stays_as_it_is(store: Store) -> None:
    before = Schedule(
        "nightly", "0 3 * * *", "sweep", {"deep": True}, "Europe/Copenhagen", "night", overlap="allow", missed="skip"
    )
    store.schedules.put(before, system("eva"))
    after = store.schedules.change("nightly", Wanted("0 4 * * *", "dust"), system("eva"))
    assert after == store.schedules.get("nightly")
    kept = replace(after, spec=before.spec, kind=before.kind, last_slot=0, next_slot=0, by="")
    assert (after.spec, after.kind, kept) == ("0 4 * * *", "dust", before)

    said = Wanted("0 4 * * *", "dust", {}, "UTC", "", "skip", "once")
    after = store.schedules.change("nightly", said, system("eva"))
    assert Wanted(after.spec, after.kind, after.payload, after.zone, after.lane, after.overlap, after.missed) == said


def test_a_new_schedule_is_as_schedules_commonly_are(store: Store) -> None:
    made = store.schedules.change("nightly", Wanted("every 1h", "sweep"), system("eva"))
    plain = Schedule("nightly", "every 1h", "sweep", by="system")
    assert made == replace(plain, last_slot=made.last_slot, next_slot=made.next_slot)


@pytest.mark.parametrize("wrong", [{"overlap": "never"}, {"missed": "all"}, {"zone": "Mars/Olympus"}], ids=str)
def test_a_change_that_cannot_be_understood_changes_nothing(store: Store, wrong: dict[str, str]) -> None:
    hourly(store)
    before = store.schedules.get("nightly")
    with pytest.raises(BadInput):
        store.schedules.change("nightly", Wanted("every 2h", "dust", **wrong), system("eva"))  # type: ignore[arg-type]
    assert store.schedules.get("nightly") == before


def test_a_dropped_schedule_is_gone_and_its_history_stays(store: Store) -> None:
    hourly(store)
    assert store.schedules.drop("nightly", "eva")
    assert not store.schedules.drop("nightly", "eva")
    with pytest.raises(NotFound):
        store.schedules.get("nightly")
    assert [event.type for event in store.records.events("schedule/nightly")] == ["set", "dropped"]


def test_what_comes_once_in_some_months_may_be_said_in_seconds(store: Store, clock: HandClock) -> None:
    store.schedules.put(Schedule("nightly", "every 10000000s", "sweep"), system("eva"))
    following = store.schedules.next_due()
    assert following is not None
    clock.advance(seconds=(following - clock.now()) // SECOND)
    assert store.schedules.run_due() == 1


BAD = [
    ("61 * * * *", "UTC"),
    ("every 0s", "UTC"),
    ("every 9999999d", "UTC"),
    ("every 99999999999d", "UTC"),
    ("every 9999999999999999999999999999d", "UTC"),
    ("soon", "UTC"),
    ("* * * * *", "Mars/Olympus"),
    ("0 0 31 2 *", "UTC"),
]


@pytest.mark.parametrize(
    "wrong", [{"kind": "a|b"}, {"kind": ""}, {"name": ""}, {"name": "\udcff"}, {"lane": "\0"}], ids=str
)
def test_a_schedule_whose_jobs_could_not_be_made_is_refused(store: Store, wrong: dict[str, str]) -> None:
    fields = {"name": "nightly", "kind": "sweep", "spec": "every 1h"} | wrong
    with pytest.raises(BadInput):
        store.schedules.put(Schedule(**fields), system("eva"))  # type: ignore[arg-type]
    assert store.schedules.list() == []


@pytest.mark.proves("H1")
@pytest.mark.parametrize(("spec", "zone"), BAD)
def test_a_time_that_cannot_be_read_is_refused(store: Store, spec: str, zone: str) -> None:
    with pytest.raises(BadInput):
        store.schedules.put(Schedule("nightly", spec, "sweep", zone=zone), system("eva"))
    assert store.schedules.list() == []


def test_a_run_that_is_stuck_shows_in_the_store(store: Store, clock: HandClock) -> None:
    hourly(store)
    clock.advance(seconds=3600)
    store.schedules.run_due()
    ((_, job, _),) = store.schedules.slots("nightly")
    assert job is not None
    assert state(store, job) == "queued"


# Days on which the clocks change. Each row: zone, spec, from when, and the slots as the wall clock shows them.

CHANGES = {
    "Copenhagen, forward: 02:30 does not exist": (
        "Europe/Copenhagen",
        "30 2 * * *",
        "2025-03-29 00:00",
        ["29. 02:30 +0100", "30. 03:00 +0200", "31. 02:30 +0200"],
    ),
    "Copenhagen, back: 02:30 comes twice and runs once": (
        "Europe/Copenhagen",
        "30 2 * * *",
        "2025-10-25 00:00",
        ["25. 02:30 +0200", "26. 02:30 +0200", "27. 02:30 +0100"],
    ),
    "New York, forward": (
        "America/New_York",
        "15 2 * * *",
        "2025-03-08 00:00",
        ["08. 02:15 -0500", "09. 03:00 -0400", "10. 02:15 -0400"],
    ),
    "New York, back": (
        "America/New_York",
        "15 1 * * *",
        "2025-11-01 00:00",
        ["01. 01:15 -0400", "02. 01:15 -0400", "03. 01:15 -0500"],
    ),
    "Lord Howe moves by half an hour, forward": (
        "Australia/Lord_Howe",
        "15 2 * * *",
        "2025-10-04 00:00",
        ["04. 02:15 +1030", "05. 02:30 +1100", "06. 02:15 +1100"],
    ),
    "Lord Howe, back": (
        "Australia/Lord_Howe",
        "45 1 * * *",
        "2025-04-05 00:00",
        ["05. 01:45 +1100", "06. 01:45 +1100", "07. 01:45 +1030"],
    ),
    "Kathmandu never changes": (
        "Asia/Kathmandu",
        "30 2 * * *",
        "2025-03-29 00:00",
        ["29. 02:30 +0545", "30. 02:30 +0545", "31. 02:30 +0545"],
    ),
}


@pytest.mark.parametrize(("zone", "spec", "start", "expected"), CHANGES.values(), ids=CHANGES.keys())
def test_on_days_when_clocks_change_a_daily_slot_comes_exactly_once(
    store: Store, clock: HandClock, zone: str, spec: str, start: str, expected: list[str]
) -> None:
    clock.set(at(start, zone))
    store.schedules.put(Schedule("nightly", spec, "sweep", zone=zone, overlap="allow"), system("eva"))
    for _ in range(3 * 24 * 2):
        clock.advance(seconds=1800)
        store.schedules.run_due()

    ran = [slot for slot, _, outcome in reversed(store.schedules.slots("nightly")) if outcome == "ran"]
    assert [shown(slot, zone) for slot in ran] == expected


def test_in_the_hour_that_comes_a_second_time_what_came_in_the_first_does_not_come_again(
    store: Store, clock: HandClock
) -> None:
    clock.set(at("2025-10-26 01:10"))  # ten past two in Copenhagen, for the second time
    store.schedules.put(Schedule("nightly", "30 2 * * *", "sweep", zone="Europe/Copenhagen"), system("eva"))
    assert store.schedules.run_due() == 0
    assert shown(store.schedules.get("nightly").next_slot, "Europe/Copenhagen") == "27. 02:30 +0100"


def test_a_schedule_that_looks_like_another_is_not_made_and_those_there_are_go_on(store: Store) -> None:
    wanted = Wanted("@daily", "tidy")
    store.schedules.change("tick", wanted, Acting("token:1/ada", "ada"))
    for name in ("TICK", "t\u0456ck", "tlck"):
        with pytest.raises(BadInput, match="looks like the schedule tick"):
            store.schedules.change(name, wanted, Acting("token:1/ada", "ada"))
    store.schedules.change("TICK", wanted, system("workflows"))  # as one that was there before
    store.schedules.change("TICK", Wanted("@hourly", "tidy"), Acting("token:1/ada", "ada"))
    assert [each.name for each in store.schedules.list()] == ["TICK", "tick"]

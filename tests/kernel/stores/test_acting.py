"""Who asked for a job is written by the store when the job comes into being, and by nothing after that."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import custody
from custody.kernel.model.authority.acting import PROGRAM, Acting, identity_of, name_of, system
from custody.kernel.model.graph import Edge
from custody.kernel.model.item import NewItem
from custody.kernel.model.job import Job, NewJob
from custody.kernel.model.schedule import Schedule, Wanted
from custody.kernel.model.trigger import Trigger
from custody.kernel.stores import Store
from custody.robots.robot import robot
from custody.robots.runner import subscribe
from kernel.stores.acts import settle, take, worked
from kernel.stores.clock import HandClock

ADA = Acting("token:12/ada", "ada")
BO = Acting("cli:1000/bo", "bo")


def one(store: Store, kind: str) -> Job:
    (job,) = [job for job in store.queue.list() if job.kind == kind]
    return job


@pytest.mark.parametrize("count", [1, 2, 1500])
@pytest.mark.parametrize("keyed", [False, True])
def test_every_way_of_submitting_writes_who_asked(store: Store, count: int, keyed: bool) -> None:
    made = store.queue.submit([NewJob("parcel", key=f"k{n}" if keyed else None) for n in range(count)], ADA)
    needy = store.queue.submit_one(NewJob("letter", needs=[Edge(made[0].id)], line="l", task="t"), BO)
    assert {job.by for job in store.queue.every() if job.kind == "parcel"} == {"token:12/ada"}
    assert store.queue.get(needy.id).by == "cli:1000/bo"
    (event,) = store.records.events(f"job/{made[0].id}")
    assert event.agent == "ada"


def test_many_of_different_people_in_one_request_keep_their_own(store: Store) -> None:
    for acting in (ADA, BO, system("watch"), PROGRAM):
        store.queue.submit_one(NewJob("parcel", {"of": acting.agent}), acting)
    assert {job.payload["of"]: job.by for job in store.queue.every()} == {
        "ada": "token:12/ada",
        "bo": "cli:1000/bo",
        "watch": "system",
        "": "system",
    }


def test_the_same_key_again_leaves_the_first_ones_name(store: Store) -> None:
    first = store.queue.submit_one(NewJob("parcel", key="k"), ADA)
    assert store.queue.submit_one(NewJob("parcel", key="k"), BO).id == first.id
    assert store.queue.get(first.id).by == ADA.by


def test_children_and_what_follows_are_made_on_the_same_behalf(store: Store) -> None:
    store.queue.submit_one(NewJob("parcel"), ADA)
    claim = take(store)[0]
    assert claim.job.by == ADA.by
    store.queue.keep(claim, {"a": 1}, {"a": 1}, [NewJob("child")], claim.holder)
    settle(store, claim, then=[NewJob("next")], by=claim.job.by)
    assert (one(store, "child").by, one(store, "next").by) == (ADA.by, ADA.by)


def test_what_follows_from_a_job_that_is_older_than_the_names_is_the_programs(store: Store) -> None:
    store.queue.submit_one(NewJob("parcel"), Acting("", "an old version"))
    claim = take(store)[0]
    assert claim.job.by == ""
    store.queue.keep(claim, {"a": 1}, {"a": 1}, [NewJob("child")], claim.holder)
    settle(store, claim, then=[NewJob("next")], by=claim.job.by)
    assert (one(store, "child").by, one(store, "next").by) == ("system", "system")


def test_a_robot_wakes_on_nobodys_behalf_but_the_programs(store: Store) -> None:
    subscribe(store, [robot("looker", "1", "looked", Trigger(absent=frozenset({"looked"})))(lambda item, report: None)])
    store.records.put([NewItem("a"), NewItem("b")], agent="ada")
    assert {job.by for job in store.queue.list()} == {"system"}


def test_a_schedule_acts_for_who_set_it_last(store: Store, clock: HandClock) -> None:
    store.schedules.put(Schedule("night/ly", "every 1h", "sweep"), BO)
    store.schedules.change("night/ly", Wanted("every 1h", "sweep"), ADA)
    assert store.schedules.get("night/ly").by == ADA.by
    clock.advance(seconds=3600)
    store.schedules.run_due("w1")
    job = one(store, "sweep")
    assert job.by == "schedule:night%2Fly/ada"
    assert identity_of(job.by) == "schedule:night%2Fly"
    assert name_of(job.by) == "ada"


def test_a_schedule_whose_setters_right_ended_stands_still_until_somebody_adopts_it(
    store: Store, clock: HandClock
) -> None:
    ended = {ADA.by: "it was set by ada, whose right ended"}
    store.schedules.put(Schedule("a", "every 1h", "sweep"), ADA)
    store.schedules.put(Schedule("b", "every 1h", "other", overlap="allow"), BO)
    clock.advance(seconds=3600)
    assert store.schedules.run_due("w1", lambda schedule: ended.get(schedule.by, "")) == 1, "the other goes on"
    assert [job.kind for job in store.queue.list()] == ["other"]
    held = store.schedules.get("a")
    assert (held.paused, held.why) == (True, ended[ADA.by])
    note = store.records.events("schedule/a")[-1]
    assert (note.type, note.detail["why"], note.detail["code"]) == ("paused", ended[ADA.by], "schedule.right")
    adopted = store.schedules.adopt("a", BO)
    assert (adopted.paused, adopted.why, adopted.by) == (False, "", BO.by)
    assert store.records.events("schedule/a")[-1].agent == "bo"
    clock.advance(seconds=3600)
    assert store.schedules.run_due("w1", lambda schedule: ended.get(schedule.by, "")) == 2


def test_no_statement_changes_who_asked() -> None:
    """Read from the SQL itself, of every part of the program."""
    written = 0
    for file in Path(custody.__file__).parent.rglob("statements.sql"):
        text = re.sub(r"--[^\n]*", "", file.read_text())
        for update in re.findall(r"update\s+job\b.*?(?=\bwhere\b|\breturning\b|\Z)", text, flags=re.S | re.I):
            assert not re.search(r"(?<![\w:.])by\s*=", update), update
            written += 1
        for insert in re.findall(r"insert\s+into\s+job\s*\((.*?)\)", text, flags=re.S | re.I):
            assert re.search(r"\bby\b", insert), f"who asked is left out: {insert}"
        for statement in re.split(r"\n-- (?:name|fragment): ", file.read_text()):
            assert not re.search(r"insert\s+into\s+job\b.*do\s+update", statement, flags=re.S | re.I)
    assert written > 10


def test_one_that_waits_is_still_its_askers_after_every_move(store: Store) -> None:
    store.queue.submit_one(NewJob("parcel"), ADA)
    claim = take(store)[0]
    store.queue.settle([worked(claim, "pass")])
    assert one(store, "parcel").by == ADA.by

"""Keys that begin with ~ are the system's own: no door takes one, and no slot can be taken by guessing its key."""

from __future__ import annotations

from pathlib import Path

import pytest

from custody.errors import BadInput
from custody.kernel.model.authority.acting import Acting
from custody.kernel.model.job import NewJob
from custody.kernel.model.names.job_keys import callers_key, slot_key
from custody.kernel.model.schedule import Schedule
from custody.kernel.stores import Store
from kernel.stores.acts import execute, settle, take
from kernel.stores.clock import HandClock
from rig.commands import Run

ADA = Acting("token:12/ada", "ada")
SUBMITTER = Acting("token:13/eve", "eve")


@pytest.mark.parametrize("key", ["~", "~x", "~token:12/k", "~schedule/nightly@1"])
def test_a_key_of_the_systems_own_form_is_refused_by_every_way_of_submitting(store: Store, key: str) -> None:
    job = NewJob("parcel", key=key)
    for submit in (
        lambda: store.queue.submit_one(job, ADA),
        lambda: store.queue.submit([job], ADA),
        lambda: store.queue.submit([NewJob("parcel"), job, NewJob("other", key=key)], ADA),
    ):
        with pytest.raises(BadInput) as refused:
            submit()
        assert refused.value.code == "key.form"
    assert store.queue.list() == []


def test_a_job_that_is_worked_on_gives_no_such_key_to_what_follows_it(store: Store) -> None:
    store.queue.submit_one(NewJob("parcel"), ADA)
    claim = take(store)[0]
    answer = settle(store, claim, then=[NewJob("letter", key="~token:12/k")])
    assert (answer.done, answer.code) == (False, "key.form")
    assert [job.kind for job in store.queue.list()] == ["parcel"]


def test_the_system_s_own_keys_are_kept_and_found_again(store: Store) -> None:
    key = callers_key("token:12", "k")
    first = store.queue.submit_one(NewJob("parcel", key=key), ADA)
    assert store.queue.submit_one(NewJob("parcel", key=key), ADA).id == first.id
    assert store.queue.submit([NewJob("parcel", key=key)], ADA)[0].id == first.id
    assert store.queue.get(first.id).key == "~token:12/k"


def test_nobody_can_take_a_slot_by_its_key(store: Store, clock: HandClock) -> None:
    store.schedules.put(Schedule("nightly", "every 1h", "greet", {"s": 1}), ADA)
    slot = store.schedules.get("nightly").next_slot
    guessed = {"s": 1, "schedule": "nightly", "slot": slot}
    for key in (f"nightly@{slot}", f"schedule/nightly@{slot}"):
        for payload in (guessed, {"odd": 1}):
            mine = key if payload is guessed else f"{key}!"
            store.queue.submit_one(NewJob("greet", payload, key=mine), SUBMITTER)
    taken = len(store.queue.list())
    clock.advance(seconds=3600)
    assert store.schedules.run_due("w") == 1
    (made,) = [job for job in store.queue.list() if job.by == "schedule:nightly/ada"]
    assert (made.key, made.payload) == (slot_key("nightly", slot), guessed)
    assert len(store.queue.list()) == taken + 1
    assert not store.schedules.get("nightly").paused


def test_a_slot_that_ran_under_a_key_of_an_earlier_version_runs_no_second_time(store: Store, clock: HandClock) -> None:
    """And the next one is not lost: also when a clock goes back, and a slot comes again."""
    store.schedules.put(Schedule("nightly", "every 1h", "greet", overlap="allow"), ADA)
    slot = clock.advance(seconds=3600)
    assert store.schedules.run_due("w") == 1
    (job,) = store.queue.list()
    store.db.write(lambda tx: execute(tx, f"update job set key = 'nightly@{slot}' where id = {job.id}"))
    store.db.write(lambda tx: execute(tx, f"update schedule set next_slot = {slot} where name = 'nightly'"))
    assert store.schedules.run_due("w") == 0
    assert [(at, made) for at, made, _ in store.schedules.slots("nightly")] == [(slot, job.id)]
    clock.advance(seconds=3600)
    assert store.schedules.run_due("w") == 1
    assert len(store.queue.list()) == 2


def test_no_collection_is_called_as_all_of_them_are(store: Store) -> None:
    with pytest.raises(BadInput, match="it stands for all of them"):
        store.queue.submit_one(NewJob("parcel", collection="*"), ADA)


def test_the_command_line_refuses_such_keys(custody: Run, tmp_path: Path) -> None:
    said = custody("job", "submit", "greet", "--key", "~token:1/k")
    assert (said.code, "a key does not begin with ~" in said.err) == (2, True)
    assert custody("job", "list").out.strip() == "no jobs match"

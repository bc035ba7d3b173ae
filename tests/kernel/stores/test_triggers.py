"""Triggers: which history makes an item ready for which robot. A ready item is a job, at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import Item, Latest, NewItem
from custody.kernel.model.job import NewJob
from custody.kernel.model.trigger import Trigger, admits
from custody.kernel.stores import Store
from kernel.stores.acts import settle, submit, subscribe, take_one, types

Step = Callable[[Store], None]


def change(*types_: str) -> Step:
    return lambda store: store.records.put([NewItem("a", frozenset(types_), "atlas")])


def describe(*types_: str) -> Step:
    return lambda store: store.records.put([NewItem("a", frozenset(types_), "atlas", changed=False)])


def happens(type_: str, outcome: str = "success") -> Step:
    def step(store: Store) -> None:
        store.records.append(NewEvent("a", type_, outcome))  # type: ignore[arg-type]

    return step


def of(**words: str) -> Trigger:
    return Trigger(**{name: frozenset(value.split()) for name, value in words.items()})


CASES: dict[str, tuple[Trigger, list[Step], bool]] = {
    "past: it happened": (of(past="S"), [change(), happens("S")], True),
    "past: it happened with a warning": (of(past="S"), [change(), happens("S", "warning")], True),
    "past: it happened without an outcome": (of(past="S"), [change(), happens("S", "none")], True),
    "past: it failed": (of(past="S"), [change(), happens("S", "failure")], False),
    "past: it never happened": (of(past="S"), [change()], False),
    "past: something else happened": (of(past="S"), [change(), happens("T")], False),
    "past: it failed, then went well": (of(past="S"), [change(), happens("S", "failure"), happens("S")], True),
    "past: of two only one": (of(past="S T"), [change(), happens("S")], False),
    "past: both, in any order": (of(past="S T"), [change(), happens("T"), happens("S")], True),
    "past: a change does not undo it": (of(past="S"), [change(), happens("S"), change()], True),
    "failed: it failed": (of(failed="S"), [change(), happens("S", "failure")], True),
    "failed: it went well": (of(failed="S"), [change(), happens("S")], False),
    "failed: a warning is no failure": (of(failed="S"), [change(), happens("S", "warning")], False),
    "failed: it never happened": (of(failed="S"), [change()], False),
    "absent: it never happened": (of(absent="S"), [change()], True),
    "absent: it happened": (of(past="T", absent="S"), [change(), happens("S"), happens("T")], False),
    "absent: it failed": (of(past="T", absent="S"), [change(), happens("S", "failure"), happens("T")], False),
    "old: it never happened": (of(old="S"), [change()], True),
    "old: it happened before the change": (
        of(past="T", old="S"),
        [change(), happens("S"), change(), happens("T")],
        True,
    ),
    "old: it happened after the change": (of(past="T", old="S"), [change(), happens("S"), happens("T")], False),
    "old: it failed before the change": (of(old="S", failed="S"), [change(), happens("S", "failure"), change()], True),
    "old: nothing ever changed, and it happened": (
        of(past="T", old="S"),
        [describe(), happens("S"), happens("T")],
        False,
    ),
    "old: nothing ever changed, nor happened": (of(old="S"), [describe()], True),
    "old: a description is no change": (
        of(past="T", old="S"),
        [change(), happens("S"), describe("map"), happens("T")],
        False,
    ),
    "types: it has them all": (of(types="map print"), [change("map", "print", "book")], True),
    "types: one is missing": (of(types="map print"), [change("map")], False),
    "types: the last one comes later": (of(types="map print"), [change("map"), describe("print")], True),
    "items: this one": (of(items="a b"), [change()], True),
    "items: others": (of(items="b c"), [change()], False),
    "everything at once": (
        of(past="S", absent="F", types="map", items="a", old="D"),
        [change("map"), happens("D"), happens("S"), change()],
        True,
    ),
}


@pytest.mark.parametrize(("trigger", "history", "ready"), CASES.values(), ids=CASES.keys())
def test_a_history_makes_an_item_ready_or_not(store: Store, trigger: Trigger, history: list[Step], ready: bool) -> None:
    subscribe(store, "r", trigger)
    for step in history:
        step(store)

    job = store.queue.by_key("robot/r", "a")
    assert admits(trigger, store.records.item("a"), store.records.latest("a")) == ready
    assert (job is not None) == ready


def test_an_event_with_the_number_of_the_change_is_not_older_than_it() -> None:
    # One sequence cannot give a number twice; the decision is strict all the same.
    old = of(old="S")
    item = Item("a", frozenset(), seq=5, changed=5)
    assert [admits(old, item, {"S": Latest("S", seq, "success")}) for seq in (4, 5, 6)] == [True, False, False]


def test_success_then_failure_asks_the_robot_for_failures_and_not_the_one_for_successes(store: Store) -> None:
    subscribe(store, "repair", of(failed="S"))
    subscribe(store, "publish", of(past="S", absent="P"))
    change()(store)
    store.records.put([], [NewEvent("a", "S"), NewEvent("a", "S", "failure")])

    assert store.queue.by_key("robot/repair", "a") is not None
    # It was made ready by the success, in the same breath; whoever claims it asks again and finds otherwise.
    assert not admits(of(past="S", absent="P"), store.records.item("a"), store.records.latest("a"))


def test_a_ready_item_is_one_job_per_robot_in_the_lane_of_its_collection(store: Store) -> None:
    subscribe(store, "r", of(past="S"), priority=7)
    subscribe(store, "q", of(past="S"))
    change()(store)
    for _ in range(3):
        happens("S")(store)

    job = store.queue.by_key("robot/r", "a")
    assert job is not None
    assert (job.payload, job.lane, job.collection, job.priority) == ({"item": "a"}, "atlas", "atlas", 7)
    assert len(store.queue.list()) == 2
    assert take_one(store, "robot/r", lane="atlas").id == job.id


def test_an_event_wakes_only_robots_that_mention_its_type(store: Store) -> None:
    change()(store)
    subscribe(store, "late", of(absent="S"))
    happens("T")(store)
    assert store.queue.list() == [], "nothing that happened since concerns it: a sweep finds such items"


def test_a_job_of_any_kind_wakes_a_robot_with_the_events_it_brings(store: Store) -> None:
    subscribe(store, "r", of(past="Stored"))
    submit(store)
    settle(store, take_one(store), items=[NewItem("a")], events=[NewEvent("a", "Stored")])
    assert store.queue.by_key("robot/r", "a") is not None


def test_a_robot_that_has_run_and_was_removed_can_be_asked_again(store: Store) -> None:
    subscribe(store, "r", of(old="Checked"))
    change()(store)
    claim = take_one(store, "robot/r", lane="atlas")
    settle(store, claim, events=[NewEvent("a", "Checked")], remove=True)
    assert store.queue.by_key("robot/r", "a") is None

    change()(store)
    again = store.queue.by_key("robot/r", "a")
    assert again is not None
    assert again.id > claim.id
    assert types(store, claim.id) == ["submitted", "passed"]


def test_a_robots_own_event_never_makes_the_item_look_new(store: Store) -> None:
    subscribe(store, "r", of(old="Checked"))
    change()(store)
    settle(store, take_one(store, "robot/r", lane="atlas"), events=[NewEvent("a", "Checked", "failure")], remove=True)
    assert store.queue.list() == []


def test_a_subscription_that_did_not_change_is_not_filled_again(store: Store) -> None:
    def filled() -> list[str]:
        return [row[3] for row in store.db.read(lambda tx: tx.run("subscriptions"))]

    subscribe(store, "r", of(past="S"))
    store.db.write(lambda tx: tx.run("set_filled", robot="r", filled="z"))
    subscribe(store, "r", of(past="S"))
    assert filled() == ["z"]
    subscribe(store, "r", of(past="T"))
    assert filled() == [""]


def test_jobs_that_are_not_robots_are_never_woken_by_items(store: Store) -> None:
    store.queue.submit([NewJob("parcel", key="a")])
    change()(store)
    assert len(store.queue.list()) == 1


def test_a_change_that_came_while_a_robot_worked_makes_its_report_old(store: Store) -> None:
    subscribe(store, "r", of(old="Checked"))
    change()(store)
    claim = take_one(store, "robot/r", lane="atlas")
    looked_at = store.records.item("a").changed
    change()(store)
    settle(store, claim, events=[NewEvent("a", "Checked", seen=looked_at, robot="r")], remove=True)

    again = store.queue.by_key("robot/r", "a")
    assert again is not None, "what changed meanwhile has not been looked at"
    settle(
        store,
        take_one(store, "robot/r", lane="atlas"),
        events=[NewEvent("a", "Checked", seen=store.records.item("a").changed, robot="r")],
        remove=True,
    )
    assert store.queue.list() == []


def test_a_robots_own_report_is_no_news_to_itself(store: Store) -> None:
    subscribe(store, "r", of(failed="Checked"))
    change()(store)
    happens("Checked", "failure")(store)
    claim = take_one(store, "robot/r", lane="atlas")
    settle(store, claim, events=[NewEvent("a", "Checked", "failure", robot="r")], remove=True)
    assert store.queue.list() == [], "it would run for ever"


def test_news_that_comes_while_a_job_is_being_given_up_is_not_lost(store: Store) -> None:
    subscribe(store, "r", of(past="S"))
    store.records.put([NewItem("a")], [NewEvent("a", "S")])
    claim = take_one(store, "robot/r")
    store.records.append(NewEvent("a", "S", "failure"))  # seen by the robot: not ready
    store.records.append(NewEvent("a", "S"))  # not seen any more
    settle(store, claim, remove=True, look=("r", "a"))
    job = store.queue.by_key("robot/r", "a")
    assert job is not None
    assert job.id != claim.id
    store.records.append(NewEvent("a", "S", "failure"))
    settle(store, take_one(store, "robot/r"), remove=True, look=("r", "a"))
    assert store.queue.by_key("robot/r", "a") is None, "not ready is not ready"

"""The sweep: the database's answer is the trigger's, what was missed is found, and nobody looks at everything often."""

from __future__ import annotations

from pathlib import Path

import pytest

from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import NewItem
from custody.kernel.model.trigger import Trigger
from custody.kernel.stores import Store, open_store
from custody.robots import Robot
from custody.robots import sweep as sweeping
from custody.robots.runner import subscribe
from custody.robots.sweep import REPAIR_SECONDS, ready_items, repair, repair_if_due, sweep
from kernel.stores.test_triggers import CASES, Step
from robots.conftest import Custody
from robots.lines import make


@pytest.mark.parametrize(("trigger", "history", "ready"), CASES.values(), ids=CASES.keys())
def test_the_question_to_the_indexes_says_what_the_trigger_says(
    store: Store, trigger: Trigger, history: list[Step], ready: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "admits", lambda *_: True)  # the database alone
    for step in history:
        step(store)
    for name in ("b", "c"):  # others beside it, which have had everything
        events = [NewEvent(name, kind) for kind in ("S", "T", "D", "F")]
        store.records.put([NewItem(name, frozenset({"map"}))], events)
    assert ("a" in [item.id for item in ready_items(store, trigger)]) == ready
    store.records.append(NewEvent("a", "stopped"))
    assert "a" not in [item.id for item in ready_items(store, trigger)], "it is off the line"


@pytest.mark.parametrize("trigger", [Trigger(absent=frozenset({"A"})), Trigger(types=frozenset({"map"}))])
def test_a_name_is_never_taken_for_a_part_of_another(store: Store, trigger: Trigger) -> None:
    odd = ["a map", "ma", "A'; drop table item", '["A"]', "%", "Ä", "\U0010fffe"]
    store.records.put([NewItem(name, frozenset({"maps"})) for name in odd], [NewEvent(name, "AA") for name in odd])
    found = [item.id for item in ready_items(store, trigger)]
    assert found == (sorted(odd) if trigger.absent else [])


def missed(store: Store) -> Robot:
    """A robot whose queue is filled, and an item of which it was never told."""
    first = make("first", "A", absent={"A"})
    subscribe(store, [first])
    sweep(store, first)
    store.records.put([NewItem("x")])
    job = store.queue.by_key("robot/first", "x")
    assert job
    store.queue.delete(job.id, "eva", "as if it had never been made")
    return first


def test_what_was_missed_is_repaired_by_the_next_look_at_everything(store: Store) -> None:
    first = missed(store)
    assert (sweep(store, first), repair_if_due(store, first), repair_if_due(store, first)) == (0, 0, 0)
    assert store.queue.by_key("robot/first", "x") is None
    pass_by(store, REPAIR_SECONDS)
    assert repair_if_due(store, first) == 1
    assert store.queue.by_key("robot/first", "x") is not None
    assert repair_if_due(store, first) == 0, "it has just been done, by whomever"


def test_a_look_that_takes_long_is_taken_less_often(file_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    first = missed(file_store)
    repair_if_due(file_store, first)
    pass_by(file_store, REPAIR_SECONDS)
    monkeypatch.setattr(sweeping, "REPAIR_SHARE", 10**9)  # one item shall count for many millions
    assert repair_if_due(file_store, first) == 1
    pass_by(file_store, REPAIR_SECONDS)
    assert repair_if_due(file_store, first) == 0


def pass_by(store: Store, seconds: float) -> None:
    store.db.write(lambda tx: tx.run("bump", name="repair/first", by=-int(seconds * 1_000_000)))


def test_more_items_than_one_look_holds_are_all_looked_at(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "LOOKED_AT", 7)
    monkeypatch.setattr(sweeping, "CHUNK", 3)
    store.records.put([NewItem(f"item-{number:02}") for number in range(30)], [NewEvent("item-11", "A")])
    first = make("first", "A", absent={"A"})
    subscribe(store, [first])
    assert (sweep(store, first), sweep(store, first)) == (30, 0)
    assert len(store.queue.list()) == 29
    assert repair(store, first) == 30
    assert [item.id for item in ready_items(store, first.when)][10:12] == ["item-10", "item-12"]


FIRST = """
from custody.robots import Item, Report, Trigger, robot

@robot("first", "1", "A", Trigger(absent={"A"}))
def first(item: Item, report: Report) -> None:
    report.note(looked=True)
"""


def test_a_run_from_cron_looks_at_every_item_only_when_asked_to(custody: Custody, tmp_path: Path) -> None:
    (tmp_path / "first.py").write_text(FIRST)
    url = f"sqlite:///{tmp_path / 'custody.db'}"
    assert "nothing to do" in custody("run", "first.py", "--once", "--store", url)
    with open_store(url) as store:
        store.records.put([NewItem("x")])
        job = store.queue.by_key("robot/first", "x")
        assert job
        store.queue.delete(job.id, "eva", "as if it had never been made")
    assert "nothing to do" in custody("run", "first.py", "--once", "--detailed-exit-code", "--store", url, code=4)
    assert "1 went well" in custody("run", "first.py", "--once", "--sweep", "--store", url)

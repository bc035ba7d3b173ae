"""The recount must find what it is there to find: each fault is planted, found, named, and taken back."""

from __future__ import annotations

import pytest

from custody.kernel.model.event import NewEvent
from custody.kernel.model.graph import Edge
from custody.kernel.model.item import NewItem
from custody.kernel.model.job import DELETED, Fold, fold
from custody.kernel.stores import Store
from custody.kernel.stores.fsck import RECOUNTS, Fault, faults, recount
from custody.kernel.stores.rows import Tx
from kernel.stores.acts import BATCH, execute, finish, order, settle, submit, take_job, take_one
from kernel.stores.clock import HandClock

# What is broken, and whose fault is to be named.
PLANTED = {
    "unmet": ("update job set unmet = unmet + 1 where kind = 'waiter'", "job/"),
    "met": ("update edge set met = 0 where job in (select id from job where kind = 'ready')", "job/"),
    "open": ("update job set open = 5 where kind = 'batch'", "job/"),
    "lease": ("update job set until = 0 where kind = 'leased'", "job/"),
    "latest": ("update latest set outcome = 'failure' where item = 'a'", "item/a"),
    "sequences": ("update event set seq = 7 where subject = 'item/a' and seq = 2", "item/a"),
    "numbers": ("update item set seq = 9 where id = 'a'", "item/a"),
    "fold": ("update job set priority = 1 where kind = 'ready'", "job/"),
}


def populated(store: Store) -> None:
    need = submit(store, "need")
    submit(store, "ready", needs=[Edge(need)])
    finish(store, need)
    submit(store, "waiter", needs=[Edge(submit(store, "need"))])
    parent = submit(store, "batch", machine=BATCH, state="processing", when_empty="reporting")
    submit(store, "child", parent=parent)
    take_job(store, submit(store, "leased"))
    store.records.put([NewItem("a")], [NewEvent("a", "Scanned")])


GONE = {
    "a job": ("delete from job where kind = 'ready'", "job/"),
    "a job that had passed": ("delete from job where kind = 'need' and ended is not null", "job/"),
    "an item": ("delete from item where id = 'a'", "item/a"),
}


class Spoiled(Exception):
    """So that what was planted is rolled back."""


@pytest.mark.parametrize("check", PLANTED)
def test_a_planted_fault_is_found_and_named(store: Store, check: str) -> None:
    populated(store)
    assert recount(store) == []
    statement, subject = PLANTED[check]
    found: list[Fault] = []

    def spoil(tx: Tx) -> None:
        execute(tx, statement)
        found.extend(faults(tx))
        raise Spoiled

    with pytest.raises(Spoiled):
        store.db.write(spoil)
    assert check in {fault.check for fault in found}
    assert all(fault.subject.startswith(subject) for fault in found if fault.check == check)


@pytest.mark.parametrize("what", GONE)
def test_what_has_a_history_and_no_row_is_found_and_named(store: Store, what: str) -> None:
    populated(store)
    statement, subject = GONE[what]
    found: list[Fault] = []

    def spoil(tx: Tx) -> None:
        execute(tx, statement)
        found.extend(fault for fault in faults(tx) if fault.check == "row")
        raise Spoiled

    with pytest.raises(Spoiled):
        store.db.write(spoil)
    assert [fault.found for fault in found] == ["gone"]
    assert found[0].subject.startswith(subject)


def test_what_was_deleted_or_forgotten_in_words_is_not_missed(store: Store) -> None:
    store.queue.delete(submit(store), "eva", "not wanted")
    forgotten = [submit(store), submit(store), submit(store)]
    for job in forgotten:
        assert settle(store, take_job(store, job), "pass", remove=True).done
    assert recount(store) == []
    assert store.records.events(f"job/{forgotten[0]}")[-1].detail["forgotten"] is True


def test_faults_are_told_up_to_a_number_and_a_long_look_says_how_far_it_is(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("custody.kernel.stores.fsck.PAGE", 2)
    monkeypatch.setattr("custody.kernel.stores.fsck.MOST", 4)
    for _ in range(5):
        submit(store, "gone")
    for _ in range(3):
        submit(store, "there")
    told: list[tuple[str, int]] = []
    found: list[Fault] = []

    def spoil(tx: Tx) -> None:
        execute(tx, "delete from job where kind = 'gone'")
        found.extend(faults(tx, lambda what, count: told.append((what, count))))
        raise Spoiled

    with pytest.raises(Spoiled):
        store.db.write(spoil)
    assert len(found) == 4
    assert told[:2] == [("jobs", 2), ("jobs", 3)]
    assert told[2][1] == 2


def test_every_recount_has_a_fault_it_is_tested_with() -> None:
    assert set(PLANTED) == {*RECOUNTS, "fold"}


def test_a_fault_reads_as_a_sentence() -> None:
    assert str(Fault("unmet", "job/7", "2", "1")) == "job/7: unmet is 2, expected 1"


# the fold


def test_folding_the_events_of_a_long_life_gives_its_row(store: Store, clock: HandClock) -> None:
    job = submit(store, priority=9, lane="a", facts={"a": 1})
    settle(store, take_one(store, lane="a"), "wait", keep={"b": 2}, delay=5)
    clock.advance(seconds=5)
    store.queue.tick()
    settle(store, take_one(store, lane="a"), "fail", keep={"a": 3})
    order(store, job, "resume", priority=1, lane="b", place="hal9")
    settle(store, take_one(store, lane="b", place="hal9"), "pass")

    folded = fold(store.records.events(f"job/{job}"))
    assert folded == Fold("done", "passed", 1, 1, "queued", "b", "hal9", {"a": 3, "b": 2})
    assert folded == Fold.of(store.queue.get(job))


def test_every_prefix_of_a_history_folds_to_the_row_as_it_was(store: Store) -> None:
    job = submit(store)
    rows = [Fold.of(store.queue.get(job))]
    order(store, job, "hold")
    rows.append(Fold.of(store.queue.get(job)))
    order(store, job, "release", priority=3)
    rows.append(Fold.of(store.queue.get(job)))
    finish(store, job, "fail")
    rows.append(Fold.of(store.queue.get(job)))

    events = store.records.events(f"job/{job}")
    assert [fold(events[: count + 1]) for count in range(len(events))] == rows


def test_the_fold_of_a_deleted_job_is_deleted(store: Store) -> None:
    job = submit(store)
    store.queue.delete(job, "eva", "not wanted")
    assert fold(store.records.events(f"job/{job}")) == DELETED

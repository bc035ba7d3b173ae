"""Parents: a count of open children, and one move when the last has ended."""

from __future__ import annotations

from typing import Any

import pytest

from custody.errors import LeaseLost
from custody.kernel.model.graph import Edge
from custody.kernel.model.job import Claim, NewJob
from custody.kernel.stores import Store
from kernel.stores.acts import BATCH, finish, order, settle, state, submit, take, take_job, take_one, types
from kernel.stores.clock import HandClock


def batch(store: Store, children: int) -> tuple[int, list[int]]:
    """A batch that has fanned out, as ingest does it: it counts itself until all its children are there."""
    parent = submit(store, "batch", machine=BATCH, open=1, when_empty="reporting")
    claim = take_one(store, "batch", state="pending")
    made = store.queue.keep(claim, {}, {}, [NewJob("parcel", parent=parent) for _ in range(children)], "ann")
    assert settle(store, claim, "pass", BATCH, open=-1).done
    return parent, [one.id for one in made]


def test_a_parent_counts_its_open_children(store: Store) -> None:
    parent, children = batch(store, 3)
    assert (state(store, parent), store.queue.get(parent).open) == ("processing", 3)

    finish(store, children[0])
    assert store.queue.get(parent).open == 2


def test_the_parent_moves_on_when_the_last_child_has_ended_however_it_ended(store: Store) -> None:
    parent, (a, b, c, d) = batch(store, 4)
    finish(store, a)
    finish(store, b, "fail")
    order(store, c, "cancel")
    assert state(store, parent) == "processing"

    store.queue.delete(d, "eva", "not wanted")
    row = store.queue.get(parent)
    assert (row.state, row.runnable, row.open) == ("reporting", True, 0)
    assert types(store, parent)[-1] == "emptied"
    assert take_one(store, "batch", state="reporting").id == parent


def test_the_parent_moves_on_once_even_if_a_child_is_resumed_and_ends_again(store: Store) -> None:
    parent, (child,) = batch(store, 1)
    finish(store, child, "fail")
    assert state(store, parent) == "reporting"

    order(store, child, "resume")
    assert store.queue.get(parent).open == 1
    finish(store, child)
    assert (state(store, parent), store.queue.get(parent).open) == ("reporting", 0)
    assert types(store, parent).count("emptied") == 1


def test_a_child_resumed_before_the_last_has_ended_keeps_the_parent_waiting(store: Store) -> None:
    parent, (a, b) = batch(store, 2)
    finish(store, a, "fail")
    order(store, a, "resume")
    finish(store, b)
    assert state(store, parent) == "processing"

    finish(store, a)
    assert state(store, parent) == "reporting"


def test_accepting_a_failure_does_not_count_the_child_twice(store: Store) -> None:
    parent, (a, _) = batch(store, 2)
    finish(store, a, "fail")
    order(store, a, "accept")
    assert (state(store, parent), store.queue.get(parent).open) == ("processing", 1)


def test_holding_and_releasing_a_child_changes_no_count(store: Store) -> None:
    parent, (a, _) = batch(store, 2)
    order(store, a, "hold")
    order(store, a, "release")
    assert store.queue.get(parent).open == 2


def test_deleting_a_child_that_had_ended_does_not_count_it_twice(store: Store) -> None:
    parent, (a, _) = batch(store, 2)
    finish(store, a)
    store.queue.delete(a, "eva", "old")
    assert (state(store, parent), store.queue.get(parent).open) == ("processing", 1)


def test_a_child_that_is_removed_at_its_end_is_counted_once(store: Store) -> None:
    parent, (a, _) = batch(store, 2)
    settle(store, take_job(store, a), remove=True)
    assert store.queue.get(parent).open == 1


def test_a_child_that_is_removed_before_its_end_is_counted_too(store: Store) -> None:
    parent, (a,) = batch(store, 1)
    waiter = submit(store, needs=[Edge(a, "finished")])
    settle(store, take_job(store, a), "wait", remove=True)
    assert state(store, parent) == "reporting"
    assert store.queue.get(waiter).unmet == 0


def test_children_that_are_skipped_or_superseded_are_counted(store: Store) -> None:
    parent, (need,) = batch(store, 1)
    submit(store, parent=parent, needs=[Edge(need, "success", "skip")])
    submit(store, parent=parent, line="trunk", task="t", position=1)
    submit(store, line="trunk", task="t", position=2, supersedes=True)
    assert store.queue.get(parent).open == 2

    finish(store, need, "fail")
    assert (state(store, parent), store.queue.get(parent).open) == ("reporting", 0)


def test_a_skipped_child_that_comes_back_is_counted_again(store: Store) -> None:
    parent, (need, _) = batch(store, 2)
    submit(store, parent=parent, needs=[Edge(need, "success", "skip")])
    finish(store, need, "fail")
    assert store.queue.get(parent).open == 1

    order(store, need, "resume")
    finish(store, need)
    assert store.queue.get(parent).open == 2


def test_a_parent_still_fanning_out_does_not_move_on_between_two_children(store: Store) -> None:
    parent = submit(store, "batch", machine=BATCH, open=1, when_empty="reporting")
    claim = take_one(store, "batch", state="pending")
    (first,) = store.queue.keep(claim, {}, {}, [NewJob("parcel", parent=parent)], "ann")
    finish(store, first.id)
    assert (state(store, parent), store.queue.get(parent).open) == ("pending", 1)

    (second,) = store.queue.keep(claim, {}, {}, [NewJob("parcel", parent=parent)], "ann")
    settle(store, claim, "pass", BATCH, open=-1)
    finish(store, second.id)
    assert types(store, parent).count("emptied") == 1


def test_a_parent_whose_children_ended_while_it_fanned_out_moves_on_when_it_settles(store: Store) -> None:
    parent = submit(store, "batch", machine=BATCH, open=1, when_empty="reporting")
    claim = take_one(store, "batch", state="pending")
    (child,) = store.queue.keep(claim, {}, {}, [NewJob("parcel", parent=parent)], "ann")
    finish(store, child.id)

    settle(store, claim, "pass", BATCH, open=-1)
    assert state(store, parent) == "reporting"


def test_a_parent_without_children_moves_on_when_it_settles(store: Store) -> None:
    parent, _ = batch(store, 0)
    assert state(store, parent) == "reporting"


def test_deleting_a_parent_leaves_its_children_to_end_in_peace(store: Store) -> None:
    parent, (a,) = batch(store, 1)
    store.queue.delete(parent, "eva", "not wanted")
    finish(store, a)
    assert state(store, a) == "done"


def test_a_job_without_a_place_to_go_to_stays_where_it_is(store: Store) -> None:
    parent = submit(store, "folder")
    child = submit(store, parent=parent)
    finish(store, child)
    assert (state(store, parent), types(store, parent)) == ("queued", ["submitted"])


# keep


def test_kept_facts_are_saved_at_once_and_the_claim_stays_good(store: Store) -> None:
    job = submit(store, facts={"a": 1})
    claim = take_one(store)

    store.queue.keep(claim, {"a": 1, "ark": "ark:/1/2"}, {"ark": "ark:/1/2"}, [], "ann")
    assert store.queue.get(job).facts == {"a": 1, "ark": "ark:/1/2"}
    assert types(store, job) == ["submitted", "kept"]
    assert store.queue.renew([claim], 30) == {}
    assert settle(store, claim).done


def test_kept_facts_survive_the_worker(store: Store, clock: HandClock) -> None:
    submit(store)
    store.queue.keep(take_one(store, seconds=30), {"ark": "ark:/1/2"}, {"ark": "ark:/1/2"}, [], "ann")
    clock.advance(seconds=31)

    (claim,) = store.queue.claim_expired(["parcel|"], "bo", 30)
    assert claim.job.facts == {"ark": "ark:/1/2"}


def test_children_are_kept_together_with_the_facts_or_not_at_all(store: Store) -> None:
    from custody.errors import BadInput

    job = submit(store)
    claim = take_one(store)
    made = store.queue.keep(claim, {"page": 1}, {"page": 1}, [NewJob("letter", parent=job), NewJob("letter")], "ann")
    assert [one.new for one in made] == [True, True]
    assert store.queue.get(job).open == 1

    with pytest.raises(BadInput):
        store.queue.keep(claim, {"page": 2}, {"page": 2}, [NewJob("letter"), NewJob("")], "ann")
    assert store.queue.get(job).facts == {"page": 1}
    assert len(take(store, "letter", limit=10)) == 2


@pytest.mark.parametrize("stale", [-1, +1])
def test_only_the_current_token_keeps(store: Store, stale: int) -> None:
    job = submit(store)
    claim = take_one(store)

    with pytest.raises(LeaseLost):
        store.queue.keep(Claim(claim.job, claim.token + stale, "ann"), {"a": 1}, {"a": 1}, [NewJob("letter")], "ann")
    assert (store.queue.get(job).facts, types(store, job)) == ({}, ["submitted"])
    assert take(store, "letter") == []


def test_facts_kept_step_by_step_are_all_there_when_the_job_settles(store: Store) -> None:
    job = submit(store)
    claim = take_one(store)
    kept: dict[str, Any] = {}
    for number in range(3):
        kept[f"part-{number}"] = number
        store.queue.keep(claim, kept, {f"part-{number}": number}, [], "ann")
    settle(store, claim)
    assert store.queue.get(job).facts == {"part-0": 0, "part-1": 1, "part-2": 2}

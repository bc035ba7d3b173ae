"""Asking a holder to stop: its token stays good for renewing, and for one word."""

from __future__ import annotations

import pytest

from custody.errors import LeaseLost, Refused
from custody.kernel.model.job import NewJob
from custody.kernel.stores import Store
from kernel.stores.acts import order, settle, state, submit, take, take_one, take_over, types
from kernel.stores.clock import HandClock


def test_a_revoked_holder_hears_of_it_when_it_renews(store: Store) -> None:
    job = submit(store)
    claim = take_one(store)

    assert store.queue.revoke(job, "cancel", "eva", "wrong file")
    assert store.queue.renew([claim], 30) == {job: "cancel"}
    assert store.queue.get(job).revoked == "cancel"


def test_a_revocation_is_on_record_with_who_and_why(store: Store) -> None:
    job = submit(store)
    take_one(store, holder="ann")
    store.queue.revoke(job, "cancel", "eva", "wrong file")

    event = store.records.events(f"job/{job}")[-1]
    assert (event.type, event.agent, event.detail["why"], event.detail["holder"]) == (
        "revoked",
        "eva",
        "wrong file",
        "ann",
    )


def test_a_job_that_nobody_holds_cannot_be_revoked_but_moved(store: Store) -> None:
    job = submit(store)
    assert not store.queue.revoke(job, "cancel", "eva", "wrong file")
    assert order(store, job, "cancel").done
    assert not store.queue.revoke(4711, "cancel", "eva", "no such job")


def test_a_job_is_revoked_once(store: Store) -> None:
    job = submit(store)
    take_one(store)

    assert store.queue.revoke(job, "cancel", "eva", "wrong file")
    assert not store.queue.revoke(job, "supersede", "bob", "newer")
    assert store.queue.get(job).revoked == "cancel"
    assert types(store, job) == ["submitted", "revoked"]


@pytest.mark.parametrize("signal", ["pass", "fail", "wait"])
def test_a_revoked_holder_may_no_longer_say_how_its_work_went(store: Store, signal: str) -> None:
    job = submit(store)
    claim = take_one(store)
    store.queue.revoke(job, "cancel", "eva", "wrong file")

    answer = settle(store, claim, signal, then=[NewJob("letter")])
    assert (answer.done, answer.code) == (False, "revoked")
    assert store.queue.list(after=job) == []


def test_a_revoked_holder_may_not_keep_facts_or_make_children(store: Store) -> None:
    job = submit(store)
    claim = take_one(store)
    store.queue.revoke(job, "cancel", "eva", "wrong file")

    with pytest.raises(LeaseLost):
        store.queue.keep(claim, {"a": 1}, {"a": 1}, [NewJob("letter", parent=job)], "ann")
    assert store.queue.list(after=job) == []


def test_a_revoked_holder_cannot_give_the_job_back(store: Store) -> None:
    job = submit(store)
    claim = take_one(store)
    store.queue.revoke(job, "cancel", "eva", "wrong file")

    assert store.queue.release([claim]) == 0
    assert take(store) == []


def test_a_revoked_job_has_ended_only_when_its_holder_says_so(store: Store) -> None:
    job = submit(store)
    claim = take_one(store)
    store.queue.revoke(job, "cancel", "eva", "wrong file")
    assert store.queue.get(job).ended is None

    assert settle(store, claim, "cancel").done
    row = store.queue.get(job)
    assert (row.state, row.ended, row.revoked, row.holder) == ("cancelled", "cancelled", None, None)
    assert types(store, job) == ["submitted", "revoked", "cancelled"]


def test_the_last_word_of_a_revoked_holder_is_heard_once(store: Store) -> None:
    job = submit(store)
    claim = take_one(store)
    store.queue.revoke(job, "cancel", "eva", "wrong file")
    settle(store, claim, "cancel")

    assert not settle(store, claim, "cancel").done
    assert types(store, job) == ["submitted", "revoked", "cancelled"]


def test_when_a_revoked_holder_vanishes_the_next_only_confirms_the_end(store: Store, clock: HandClock) -> None:
    job = submit(store)
    take_one(store, seconds=30)
    store.queue.revoke(job, "cancel", "eva", "wrong file")
    clock.advance(seconds=31)

    claim = take_over(store)
    assert claim is not None
    assert claim.job.revoked == "cancel"
    assert settle(store, claim, "pass").code == "revoked"
    assert settle(store, claim, "cancel").done


def test_an_administrator_cannot_end_a_revoked_job_over_its_holder(store: Store) -> None:
    job = submit(store)
    take_one(store)
    store.queue.revoke(job, "cancel", "eva", "wrong file")

    assert order(store, job, "cancel").code == "revoked"
    with pytest.raises(Refused):
        store.queue.delete(job, "eva", "away with it")


def test_a_cancelled_job_can_be_resumed_and_is_whole_again(store: Store) -> None:
    job = submit(store)
    claim = take_one(store)
    store.queue.revoke(job, "cancel", "eva", "wrong file")
    settle(store, claim, "cancel")

    order(store, job, "resume")
    assert settle(store, take_one(store), "pass").done
    assert state(store, job) == "done"


def test_an_ended_job_cannot_be_revoked(store: Store) -> None:
    job = submit(store)
    settle(store, take_one(store))
    assert not store.queue.revoke(job, "cancel", "eva", "too late")
    assert types(store, job) == ["submitted", "passed"]

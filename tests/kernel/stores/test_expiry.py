"""Vanished workers: their jobs come back at once; only what was done with care, and killed again, is charged."""

from __future__ import annotations

import pytest

from custody.kernel.model.job import Claim, NewJob
from custody.kernel.model.suspicion import ALONE, CLEAN, LEFT, NEAR, ONLY, after_death
from custody.kernel.stores import Store
from kernel.stores.acts import PARCEL, queue_of, settle, state, submit, take, take_one, take_over, types
from kernel.stores.clock import HandClock


def test_a_live_lease_is_not_taken_over(store: Store, clock: HandClock) -> None:
    submit(store)
    take_one(store, seconds=30)
    clock.advance(seconds=29.9)
    assert take_over(store) is None


def test_an_ended_lease_is_taken_over_at_its_very_end(store: Store, clock: HandClock) -> None:
    job = submit(store)
    anns = take_one(store, holder="ann", seconds=30)
    clock.advance(seconds=30)

    bos = take_over(store, holder="bo", seconds=30)
    assert bos is not None
    assert (bos.id, bos.holder, bos.job.attempts) == (job, "bo", 2)
    assert bos.token > anns.token
    assert settle(store, bos).done
    assert types(store, job) == ["submitted", "passed"]


def test_an_ordinary_claim_never_takes_what_was_left_behind(store: Store, clock: HandClock) -> None:
    submit(store)
    take_one(store, seconds=30)
    clock.advance(seconds=3600)
    assert take(store, limit=10) == []


def test_what_was_left_behind_is_taken_over_by_one_only(store: Store, clock: HandClock) -> None:
    store.queue.submit([NewJob("parcel") for _ in range(3)])
    take(store, limit=3, seconds=30)
    clock.advance(seconds=31)

    taken = [take_over(store, holder=holder) for holder in ("bo", "cy", "di", "ed")]
    assert len({claim.id for claim in taken if claim}) == 3
    assert taken[3] is None


def test_what_was_left_behind_is_taken_over_together_whatever_is_suspected_of_it(
    store: Store, clock: HandClock
) -> None:
    jobs = [one.id for one in store.queue.submit([NewJob("parcel") for _ in range(5)])]

    def taken(most: int) -> list[Claim]:
        return store.queue.claim_expired(["parcel|"], "bo", 30, None, most)

    held = take(store, limit=5, seconds=30)
    for mark in (CLEAN, LEFT, NEAR, ONLY, ALONE):
        assert store.queue.suspect([held[mark]], mark) == 1
    clock.advance(seconds=31)
    assert [[claim.id for claim in taken(3)] for _ in range(3)] == [jobs[:3], jobs[3:], []]


@pytest.mark.parametrize(
    ("mark", "becomes", "points"),
    [(CLEAN, LEFT, 0), (LEFT, LEFT, 0), (NEAR, NEAR, 0), (ONLY, NEAR, 1), (ALONE, NEAR, 2)],
)
def test_what_a_death_says_depends_on_what_was_said_before(
    store: Store, clock: HandClock, mark: int, becomes: int, points: int
) -> None:
    submit(store)
    store.queue.suspect([take_one(store, seconds=30)], mark)
    clock.advance(seconds=31)
    claim = take_over(store, seconds=30)
    assert claim is not None
    assert (claim.job.suspect, claim.job.crashes) == (becomes, points) == after_death(mark)


def test_only_the_holder_may_say_what_is_to_be_thought_of_a_job(store: Store, clock: HandClock) -> None:
    job = submit(store)
    late = take_one(store, seconds=30)
    clock.advance(seconds=31)
    take_over(store, seconds=30)
    assert store.queue.suspect([late], ALONE) == 0
    assert store.queue.get(job).suspect == LEFT


@pytest.mark.parametrize(("mark", "stays"), [(LEFT, LEFT), (NEAR, NEAR), (ONLY, NEAR), (ALONE, NEAR)])
def test_a_suspect_that_is_given_back_stays_one(store: Store, clock: HandClock, mark: int, stays: int) -> None:
    job = submit(store)
    claim = take_one(store, seconds=30)
    store.queue.suspect([claim], mark)
    store.queue.release([claim])

    again = take_one(store)
    assert (again.id, again.job.suspect) == (job, stays), "what an earlier holder started may still run"


def test_a_worker_takes_over_only_what_it_serves(store: Store, clock: HandClock) -> None:
    submit(store, "letter")
    parcel = submit(store, "parcel")
    take(store, "letter", seconds=30)
    take(store, "parcel", seconds=30)
    clock.advance(seconds=31)

    assert store.queue.claim_expired(["telegram|"], "bo", 30, most=9) == []
    assert [claim.id for claim in store.queue.claim_expired(["parcel|queued|"], "bo", 30, most=9)] == [parcel]
    assert store.queue.claim_expired([], "bo", 30, most=9) == []


def test_what_others_left_behind_never_hides_ours(store: Store, clock: HandClock) -> None:
    store.queue.submit([NewJob("letter") for _ in range(250)])
    take(store, "letter", limit=250, seconds=30)
    job = submit(store, "parcel")
    take(store, "parcel", seconds=30)
    clock.advance(seconds=31)

    assert [claim.id for claim in store.queue.claim_expired(["parcel|"], "bo", 30, most=9)] == [job]


@pytest.mark.parametrize(
    ("pinned", "asked_from", "taken"),
    [
        ("", "shelf-1", True),
        ("shelf-1", "shelf-1", True),
        ("shelf-2", "shelf-1", False),
        ("shelf-2", "", False),
        ("", "", True),
        ("shelf-2", None, True),  # asked by one who may go anywhere
    ],
)
def test_what_was_left_behind_at_one_place_is_not_taken_over_from_another(
    store: Store, clock: HandClock, pinned: str, asked_from: str | None, taken: bool
) -> None:
    submit(store, place=pinned)
    assert store.queue.claim([queue_of(place=pinned)], "ann", 30)
    clock.advance(seconds=31)
    assert bool(store.queue.claim_expired(["par"], "bo", 30, asked_from)) == taken


def test_in_a_batch_of_a_hundred_only_the_poison_is_charged(store: Store, clock: HandClock) -> None:
    jobs = [one.id for one in store.queue.submit([NewJob("parcel") for _ in range(100)])]
    poison = jobs[41]
    take(store, limit=100, seconds=30)  # … and the worker dies of one of them

    for _ in range(1000):
        clock.advance(seconds=31)
        claim = take_over(store, seconds=30)
        if claim is None or claim.job.crashes >= 3:
            break
        store.queue.suspect([claim], ALONE)
        if claim.id != poison:
            assert claim.job.crashes == 0
            settle(store, claim)

    assert store.queue.get(poison).crashes == 4
    assert {state(store, job) for job in jobs if job != poison} == {"done"}, "nobody waited for the poison"


def test_a_settle_clears_the_suspicion(store: Store, clock: HandClock) -> None:
    job = submit(store)
    take_one(store, seconds=30)
    clock.advance(seconds=31)
    again = take_over(store, seconds=30)
    assert again is not None
    assert store.queue.get(job).suspect
    settle(store, again, "wait")
    assert not store.queue.get(job).suspect

    take_one(store, seconds=30)
    clock.advance(seconds=31)
    claim = take_over(store)
    assert claim is not None
    assert claim.job.crashes == 0


def test_a_crash_is_forgotten_once_the_job_has_moved_on(store: Store, clock: HandClock) -> None:
    job = submit(store)
    take_one(store, seconds=30)
    for _ in range(2):
        clock.advance(seconds=31)
        claim = take_over(store, seconds=30)
        assert claim is not None
        store.queue.suspect([claim], ALONE)
    assert claim.job.crashes == 2

    settle(store, claim, "fail")
    assert store.queue.get(job).crashes == 0


def test_a_restarted_worker_of_the_same_name_inherits_nothing(store: Store, clock: HandClock) -> None:
    submit(store)
    before = take_one(store, holder="host-1", seconds=30)

    assert take(store, holder="host-1") == []
    assert take_over(store, holder="host-1") is None
    clock.advance(seconds=31)
    again = take_over(store, holder="host-1", seconds=30)
    assert again is not None
    assert settle(store, before).code == "lease.lost"
    assert settle(store, again).done


def test_an_expired_job_is_not_among_the_ready(store: Store, clock: HandClock) -> None:
    submit(store)
    take_one(store, seconds=30)
    clock.advance(seconds=31)
    assert store.queue.ready_queues(f"{PARCEL}|queued|") == []

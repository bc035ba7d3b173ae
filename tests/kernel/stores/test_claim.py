"""Claiming: who goes first, whose turn it is, and what is passed over."""

from __future__ import annotations

import pytest

from custody.errors import BadInput
from custody.kernel.model.graph import Edge
from custody.kernel.model.job import NewJob
from custody.kernel.stores import Store
from kernel.stores.acts import is_ready, order, queue_of, settle, states, submit, take, take_one, types
from kernel.stores.clock import HandClock


def test_a_claim_gives_the_job_a_holder_until_a_time_and_counts_an_attempt(store: Store, clock: HandClock) -> None:
    job = submit(store)

    claim = take_one(store, holder="ann", seconds=30)
    assert (claim.id, claim.holder, claim.job.state, claim.hold) == (job, "ann", "queued", None)
    row = store.queue.get(job)
    assert (row.holder, row.until, row.attempts, row.token) == ("ann", clock.now() + 30_000_000, 1, claim.token)


def test_a_claim_writes_no_event(store: Store) -> None:
    job = submit(store)
    take_one(store)
    assert types(store, job) == ["submitted"]


def test_nobody_claims_what_another_holds(store: Store) -> None:
    submit(store)
    take_one(store, holder="ann")
    assert take(store, holder="bo") == []


def test_the_token_rises_at_every_claim(store: Store) -> None:
    job = submit(store)
    before = store.queue.get(job).token
    assert take_one(store).token > before


def test_low_priorities_go_first_and_equal_ones_in_the_order_they_came(store: Store) -> None:
    a, b, c, d = (submit(store, priority=priority) for priority in (50, 10, 50, 10))
    assert [claim.id for claim in take(store, limit=10)] == [b, d, a, c]


def test_one_by_one_the_order_is_the_same(store: Store) -> None:
    jobs = [submit(store, priority=priority) for priority in (99, 0, 50)]
    assert [take_one(store).id for _ in jobs] == [jobs[1], jobs[2], jobs[0]]


def test_a_claim_takes_no_more_than_it_asked_for(store: Store) -> None:
    store.queue.submit([NewJob("parcel") for _ in range(5)])
    assert len(take(store, limit=3)) == 3
    assert len(take(store, limit=3)) == 2


@pytest.mark.parametrize(("queues", "limit"), [([], 5), ([queue_of()], 0), ([queue_of()], -1)])
def test_asking_for_nothing_gives_nothing(store: Store, queues: list[str], limit: int) -> None:
    submit(store)
    assert store.queue.claim(queues, "ann", 30, limit) == []


def test_lanes_take_turns_however_long_one_of_them_is(store: Store) -> None:
    for lane, length in {"long": 100, "longer": 200, "short": 3}.items():
        store.queue.submit([NewJob("parcel", lane=lane) for _ in range(length)])

    claims = store.queue.claim(store.queue.ready_queues("parcel|queued|"), "ann", 30, 9)
    lanes = [claim.job.lane for claim in claims]
    assert {lane: lanes.count(lane) for lane in lanes} == {"long": 3, "longer": 3, "short": 3}


def test_what_a_short_lane_leaves_goes_to_those_after_it(store: Store) -> None:
    submit(store, lane="a")
    store.queue.submit([NewJob("parcel", lane="b") for _ in range(100)])

    claims = store.queue.claim([queue_of(lane="a"), queue_of(lane="b")], "ann", 30, 10)
    assert len(claims) == 10


def test_ready_queues_are_those_with_something_to_claim_in_order_and_in_pages(store: Store) -> None:
    for lane in ("c", "a", "b"):
        submit(store, lane=lane)
    submit(store, "letter", lane="z")
    submit(store, lane="later", delay=60)
    order(store, submit(store, lane="held"), "hold")
    leased = submit(store, lane="leased")
    store.queue.claim_jobs([leased], "ann", 30)

    every = store.queue.ready_queues("parcel|queued|")
    assert every == [queue_of(lane=lane) for lane in ("a", "b", "c")]
    assert store.queue.ready_queues("parcel|queued|", limit=2) == every[:2]
    assert store.queue.ready_queues("parcel|queued|", after=every[1]) == every[2:]


def test_ready_queues_stay_below_their_prefix_whatever_the_alphabet(store: Store) -> None:
    for lane in ("Zebra", "ærø", "|", "a b", "Ω", "\U0001f4e6"):
        submit(store, lane=lane)
    submit(store, "parcels", lane="a")
    submit(store, "Parcel", lane="a")

    found = store.queue.ready_queues("parcel|queued|")
    assert found == sorted(queue_of(lane=lane) for lane in ("Zebra", "ærø", "|", "a b", "Ω", "\U0001f4e6"))


def test_a_pinned_job_is_claimed_only_at_its_place(store: Store) -> None:
    pinned = submit(store, place="hal9")

    assert take(store, place="") == []
    assert take(store, place="hal8") == []
    assert [claim.id for claim in take(store, place="hal9")] == [pinned]


def test_a_delayed_job_is_claimed_when_its_time_has_come_and_not_before(store: Store, clock: HandClock) -> None:
    job = submit(store, delay=60)

    clock.advance(seconds=59.9)
    assert store.queue.tick() == 0
    assert take(store) == []

    clock.advance(seconds=0.1)
    assert store.queue.tick() == 1
    assert take_one(store).id == job


def test_a_tick_lets_each_job_through_once(store: Store, clock: HandClock) -> None:
    store.queue.submit([NewJob("parcel", delay=n) for n in (1, 2, 3)])
    clock.advance(seconds=2)

    assert [store.queue.tick(), store.queue.tick()] == [2, 0]
    assert len(take(store, limit=10)) == 2


def test_a_tick_takes_a_few_at_a_time_oldest_first(store: Store, clock: HandClock) -> None:
    first, second, third = (submit(store, delay=delay) for delay in (3, 1, 2))
    clock.advance(seconds=10)

    assert store.queue.tick(limit=2) == 2
    assert [is_ready(store, job) for job in (first, second, third)] == [False, True, True]
    assert store.queue.tick(limit=2) == 1


def test_a_delay_and_a_need_must_both_be_over(store: Store, clock: HandClock) -> None:
    need = submit(store, "first")
    job = submit(store, needs=[Edge(need)], delay=60)
    settle(store, take_one(store, "first"), "pass")
    assert not is_ready(store, job)

    clock.advance(seconds=60)
    store.queue.tick()
    assert is_ready(store, job)


@pytest.mark.parametrize(("scope", "name"), [("kind", "parcel"), ("lane", "node-1")])
def test_nothing_is_claimed_from_a_paused_kind_or_lane(store: Store, scope: str, name: str) -> None:
    job = submit(store, lane="node-1")
    free = submit(store, "letter", lane="node-2")
    assert store.queue.hold(scope, name, "eva", "the disk is being changed")

    assert take(store, lane="node-1") == []
    assert store.queue.claim_jobs([job], "ann", 30) == []
    assert take_one(store, "letter", lane="node-2").id == free

    assert store.queue.lift(scope, name, "eva")
    assert take_one(store, lane="node-1").id == job


def test_a_hold_does_not_stop_what_has_been_claimed(store: Store) -> None:
    submit(store)
    claim = take_one(store)
    store.queue.hold("kind", "parcel", "eva", "stop")

    assert store.queue.renew([claim], 30) == {}
    assert settle(store, claim).done


def test_a_claim_says_that_its_collection_is_held_and_by_whom(store: Store, clock: HandClock) -> None:
    submit(store, collection="maps")
    store.queue.hold("collection", "maps", "eva", "rights unclear")

    hold = take_one(store).hold
    assert hold is not None
    assert (hold.scope, hold.name, hold.who, hold.why, hold.since) == (
        "collection",
        "maps",
        "eva",
        "rights unclear",
        clock.now(),
    )


def test_a_claim_says_that_its_batch_is_held(store: Store) -> None:
    batch = submit(store, "batch")
    submit(store, parent=batch)
    store.queue.hold("batch", str(batch), "eva", "wrong delivery")

    hold = take_one(store).hold
    assert hold is not None
    assert (hold.scope, hold.name) == ("batch", str(batch))


def test_a_hold_on_another_collection_is_no_hold(store: Store) -> None:
    submit(store, collection="maps")
    submit(store, collection="")
    store.queue.hold("collection", "letters", "eva", "rights unclear")
    store.queue.hold("collection", "", "eva", "everything without a collection?")

    assert [claim.hold for claim in take(store, limit=2)] == [None, None]


def test_a_hold_is_set_once_and_lifted_once_and_both_are_on_record(store: Store) -> None:
    assert store.queue.hold("lane", "n1", "eva", "full")
    assert not store.queue.hold("lane", "n1", "bob", "also full")
    assert [(hold.who, hold.why) for hold in store.queue.holds()] == [("eva", "full")]

    assert store.queue.lift("lane", "n1", "bob", "room again")
    assert not store.queue.lift("lane", "n1", "bob")
    assert store.queue.holds() == []
    events = store.records.events("hold/lane/n1")
    assert [(event.seq, event.type, event.agent) for event in events] == [(1, "held", "eva"), (2, "lifted", "bob")]


def test_a_hold_on_something_that_cannot_be_held_is_refused(store: Store) -> None:
    with pytest.raises(BadInput):
        store.queue.hold("colection", "maps", "eva", "a slip of the pen")
    assert store.queue.holds() == []


def test_a_held_job_is_not_claimed_until_it_is_released(store: Store) -> None:
    job = submit(store)
    assert order(store, job, "hold").done
    assert take(store) == []
    assert take(store, state="held") == []
    assert store.queue.claim_jobs([job], "ann", 30) == []

    assert order(store, job, "release").done
    assert take_one(store).id == job
    assert types(store, job) == ["submitted", "held", "released"]


def test_chosen_jobs_are_claimed_as_far_as_they_are_ready(store: Store) -> None:
    ready, delayed, taken, ended = (submit(store, delay=delay) for delay in (0, 60, 0, 0))
    store.queue.claim_jobs([taken], "bo", 30)
    (claim,) = store.queue.claim_jobs([ended], "bo", 30)
    settle(store, claim)

    claims = store.queue.claim_jobs([ended, taken, delayed, ready, 4711], "ann", 30)
    assert [claim.id for claim in claims] == [ready]
    assert states(store, ready, delayed, taken, ended) == ["queued", "queued", "queued", "done"]

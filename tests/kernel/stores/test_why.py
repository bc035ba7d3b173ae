"""Why: the claim's own conditions, each with a sentence. Whatever waits never has an empty answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from custody.kernel.model.graph import Edge
from custody.kernel.stores import Store
from kernel.stores.acts import BATCH, PARCEL, codes, finish, order, queue_of, settle, submit, take, take_job, take_one
from kernel.stores.clock import HandClock

Case = Callable[[Store, HandClock], int]


def no_worker(store: Store, clock: HandClock) -> int:
    return submit(store)


def in_the_queue(store: Store, clock: HandClock) -> int:
    store.sign_of_life("w1", "host", 1, "", "parcel|queued|")
    return submit(store)


def delayed(store: Store, clock: HandClock) -> int:
    return submit(store, delay=60)


def needing(store: Store, clock: HandClock) -> int:
    return submit(store, needs=[Edge(submit(store, "need"))])


def blocked(store: Store, clock: HandClock) -> int:
    need = submit(store, "need")
    finish(store, need, "fail")
    return submit(store, needs=[Edge(need)])


def needing_the_deleted(store: Store, clock: HandClock) -> int:
    job = needing(store, clock)
    store.queue.delete(store.queue.list()[0].id, "eva", "not wanted")
    return job


def delayed_and_needing(store: Store, clock: HandClock) -> int:
    return submit(store, delay=60, needs=[Edge(submit(store, "need"))])


def held(store: Store, clock: HandClock) -> int:
    job = submit(store)
    order(store, job, "hold", agent="eva", detail={"why": "rights unclear"})
    return job


def held_with_its_collection(store: Store, clock: HandClock) -> int:
    job = submit(store, collection="maps")
    store.queue.hold("collection", "maps", "eva", "rights unclear")
    order(store, job, "hold")
    return job


def kind_paused(store: Store, clock: HandClock) -> int:
    store.queue.hold("kind", PARCEL, "eva", "new version")
    return submit(store)


def lane_paused(store: Store, clock: HandClock) -> int:
    store.queue.hold("lane", "node-1", "eva", "disk full")
    return submit(store, lane="node-1")


def both_paused(store: Store, clock: HandClock) -> int:
    store.queue.hold("kind", PARCEL, "eva", "new version")
    return lane_paused(store, clock)


def elsewhere(store: Store, clock: HandClock) -> int:
    return submit(store, place="hal9")


def leased(store: Store, clock: HandClock) -> int:
    return take_job(store, submit(store)).id


def expired(store: Store, clock: HandClock) -> int:
    job = take_job(store, submit(store), seconds=30).id
    clock.advance(seconds=31)
    return job


def revoked(store: Store, clock: HandClock) -> int:
    job = leased(store, clock)
    store.queue.revoke(job, "cancel", "eva", "wrong file")
    return job


def with_open_children(store: Store, clock: HandClock) -> int:
    parent = submit(store, "batch", machine=BATCH, state="processing", when_empty="reporting")
    submit(store, parent=parent)
    return parent


def superseding(store: Store, clock: HandClock) -> int:
    take_job(store, submit(store, line="trunk", task="t", position=1))
    return submit(store, line="trunk", task="t", position=2, supersedes=True)


def failed(store: Store, clock: HandClock) -> int:
    job = submit(store)
    finish(store, job, "fail")
    return job


def passed(store: Store, clock: HandClock) -> int:
    job = submit(store)
    finish(store, job)
    return job


CASES: list[tuple[Case, list[str]]] = [
    (no_worker, ["no-worker"]),
    (in_the_queue, ["queue"]),
    (delayed, ["due"]),
    (needing, ["needs"]),
    (blocked, ["blocked"]),
    (needing_the_deleted, ["needs"]),
    (delayed_and_needing, ["due", "needs"]),
    (held, ["held"]),
    (held_with_its_collection, ["held"]),
    (kind_paused, ["paused"]),
    (lane_paused, ["paused"]),
    (both_paused, ["paused", "paused"]),
    (elsewhere, ["place"]),
    (leased, ["leased"]),
    (expired, ["expired"]),
    (revoked, ["revoked"]),
    (with_open_children, ["open"]),
    (superseding, ["needs"]),
    (failed, ["ended"]),
    (passed, ["ended"]),
]


@pytest.mark.parametrize(("case", "expected"), CASES, ids=[case.__name__ for case, _ in CASES])
def test_each_condition_has_its_name_a_sentence_and_what_would_clear_it(
    store: Store, clock: HandClock, case: Case, expected: list[str]
) -> None:
    job = case(store, clock)
    reasons = store.queue.why(job)

    assert [reason.code for reason in reasons] == expected
    assert all(reason.text and reason.clears for reason in reasons)


@pytest.mark.parametrize("case", [case for case, _ in CASES], ids=[case.__name__ for case, _ in CASES])
def test_why_and_the_claim_agree(store: Store, clock: HandClock, case: Case) -> None:
    job = case(store, clock)
    says_ready = codes(store, job) in (["queue"], ["no-worker"])
    assert bool(store.queue.claim_jobs([job], "ann", 30)) == (says_ready or case is elsewhere)


TOLD: list[tuple[Case, list[str]]] = [
    (kind_paused, ["parcel", "eva", "new version"]),
    (lane_paused, ["node-1", "eva", "disk full"]),
    (held, ["eva", "rights unclear"]),
    (held_with_its_collection, ["maps", "eva", "rights unclear"]),
    (elsewhere, ["hal9"]),
    (leased, ["ann"]),
    (expired, ["ann", "vanished"]),
    (revoked, ["ann", "cancel"]),
    (delayed, ["60 s"]),
    (with_open_children, ["1 of its jobs"]),
    (blocked, ["failed"]),
]


@pytest.mark.parametrize(("case", "words"), TOLD, ids=[case.__name__ for case, _ in TOLD])
def test_the_sentence_names_who_and_what(store: Store, clock: HandClock, case: Case, words: list[str]) -> None:
    (reason,) = store.queue.why(case(store, clock))
    assert all(word in reason.text for word in words), reason.text


def test_at_its_own_place_a_pinned_job_only_waits_its_turn(store: Store) -> None:
    job = submit(store, place="hal9")
    assert codes(store, job, place="hal9") == ["no-worker"]
    assert codes(store, job, place="hal8") == ["place"]


def test_why_counts_those_that_go_first(store: Store) -> None:
    store.sign_of_life("w1", "host", 1, "", "parcel|queued|")
    first, urgent, mine = submit(store), submit(store, priority=1), submit(store)
    submit(store, priority=99)
    submit(store, lane="another")

    assert "nothing is ahead" in store.queue.why(urgent)[0].text
    assert "1 go first" in store.queue.why(first)[0].text
    assert "2 go first" in store.queue.why(mine)[0].text


def test_a_worker_that_has_not_been_seen_for_long_does_not_count(store: Store, clock: HandClock) -> None:
    store.sign_of_life("w1", "host", 1, "", "parcel|queued|")
    job = submit(store)
    assert codes(store, job) == ["queue"]
    clock.advance(seconds=31)
    assert codes(store, job) == ["no-worker"]


def test_every_need_that_is_open_is_named_and_no_other(store: Store) -> None:
    needs = [submit(store, "need", key=f"n{number}") for number in range(3)]
    job = submit(store, needs=[Edge(need) for need in needs])
    finish(store, needs[1])
    assert [reason.job for reason in store.queue.why(job)] == [needs[0], needs[2]]


def test_an_answer_changes_with_what_it_explains(store: Store, clock: HandClock) -> None:
    need = submit(store, "need")
    job = submit(store, needs=[Edge(need)], delay=60, lane="n1")
    store.queue.hold("lane", "n1", "eva", "full")
    assert codes(store, job) == ["due", "needs", "paused"]

    finish(store, need)
    assert codes(store, job) == ["due", "paused"]
    clock.advance(seconds=60)
    store.queue.tick()
    assert codes(store, job) == ["paused"]
    store.queue.lift("lane", "n1", "eva")
    assert codes(store, job) == ["no-worker"]
    claim = take_one(store, lane="n1")
    assert codes(store, job) == ["leased"]
    settle(store, claim)
    assert codes(store, job) == ["ended"]
    assert take(store, lane="n1") == []
    assert store.queue.ready_queues(queue_of()[:-1]) == []

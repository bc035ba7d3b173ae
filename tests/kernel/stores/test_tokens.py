"""Renew, settle, release: only the current token is heard, and each move happens once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from custody.errors import LeaseLost, NotFound, Refused, StateConflict
from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import NewItem
from custody.kernel.model.job import Claim, NewJob
from custody.kernel.stores import Store
from custody.kernel.stores.rules.claim import must
from kernel.stores.acts import (
    STEPS,
    is_ready,
    moved,
    order,
    settle,
    state,
    submit,
    take,
    take_job,
    take_one,
    take_over,
    types,
    worked,
)
from kernel.stores.clock import HandClock

# renew


def test_a_renewal_moves_the_end_of_the_lease(store: Store, clock: HandClock) -> None:
    job = submit(store)
    claim = take_one(store, seconds=30)
    clock.advance(seconds=20)

    assert store.queue.renew([claim], 30) == {}
    assert store.queue.get(job).until == clock.now() + 30_000_000
    assert types(store, job) == ["submitted"]


def test_a_renewed_lease_does_not_expire(store: Store, clock: HandClock) -> None:
    submit(store)
    claim = take_one(store, seconds=30)
    for _ in range(5):
        clock.advance(seconds=20)
        assert store.queue.renew([claim], 30) == {}
    assert take_over(store) is None
    assert settle(store, claim).done


def test_many_leases_are_renewed_at_once_and_each_lost_one_is_named(store: Store, clock: HandClock) -> None:
    store.queue.submit([NewJob("parcel") for _ in range(4)])
    claims = take(store, limit=4)
    settle(store, claims[0])
    store.queue.revoke(claims[1].id, "cancel", "eva", "not wanted")

    assert store.queue.renew(claims, 60) == {claims[0].id: "lost", claims[1].id: "cancel"}
    assert [store.queue.get(claim.id).until for claim in claims] == [0] + [clock.now() + 60_000_000] * 3


def test_a_stranger_with_the_right_token_does_not_renew(store: Store) -> None:
    job = submit(store)
    claim = take_one(store, holder="ann", seconds=30)
    before = store.queue.get(job).until

    assert store.queue.renew([Claim(claim.job, claim.token, "bo")], 60) == {job: "lost"}
    assert store.queue.get(job).until == before


# settle


def test_a_settled_job_is_where_its_move_led_and_free(store: Store, clock: HandClock) -> None:
    job = submit(store)
    claim = take_one(store)
    clock.advance(seconds=5)

    answer = settle(store, claim)
    row = store.queue.get(job)
    assert (answer.done, answer.token) == (True, row.token)
    assert (row.state, row.ended, row.runnable, row.last_passed) == ("done", "passed", False, "queued")
    assert (row.holder, row.until, row.changed) == (None, 0, clock.now())
    assert row.token > claim.token


def test_a_settle_writes_exactly_one_event_that_says_who_and_where(store: Store, clock: HandClock) -> None:
    job = submit(store)
    change = worked(take_one(store, holder="ann"), "fail", detail={"line": 7})
    store.queue.settle([change])

    event = store.records.events(f"job/{job}")[-1]
    assert (event.seq, event.type, event.outcome, event.agent, event.at) == (2, "failed", "failure", "ann", clock.now())
    assert event.detail["line"] == 7
    assert (event.detail["from"], event.detail["state"], event.detail["code"]) == ("queued", "failed", "broken")
    assert event.move == change.move


def test_attempts_and_crashes_start_again_in_another_state_and_go_on_in_the_same(store: Store) -> None:
    job = submit(store, machine=STEPS)
    settle(store, take_one(store, state="fetching"), "wait", STEPS, attempts=0)
    settle(store, take_one(store, state="fetching"), "wait", STEPS, attempts=0)
    assert store.queue.get(job).attempts == 2

    settle(store, take_one(store, state="fetching"), "pass", STEPS)
    row = store.queue.get(job)
    assert (row.state, row.attempts, row.runnable) == ("storing", 0, True)


def test_waiting_gives_the_attempt_back_and_comes_again_later(store: Store, clock: HandClock) -> None:
    job = submit(store)
    assert settle(store, take_one(store), "wait", delay=60).done
    assert (store.queue.get(job).attempts, take(store)) == (0, [])

    clock.advance(seconds=60)
    store.queue.tick()
    assert take_one(store).id == job


def test_what_a_move_brings_with_it_is_saved_with_it(store: Store) -> None:
    job = submit(store)
    settle(
        store,
        take_one(store),
        keep={"ark": "ark:/1/2"},
        then=[NewJob("letter", {"to": "eva"}, key="l")],
        items=[NewItem("ark:/1/2", frozenset({"map"}))],
        events=[NewEvent("ark:/1/2", "Stored")],
        priority=3,
        lane="north",
        place="hal9",
    )

    row = store.queue.get(job)
    assert (row.facts, row.priority, row.lane, row.place) == ({"ark": "ark:/1/2"}, 3, "north", "hal9")
    letter = store.queue.by_key("letter", "l")
    assert letter is not None
    assert letter.payload == {"to": "eva"}
    assert store.records.item("ark:/1/2").types == {"map"}
    assert store.records.latest("ark:/1/2")["Stored"].outcome == "success"


def test_a_refused_move_brings_nothing_with_it(store: Store) -> None:
    submit(store)
    claim = take_one(store)
    settle(store, claim, "fail")

    late = settle(store, claim, keep={"a": 1}, then=[NewJob("letter")], items=[NewItem("x")])
    assert not late.done
    assert store.queue.get(claim.id).facts == {}
    assert store.queue.list(after=claim.id) == []
    with pytest.raises(NotFound):
        store.records.item("x")


@pytest.mark.parametrize(
    "bad",
    [
        {"then": [NewJob("letter", key="new"), NewJob("letter", {"other": True}, key="taken")]},
        {"then": [NewJob("letter", key="new"), NewJob("", {})]},
        {"items": [NewItem("new")], "events": [NewEvent("unknown", "Stored")]},
        {"detail": {"path": object()}},
        {"delay": float("inf")},
    ],
    ids=["a key that is taken", "no job", "an unknown item", "not JSON", "endless"],
)
def test_a_move_that_brings_something_impossible_is_refused_and_its_neighbours_are_not(
    store: Store, bad: dict[str, object]
) -> None:
    submit(store, "letter", key="taken")
    jobs = [submit(store) for _ in range(3)]
    one, two, three = take(store, limit=3)

    answers = store.queue.settle([worked(one, "pass"), worked(two, "pass", **bad), worked(three, "pass")])
    assert [answer.done for answer in answers] == [True, False, True]
    assert answers[1].code
    assert answers[1].why
    assert [state(store, job) for job in jobs] == ["done", "queued", "done"]
    assert store.queue.by_key("letter", "new") is None
    assert store.queue.get(two.id).token == two.token, "it is still its holder's to settle"
    assert settle(store, two, "fail").done


def test_what_a_handler_tells_cannot_be_mistaken_for_the_move_itself(store: Store) -> None:
    job = submit(store, priority=9)
    told = {"state": "Denmark", "ended": "1864", "priority": "high", "facts": {"a": 1}, "retries": 7, "pages": 3}
    settle(store, take_one(store), detail=told)

    # The end of the test folds the events; here, that nothing of what was told is lost.
    event = store.records.events(f"job/{job}")[-1]
    assert (event.detail["state"], event.detail["pages"]) == ("done", 3)
    assert event.detail["said"] == {name: value for name, value in told.items() if name != "pages"}


def test_a_job_that_is_removed_at_its_end_leaves_its_history(store: Store) -> None:
    job = submit(store, key="k")
    settle(store, take_one(store), remove=True)

    with pytest.raises(NotFound):
        store.queue.get(job)
    assert types(store, job) == ["submitted", "passed"]
    assert store.queue.submit_one(NewJob("parcel", key="k")).new


# stale tokens


def _expired(store: Store, clock: HandClock, claim: Claim) -> None:
    clock.advance(seconds=31)
    assert take_over(store, holder="bo") is not None


def _released(store: Store, clock: HandClock, claim: Claim) -> None:
    store.queue.release([claim])


def _released_and_claimed_again(store: Store, clock: HandClock, claim: Claim) -> None:
    store.queue.release([claim])
    take_one(store, holder="ann")


def _settled(store: Store, clock: HandClock, claim: Claim) -> None:
    settle(store, claim, "wait")


def _settled_and_claimed_again(store: Store, clock: HandClock, claim: Claim) -> None:
    settle(store, claim, "wait")
    take_one(store, holder="ann")


def _moved_by_an_administrator(store: Store, clock: HandClock, claim: Claim) -> None:
    store.queue.release([claim])
    order(store, claim.id, "hold")
    order(store, claim.id, "release")


def _moved_and_claimed_again(store: Store, clock: HandClock, claim: Claim) -> None:
    _moved_by_an_administrator(store, clock, claim)
    take_one(store, holder="ann")


STALE = [
    _expired,
    _released,
    _released_and_claimed_again,
    _settled,
    _settled_and_claimed_again,
    _moved_by_an_administrator,
    _moved_and_claimed_again,
]


@pytest.mark.parametrize("happens", STALE, ids=lambda happens: happens.__name__[1:])
def test_an_old_token_settles_renews_keeps_and_releases_nothing(
    store: Store, clock: HandClock, happens: Callable[[Store, HandClock, Claim], None]
) -> None:
    submit(store)
    claim = take_one(store, holder="ann", seconds=30)
    happens(store, clock, claim)
    before, events = store.queue.get(claim.id), types(store, claim.id)

    answer = settle(store, claim)
    assert (answer.done, answer.code) == (False, "lease.lost")
    assert store.queue.renew([claim], 30) == {claim.id: "lost"}
    assert store.queue.release([claim]) == 0
    with pytest.raises(LeaseLost):
        store.queue.keep(claim, {"a": 1}, {"a": 1}, [], "ann")
    assert store.queue.get(claim.id) == before
    assert types(store, claim.id) == events


def test_two_runs_of_one_claim_settle_it_once(store: Store) -> None:
    job = submit(store)
    claim = take_one(store)

    first, second = settle(store, claim, "pass"), settle(store, claim, "fail")
    assert (first.done, second.done) == (True, False)
    assert types(store, job) == ["submitted", "passed"]


def test_the_same_claim_twice_in_one_settle_is_settled_once(store: Store) -> None:
    job = submit(store)
    claim = take_one(store)

    answers = store.queue.settle([worked(claim, "pass"), worked(claim, "fail")])
    assert [answer.done for answer in answers] == [True, False]
    assert types(store, job) == ["submitted", "passed"]


def test_a_settle_from_a_state_the_job_is_not_in_is_refused(store: Store) -> None:
    submit(store, machine=STEPS)
    claim = take_one(store, state="fetching")
    change = worked(claim, "pass", STEPS)

    wrong = type(change)(**{name: getattr(change, name) for name in change.__slots__} | {"frm": "storing"})
    answer = store.queue.settle([wrong])[0]
    assert (answer.done, answer.code) == (False, "state.conflict")


def test_a_lease_that_ended_but_was_taken_by_nobody_may_still_be_settled(store: Store, clock: HandClock) -> None:
    submit(store)
    claim = take_one(store, seconds=30)
    clock.advance(seconds=3600)
    assert settle(store, claim).done


# the same move sent again


def test_the_same_settle_sent_again_is_answered_as_done_and_done_once(store: Store) -> None:
    job = submit(store)
    change = worked(take_one(store), "pass", then=[NewJob("letter")])

    first, again = store.queue.settle([change])[0], store.queue.settle([change])[0]
    assert first.done
    assert again == first
    assert types(store, job) == ["submitted", "passed"]
    assert len(store.queue.list(after=job)) == 1


def test_the_same_settle_is_recognised_after_others_have_moved_the_job_on(store: Store) -> None:
    job = submit(store)
    change = worked(take_one(store), "fail")
    store.queue.settle([change])
    order(store, job, "resume")
    settle(store, take_one(store), "pass")

    assert store.queue.settle([change])[0].done
    assert types(store, job) == ["submitted", "failed", "resumed", "passed"]


def test_the_same_settle_is_recognised_after_the_job_was_removed(store: Store) -> None:
    submit(store)
    change = worked(take_one(store), "pass", remove=True)
    assert [store.queue.settle([change])[0].done for _ in range(2)] == [True, True]


def test_the_same_order_sent_again_is_done_once(store: Store) -> None:
    job = submit(store)
    change = moved(store.queue.get(job), "cancel")

    assert [store.queue.move(change).done for _ in range(2)] == [True, True]
    assert types(store, job) == ["submitted", "cancelled"]


# release


def test_a_released_job_is_as_if_it_had_not_been_claimed(store: Store) -> None:
    job = submit(store)
    claim = take_one(store)

    assert store.queue.release([claim]) == 1
    row = store.queue.get(job)
    assert (row.holder, row.until, row.attempts, row.state) == (None, 0, 0, "queued")
    assert types(store, job) == ["submitted"]
    assert take_one(store).id == job


def test_many_are_released_at_once_and_those_that_were_ours_are_counted(store: Store) -> None:
    store.queue.submit([NewJob("parcel") for _ in range(3)])
    claims = take(store, limit=3)
    settle(store, claims[1])

    assert store.queue.release(claims) == 2
    assert store.queue.release([]) == 0
    assert len(take(store, limit=3)) == 2


def test_only_its_holder_releases_a_claim(store: Store) -> None:
    job = submit(store)
    claim = take_one(store, holder="ann")

    assert store.queue.release([Claim(claim.job, claim.token, "bo")]) == 0
    assert store.queue.get(job).holder == "ann"


# administrators


def test_an_administrator_moves_what_nobody_holds(store: Store) -> None:
    job = submit(store, priority=50)
    assert order(store, job, "hold", priority=5, detail={"why": "rights"}).done

    row = store.queue.get(job)
    assert (row.state, row.runnable, row.ended, row.priority) == ("held", False, None, 5)
    assert order(store, job, "cancel").done
    assert store.queue.get(job).ended == "cancelled"


def test_an_administrator_cannot_move_what_a_worker_holds(store: Store) -> None:
    job = submit(store)
    before = take_one(store, holder="ann")

    answer = order(store, job, "cancel")
    assert (answer.done, answer.code) == (False, "leased")
    assert "ann" in answer.why
    assert store.queue.get(job) == before.job


def test_a_lease_that_ended_still_keeps_an_administrator_off(store: Store, clock: HandClock) -> None:
    # Its work may still be running somewhere: an ended lease is not a death.
    job = submit(store)
    take_one(store, seconds=30)
    clock.advance(seconds=31)
    assert order(store, job, "cancel").code == "leased"


def test_an_order_for_a_job_that_has_moved_is_refused(store: Store) -> None:
    job = submit(store)
    old = store.queue.get(job)
    order(store, job, "hold")

    answer = store.queue.move(moved(old, "cancel"))
    assert (answer.done, answer.code) == (False, "state.conflict")
    assert state(store, job) == "held"


def test_an_order_for_a_job_that_is_gone_is_refused(store: Store) -> None:
    job = submit(store)
    old = store.queue.get(job)
    store.queue.delete(job, "eva", "mistake")
    assert store.queue.move(moved(old, "cancel")).code == "not-found"


def test_a_resumed_job_counts_its_retry_and_starts_with_fresh_attempts(store: Store) -> None:
    job = submit(store)
    settle(store, take_one(store), "fail")
    assert store.queue.get(job).code == "broken"

    order(store, job, "resume")
    row = store.queue.get(job)
    assert (row.state, row.retries, row.attempts, row.code, row.ended) == ("queued", 1, 0, None, None)
    assert is_ready(store, job)


def test_an_order_clears_a_delay_or_sets_one(store: Store, clock: HandClock) -> None:
    job = submit(store, delay=3600)
    order(store, job, "hold")
    order(store, job, "release")
    assert is_ready(store, job)

    order(store, job, "hold")
    order(store, job, "release", delay=60)
    assert not is_ready(store, job)
    clock.advance(seconds=60)
    store.queue.tick()
    assert is_ready(store, job)


@pytest.mark.parametrize(
    ("code", "error"),
    [("lease.lost", LeaseLost), ("state.conflict", StateConflict), ("not-found", NotFound), ("leased", Refused)],
)
def test_a_refusal_can_be_raised_as_the_error_it_stands_for(store: Store, code: str, error: type[Exception]) -> None:
    job = submit(store)
    claim = take_job(store, job)
    answers = {
        "leased": order(store, job, "cancel"),
        "lease.lost": settle(store, Claim(claim.job, claim.token - 1, "ann")),
        "state.conflict": store.queue.settle([worked(claim, "pass")]) and order_from(store, job, "held"),
    }
    store.queue.delete(job, "eva", "mistake")
    answers["not-found"] = settle(store, claim)

    with pytest.raises(error) as raised:
        must(answers[code])
    assert raised.value.code == code  # type: ignore[attr-defined]


def order_from(store: Store, job: int, frm: str) -> object:
    row = store.queue.get(job)
    change = moved(row, "accept") if row.state == "failed" else None
    assert change is None, "the job passed"
    held = type(row)(**{name: getattr(row, name) for name in row.__slots__} | {"state": frm})
    return store.queue.move(moved(held, "cancel"))


# failures that were to be tried again


def test_failures_are_counted_since_the_job_came_to_its_state(store: Store) -> None:
    job = submit(store, machine=STEPS)

    def fail(state: str) -> int:
        claim = take_one(store, state=state)
        change = replace(worked(claim, "wait", STEPS), type="retried", attempts=0)
        assert store.queue.settle([change])[0].done
        return store.queue.failures_before(store.queue.get(job))

    assert store.queue.failures_before(store.queue.get(job)) == 0
    assert [fail("fetching"), fail("fetching")] == [1, 2]
    settle(store, take_one(store, state="fetching"), machine=STEPS)
    assert store.queue.failures_before(store.queue.get(job)) == 0, "elsewhere"
    assert [fail("storing"), fail("storing")] == [1, 2]
    settle(store, take_one(store, state="storing"), "fail", STEPS)
    assert order(store, job, "resume", STEPS).done
    assert store.queue.failures_before(store.queue.get(job)) == 0, "a person has said: once more"
    assert fail("storing") == 1

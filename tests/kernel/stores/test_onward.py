"""Going on: who ends a job is given the next of its queue that this makes ready, with the same move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from custody.kernel.model.graph import Edge
from custody.kernel.model.job import Answer, Change, Claim, Onward
from custody.kernel.stores import Store
from kernel.stores.acts import PARCEL, queue_of, submit, take, take_job, take_one, take_over, worked
from kernel.stores.clock import HandClock

ONWARD = Onward(queue_of(), "ann", 30)


def last_word(claim: Claim, signal: str = "pass", onward: Onward = ONWARD) -> Change:
    return replace(worked(claim, signal), onward=onward)


def settle(store: Store, change: Change) -> Answer:
    return store.queue.settle([change])[0]


def in_line(store: Store, count: int, **more: object) -> list[int]:
    """Each needs the one before it."""
    made: list[int] = []
    for _ in range(count):
        made.append(submit(store, needs=[Edge(made[-1])] if made else [], **more))
    return made


def test_the_next_one_is_claimed_with_the_end_of_the_one_before(store: Store, clock: HandClock) -> None:
    first, second, third = in_line(store, 3)
    found = settle(store, last_word(take_job(store, first))).onward
    assert found is not None
    assert (found.id, found.holder, found.hold) == (second, "ann", None)
    assert found.job == store.queue.get(second)
    assert (found.job.attempts, found.job.until) == (1, clock.now() + 30_000_000)
    assert take(store, holder="bo", limit=9) == []
    last = settle(store, last_word(found)).onward
    assert last is not None
    assert last.id == third
    assert settle(store, last_word(last)) == Answer(third, True, last.token + 1)


def test_one_that_does_not_ask_leaves_it_to_others(store: Store) -> None:
    first, second = in_line(store, 2)
    assert settle(store, worked(take_job(store, first), "pass")).onward is None
    assert take_one(store, holder="bo").id == second


def test_it_is_held_like_any_other_and_its_holder_is_fenced_out_like_any_other(store: Store, clock: HandClock) -> None:
    first, second = in_line(store, 2)
    found = settle(store, last_word(take_job(store, first))).onward
    assert found is not None
    clock.advance(seconds=31)
    heir = take_over(store)
    assert heir is not None
    assert heir.id == second
    assert settle(store, last_word(found)).code == "lease.lost"
    assert settle(store, last_word(heir)).done


def other_lane(store: Store, first: int) -> None:
    submit(store, needs=[Edge(first)], lane="north")


def other_kind(store: Store, first: int) -> None:
    submit(store, "letter", needs=[Edge(first)])


def other_place(store: Store, first: int) -> None:
    submit(store, needs=[Edge(first)], place="attic")


def not_ready(store: Store, first: int) -> None:
    submit(store, needs=[Edge(first), Edge(submit(store, lane="north"))])


def wants_a_failure(store: Store, first: int) -> None:
    submit(store, needs=[Edge(first, "failure")])


def kind_paused(store: Store, first: int) -> None:
    submit(store, needs=[Edge(first)])
    store.queue.hold("kind", PARCEL, "ada", "a look")


def lane_paused(store: Store, first: int) -> None:
    submit(store, needs=[Edge(first)])
    store.queue.hold("lane", "", "ada", "a look")


def something_held(store: Store, first: int) -> None:
    """Perhaps this one: the common way asks."""
    submit(store, needs=[Edge(first)])
    store.queue.hold("collection", "maps", "ada", "a look")


NOT_GIVEN = [
    other_lane,
    other_kind,
    other_place,
    not_ready,
    wants_a_failure,
    kind_paused,
    lane_paused,
    something_held,
]


@pytest.mark.parametrize("waiting", NOT_GIVEN, ids=lambda each: each.__name__)
def test_only_what_anyone_could_claim_there_now_is_given(store: Store, waiting: Callable[[Store, int], None]) -> None:
    first = submit(store)
    claim = take_job(store, first)
    waiting(store, first)
    assert settle(store, last_word(claim)) == Answer(first, True, claim.token + 1)
    assert [job.id for job in store.queue.every() if job.holder] == []


def test_of_several_the_most_urgent_is_given_and_each_who_asks_has_one(store: Store) -> None:
    north, south = submit(store, lane="north"), submit(store)
    submit(store, needs=[Edge(south)], priority=60)
    urgent = submit(store, needs=[Edge(south)], priority=10)
    after_north = submit(store, needs=[Edge(north)], lane="north")
    claims = [take_job(store, north), take_job(store, south)]
    changes = [last_word(claims[0], onward=Onward(queue_of(lane="north"), "ann", 30)), last_word(claims[1])]
    answers = store.queue.settle(changes)
    assert [answer.onward and answer.onward.id for answer in answers] == [after_north, urgent]


def test_what_becomes_superseded_at_that_moment_is_not_given(store: Store) -> None:
    first = submit(store)
    claim = take_job(store, first)
    older = submit(store, needs=[Edge(first)], line="atlas", task="build", position=1, supersedes=True)
    newer = submit(store, needs=[Edge(first)], line="atlas", task="build", position=2, supersedes=True)
    found = settle(store, last_word(claim)).onward
    assert store.queue.get(older).ended == "superseded"
    assert found is not None
    assert found.id == newer


def test_a_refused_word_brings_nothing(store: Store) -> None:
    first, second = in_line(store, 2)
    claim = take_job(store, first)
    assert settle(store, last_word(replace(claim, token=claim.token - 1))).onward is None
    assert settle(store, last_word(claim)).onward is not None
    assert store.queue.get(second).holder == "ann"


def test_whose_answer_was_lost_and_asks_again_finds_the_next_one_his_for_a_whole_lease(
    store: Store, clock: HandClock
) -> None:
    first, second = in_line(store, 2)
    change = last_word(take_job(store, first))
    lost = settle(store, change).onward
    clock.advance(seconds=20)
    again = settle(store, change)
    assert again.done
    assert lost is not None
    assert again.onward is not None
    assert (again.onward.id, again.onward.token) == (second, lost.token)
    clock.advance(seconds=20)
    assert take_over(store) is None
    assert settle(store, last_word(again.onward)).done


def test_asking_again_after_it_passed_on_gives_it_to_nobody_twice(store: Store, clock: HandClock) -> None:
    first, second = in_line(store, 2)
    change = last_word(take_job(store, first))
    settle(store, change)
    clock.advance(seconds=31)
    heir = take_over(store)
    assert heir is not None
    assert heir.id == second
    assert settle(store, change).onward is None

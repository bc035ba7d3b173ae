"""Edges: what each end does to those who wait for it."""

from __future__ import annotations

import inspect
import sys

import pytest

from custody.errors import StateConflict
from custody.kernel.model.graph import SATISFIES, Edge, Wants, satisfied
from custody.kernel.model.machine import End
from custody.kernel.stores import Store
from kernel.stores.acts import codes, finish, is_ready, order, settle, state, states, submit, take_job, types

ENDS: tuple[End, ...] = ("passed", "failed", "cancelled", "superseded", "skipped", "deleted")


def end(store: Store, job: int, how: End) -> None:
    """Bring a fresh job to an end of each sort."""
    if how == "passed":
        finish(store, job)
    elif how == "failed":
        finish(store, job, "fail")
    elif how == "deleted":
        store.queue.delete(job, "eva", "not wanted")
    elif how == "cancelled":
        order(store, job, "cancel")
    elif how == "superseded":
        submit(store, "target", line="trunk", task="index", position=9, supersedes=True)
    else:
        finish(store, store.queue.get(job).payload["blocker"], "fail")


def target(store: Store) -> int:
    """A job that can come to every sort of end."""
    blocker = submit(store, "blocker")
    return submit(
        store,
        "target",
        payload={"blocker": blocker},
        needs=[Edge(blocker, "finished")],
        line="trunk",
        task="index",
        position=1,
    )


def ready_target(store: Store, how: End) -> int:
    if how != "skipped":
        job = target(store)
        finish(store, store.queue.get(job).payload["blocker"])
        return job
    blocker = submit(store, "blocker")
    return submit(store, "target", payload={"blocker": blocker}, needs=[Edge(blocker, "success", "skip")])


ALL = [(wants, how) for wants in SATISFIES for how in ENDS]


@pytest.mark.parametrize(("wants", "how"), ALL)
def test_each_want_is_met_by_exactly_the_ends_in_its_table(store: Store, wants: Wants, how: End) -> None:
    need = ready_target(store, how)
    waiter = submit(store, needs=[Edge(need, wants)])
    assert not is_ready(store, waiter)

    end(store, need, how)
    assert is_ready(store, waiter) == satisfied(wants, how)
    assert state(store, waiter) == "queued", "whoever waits goes on waiting, visibly"


@pytest.mark.parametrize(("wants", "how"), ALL)
def test_whoever_asked_for_it_is_skipped_by_every_other_end(store: Store, wants: Wants, how: End) -> None:
    need = ready_target(store, how)
    waiter = submit(store, needs=[Edge(need, wants, "skip")])

    end(store, need, how)
    assert state(store, waiter) == ("queued" if satisfied(wants, how) else "skipped")
    assert is_ready(store, waiter) == satisfied(wants, how)


@pytest.mark.parametrize(("wants", "how"), [(wants, how) for wants, how in ALL if how != "deleted"])
def test_an_edge_to_what_has_already_ended_is_decided_at_once(store: Store, wants: Wants, how: End) -> None:
    need = ready_target(store, how)
    end(store, need, how)

    waits = submit(store, needs=[Edge(need, wants, "wait")])
    skips = submit(store, needs=[Edge(need, wants, "skip")])
    assert is_ready(store, waits) == satisfied(wants, how)
    assert state(store, skips) == ("queued" if satisfied(wants, how) else "skipped")


def test_a_job_with_many_needs_waits_for_the_last(store: Store) -> None:
    needs = [submit(store, "need") for _ in range(5)]
    waiter = submit(store, needs=[Edge(need) for need in needs])

    for need in needs[:-1]:
        finish(store, need)
        assert not is_ready(store, waiter)
    finish(store, needs[-1])
    assert is_ready(store, waiter)


def test_one_end_wakes_everyone_who_waited_for_it(store: Store) -> None:
    need = submit(store, "need")
    waiters = [submit(store, needs=[Edge(need)]) for _ in range(50)]
    other = submit(store, needs=[Edge(submit(store, "need"))])

    finish(store, need)
    assert all(is_ready(store, waiter) for waiter in waiters)
    assert not is_ready(store, other)


def test_a_job_that_waits_is_not_claimed(store: Store) -> None:
    waiter = submit(store, needs=[Edge(submit(store, "need"))])
    assert store.queue.ready_queues("parcel|") == []
    assert store.queue.claim_jobs([waiter], "ann", 30) == []


def test_a_job_made_by_a_move_may_need_the_job_that_makes_it(store: Store) -> None:
    from custody.kernel.model.job import NewJob

    first = submit(store, "need")
    settle(store, take_job(store, first), then=[NewJob("parcel", needs=[Edge(first)])])
    (made,) = store.queue.list(after=first)
    assert is_ready(store, made.id)


# failure, retry, acceptance


def test_a_need_that_failed_blocks_until_its_retry_succeeds(store: Store) -> None:
    need = submit(store, "need")
    waiter = submit(store, needs=[Edge(need)])
    finish(store, need, "fail")
    assert codes(store, waiter) == ["blocked"]

    order(store, need, "resume")
    assert codes(store, waiter) == ["needs"]
    finish(store, need)
    assert is_ready(store, waiter)


def test_a_failure_that_is_accepted_counts_as_passed(store: Store) -> None:
    need = submit(store, "need")
    waits, skips = submit(store, needs=[Edge(need)]), submit(store, needs=[Edge(need, "success", "skip")])
    finish(store, need, "fail")

    order(store, need, "accept")
    assert is_ready(store, waits)
    assert is_ready(store, skips)


def test_what_was_skipped_comes_back_when_the_retry_succeeds(store: Store) -> None:
    need = submit(store, "need")
    waiter = submit(store, needs=[Edge(need, "success", "skip")])
    finish(store, need, "fail")
    order(store, need, "resume")
    assert state(store, waiter) == "skipped"

    finish(store, need)
    assert is_ready(store, waiter)
    assert types(store, waiter) == ["submitted", "skipped", "rearmed"]


def test_a_retry_that_fails_again_leaves_the_skipped_skipped(store: Store) -> None:
    need = submit(store, "need")
    waiter = submit(store, needs=[Edge(need, "success", "skip")])
    finish(store, need, "fail")
    order(store, need, "resume")
    finish(store, need, "fail")
    assert types(store, waiter) == ["submitted", "skipped"]


def test_skips_spread_down_the_line_and_come_back_down_the_line(store: Store) -> None:
    line = [submit(store, "need")]
    for _ in range(5):
        line.append(submit(store, needs=[Edge(line[-1], "success", "skip")]))

    finish(store, line[0], "fail")
    assert states(store, *line) == ["failed"] + ["skipped"] * 5

    order(store, line[0], "resume")
    finish(store, line[0])
    assert states(store, *line) == ["done"] + ["queued"] * 5
    assert [is_ready(store, job) for job in line] == [False, True] + [False] * 4


def test_a_line_longer_than_the_stack_is_skipped_and_comes_back(store: Store) -> None:
    line = [submit(store, "need")]
    for _ in range(150):
        line.append(submit(store, needs=[Edge(line[-1], "success", "skip")]))

    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 150)
    try:
        finish(store, line[0], "fail")
        assert state(store, line[-1]) == "skipped"
        order(store, line[0], "resume")
        finish(store, line[0])
        assert state(store, line[-1]) == "queued"
    finally:
        sys.setrecursionlimit(usual)


def test_whoever_needed_two_that_failed_comes_back_only_with_both(store: Store) -> None:
    one, two = submit(store, "need"), submit(store, "need")
    waiter = submit(store, needs=[Edge(one, "success", "skip"), Edge(two, "success", "skip")])
    behind = submit(store, needs=[Edge(waiter, "success", "skip")])
    finish(store, one, "fail")
    finish(store, two, "fail")

    order(store, one, "resume")
    finish(store, one)
    assert states(store, waiter, behind) == ["skipped", "skipped"]
    order(store, two, "resume")
    finish(store, two)
    assert states(store, waiter, behind) == ["queued", "queued"]
    assert is_ready(store, waiter)


def test_a_skipped_job_does_not_come_back_because_something_else_it_waited_for_ended(store: Store) -> None:
    failing, other = submit(store, "need"), submit(store, "need")
    waiter = submit(store, needs=[Edge(failing, "success", "skip"), Edge(other, "finished")])
    finish(store, failing, "fail")

    finish(store, other)
    assert state(store, waiter) == "skipped"
    assert types(store, waiter) == ["submitted", "skipped"]


def test_one_behind_two_skipped_ones_comes_back_with_the_second(store: Store) -> None:
    a, b = submit(store, "need"), submit(store, "need")
    behind_a = submit(store, needs=[Edge(a, "success", "skip")])
    behind_b = submit(store, needs=[Edge(b, "success", "skip")])
    both = submit(store, needs=[Edge(behind_a, "success", "skip"), Edge(behind_b, "success", "skip")])
    finish(store, a, "fail")
    finish(store, b, "fail")

    order(store, a, "resume")
    finish(store, a)
    assert states(store, behind_a, behind_b, both) == ["queued", "skipped", "skipped"]
    order(store, b, "resume")
    finish(store, b)
    assert states(store, behind_a, behind_b, both) == ["queued", "queued", "queued"]


def test_an_operator_may_insist_on_a_skipped_job_and_it_waits_for_its_need(store: Store) -> None:
    need = submit(store, "need")
    waiter = submit(store, needs=[Edge(need, "success", "skip")])
    finish(store, need, "fail")

    order(store, waiter, "resume")
    assert codes(store, waiter) == ["blocked"]
    order(store, need, "resume")
    finish(store, need)
    assert is_ready(store, waiter)


def test_an_end_that_was_met_stays_met_when_the_job_is_resumed(store: Store) -> None:
    need = submit(store, "need")
    waiter = submit(store, needs=[Edge(need, "finished")])
    finish(store, need, "fail")
    assert is_ready(store, waiter)

    order(store, need, "resume")
    assert is_ready(store, waiter)
    finish(store, need)
    assert store.queue.get(waiter).unmet == 0


# found out while working


def test_a_need_found_while_working_is_waited_for_and_the_attempt_given_back(store: Store) -> None:
    paper, parcel = submit(store, "paper"), submit(store)
    settle(store, take_job(store, parcel), "wait", needs=[Edge(paper), Edge(paper)])
    assert (codes(store, parcel), store.queue.get(parcel).attempts) == (["needs"], 0)

    finish(store, paper)
    assert is_ready(store, parcel)


def test_a_need_that_is_met_or_gone_is_not_waited_for(store: Store) -> None:
    paper, string, parcel = submit(store, "paper"), submit(store, "string"), submit(store)
    finish(store, paper)
    store.queue.delete(string, "eva", "none left")
    settle(store, take_job(store, parcel), "wait", needs=[Edge(paper), Edge(string)])
    assert is_ready(store, parcel)


def test_a_job_may_want_more_of_one_it_had_waited_for_before(store: Store) -> None:
    paper = submit(store, "paper")
    parcel = submit(store, needs=[Edge(paper, "finished")])
    finish(store, paper, "fail")
    settle(store, take_job(store, parcel), "wait", needs=[Edge(paper, "success")])
    assert codes(store, parcel) == ["blocked"]

    order(store, paper, "resume")
    finish(store, paper)
    assert is_ready(store, parcel)


def test_a_need_found_too_late_skips_whoever_asked_for_it(store: Store) -> None:
    paper, parcel = submit(store, "paper"), submit(store)
    behind = submit(store, needs=[Edge(parcel, "success", "skip")])
    finish(store, paper, "fail")
    settle(store, take_job(store, parcel), "wait", needs=[Edge(paper, "success", "skip")])
    assert states(store, parcel, behind) == ["skipped", "skipped"]


# deletion


def test_deleting_a_job_keeps_its_events_and_says_who_and_why(store: Store) -> None:
    job = submit(store)
    assert store.queue.delete(job, "eva", "sent twice")

    assert types(store, job) == ["submitted", "deleted"]
    event = store.records.events(f"job/{job}")[-1]
    assert (event.agent, event.detail["why"]) == ("eva", "sent twice")
    assert not store.queue.delete(job, "eva", "sent twice")
    assert types(store, job) == ["submitted", "deleted"]


def test_a_job_that_was_moved_since_one_looked_is_not_deleted(store: Store) -> None:
    job = submit(store)
    finish(store, job, "fail")
    assert order(store, job, "resume").done
    with pytest.raises(StateConflict, match="queued by now, not failed"):
        store.queue.delete(job, "eva", "of no use", "failed")
    assert state(store, job) == "queued"
    assert store.queue.delete(job, "eva", "not wanted", "queued")


def test_deleting_a_waiting_job_takes_its_edges_along(store: Store) -> None:
    need = submit(store, "need")
    waiter = submit(store, needs=[Edge(need)])
    store.queue.delete(waiter, "eva", "not wanted")

    finish(store, need)
    assert store.db.read(lambda tx: tx.run("edges_to", id=need, limit=9)) == []


def test_deleting_a_need_leaves_those_who_need_its_success_waiting_and_they_say_so(store: Store) -> None:
    need = submit(store, "need")
    waiter = submit(store, needs=[Edge(need)])
    store.queue.delete(need, "eva", "not wanted")

    (reason,) = store.queue.why(waiter)
    assert (reason.code, reason.job) == ("needs", need)
    assert "deleted" in reason.text
    assert order(store, waiter, "cancel").done


def test_deleting_an_ended_need_changes_nothing_for_those_it_had_satisfied(store: Store) -> None:
    need = submit(store, "need")
    waiter = submit(store, needs=[Edge(need)])
    finish(store, need)
    store.queue.delete(need, "eva", "old")
    assert is_ready(store, waiter)

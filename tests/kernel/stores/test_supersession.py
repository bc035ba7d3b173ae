"""Supersession: a newer instance makes older ones pointless, and starts only when they are dead."""

from __future__ import annotations

from typing import Any

import pytest

from custody.errors import BadInput
from custody.kernel.model.graph import Edge
from custody.kernel.model.job import NewJob
from custody.kernel.stores import Store
from kernel.stores.acts import codes, finish, is_ready, order, settle, state, states, submit, take_job, take_over, types
from kernel.stores.clock import HandClock


def build(store: Store, position: int, *, line: str = "trunk", task: str = "book", **more: Any) -> int:
    """The instance of a task at a revision; each supersedes those before it."""
    return submit(store, line=line, task=task, position=position, **{"supersedes": True, **more})


def test_a_newer_instance_ends_older_ones_that_wait_in_the_queue(store: Store) -> None:
    old = [build(store, position) for position in (1, 2)]
    assert states(store, *old) == ["superseded", "queued"]

    new = build(store, 3)
    assert states(store, *old, new) == ["superseded", "superseded", "queued"]
    assert types(store, old[1]) == ["submitted", "superseded"]
    assert store.queue.get(old[1]).ended == "superseded"


def test_an_older_one_that_is_held_or_blocked_or_delayed_is_superseded_too(store: Store) -> None:
    held = build(store, 1, supersedes=False)
    order(store, held, "hold")
    blocked = build(store, 2, supersedes=False, needs=[Edge(submit(store, "need"))])
    delayed = build(store, 3, supersedes=False, delay=60)

    build(store, 4)
    assert states(store, held, blocked, delayed) == ["superseded"] * 3


def test_what_has_ended_is_not_touched(store: Store) -> None:
    done, failed = build(store, 1), build(store, 2, task="other")
    finish(store, done)
    finish(store, failed, "fail")

    build(store, 3)
    build(store, 3, task="other")
    assert states(store, done, failed) == ["done", "failed"]


def test_other_tasks_other_lines_and_newer_instances_are_not_touched(store: Store) -> None:
    others = [build(store, 1, task="index"), build(store, 1, line="branch"), build(store, 9, supersedes=False)]
    build(store, 2)
    assert states(store, *others) == ["queued"] * 3


def test_one_that_does_not_supersede_leaves_older_ones_alone(store: Store) -> None:
    old = build(store, 1)
    build(store, 2, supersedes=False)
    assert state(store, old) == "queued"


def test_a_running_older_one_is_told_to_stop_and_the_newer_waits_for_its_confirmed_end(store: Store) -> None:
    old = build(store, 1)
    claim = take_job(store, old)
    new = build(store, 2)

    assert store.queue.renew([claim], 30) == {old: "supersede"}
    assert not is_ready(store, new)
    assert codes(store, new) == ["needs"]
    assert settle(store, claim, "pass").code == "revoked"

    assert settle(store, claim, "supersede").done
    assert (state(store, old), is_ready(store, new)) == ("superseded", True)


def test_the_newer_one_waits_for_a_running_one_that_was_already_being_cancelled(store: Store) -> None:
    old = build(store, 1)
    claim = take_job(store, old)
    store.queue.revoke(old, "cancel", "eva", "not wanted")
    new = build(store, 2)

    assert not is_ready(store, new)
    settle(store, claim, "cancel")
    assert is_ready(store, new)
    assert types(store, old) == ["submitted", "revoked", "cancelled"]


def test_when_the_running_one_vanishes_the_newer_waits_until_someone_confirms_its_end(
    store: Store, clock: HandClock
) -> None:
    old = build(store, 1)
    take_job(store, old, seconds=30)
    new = build(store, 2)
    clock.advance(seconds=31)
    assert not is_ready(store, new)

    claim = take_over(store)
    assert claim is not None
    assert (claim.id, claim.job.revoked) == (old, "supersede")
    settle(store, claim, "supersede")
    assert is_ready(store, new)


def test_supersession_happens_when_the_newer_one_is_ready_and_not_before(store: Store, clock: HandClock) -> None:
    old = build(store, 1)
    need = submit(store, "need")
    new = build(store, 2, needs=[Edge(need)], delay=60)
    finish(store, need)
    assert state(store, old) == "queued"

    clock.advance(seconds=60)
    store.queue.tick()
    assert (state(store, old), is_ready(store, new)) == ("superseded", True)


def test_one_that_is_held_supersedes_nothing_until_it_is_released(store: Store) -> None:
    old = build(store, 1)
    need = submit(store, "need")
    new = build(store, 2, needs=[Edge(need)])
    order(store, new, "hold")
    finish(store, need)
    assert state(store, old) == "queued"

    order(store, new, "release")
    assert states(store, old, new) == ["superseded", "queued"]


def test_one_that_waits_because_its_need_failed_supersedes_nothing(store: Store) -> None:
    old = build(store, 1)
    need = submit(store, "need")
    build(store, 2, needs=[Edge(need)])
    finish(store, need, "fail")
    assert state(store, old) == "queued"


def test_an_older_one_that_arrives_late_is_superseded_at_once(store: Store) -> None:
    new = build(store, 3)
    late = build(store, 2)
    assert states(store, late, new) == ["superseded", "queued"]


def test_an_older_one_that_becomes_ready_late_is_superseded_then(store: Store) -> None:
    need = submit(store, "need")
    new = build(store, 3)
    take_job(store, new)
    late = build(store, 2, needs=[Edge(need)])
    assert state(store, late) == "queued"

    finish(store, need)
    assert state(store, late) == "superseded"


def test_an_older_one_that_becomes_ready_after_the_newer_has_finished_is_superseded_too(store: Store) -> None:
    need = submit(store, "need")
    finish(store, build(store, 3))
    late = build(store, 2, needs=[Edge(need)])

    finish(store, need)
    assert state(store, late) == "superseded"


def test_when_one_end_makes_several_ready_only_the_newest_of_them_stays(store: Store) -> None:
    need = submit(store, "need")
    late = build(store, 2, supersedes=False, needs=[Edge(need)])
    later = build(store, 3, needs=[Edge(need, "finished")])
    newest = build(store, 4, needs=[Edge(need, "finished")])

    finish(store, need)
    assert states(store, late, later, newest) == ["superseded", "superseded", "queued"]
    assert is_ready(store, newest)


def test_a_failed_older_one_that_is_resumed_after_its_superseder_is_superseded(store: Store) -> None:
    old = build(store, 1)
    finish(store, old, "fail")
    build(store, 2)

    order(store, old, "resume")
    assert state(store, old) == "superseded"
    assert types(store, old) == ["submitted", "failed", "resumed", "superseded"]


def test_of_three_the_newest_waits_for_the_running_first_and_the_second_never_starts(store: Store) -> None:
    first = build(store, 1)
    claim = take_job(store, first)
    second = build(store, 2)
    third = build(store, 3)
    assert states(store, second, third) == ["superseded", "queued"]
    assert not is_ready(store, third)

    settle(store, claim, "supersede")
    assert (state(store, second), is_ready(store, third)) == ("superseded", True)


def test_superseding_is_passable_for_the_next_revision(store: Store) -> None:
    old = build(store, 1)
    next_task = submit(store, "next", needs=[Edge(old, "passable")])
    build(store, 2)
    assert is_ready(store, next_task)


def test_a_newer_one_waits_again_for_an_older_one_that_it_had_once_seen_end(store: Store) -> None:
    # The older one failed (that met the edge), was resumed, and is running when the newer becomes ready.
    old = build(store, 1)
    gate = submit(store, "gate")
    new = build(store, 2, needs=[Edge(old, "finished"), Edge(gate)])
    finish(store, old, "fail")
    order(store, old, "resume")
    claim = take_job(store, old)

    finish(store, gate)
    assert not is_ready(store, new)
    settle(store, claim, "supersede")
    assert is_ready(store, new)


def test_a_job_may_make_older_instances_of_another_task_pointless(store: Store) -> None:
    queued, running, newer = (build(store, position, supersedes=False) for position in (1, 2, 5))
    claim = take_job(store, running)

    assert store.queue.supersede("trunk", "book", 5, by=99) == 1
    assert states(store, queued, newer) == ["superseded", "queued"]
    assert store.queue.renew([claim], 30) == {running: "supersede"}
    assert settle(store, claim, "supersede").done
    assert store.queue.supersede("trunk", "book", 5, by=99) == 0


# Several in one submit


def instance(position: int, task: str = "book", **more: Any) -> NewJob:
    return NewJob("job", {"n": position}, line="trunk", task=task, position=position, **more)


def test_of_instances_in_one_submit_the_newest_is_left_whatever_their_order(store: Store) -> None:
    made = store.queue.submit([instance(position, supersedes=True) for position in (2, 3, 1)])
    assert states(store, *(each.id for each in made)) == ["superseded", "queued", "superseded"]


def test_an_older_instance_in_a_later_submit_of_many_is_superseded_when_it_is_ready(store: Store) -> None:
    build(store, 5)
    need = submit(store, "need")
    made = store.queue.submit([instance(3), instance(4, needs=[Edge(need)]), instance(3, "other")])
    ids = [each.id for each in made]
    assert states(store, *ids) == ["superseded", "queued", "queued"]

    finish(store, need)
    assert states(store, *ids) == ["superseded", "superseded", "queued"]


def test_a_submit_of_many_with_lines_needs_and_keys_can_be_sent_again(store: Store) -> None:
    """The same jobs, the same edges, and not one need counted twice; what they needed may be gone by then."""
    need = submit(store, "need")
    failed = submit(store, "need")
    finish(store, failed, "fail")
    jobs = [
        instance(1, "a", key="1:a", needs=[Edge(need), Edge(failed, "finished")]),
        instance(1, "b", key="1:b", needs=[Edge(failed, "success", "skip")]),
        instance(1, "c", key="1:c", facts={"was": "here"}),
    ]
    first = store.queue.submit(jobs)
    assert [store.queue.get(each.id).unmet for each in first] == [1, 1, 0]
    assert states(store, *(each.id for each in first)) == ["queued", "skipped", "queued"]

    store.queue.delete(failed, "ann", "tidying up")
    again = store.queue.submit([*jobs, instance(1, "d", key="1:d")])
    assert [each.id for each in again[:3]] == [each.id for each in first]
    assert [each.new for each in again] == [False, False, False, True]
    finish(store, need)
    assert is_ready(store, first[0].id)


def test_a_need_that_is_gone_is_refused_in_a_submit_of_many(store: Store) -> None:
    with pytest.raises(BadInput, match="no job 999 to wait for"):
        store.queue.submit([instance(1, "a", key="a"), instance(1, "b", key="b", needs=[Edge(999)])])
    assert store.queue.by_key("job", "a") is None


def test_one_that_waited_for_an_older_one_to_die_also_ends_those_that_came_meanwhile(store: Store) -> None:
    running = take_job(store, build(store, 1))
    newer = build(store, 3)
    late = build(store, 2, supersedes=False, needs=[Edge(submit(store, "need"))])
    assert states(store, newer, late) == ["queued", "queued"]
    assert settle(store, running, "supersede").done
    assert states(store, newer, late) == ["queued", "superseded"]
    assert is_ready(store, newer)

"""Many at once: races that the verbs must win without anyone being told twice, or not at all."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from custody.errors import KeyConflict
from custody.kernel.model.event import NewEvent
from custody.kernel.model.graph import Edge
from custody.kernel.model.item import NewItem
from custody.kernel.model.job import Answer, NewJob
from custody.kernel.model.trigger import Trigger
from custody.kernel.stores import Store
from kernel.stores.acts import (
    BATCH,
    is_ready,
    order,
    settle,
    state,
    submit,
    subscribe,
    take,
    take_job,
    take_one,
    take_over,
    types,
)
from kernel.stores.clock import HandClock

T = TypeVar("T")


def at_once(*works: Callable[[], T]) -> list[T | BaseException]:
    """Run these in threads that start together; what each answered or raised."""
    gate = threading.Barrier(len(works))
    answers: list[T | BaseException | None] = [None] * len(works)

    def run(index: int, work: Callable[[], T]) -> None:
        gate.wait()
        try:
            answers[index] = work()
        except BaseException as error:
            answers[index] = error

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers  # type: ignore[return-value]


def pair(store: Store, another: Callable[[], Store]) -> list[Store]:
    """Four workers in two processes."""
    other = another()
    return [store, other, store, other]


def test_no_job_is_claimed_twice(store: Store, another: Callable[[], Store]) -> None:
    store.queue.submit([NewJob("parcel") for _ in range(60)])

    def work(mine: Store, name: str) -> list[int]:
        taken: list[int] = []
        while claims := take(mine, holder=name, limit=4):
            taken += [claim.id for claim in claims]
        return taken

    taken = at_once(*(partial(work, mine, f"w{n}") for n, mine in enumerate(pair(store, another))))
    every = [job for some in taken for job in some]  # type: ignore[union-attr]
    assert len(every) == len(set(every)) == 60


def test_no_vanished_job_is_taken_over_twice(store: Store, another: Callable[[], Store], clock: HandClock) -> None:
    store.queue.submit([NewJob("parcel") for _ in range(10)])
    take(store, limit=10, seconds=30)
    clock.advance(seconds=31)

    def work(mine: Store, name: str) -> list[int]:
        taken: list[int] = []
        while claim := take_over(mine, holder=name, seconds=300):
            taken.append(claim.id)
        return taken

    taken = at_once(*(partial(work, mine, f"w{n}") for n, mine in enumerate(pair(store, another))))
    every = [job for some in taken for job in some]  # type: ignore[union-attr]
    assert len(every) == len(set(every)) == 10


def test_of_many_who_submit_one_key_one_makes_the_job_and_all_get_it(
    store: Store, another: Callable[[], Store]
) -> None:
    stores = pair(store, another)
    for round_ in range(5):
        new = NewJob("parcel", {"n": 1}, key=f"k{round_}")
        answers = at_once(*(partial(mine.queue.submit_one, new) for mine in stores))
        assert len({answer.id for answer in answers}) == 1  # type: ignore[union-attr]
        assert [answer.new for answer in answers].count(True) == 1  # type: ignore[union-attr]


def test_of_two_who_mean_different_things_by_one_key_one_is_refused(store: Store, another: Callable[[], Store]) -> None:
    other = another()
    for round_ in range(5):
        key = f"k{round_}"
        answers = at_once(
            partial(submit, store, payload={"n": 1}, key=key), partial(submit, other, payload={"n": 2}, key=key)
        )
        assert sum(isinstance(answer, KeyConflict) for answer in answers) == 1


def test_a_need_that_ends_while_a_job_is_being_submitted_is_never_lost(
    store: Store, another: Callable[[], Store]
) -> None:
    other = another()
    for _ in range(15):
        need = submit(store, "need")
        waiter, answer = at_once(
            partial(submit, other, needs=[Edge(need)]), partial(settle, store, take_job(store, need))
        )
        assert isinstance(waiter, int), waiter
        assert isinstance(answer, Answer), answer
        assert is_ready(store, waiter)


def test_needs_that_end_at_once_are_all_counted(store: Store, another: Callable[[], Store]) -> None:
    stores = pair(store, another)
    for _ in range(8):
        needs = [submit(store, "need") for _ in stores]
        waiter = submit(store, needs=[Edge(need) for need in needs])
        claims = [take_job(store, need) for need in needs]
        at_once(*map(partial, [settle] * 4, stores, claims))
        assert is_ready(store, waiter)


def test_children_that_end_at_once_move_the_parent_on_once(store: Store, another: Callable[[], Store]) -> None:
    stores = pair(store, another)
    for _ in range(8):
        parent = submit(store, "batch", machine=BATCH, state="processing", when_empty="reporting")
        children = [submit(store, parent=parent) for _ in stores]
        claims = [take_job(store, child) for child in children]
        at_once(*map(partial, [settle] * 4, stores, claims))
        assert state(store, parent) == "reporting"
        assert types(store, parent).count("emptied") == 1


def test_one_claim_settled_by_two_at_once_is_settled_once(store: Store, another: Callable[[], Store]) -> None:
    other = another()
    for _ in range(8):
        submit(store)
        claim = take_one(store)
        answers = at_once(partial(settle, store, claim, "pass"), partial(settle, other, claim, "fail"))
        assert sum(answer.done for answer in answers) == 1  # type: ignore[union-attr]
        assert len(types(store, claim.id)) == 2


def test_a_cancel_and_a_claim_at_once_never_both_win(store: Store, another: Callable[[], Store]) -> None:
    other = another()
    for _ in range(8):
        job = submit(store)
        cancelled: Any
        claims: Any
        cancelled, claims = at_once(partial(order, store, job, "cancel"), partial(take, other))
        assert cancelled.done != bool(claims)
        if claims:
            assert settle(store, claims[0]).done


def test_a_revoke_and_a_settle_at_once_leave_one_truth(store: Store, another: Callable[[], Store]) -> None:
    other = another()
    for _ in range(8):
        job = submit(store)
        claim = take_one(store)
        revoked: Any
        answer: Any
        revoked, answer = at_once(
            partial(store.queue.revoke, job, "cancel", "eva", "late"), partial(settle, other, claim)
        )
        assert revoked != answer.done
        if revoked:
            assert settle(store, claim, "cancel").done


def test_only_one_of_many_gets_a_name(store: Store, another: Callable[[], Store], clock: HandClock) -> None:
    stores = pair(store, another)
    for _ in range(5):
        leases = at_once(*(partial(mine.leases.claim, "sealer", f"w{n}", 30) for n, mine in enumerate(stores)))
        assert sum(lease is not None for lease in leases) == 1, leases
        clock.advance(seconds=31)


def test_events_of_one_item_written_at_once_have_numbers_of_their_own(
    store: Store, another: Callable[[], Store]
) -> None:
    store.records.put([NewItem("a")])

    def write(mine: Store) -> None:
        for _ in range(5):
            mine.records.append(NewEvent("a", "Scanned"))

    assert at_once(*(partial(write, mine) for mine in pair(store, another))) == [None] * 4
    assert [event.seq for event in store.records.events("item/a")] == list(range(1, 22))
    assert store.records.latest("a")["Scanned"].seq == 21


def test_two_events_that_together_make_an_item_ready_make_it_ready_once(
    store: Store, another: Callable[[], Store]
) -> None:
    subscribe(store, "r", Trigger(past=frozenset({"S", "T"})))
    other = another()
    for number in range(8):
        item = f"item-{number}"
        store.records.put([NewItem(item)])
        at_once(partial(store.records.append, NewEvent(item, "S")), partial(other.records.append, NewEvent(item, "T")))
        assert store.queue.by_key("robot/r", item) is not None
    assert len(store.queue.list()) == 8


def test_holds_set_and_lifted_by_many_are_on_record_without_a_gap(store: Store, another: Callable[[], Store]) -> None:
    def fiddle(mine: Store, who: str) -> int:
        return sum(mine.queue.hold("lane", "n1", who, "") + mine.queue.lift("lane", "n1", who) for _ in range(5))

    changes = at_once(*(partial(fiddle, mine, f"w{n}") for n, mine in enumerate(pair(store, another))))
    events = store.records.events("hold/lane/n1")
    assert len(events) == sum(changes)  # type: ignore[arg-type]
    assert [event.type for event in events] == ["held", "lifted"] * (len(events) // 2)


def test_work_of_every_sort_at_once_comes_to_an_end(store: Store, another: Callable[[], Store]) -> None:
    first = [submit(store, "need") for _ in range(10)]
    for number, need in enumerate(first):
        submit(store, needs=[Edge(need, "finished"), Edge(first[number - 1])], lane=f"l{number % 3}")

    def work(mine: Store, name: str) -> None:
        for _ in range(500):
            queues = mine.queue.ready_queues("need|") + mine.queue.ready_queues("parcel|")
            for claim in mine.queue.claim(queues, name, 300, 3):
                settle(mine, claim)
            if all(job.ended for job in mine.queue.list()):
                return

    assert at_once(*(partial(work, mine, f"w{n}") for n, mine in enumerate(pair(store, another)))) == [None] * 4
    assert {job.state for job in store.queue.list()} == {"done"}

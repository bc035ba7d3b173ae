"""Two at once, made to meet where it hurts: each test holds one transaction open while the other runs into it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from custody.errors import KeyConflict
from custody.kernel.model.event import NewEvent
from custody.kernel.model.graph import Edge
from custody.kernel.model.item import NewItem
from custody.kernel.model.job import NewJob
from custody.kernel.model.trigger import Trigger
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.fsck import recount
from custody.kernel.stores.postgres.verbs.settle import PostgresMany
from custody.kernel.stores.rows import Tx
from custody.kernel.stores.rules import items
from custody.kernel.stores.rules.settle import settle_many
from custody.kernel.stores.rules.submit import submit as submit_in
from kernel.stores.acts import PARCEL, new_move, queue_of, submit, subscribe, take, worked
from kernel.stores.test_postgres import ask, until
from rig.postgres import Postgres

WAITING = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"


@pytest.fixture
def pair(quick_postgres: Postgres) -> Iterator[tuple[Store, Store]]:
    """Two processes' ways into one store, on a server that notices deadlocks at once."""
    url = quick_postgres.fresh_database()
    options = "?unsafe=1&notify=0&options=-c%20deadlock_timeout%3D20ms"
    with open_store(url + options) as one, open_store(url + options) as other:
        yield one, other
        assert recount(one) == []
    quick_postgres.give_back(url)


@contextmanager
def held_open(store: Store, work: Callable[[Tx], Any]) -> Iterator[None]:
    """`work` is done but not committed while the body runs."""
    done, go_on = threading.Event(), threading.Event()

    def hold(tx: Tx) -> None:
        work(tx)
        done.set()
        assert go_on.wait(60)

    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(store.db.write, hold)
        assert done.wait(60)
        try:
            yield
        finally:
            go_on.set()
        held.result()


def blocked(store: Store) -> None:
    until(lambda: ask(store.url, WAITING) == [(1,)])


def test_a_need_that_ends_while_its_dependent_is_being_submitted_wakes_it(pair: tuple[Store, Store]) -> None:
    one, other = pair
    need = submit(one)
    (claim,) = take(one)
    dependent = NewJob("letter", needs=[Edge(need)])
    with ThreadPoolExecutor(1) as pool:
        with held_open(one, lambda tx: submit_in(tx, [dependent], new_move())):
            settling = pool.submit(other.queue.settle, [worked(claim, "pass")])
            blocked(one)
        assert settling.result()[0].done
    (waiter,) = one.queue.list()[1:]
    assert (waiter.kind, waiter.unmet) == ("letter", 0)


def test_a_dependent_submitted_while_its_need_is_ending_does_not_wait_for_it(pair: tuple[Store, Store]) -> None:
    one, other = pair
    need = submit(one)
    (claim,) = take(one)
    with ThreadPoolExecutor(1) as pool:
        with held_open(one, lambda tx: settle_many(PostgresMany(tx), [worked(claim, "pass")])):
            submitting = pool.submit(other.queue.submit_one, NewJob("letter", needs=[Edge(need)]))
            blocked(one)
        made = submitting.result()
    assert one.queue.get(made.id).unmet == 0


def test_claims_under_way_are_passed_over_not_waited_for(pair: tuple[Store, Store]) -> None:
    one, other = pair
    one.queue.submit([NewJob(PARCEL) for _ in range(10)])
    first = {"queues": [queue_of()], "priorities": [-1], "ids": [-1], "share": 4, "limit": 4}
    with held_open(one, lambda tx: tx.run("claim_many", holder="ann", lease=1, move="m", **first)):
        claims = take(other, holder="bo", limit=10)
        assert [claim.id for claim in claims] == [5, 6, 7, 8, 9, 10]


def test_many_claim_at_once_and_nobody_gets_what_another_has(pair: tuple[Store, Store]) -> None:
    one, other = pair
    one.queue.submit([NewJob(PARCEL, lane=f"l{n % 5}") for n in range(400)])
    queues = [queue_of(lane=f"l{n}") for n in range(5)]

    def drain(store: Store) -> list[int]:
        mine: list[int] = []
        while claims := store.queue.claim(queues, "w", 30, 7):
            mine += [claim.id for claim in claims]
        return mine

    with ThreadPoolExecutor(6) as pool:
        taken = [job for ids in pool.map(drain, [one, other] * 3) for job in ids]
    assert sorted(taken) == list(range(1, 401))


def test_two_that_wait_for_each_other_are_both_served(pair: tuple[Store, Store]) -> None:
    first, second = submit(pair[0]), submit(pair[0])
    both_hold_one = threading.Barrier(2)
    runs: list[int] = []

    def touch(store: Store, jobs: tuple[int, int]) -> None:
        def work(tx: Tx) -> None:
            runs.append(jobs[0])
            tx.run("count_up", id=jobs[0], by=1)
            if len(runs) <= 2:
                both_hold_one.wait(60)
            tx.run("count_up", id=jobs[1], by=1)

        store.db.write(work)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(touch, pair, [(first, second), (second, first)]))
    assert len(runs) > 2  # one of them was run again
    assert ask(pair[0].url, "select distinct unmet from job") == [(2,)]
    ask(pair[0].url, "update job set unmet = 0 returning 1")


def test_batches_settled_in_opposite_orders_settle_each_job_once(pair: tuple[Store, Store]) -> None:
    one, other = pair
    one.queue.submit([NewJob(PARCEL) for _ in range(200)])
    for _ in range(4):
        claims = take(one, limit=50)
        mine = [worked(claim, "pass" if claim.id % 2 else "fail") for claim in claims]
        theirs = [worked(claim, "fail" if claim.id % 2 else "pass") for claim in reversed(claims)]
        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(lambda pair: pair[0].queue.settle(pair[1]), [(one, mine), (other, theirs)]))
        done = [answer.id for some in answers for answer in some if answer.done]
        assert sorted(done) == sorted(claim.id for claim in claims)
        assert {answer.code for some in answers for answer in some if not answer.done} <= {"lease.lost"}


def test_a_key_submitted_twice_at_once_is_one_job(pair: tuple[Store, Store]) -> None:
    one, other = pair
    jobs = [NewJob(PARCEL, {"n": n}, key=f"k{n}") for n in range(50)]
    with ThreadPoolExecutor(2) as pool:
        for made, again in [
            pool.map(lambda pair: pair[0].queue.submit(pair[1]), [(one, jobs), (other, jobs[::-1])]) for _ in range(3)
        ]:
            assert [each.id for each in made] == [each.id for each in again[::-1]]
    assert len(one.queue.list()) == 50


def test_a_key_committed_after_it_was_looked_for_is_still_one_job(pair: tuple[Store, Store]) -> None:
    one, other = pair
    jobs = [NewJob(PARCEL, {"n": n}, key=f"k{n}") for n in range(50)]
    with ThreadPoolExecutor(1) as pool:
        with held_open(one, lambda tx: submit_in(tx, jobs[20:21], new_move())):
            again = pool.submit(other.queue.submit, jobs)
            blocked(one)
        made = again.result()
    assert [n for n, each in enumerate(made) if not each.new] == [20]
    assert len(one.queue.list()) == 50


def test_a_keyed_job_deleted_while_it_is_submitted_again_is_made_anew(pair: tuple[Store, Store]) -> None:
    one, other = pair
    old = submit(one, key="k")
    with ThreadPoolExecutor(1) as pool:
        with held_open(one, lambda tx: tx.run("delete_job", id=old)):
            again = pool.submit(other.queue.submit, [NewJob(PARCEL, key="k")])
            blocked(one)
        (made,) = again.result()
    assert made.new
    assert made.id != old
    ask(one.url, f"delete from event where subject = 'job/{old}' returning 1")


def test_two_instances_that_become_ready_at_once_see_each_other(pair: tuple[Store, Store]) -> None:
    """The older is being submitted while the newer supersedes what is older: one of the two must notice."""
    one, other = pair
    newer = NewJob("check", line="a", task="t", position=2, supersedes=True)
    older = NewJob("check", line="a", task="t", position=1, supersedes=True)
    with ThreadPoolExecutor(1) as pool:
        with held_open(one, lambda tx: submit_in(tx, [newer], new_move())):
            submitting = pool.submit(other.queue.submit_one, older)
            blocked(one)
        submitting.result()
    assert {job.position: job.state for job in one.queue.list()} == {1: "superseded", 2: "queued"}


def test_many_small_submits_at_once_share_commits_and_a_refusal_hurts_only_its_own(pair: tuple[Store, Store]) -> None:
    one, _ = pair
    submit(one, key="taken", payload={"n": -1})
    before = ask(one.url, "select xact_commit from pg_stat_database where datname = current_database()")

    def send(n: int) -> int:
        if n % 25 == 0:
            with pytest.raises(KeyConflict):
                submit(one, key="taken", payload={"n": n})
            return 0
        return submit(one, payload={"n": n})

    with ThreadPoolExecutor(16) as pool:
        ids = list(pool.map(send, range(400)))
    assert before
    for n, job in enumerate(ids):
        assert (job == 0) == (n % 25 == 0)
        assert not job or one.queue.get(job).payload == {"n": n}
    assert len({job for job in ids if job}) == 384
    moves = ask(one.url, "select count(distinct move), count(distinct created) from job where id > 1")
    assert int(str(moves[0][1])) < int(str(moves[0][0])) == 384  # fewer transactions than submits


def test_a_change_whose_follow_up_is_refused_leaves_its_neighbours_alone(pair: tuple[Store, Store]) -> None:
    one, _ = pair
    submit(one, "letter", key="taken", payload={"n": 1})
    one.queue.submit([NewJob(PARCEL) for _ in range(3)])
    claims = take(one, limit=3)
    changes = [
        worked(claim, "pass", then=[NewJob("letter", {"n": 2}, key=key)])
        for claim, key in zip(claims, ("a", "taken", "b"), strict=True)
    ]
    answers = one.queue.settle(changes)
    assert [(answer.done, answer.code) for answer in answers] == [(True, ""), (False, "key.conflict"), (True, "")]
    assert one.queue.get(claims[1].id).holder == "ann"


def test_an_event_that_finds_its_item_moved_on_is_judged_by_how_the_item_stands_then(pair: tuple[Store, Store]) -> None:
    """Its look says: no robot is ready. While it waits for the row, the other half of the trigger arrives."""
    one, other = pair
    subscribe(one, "reader", Trigger(past=frozenset({"scanned", "approved"})))
    one.records.put([NewItem("map")])
    with ThreadPoolExecutor(1) as pool:
        with held_open(one, lambda tx: items.append(tx, NewEvent("map", "approved"), "ann")):
            second = pool.submit(other.records.append, NewEvent("map", "scanned"))
            blocked(one)
        event = second.result()
    assert [(each.seq, each.type) for each in one.records.events("item/map")][1:] == [(2, "approved"), (3, "scanned")]
    assert one.records.events("item/map")[-1].id == event
    assert one.queue.by_key("robot/reader", "map") is not None

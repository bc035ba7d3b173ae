"""Submitting: all or nothing, and the same thing twice is one thing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from custody.errors import BadInput, KeyConflict, NotFound, Unavailable
from custody.kernel.model.authority.acting import system
from custody.kernel.model.graph import Edge
from custody.kernel.model.job import Filter, Job, NewJob
from custody.kernel.stores import Store, open_store
from kernel.stores.acts import BATCH, finish, order, settle, state, submit, take, take_one, types
from kernel.stores.clock import HandClock


def test_a_submitted_job_is_there_with_everything_it_was_given(store: Store, clock: HandClock) -> None:
    job = submit(
        store,
        payload={"title": "Kort over Øresund", "pages": [1, 2]},
        key="k-1",
        priority=7,
        lane="maps",
        place="hal9",
        collection="atlas",
        facts={"ark": "ark:/1/2"},
    )

    row = store.queue.get(job)
    assert (row.kind, row.key, row.state, row.runnable, row.ended) == ("parcel", "k-1", "queued", True, None)
    assert (row.priority, row.lane, row.place, row.collection) == (7, "maps", "hal9", "atlas")
    assert row.payload == {"title": "Kort over Øresund", "pages": [1, 2]}
    assert row.facts == {"ark": "ark:/1/2"}
    assert (row.holder, row.attempts, row.crashes, row.retries, row.created) == (None, 0, 0, 0, clock.now())


def test_a_submit_writes_the_first_event_of_the_job(store: Store, clock: HandClock) -> None:
    job = store.queue.submit_one(NewJob("parcel", key="a"), acting=system("depositor")).id

    (event,) = store.records.events(f"job/{job}")
    assert (event.seq, event.type, event.agent, event.at) == (1, "submitted", "depositor", clock.now())
    assert event.move == store.queue.get(job).move


def test_the_same_key_and_payload_again_give_the_same_job(store: Store) -> None:
    first = store.queue.submit_one(NewJob("parcel", {"a": 1, "b": 2}, key="k"))
    again = store.queue.submit_one(NewJob("parcel", {"b": 2, "a": 1}, key="k"))

    assert (first.new, again.new) == (True, False)
    assert again.id == first.id
    assert types(store, first.id) == ["submitted"]


def test_a_key_answers_with_its_job_even_after_that_job_has_ended(store: Store) -> None:
    job = submit(store, key="k")
    finish(store, job)

    assert store.queue.submit_one(NewJob("parcel", key="k")).id == job
    assert state(store, job) == "done"


def test_the_same_key_with_another_payload_is_refused_and_names_the_job(store: Store) -> None:
    job = submit(store, payload={"a": 1}, key="k")

    with pytest.raises(KeyConflict) as refusal:
        submit(store, payload={"a": 2}, key="k")
    assert refusal.value.facts == {"job": job}


def test_the_same_key_of_another_kind_is_another_job(store: Store) -> None:
    assert submit(store, "parcel", key="k") != submit(store, "letter", key="k")


@pytest.mark.parametrize("size", [1, 40])
def test_the_same_key_of_another_collection_is_another_job(store: Store, size: int) -> None:
    def asked(collection: str, payload: int) -> list[NewJob]:
        return [NewJob("parcel", {"n": payload}, key=f"k-{n}", collection=collection) for n in range(size)]

    maps, papers = (store.queue.submit(asked(name, n)) for n, name in enumerate(("maps", "papers")))
    assert all(made.new for made in [*maps, *papers])
    assert len({made.id for made in [*maps, *papers]}) == 2 * size
    assert [made.id for made in store.queue.submit(asked("papers", 1))] == [made.id for made in papers]
    with pytest.raises(KeyConflict) as refusal:
        store.queue.submit(asked("maps", 1))
    assert refusal.value.facts["job"] == maps[0].id, "the job of that collection is named, and no other"


@pytest.mark.parametrize("size", [1, 40])
def test_an_item_is_ready_for_a_robot_once_wherever_it_was_moved(store: Store, size: int) -> None:
    def ready(collection: str) -> list[NewJob]:
        return [NewJob("robot/fixity", {"item": f"i-{n}"}, key=f"i-{n}", collection=collection) for n in range(size)]

    first = store.queue.submit(ready("maps"))
    again = store.queue.submit(ready("papers"))
    assert [made.id for made in again] == [made.id for made in first]
    assert not any(made.new for made in again)


def test_jobs_without_a_key_are_never_the_same(store: Store) -> None:
    assert submit(store) != submit(store)


def test_the_same_key_twice_in_one_submit_is_one_job(store: Store) -> None:
    first, again = store.queue.submit([NewJob("parcel", key="k"), NewJob("parcel", key="k")])

    assert (first.new, again.new, again.id) == (True, False, first.id)
    assert len(store.queue.list()) == 1


def test_a_thousand_jobs_in_one_submit_keep_their_order(store: Store) -> None:
    made = store.queue.submit([NewJob("parcel", {"n": n}, key=f"k{n}") for n in range(1000)])

    assert [one.id for one in made] == sorted(one.id for one in made)
    assert [job.payload["n"] for job in store.queue.every(size=300)] == list(range(1000))


def test_a_large_submit_may_repeat_an_earlier_one_in_part(store: Store) -> None:
    earlier = store.queue.submit([NewJob("parcel", key=f"k{n}") for n in range(0, 600, 2)])
    both = store.queue.submit([NewJob("parcel", key=f"k{n}") for n in range(600)])

    assert [one.id for one in both[::2]] == [one.id for one in earlier]
    assert [one.new for one in both] == [False, True] * 300
    assert len(list(store.queue.every())) == 600


@pytest.mark.parametrize("size", [100, 1500])
@pytest.mark.parametrize("place", [0, 1, 57, -1])
def test_a_single_known_key_is_found_among_new_ones_wherever_it_stands(store: Store, size: int, place: int) -> None:
    keys = [f"k{n}" for n in range(size)]
    known = submit(store, key=keys[place])

    made = store.queue.submit([NewJob("parcel", key=key) for key in keys])

    assert [key for key, one in zip(keys, made, strict=True) if not one.new] == [keys[place]]
    assert made[place].id == known
    assert len({one.id for one in made}) == len(list(store.queue.every())) == size


@pytest.mark.parametrize("size", [2, 600])
def test_one_refused_job_refuses_the_whole_submit(store: Store, size: int) -> None:
    submit(store, payload={"n": 0}, key="taken")
    jobs = [NewJob("parcel", key=f"k{n}") for n in range(size - 1)] + [NewJob("parcel", {"n": 1}, key="taken")]

    with pytest.raises(KeyConflict):
        store.queue.submit(jobs)
    assert len(store.queue.list()) == 1


BAD: dict[str, dict[str, Any]] = {
    "no kind": {"kind": ""},
    "a bar in the kind": {"kind": "a|b"},
    "a bar in the place": {"place": "a|b"},
    "priority too low": {"priority": 100},
    "priority too high": {"priority": -1},
    "a negative delay": {"delay": -1},
    "a delay without end": {"delay": float("inf")},
    "a delay that is no number": {"delay": float("nan")},
    "a line without a task": {"line": "trunk"},
    "a task without a line": {"task": "index"},
    "two needs of one job": {"needs": [Edge(1), Edge(1, "finished")]},
    "a payload that is not JSON": {"payload": {"when": object()}},
    "facts that are not JSON": {"facts": {"when": object()}},
    "a number that JSON does not have": {"payload": {"size": float("nan")}},
    "half a character in the payload": {"payload": {"name": "\ud800"}},
    "half a character in the key": {"key": "\ud800"},
    "a NUL in the lane": {"lane": "a\0b"},
    "a NUL in the kind": {"kind": "a\0b"},
}


@pytest.mark.proves("H1")
@pytest.mark.parametrize("given", BAD.values(), ids=BAD.keys())
def test_what_cannot_be_a_job_is_refused_with_a_typed_error_and_nothing_is_written(
    store: Store, given: dict[str, Any]
) -> None:
    fine = submit(store)

    with pytest.raises(BadInput) as refusal:
        store.queue.submit([NewJob("parcel"), NewJob(**{"kind": "parcel", **given})])
    assert refusal.value.where.startswith("job ")
    assert [job.id for job in store.queue.list()] == [fine]


def test_a_need_for_a_job_that_does_not_exist_is_refused(store: Store) -> None:
    with pytest.raises(BadInput) as refusal:
        submit(store, needs=[Edge(4711)])
    assert refusal.value.code == "job.needs"
    assert store.queue.list() == []


def test_a_repeated_submit_is_the_same_job_even_if_what_it_needed_has_been_deleted(store: Store) -> None:
    need = submit(store, "first")
    job = submit(store, key="k", needs=[Edge(need)])
    store.queue.delete(need, "admin", "not wanted")

    again = store.queue.submit_one(NewJob("parcel", key="k", needs=[Edge(need)]))
    assert (again.id, again.new) == (job, False)


def test_ids_are_never_given_twice_not_even_after_a_delete(store: Store) -> None:
    last = submit(store, key="k")
    store.queue.delete(last, "admin", "mistake")

    again = store.queue.submit_one(NewJob("parcel", key="k"))
    assert again.new
    assert again.id > last


def test_a_job_may_start_in_any_state_of_its_machine(store: Store) -> None:
    waiting = submit(store, "batch", machine=BATCH, state="processing", open=1, when_empty="reporting")
    ended = submit(store, "batch", machine=BATCH, state="completed", parent=None)

    assert not store.queue.get(waiting).runnable
    assert store.queue.get(ended).ended == "passed"
    store.queue.delete(waiting, "admin", "it counts a child it does not have")


def test_a_child_that_starts_as_ended_is_not_counted_as_open(store: Store) -> None:
    parent = submit(store, "batch", machine=BATCH)
    submit(store, parent=parent, state="done")

    assert store.queue.get(parent).open == 0


def test_the_smallest_delay_is_still_a_delay_that_ends(store: Store, clock: HandClock) -> None:
    job = submit(store, delay=1e-9)
    clock.advance(seconds=1)
    store.queue.tick()

    assert [claim.id for claim in take(store)] == [job]


def test_an_unknown_job_is_not_found(store: Store) -> None:
    for ask in (store.queue.get, store.queue.why):
        with pytest.raises(NotFound):
            ask(4711)


def test_a_job_is_found_by_its_key(store: Store) -> None:
    job = submit(store, key="ark:/99999/fk4")

    found = store.queue.by_key("parcel", "ark:/99999/fk4")
    assert isinstance(found, Job)
    assert found.id == job
    assert store.queue.by_key("parcel", "another") is None


LISTED: dict[str, tuple[Filter, list[int]]] = {
    "everything": (Filter(), [1, 2, 3, 4]),
    "a kind": (Filter(kind="parcel"), [1, 2]),
    "kinds by prefix": (Filter(kind="robot/*"), [3, 4]),
    "a state": (Filter(state="failed"), [2]),
    "an end": (Filter(ended="failed"), [2]),
    "a code": (Filter(code="broken"), [2]),
    "a lane": (Filter(lane="north"), [1]),
    "a collection": (Filter(collection="maps"), [3]),
    "children of a job": (Filter(parent=-1), [4]),  # of the first
    "two things at once": (Filter(kind="robot/*", collection="maps"), [3]),
    "nothing": (Filter(kind="parcel", collection="maps"), []),
}


@pytest.mark.parametrize(("where", "expected"), LISTED.values(), ids=LISTED.keys())
def test_a_list_holds_what_its_filter_says(store: Store, where: Filter, expected: list[int]) -> None:
    first = submit(store, lane="north")
    made = [first, submit(store), submit(store, "robot/a", collection="maps"), submit(store, "robot/b", parent=first)]
    finish(store, made[1], "fail")
    asked = replace(where, parent=first) if where.parent else where

    assert [made.index(job.id) + 1 for job in store.queue.list(asked)] == expected


def test_lists_come_in_pages_that_neither_repeat_nor_leave_out(store: Store) -> None:
    made = [one.id for one in store.queue.submit([NewJob("parcel") for _ in range(25)])]

    pages = [store.queue.list(after=0, limit=10)]
    while pages[-1]:
        pages.append(store.queue.list(after=pages[-1][-1].id, limit=10))
    assert [len(page) for page in pages] == [10, 10, 5, 0]
    assert [job.id for page in pages for job in page] == made


def test_counts_say_how_many_stand_where(store: Store) -> None:
    for _ in range(3):
        submit(store)
    settle(store, take_one(store), "fail")
    order(store, submit(store, "letter"), "hold")

    assert list(store.queue.counts()) == [("letter", "held", 1), ("parcel", "failed", 1), ("parcel", "queued", 2)]


def test_a_closed_store_says_so_and_may_be_closed_again(url: str, clock: HandClock) -> None:
    store = open_store(url, clock)
    job = submit(store)
    state(store, job)
    store.close()

    for ask in (lambda: submit(store), lambda: store.queue.get(job)):
        with pytest.raises(Unavailable) as refusal:
            ask()
        assert refusal.value.code == "store.closed"
    store.close()

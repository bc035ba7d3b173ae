"""Idle is who has nothing to claim now, nor soon by itself: a job that waits for another's end comes back."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from custody.kernel.engine import Kind, Serving, Settings, Worker
from custody.kernel.model.graph import Edge
from custody.kernel.model.job import NewJob
from custody.kernel.model.outcome import Outcome, Passed, Wait
from custody.kernel.stores import Store, open_store


def quiet(store: Store, kind: Kind, place: str = "") -> float:
    began = time.monotonic()
    Worker(store, Serving((kind,)), Settings(threads=2, place=place)).run_until_quiet()
    return time.monotonic() - began


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """With the time that passes."""
    with open_store(url) as opened:
        yield opened


def test_what_waits_for_another_that_is_at_work_is_done_before_the_end(store: Store) -> None:
    writing = [False]

    def handle(work: object) -> Outcome:
        if writing[0]:
            return Wait(0.2, "another job is writing the same object")
        writing[0] = True
        time.sleep(0.1)  # it ends before the other one asks again
        writing[0] = False
        return Passed()

    store.queue.submit([NewJob("parcel", {"n": n}) for n in range(2)])
    quiet(store, Kind("parcel", handle))
    assert [job.state for job in store.queue.every()] == ["done", "done"]


def test_what_waits_for_somebody_in_another_process_is_waited_for(store: Store) -> None:
    until = time.monotonic() + 1.5
    quiet(store, Kind("parcel", lambda work: Passed()))
    store.queue.submit_one(NewJob("parcel"))
    quiet(
        store, Kind("parcel", lambda work: Passed() if time.monotonic() > until else Wait(0.2, "it is being written"))
    )
    assert [job.state for job in store.queue.every()] == ["done"]


def test_what_nobody_here_could_claim_soon_is_not_waited_for(store: Store) -> None:
    (first,) = (made.id for made in store.queue.submit([NewJob("parcel", delay=600)]))
    store.queue.submit(
        [
            NewJob("letter", delay=0.5),
            NewJob("parcel", delay=0.5, place="elsewhere"),
            NewJob("parcel", delay=0.5, needs=[Edge(first)]),
            NewJob("parcel", delay=0.5, lane="shut"),
        ]
    )
    store.queue.hold("lane", "shut", "ada", "it is broken")
    assert quiet(store, Kind("parcel", lambda work: Passed()), place="here") < 0.4
    assert {job.state for job in store.queue.every()} == {"queued"}

"""A job may find out while it is being worked on what it must wait for."""

from __future__ import annotations

from custody.kernel.engine import Kind, Serving, Work, Worker
from custody.kernel.model.graph import Edge
from custody.kernel.model.job import NewJob
from custody.kernel.model.outcome import Outcome, Passed, Wait
from custody.kernel.stores import Store


def test_needs_found_while_working_hold_the_job_until_they_are_met(store: Store) -> None:
    paper = store.queue.submit_one(NewJob("paper")).id
    parcel = store.queue.submit_one(NewJob("parcel")).id
    runs: list[int] = []

    def wrap(work: Work) -> Outcome:
        runs.append(work.job.id)
        return Passed() if len(runs) > 1 else Wait(0, "there is no paper yet", needs=[Edge(paper)])

    worker = Worker(store, Serving((Kind("parcel", wrap),)))
    worker.run_until_idle()
    assert runs == [parcel], "it waits, and is not tried again and again"
    assert [reason.job for reason in store.queue.why(parcel)] == [paper]
    assert store.queue.get(parcel).attempts == 0
    Worker(store, Serving((Kind("paper", lambda work: Passed()),))).run_until_idle()
    worker.run_until_idle()
    assert runs == [parcel, parcel]
    assert store.queue.get(parcel).state == "done"


def test_a_need_that_was_met_already_does_not_hold_it(store: Store) -> None:
    paper = store.queue.submit_one(NewJob("paper")).id
    Worker(store, Serving((Kind("paper", lambda work: Passed()),))).run_until_idle()
    parcel = store.queue.submit_one(NewJob("parcel")).id
    runs: list[int] = []

    def wrap(work: Work) -> Outcome:
        runs.append(work.job.id)
        return Passed() if len(runs) > 1 else Wait(0, "perhaps", needs=[Edge(paper), Edge(paper)])

    Worker(store, Serving((Kind("parcel", wrap),))).run_until_idle()
    assert runs == [parcel, parcel]

"""Answers that get lost, passes that die, surprises in the loop: the worker goes on, and nothing is forgotten."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from custody.errors import CustodyError, Unavailable
from custody.kernel.engine import Kind, Serving, Settings, Work, Worker
from custody.kernel.engine.pipe.keeper import Keeper
from custody.kernel.model.job import Answer, Change, Job, NewJob
from custody.kernel.model.machine import PLAIN
from custody.kernel.model.outcome import Failed, Outcome, Passed
from custody.kernel.operations.jobs import Operator
from custody.kernel.stores import Store, open_store
from faults.processes import until
from faults.troubled import Troubled, in_thread, passes, serving, submit
from kernel.stores.clock import HandClock

# Answers that get lost


def test_facts_whose_answer_was_lost_are_not_overwritten(store: Store, troubled: Troubled, clock: HandClock) -> None:
    job = submit(store)
    lost = [Unavailable("it was done, and nobody heard")]
    troubled.after = lambda verb: lost.pop() if verb == "write" and keeping and lost else None
    keeping: list[bool] = []

    def handler(work: Work) -> Outcome:
        keeping.append(True)
        for row in range(work.facts.get("rows", 0), 3):
            work.spawn([NewJob("letter", {"row": row})], rows=row + 1)
        return Passed(keep={"rows_in_all": work.facts["rows"]})

    Worker(Store.over("troubled", troubled), serving(handler)).run_until_idle()
    assert store.queue.get(job).facts == {"rows": 1}, "it was kept, whatever its keeper believes"
    clock.advance(10)
    Worker(store, serving(handler)).run_until_idle()
    assert store.queue.get(job).facts == {"rows": 3, "rows_in_all": 3}
    assert sorted(letter.payload["row"] for letter in store.queue.every() if letter.kind == "letter") == [0, 1, 2]


def test_a_handler_that_goes_on_after_a_lost_answer_is_told_what_was_kept(store: Store, troubled: Troubled) -> None:
    job = submit(store)
    lost = [Unavailable("it was done, and nobody heard")]
    keeping: list[bool] = []
    troubled.after = lambda verb: lost.pop() if verb == "write" and keeping and lost else None

    def handler(work: Work) -> Outcome:
        keeping.append(True)
        try:
            work.keep(ark="ark:/1/x")
        except Unavailable:
            pass
        return Passed(keep={"title": "maps"})

    Worker(Store.over("troubled", troubled), serving(handler)).run_until_idle()
    assert store.queue.get(job).facts == {"ark": "ark:/1/x", "title": "maps"}


def test_a_claim_that_fails_does_not_make_a_worker_forget_the_claims_before_it(
    store: Store, troubled: Troubled
) -> None:
    first = submit(store, "letter")
    submit(store, "parcel")
    troubled.before = lambda verb: Unavailable("away") if verb == "claim parcel" else None
    worker = Worker(Store.over("troubled", troubled), Serving((Kind("letter", passes), Kind("parcel", passes))))
    with pytest.raises(Unavailable):
        worker.run_until_idle()
    assert [work.job.id for work in worker._threads.ready] == [work.job.id for work in worker._keeper.held()] == [first]


# Passes


def test_a_pass_that_falls_over_does_not_stop_the_others(store: Store) -> None:
    told: list[CustodyError] = []

    class Watch:
        def started(self, job: Job) -> None: ...

        def settled(self, job: Job, change: Change, answer: Answer) -> None: ...

        def lost(self, job: Job, reason: str) -> None: ...

        def trouble(self, error: CustodyError) -> None:
            told.append(error)

    def decide(jobs: Sequence[Job]) -> dict[int, Outcome]:
        raise ZeroDivisionError("no disk at all")

    submit(store, "space")
    parcel = submit(store)
    kinds = Serving((Kind("space", decide=decide), Kind("parcel", passes)))
    assert Worker(store, kinds, listener=Watch()).run_until_idle() == 1
    assert store.queue.get(parcel).state == "done"
    assert "ZeroDivisionError: no disk at all" in str(told[0])


def test_a_pass_whose_words_about_one_job_cannot_be_written_still_moves_the_others(store: Store) -> None:
    jobs = [submit(store, "space") for _ in range(3)]

    def decide(waiting: Sequence[Job]) -> dict[int, Outcome]:
        return {job.id: Passed(then=[NewJob("no|such")] if job.id == jobs[1] else []) for job in waiting}

    Worker(store, Serving((Kind("space", decide=decide),))).run_until_idle()
    assert [store.queue.get(job).state for job in jobs] == ["done", "failed", "done"]


def test_a_job_whose_pass_died_between_claim_and_settle_is_decided_again(store: Store, clock: HandClock) -> None:
    job = submit(store, "space")
    store.queue.claim_jobs([job], "vanished", 30)
    clock.advance(31)
    kind = Kind("space", decide=lambda jobs: {each.id: Passed() for each in jobs})
    Worker(store, Serving((kind,))).run_until_idle()
    assert store.queue.get(job).state == "done"


# The loop, and what it keeps


def test_a_surprise_in_the_loop_is_told_and_the_loop_goes_on() -> None:
    with open_store("sqlite://:memory:") as store:
        troubled, trouble = Troubled(store.db), [ValueError("a row that cannot be read")]
        troubled.before = lambda verb: trouble.pop() if trouble and verb.startswith("claim") else None
        job = submit(store)
        worker = Worker(Store.over("troubled", troubled), serving(passes), Settings(poll=0.05))
        thread = in_thread(worker)
        until(lambda: store.queue.get(job).ended)
        worker.stop()
        thread.join()


def test_a_keeper_survives_a_surprise_and_asks_again(store: Store) -> None:
    submit(store)
    now, surprises = [100.0], [RuntimeError("odd")]

    class Odd:
        def renew(self, claims: object, seconds: float) -> dict[int, str]:
            if surprises:
                raise surprises.pop()
            return {}

    keeper = Keeper(Odd(), 30.0, lambda: now[0])  # type: ignore[arg-type]
    work = Work(store.queue.claim(["parcel|queued||"], "ann", 30)[0], store.queue)
    keeper.add([work], asked_at=now[0])
    for _ in range(2):
        now[0] += 11
        keeper.beat()
    assert not work.stopped


def test_what_the_keeper_finds_lost_is_written_down(store: Store, clock: HandClock) -> None:
    job = submit(store)

    def handler(work: Work) -> Outcome:
        clock.advance(31)
        Worker(store, serving(passes)).run_until_idle()
        worker._keeper._renew([work])
        return Passed()

    worker = Worker(store, serving(handler))
    worker.run_until_idle()
    (note,) = store.records.events(f"worker/{worker.holder}")
    assert (note.type, note.detail["job"], note.detail["code"]) == ("refused", job, "lease.lost")


def test_those_left_behind_are_all_taken_over_without_waiting_for_wake_ups() -> None:
    with open_store("sqlite://:memory:") as store:
        jobs = [submit(store) for _ in range(30)]
        store.queue.claim(["parcel|queued||"], "vanished", 0.01, 30)
        time.sleep(0.02)
        worker = Worker(store, serving(passes), Settings(poll=3600, wake=False))
        thread = in_thread(worker)
        until(lambda: all(store.queue.get(job).ended for job in jobs))
        worker.stop()
        thread.join()


def test_another_priority_does_not_bring_a_job_forward_in_time_nor_forget_its_failure(store: Store) -> None:
    operator = Operator(store, PLAIN, "ada")
    late = submit(store, delay=60)
    operator.prioritise(late, 3)
    job = store.queue.get(late)
    assert (job.priority, job.unmet, job.due is not None) == (3, 1, True)

    torn = submit(store)
    Worker(store, serving(lambda work: Failed("torn"))).run_until_idle()
    operator.prioritise(torn, 4)
    assert (store.queue.get(torn).code, store.queue.get(torn).priority) == ("torn", 4)

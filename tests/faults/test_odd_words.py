"""Outcomes that cannot be said, and handlers that behave oddly: each stops at most its own job."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from custody.errors import Unavailable
from custody.kernel.engine import Kind, Serving, Settings, Work, Worker
from custody.kernel.engine.pipe.run import run
from custody.kernel.engine.pipe.settler import Settler
from custody.kernel.engine.pipe.values import Finished, Settled
from custody.kernel.model.job import Job, NewJob
from custody.kernel.model.machine import PLAIN
from custody.kernel.model.outcome import Failed, Outcome, Passed
from custody.kernel.operations.jobs import Operator
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.sqlite.database import SqliteDatabase
from faults.audit import audit
from faults.processes import until
from faults.troubled import Troubled, in_thread, passes, serving, submit
from kernel.stores.clock import HandClock

# Work that can no longer be settled


def test_a_worker_forgets_work_it_could_not_settle_in_time_and_goes_on(troubled: Troubled) -> None:
    real = open_store("sqlite://:memory:")  # by the real clock: leases really end
    away = threading.Event()
    troubled = Troubled(real.db)
    troubled.before = lambda verb: Unavailable("away") if away.is_set() and verb[:6] in ("settle", "renew") else None
    begun: list[int] = []

    def handler(work: Work) -> Outcome:
        begun.append(work.job.id)
        return Passed()

    worker = Worker(
        Store.over("troubled", troubled), serving(handler, at_once=1), Settings(lease=3.0, poll=0.05, threads=1)
    )
    away.set()
    first = submit(real)
    thread = in_thread(worker)
    until(lambda: worker._keeper.losses >= 1, why="two thirds of the lease pass unconfirmed")
    away.clear()
    second = submit(real)
    until(lambda: real.queue.get(first).ended and real.queue.get(second).ended, why="both are done all the same")
    worker.stop()
    thread.join()
    assert begun.count(second) == 1
    assert not worker._held.busy
    assert audit(real) == []
    real.close()


def test_a_refusal_that_cannot_be_written_down_stops_nobody(store: Store, troubled: Troubled) -> None:
    settler = Settler(Store.over("troubled", troubled), serving(passes))
    submit(store)
    (claim,) = store.queue.claim(["parcel|queued||"], "ann", 30)
    work = Work(claim, store.queue)
    change = run(Kind("parcel", passes), work, chance=0.5, move="move-1", store=store)
    assert change is not None
    store.queue.release([claim])
    troubled.before = lambda verb: Unavailable("away") if verb == "write" else None
    ((end,),) = settler.settle([Finished(work, change)])
    assert isinstance(end, Settled)
    assert end.answer.code == "lease.lost"


def settle_together(store: Store, troubled: Troubled, outcomes: Sequence[Outcome]) -> list[Job]:
    """Claimed together, worked on, and settled in one batch."""
    jobs = [submit(store) for _ in outcomes]
    kind = Kind("parcel", lambda work: outcomes[jobs.index(work.job.id)])
    settler = Settler(Store.over("troubled", troubled), Serving((kind,)))
    works = [Work(claim, store.queue) for claim in store.queue.claim(["parcel|queued||"], "ann", 30, len(jobs))]
    changes = [(work, run(kind, work, chance=0.5, move=f"move-{work.job.id}", store=store)) for work in works]
    for _ in settler.settle([Finished(work, change) for work, change in changes if change]):
        pass
    return [store.queue.get(job) for job in jobs]


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (Passed(then=[NewJob("no|such")]), "job.field"),
        (Passed(keep={"thing": object()}), "value.json"),
        (Failed("odd", detail={"thing": object()}), "value.json"),
    ],
)
def test_words_that_cannot_be_written_fail_their_own_job_and_no_other(
    store: Store, troubled: Troubled, bad: Outcome, code: str
) -> None:
    first, odd, last = settle_together(store, troubled, [Passed(), bad, Passed()])
    assert (first.state, odd.state, odd.code, last.state) == ("done", "failed", code, "done")


def test_words_over_which_the_store_stumbles_cost_their_own_job_a_try_and_the_others_nothing(
    store: Store, troubled: Troubled
) -> None:
    troubled.before = lambda verb: RuntimeError("a bug in the store") if "trip" in verb else None
    first, odd, last = settle_together(store, troubled, [Passed(), Passed({"say": "trip"}), Passed()])
    assert (first.state, odd.state, odd.code, last.state) == ("done", "queued", "surprise", "done")


def test_if_nothing_at_all_can_be_said_the_lease_is_left_to_end(store: Store, troubled: Troubled) -> None:
    troubled.before = lambda verb: RuntimeError("broken") if verb.startswith("settle") else None
    (job,) = settle_together(store, troubled, [Passed()])
    assert (job.state, job.holder) == ("queued", "ann")


# Handlers that behave oddly


def test_a_handler_that_leaves_the_process_ends_only_itself() -> None:
    with open_store("sqlite://:memory:") as store:

        def handler(work: Work) -> Outcome:
            if work.payload.get("leaves"):
                raise SystemExit(3)
            return Passed()

        leaver, other = submit(store, payload={"leaves": True}), submit(store)
        worker = Worker(store, serving(handler), Settings(threads=1, poll=0.05))
        thread = in_thread(worker)
        until(lambda: store.queue.get(other).ended, why="the only hand is still there")
        worker.stop()
        thread.join()
        assert store.records.events(f"job/{leaver}")[-1].detail["reason"] == "SystemExit: 3"


def test_what_is_no_outcome_is_a_failure_that_says_so(store: Store) -> None:
    job = submit(store)
    Worker(store, serving(lambda work: "fine")).run_until_idle()
    assert "returned a str; it must return an outcome" in store.records.events(f"job/{job}")[-1].detail["reason"]


@pytest.mark.parametrize("reason", ["lost", "unconfirmed", "shutdown"])
def test_work_that_was_stopped_while_it_waited_for_its_turn_is_not_begun(
    store: Store, clock: HandClock, reason: str
) -> None:
    submit(store)
    store.queue.claim(["parcel|queued||"], "vanished", 30)
    clock.advance(31)
    (claim,) = store.queue.claim_expired(["parcel|"], "ann", 30)
    done: list[str] = []

    def handler(work: Work) -> Outcome:
        done.append("begun")
        return Passed()

    work = Work(claim, store.queue)
    work.stop(reason)
    kind = Kind("parcel", handler, confirm_dead=lambda job: done.append("looked for survivors"))
    assert run(kind, work, chance=0.5, move="move", store=store) is None
    assert done == ([] if work.lost else ["looked for survivors"])


@pytest.mark.parametrize("revoked", [False, True])
def test_while_the_death_of_an_earlier_attempt_cannot_be_confirmed_nothing_is_begun_or_said(
    store: Store, clock: HandClock, revoked: bool
) -> None:
    job = submit(store)
    store.queue.claim(["parcel|queued||"], "vanished", 30)
    if revoked:
        Operator(store, PLAIN, "ada").cancel(job, "stop")
    begun: list[int] = []
    alive = True

    def confirm_dead(_: Job) -> None:
        if alive:
            raise Unavailable("the container engine does not answer")

    def handler(work: Work) -> Outcome:
        begun.append(work.job.id)
        return Passed()

    for _ in range(5):  # nobody died of it, however often they have to ask
        clock.advance(31)
        Worker(store, serving(handler, confirm_dead=confirm_dead)).run_until_idle()
        assert (store.queue.get(job).state, store.queue.get(job).crashes, begun) == ("queued", 0, [])
    alive = False
    clock.advance(31)
    Worker(store, serving(handler, confirm_dead=confirm_dead)).run_until_idle()
    assert (store.queue.get(job).state, begun) == (("cancelled", []) if revoked else ("done", [job]))


@pytest.mark.parametrize("spoilt", ['{"half', "[1, 2]", "", "5"])
def test_one_spoilt_row_fails_alone_and_stops_nobody(store: Store, spoilt: str) -> None:
    jobs = [submit(store, payload={"weight": 1}) for _ in range(20)]
    assert isinstance(store.db, SqliteDatabase)
    store.db._writer._db.execute("update job set payload = ? where id = ?", (spoilt, jobs[3]))

    def handler(work: Work) -> Outcome:
        return Passed({"weighs": work.payload["weight"]})

    Worker(store, serving(handler, tries=1)).run_until_idle()
    assert [job for job in jobs if store.queue.get(job).state != "done"] == [jobs[3]]
    bad = store.queue.get(jobs[3])
    assert (bad.state, bad.payload) == ("failed", {"unreadable": spoilt})

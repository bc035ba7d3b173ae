"""What a handler returns, and what becomes of the job."""

from __future__ import annotations

from functools import partial

import pytest

from custody.errors import BadInput, Refused, StateConflict, Unavailable
from custody.kernel.engine import Backoff, Kind, Work
from custody.kernel.engine.changes import claimed_change
from custody.kernel.engine.judge import judge
from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import NewItem
from custody.kernel.model.job import Job, NewJob
from custody.kernel.model.machine import PLAIN, WORK
from custody.kernel.model.outcome import Failed, Hold, Passed, Wait
from custody.kernel.operations.jobs import Operator
from kernel.engine.conftest import Bench


def test_passed_saves_facts_jobs_items_and_events_together(bench: Bench) -> None:
    def handler(work: Work) -> Passed:
        return Passed(
            {"weight": 3},
            keep={"box": "blue"},
            then=[NewJob("letter")],
            items=[NewItem("ark:/1/x", frozenset({"object"}))],
            events=[NewEvent("ark:/1/x", "wrapped")],
        )

    parcel = bench.submit()
    bench.run(handler)
    job = bench.job(parcel)
    assert (job.state, job.ended, job.last_passed, job.facts) == ("done", "passed", "queued", {"box": "blue"})
    assert [kind for kind, _, _ in bench.store.queue.counts()] == ["letter", "parcel"]
    assert bench.store.records.latest("ark:/1/x")["wrapped"].outcome == "success"


def test_a_permanent_failure_waits_for_a_person(bench: Bench) -> None:
    parcel = bench.submit()
    bench.run(lambda work: Failed("torn", "the paper is torn"))
    job = bench.job(parcel)
    assert (job.state, job.code) == ("failed", "torn")
    assert bench.store.records.events(job.subject)[-1].detail["reason"] == "the paper is torn"
    assert [(group.code, group.count) for group in bench.store.queue.failures()] == [("torn", 1)]


def test_a_transient_failure_comes_back_later_each_time_until_its_tries_are_spent(bench: Bench) -> None:
    parcel = bench.submit()
    pauses = []
    for _ in range(4):
        before = bench.clock.at
        bench.run(lambda work: Failed("busy", transient=True), tries=5, backoff=Backoff(first=10, jitter=0))
        due = bench.job(parcel).due
        assert due is not None
        pauses.append((due - before) // 1_000_000)
        assert bench.run(lambda work: Passed()) == 0, "it must not be claimable before its time"
        bench.clock.at = due
    assert pauses == [10, 20, 40, 80]
    bench.run(lambda work: Failed("busy", transient=True), tries=5)
    assert bench.job(parcel).state == "failed"
    assert bench.types(parcel) == ["submitted", *["retried"] * 4, "failed"]


def test_workers_that_die_use_up_none_of_its_tries(bench: Bench) -> None:
    parcel = bench.submit()
    for _ in range(6):
        bench.store.queue.claim(["parcel|queued||"], "vanished", 30) or bench.store.queue.claim_expired(
            ["parcel|"], "vanished", 30
        )
        bench.clock.advance(seconds=31)
    for number in range(3):
        assert bench.job(parcel).ended is None, f"after {number} tries"
        bench.run(lambda work: Failed("busy", transient=True), tries=3, backoff=Backoff(first=10, jitter=0))
        bench.clock.advance(seconds=601)
    assert bench.job(parcel).ended == "failed"
    assert bench.types(parcel) == ["submitted", "retried", "retried", "failed"]


def test_tries_are_counted_anew_after_a_person_has_resumed_it(bench: Bench) -> None:
    parcel = bench.submit()
    busy = partial(bench.run, lambda work: Failed("busy", transient=True), tries=2, backoff=Backoff(first=10, jitter=0))
    busy()
    bench.clock.advance(seconds=601)
    busy()
    assert bench.job(parcel).ended == "failed"
    Operator(bench.store, PLAIN, "ada").resume(parcel, "the disk is back")
    busy()
    bench.clock.advance(seconds=601)
    assert bench.job(parcel).ended is None
    busy()
    assert bench.types(parcel)[-3:] == ["resumed", "retried", "failed"]


@pytest.mark.parametrize(
    ("error", "state", "code"),
    [
        (BadInput("no", code="manifest.syntax"), "failed", "manifest.syntax"),
        (Refused("no", code="identifier.mismatch"), "failed", "identifier.mismatch"),
        (Unavailable("down", code="storage.disk"), "queued", "storage.disk"),
        (ValueError("oh"), "queued", "surprise"),
    ],
)
def test_an_exception_is_judged_by_its_type(bench: Bench, error: Exception, state: str, code: str) -> None:
    def handler(work: Work) -> Passed:
        raise error

    parcel = bench.submit()
    bench.run(handler)
    assert (bench.job(parcel).state, bench.job(parcel).code) == (state, code)


def test_a_surprise_keeps_its_traceback_in_the_history(bench: Bench) -> None:
    def handler(work: Work) -> Passed:
        raise ZeroDivisionError("here")

    parcel = bench.submit()
    bench.run(handler)
    assert "ZeroDivisionError: here" in bench.store.records.events(f"job/{parcel}")[-1].detail["traceback"]


def test_waiting_gives_the_attempt_back(bench: Bench) -> None:
    parcel = bench.submit()
    bench.run(lambda work: Wait(60, "the paper is drying"))
    job = bench.job(parcel)
    assert (job.state, job.attempts) == ("queued", 0)
    assert "before its time" in bench.store.queue.why(parcel)[0].text


def test_a_handler_that_returns_nothing_is_told_so(bench: Bench) -> None:
    parcel = bench.submit()
    bench.run(lambda work: None)  # type: ignore[arg-type, return-value]
    assert "must return an outcome" in bench.store.records.events(f"job/{parcel}")[-1].detail["reason"]


def test_an_async_handler_runs_in_a_loop_of_its_own(bench: Bench) -> None:
    async def handler(work: Work) -> Passed:
        return Passed(keep={"loop": True})

    parcel = bench.submit()
    bench.run(handler)  # type: ignore[arg-type]
    assert bench.job(parcel).facts == {"loop": True}


def test_facts_kept_early_survive_a_failure_later_in_the_same_attempt(bench: Bench) -> None:
    def handler(work: Work) -> Failed:
        if "ark" not in work.facts:
            work.keep(ark="ark:/1/minted")
        return Failed("storage", transient=True)

    parcel = bench.submit()
    bench.run(handler)
    assert bench.job(parcel).facts == {"ark": "ark:/1/minted"}
    bench.clock.advance(10)
    bench.run(lambda work: Passed({"ark": work.facts["ark"]}))
    assert bench.store.records.events(f"job/{parcel}")[-1].detail["ark"] == "ark:/1/minted"
    assert bench.types(parcel) == ["submitted", "kept", "retried", "passed"]


def test_holding_from_a_handler_is_undone_by_release(bench: Bench) -> None:
    operator = Operator(bench.store, PLAIN, "ada")
    parcel = bench.submit()
    bench.run(lambda work: Hold("the address looks wrong"))
    assert bench.job(parcel).state == "held"
    operator.release(parcel, "it is right")
    bench.run(lambda work: Passed())
    assert bench.types(parcel) == ["submitted", "held", "released", "passed"]


def test_a_held_collection_holds_its_jobs_when_they_are_claimed_and_names_who_and_why(bench: Bench) -> None:
    operator = Operator(bench.store, PLAIN, "ada")
    bench.store.queue.hold("collection", "maps", "ada", "rights being checked")
    parcel = bench.submit(collection="maps")
    bench.run(lambda work: Passed())
    assert bench.job(parcel).state == "held"
    assert "held by ada: rights being checked" in bench.store.queue.why(parcel)[0].text
    with pytest.raises(Refused, match="rights being checked"):
        operator.release(parcel)
    bench.store.queue.lift("collection", "maps", "ada")
    assert bench.job(parcel).state == "held", "lifting a hold releases nothing by itself"
    operator.release(parcel)
    assert bench.run(lambda work: Passed()) == 1


def test_each_command_is_one_event_and_what_the_table_forbids_is_refused(bench: Bench) -> None:
    operator = Operator(bench.store, PLAIN, "ada")
    parcel = bench.submit()
    operator.prioritise(parcel, 7)
    operator.hold(parcel, "wait")
    with pytest.raises(StateConflict, match="cannot resume"):
        operator.resume(parcel)
    operator.release(parcel)
    operator.cancel(parcel, "not needed")
    with pytest.raises(StateConflict):
        operator.cancel(parcel, "again")
    operator.resume(parcel, "needed after all")
    assert bench.job(parcel).retries == 1
    with pytest.raises(StateConflict, match="cancel 1"):
        operator.delete(parcel, "x")
    operator.cancel(parcel, "no")
    assert operator.delete(parcel, "cleaning up")
    assert not operator.delete(parcel, "again")
    assert bench.types(parcel) == [
        "submitted",
        "prioritised",
        "held",
        "released",
        "cancelled",
        "resumed",
        "cancelled",
        "deleted",
    ]


def test_a_job_that_is_resumed_while_it_is_being_deleted_stays(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    operator, look = Operator(bench.store, PLAIN, "ada"), bench.store.queue.get
    parcel = bench.submit()
    operator.cancel(parcel, "not needed")

    def looked(number: int) -> Job:
        seen = look(number)
        monkeypatch.setattr(bench.store.queue, "get", look)
        operator.resume(number, "needed after all")
        return seen

    monkeypatch.setattr(bench.store.queue, "get", looked)
    with pytest.raises(StateConflict, match="queued by now"):
        operator.delete(parcel, "cleaning up")
    assert bench.job(parcel).state == "queued"


def test_kinds_not_served_are_left_alone(bench: Bench) -> None:
    letter = bench.submit("letter")
    assert bench.run(lambda work: Passed(), kind="parcel") == 0
    assert bench.job(letter).attempts == 0


def test_a_kind_with_a_star_serves_all_that_begin_so(bench: Bench) -> None:
    first, second = bench.submit("robot/fixity"), bench.submit("robot/format")
    assert bench.run(lambda work: Passed(), kind="robot/*") == 2
    assert bench.job(first).ended == bench.job(second).ended == "passed"


def test_two_handlers_for_one_queue_are_refused(bench: Bench) -> None:
    with pytest.raises(BadInput, match="two handlers"):
        bench.worker(Kind("parcel", lambda work: Passed()), Kind("parcel", lambda work: Passed()))


def test_a_pass_is_made_as_the_table_of_changes_says(bench: Bench) -> None:
    """It is written out by itself, for speed."""
    bench.submit()
    (claim,) = bench.store.queue.claim(["parcel|queued||"], "ann", 30)
    passed = judge(Kind("parcel"), claim, Passed(), facts={}, chance=0.5, move="m-1")
    more = {"last_passed": "queued", "by": claim.job.by, "facts": None}
    assert passed == claimed_change(claim, WORK, "pass", move="m-1", **more)

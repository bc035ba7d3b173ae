"""Losing a lease, being revoked, dying: what a worker may still say, and what it costs the job."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from custody.errors import LeaseLost, Unavailable
from custody.kernel.engine import Kind, Serving, Settings, Work, Worker
from custody.kernel.engine.pipe.keeper import Keeper
from custody.kernel.model.job import Claim, Job, NewJob
from custody.kernel.model.machine import PLAIN
from custody.kernel.model.outcome import Outcome, Passed
from custody.kernel.operations.jobs import Operator
from custody.kernel.stores import Store, open_store
from kernel.engine.conftest import Bench


def until(what: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.002)


def test_a_worker_that_lost_its_job_is_refused_and_it_is_written_down(bench: Bench) -> None:
    parcel = bench.submit()

    def slow(work: Work) -> Passed:
        bench.clock.advance(31)
        bench.run(lambda work: Passed({"by": "the other"}))
        return Passed({"by": "the sleeper"})

    sleeper = bench.worker(Kind("parcel", slow), lease=30.0)
    assert sleeper.run_until_idle() == 0
    assert bench.store.records.events(f"job/{parcel}")[-1].detail["by"] == "the other"
    notes = bench.store.records.events(f"worker/{sleeper.holder}")
    assert [(note.type, note.detail["job"], note.detail["code"]) for note in notes] == [
        ("refused", parcel, "lease.lost")
    ]


def test_nothing_is_kept_under_a_lost_lease(bench: Bench) -> None:
    bench.submit()
    lost: list[type[BaseException]] = []

    def slow(work: Work) -> Passed:
        bench.clock.advance(31)
        bench.run(lambda work: Passed())
        try:
            work.keep(ark="ark:/1/late")
        except LeaseLost as error:
            lost.append(type(error))
            raise
        return Passed()

    bench.run(slow)
    assert lost == [LeaseLost]
    assert bench.job(1).facts == {}


class _Silent:
    """A queue whose renewals get no answer."""

    def renew(self, claims: object, seconds: float) -> dict[int, str]:
        raise Unavailable("no answer")


def test_work_is_stopped_when_two_thirds_of_the_lease_pass_unconfirmed(bench: Bench) -> None:
    bench.submit()
    now = [100.0]
    keeper = Keeper(_Silent(), 30.0, lambda: now[0])  # type: ignore[arg-type]
    claim = bench.store.queue.claim(["parcel|queued||"], "ann", 30)[0]
    work = Work(claim, bench.store.queue)
    killed: list[str] = []
    work.on_stop(lambda: killed.append(work.stop_reason))
    keeper.add([work], asked_at=now[0])
    now[0] += 19.9
    keeper.beat()
    assert not work.stopped
    now[0] += 0.2
    keeper.beat()
    assert killed == ["unconfirmed"]
    assert work.lost


def test_work_that_fell_silent_because_nobody_could_be_asked_is_written_down(bench: Bench) -> None:
    job = bench.submit()

    def slow(work: Work) -> Outcome:
        work.stop("unconfirmed")
        return Passed()

    worker = bench.worker(Kind("parcel", slow, at_most=1))
    worker.run_until_idle()
    assert bench.types(job) == ["submitted"], "nothing is said about it"
    (note,) = bench.store.records.events(f"worker/{worker.holder}")
    assert (note.type, note.detail["job"], note.detail["code"]) == ("silenced", job, "lease.unconfirmed")


def test_trust_counts_from_when_the_renewal_was_sent_not_from_its_answer(bench: Bench) -> None:
    bench.submit()
    now = [100.0]

    class Slow:
        def renew(self, claims: object, seconds: float) -> dict[int, str]:
            now[0] += 15
            return {}

    keeper = Keeper(Slow(), 30.0, lambda: now[0])  # type: ignore[arg-type]
    work = Work(bench.store.queue.claim(["parcel|queued||"], "ann", 30)[0], bench.store.queue)
    keeper.add([work], asked_at=now[0])
    now[0] += 10
    keeper.beat()  # sent at 110, answered at 125: good until 130, not 145
    keeper._queue = _Silent()  # type: ignore[assignment]
    now[0] = 129.9
    keeper.beat()
    assert not work.stopped
    now[0] = 130.1
    keeper.beat()
    assert work.stop_reason == "unconfirmed"


@pytest.fixture
def file_store(tmp_path: object) -> Store:
    return open_store(f"sqlite:///{tmp_path}/custody.db")


def in_thread(worker: Worker) -> threading.Thread:
    thread = threading.Thread(target=worker.run_forever)
    thread.start()
    return thread


def test_a_cancelled_job_is_stopped_and_its_end_is_confirmed_by_its_holder(file_store: Store) -> None:
    dead = threading.Event()

    def handler(work: Work) -> Outcome:
        work.on_stop(dead.set)
        work.wait(120)
        return Passed({"finished": "all the same"})

    job = file_store.queue.submit_one(NewJob("parcel")).id
    worker = Worker(file_store, Serving((Kind("parcel", handler),)), Settings(lease=6.0))
    thread = in_thread(worker)
    until(lambda: file_store.queue.get(job).holder)
    answer = Operator(file_store, PLAIN, "ada").cancel(job, "wrong address")
    assert answer.code == "asked"
    assert file_store.queue.get(job).ended is None, "it is not cancelled before its work is dead"
    until(lambda: file_store.queue.get(job).ended)
    assert dead.is_set()
    assert file_store.queue.get(job).state == "cancelled"
    assert [event.type for event in file_store.records.events(f"job/{job}")] == ["submitted", "revoked", "cancelled"]
    worker.stop()
    thread.join()


def test_finishing_after_being_revoked_still_ends_as_cancelled(bench: Bench) -> None:
    parcel = bench.submit()

    def handler(work: Work) -> Passed:
        Operator(bench.store, PLAIN, "ada").cancel(parcel, "too late")
        return Passed()

    bench.run(handler)
    assert bench.job(parcel).state == "cancelled"


def test_whoever_claims_a_revoked_job_of_a_vanished_worker_only_confirms_its_death(bench: Bench) -> None:
    parcel = bench.submit()
    bench.store.queue.claim(["parcel|queued||"], "vanished", 30)
    Operator(bench.store, PLAIN, "ada").cancel(parcel, "stop")
    bench.clock.advance(31)
    confirmed: list[int] = []
    ran: list[int] = []

    def handler(work: Work) -> Passed:
        ran.append(work.job.id)
        return Passed()

    bench.run(handler, confirm_dead=lambda job: confirmed.append(job.id))
    assert (bench.job(parcel).state, confirmed, ran) == ("cancelled", [parcel], [])


def test_a_job_whose_worker_dies_alone_with_it_is_put_aside_and_its_neighbours_are_not_charged(bench: Bench) -> None:
    poison = bench.submit(payload={"poison": True})
    others = [bench.submit() for _ in range(99)]
    bench.store.queue.claim(["parcel|queued||"], "batch-of-a-hundred", 30, 100)
    ran: list[int] = []

    class Dies(BaseException):
        pass

    def handler(work: Work) -> Passed:
        if work.payload.get("poison"):
            raise Dies
        ran.append(work.job.id)
        return Passed()

    deaths = 0
    for _ in range(10):
        bench.clock.advance(31)
        try:
            if bench.run(handler) == 0:
                break
        except Dies:
            deaths += 1
    assert (bench.job(poison).state, bench.job(poison).code) == ("failed", "poison")
    assert deaths == 2, "one in company and one alone; with the first of all, three"
    assert sorted(ran) == others
    assert {bench.job(other).crashes for other in others} == {0}


def test_what_was_taken_over_is_worked_on_although_the_next_look_fails(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    parcel, letter = bench.submit(), bench.submit(kind="letter")
    bench.store.queue.claim(["parcel|queued||", "letter|queued||"], "vanished", 30, 2)
    bench.clock.advance(31)
    worker = bench.worker(Kind("parcel", lambda work: Passed()), Kind("letter", lambda work: Passed()))
    claim_expired, troubles = bench.store.queue.claim_expired, [Unavailable("away", code="store.down")]

    def fails_once(serves: Sequence[str], *more: Any, **named: Any) -> list[Claim]:
        if serves == ["letter|queued|"] and troubles:
            raise troubles.pop()
        return claim_expired(serves, *more, **named)

    monkeypatch.setattr(bench.store.queue, "claim_expired", fails_once)
    with pytest.raises(Unavailable):
        worker.run_until_idle()
    worker._rescuer.next_look = 0.0  # it is time to look again
    worker.run_until_idle()
    assert (bench.job(parcel).state, bench.job(letter).state) == ("done", "done")
    assert not worker._quarantine.count


@pytest.mark.parametrize("kind", ["parcel", "par*"])
def test_what_was_left_behind_at_another_place_is_left_alone_whatever_the_kind_serves(bench: Bench, kind: str) -> None:
    elsewhere, here = bench.submit(place="shelf-2"), bench.submit(place="shelf-1")
    bench.store.queue.claim(["parcel|queued|shelf-2|", "parcel|queued|shelf-1|"], "vanished", 30, 2)
    bench.clock.advance(31)
    bench.worker(Kind(kind, lambda work: Passed()), place="shelf-1").run_until_idle()
    assert (bench.job(elsewhere).state, bench.job(here).state) == ("queued", "done")
    assert bench.job(elsewhere).token == 2, "nobody has touched it since it was claimed"


def test_a_graceful_stop_gives_back_what_was_not_started_and_charges_no_attempt(file_store: Store) -> None:
    both_started, asked_to_leave = threading.Barrier(2), threading.Event()
    begun: list[int] = []

    def handler(work: Work) -> Outcome:
        begun.append(work.job.id)
        both_started.wait(60)
        asked_to_leave.wait(60)
        return Passed()

    ids = [made.id for made in file_store.queue.submit([NewJob("parcel") for _ in range(20)])]
    worker = Worker(file_store, Serving((Kind("parcel", handler),)), Settings(threads=2, grace=60))
    worker._prefetch.seconds = 1e-6  # as if the work had been quick so far: many are kept at hand
    thread = in_thread(worker)
    until(lambda: len(begun) == 2)
    worker.stop()
    until(lambda: worker._threads._stopping and not worker._threads.ready)  # the others are given back
    asked_to_leave.set()
    thread.join()
    jobs = [file_store.queue.get(job) for job in ids]
    assert {job.holder for job in jobs} == {None}
    assert {job.attempts for job in jobs} == {0}
    done = [job for job in jobs if job.ended]
    assert [job.id for job in done] == sorted(begun), "what was begun is finished, nothing else"
    assert all(job.state == "done" for job in done)


def test_work_that_does_not_finish_within_the_grace_is_released_and_its_late_word_refused(file_store: Store) -> None:
    release = threading.Event()

    def stubborn(work: Work) -> Outcome:
        release.wait(120)
        return Passed()

    job = file_store.queue.submit_one(NewJob("parcel")).id
    worker = Worker(file_store, Serving((Kind("parcel", stubborn),)), Settings(threads=1, grace=0.1))
    thread = in_thread(worker)
    until(lambda: file_store.queue.get(job).holder)
    worker.stop()
    thread.join()
    found = file_store.queue.get(job)
    assert (found.holder, found.attempts, found.ended) == (None, 0, None)
    release.set()
    other = Worker(file_store, Serving((Kind("parcel", lambda work: Passed({"by": "other"})),)))
    assert other.run_until_idle() == 1
    assert file_store.records.events(f"job/{job}")[-1].detail["by"] == "other"


def test_work_that_may_live_on_by_itself_is_not_released_while_it_is_under_way(file_store: Store) -> None:
    """Released, it could be said to be cancelled while its sandbox is still dying."""
    release, asked = threading.Event(), list[int]()

    def stubborn(work: Work) -> Outcome:
        release.wait(120)
        return Passed()

    def confirm_dead(job: Job) -> None:
        asked.append(job.id)

    job = file_store.queue.submit_one(NewJob("parcel")).id
    kind = Kind("parcel", stubborn, confirm_dead=confirm_dead)
    worker = Worker(file_store, Serving((kind,)), Settings(threads=1, grace=0.1, lease=3))
    thread = in_thread(worker)
    until(lambda: file_store.queue.get(job).holder)
    worker.stop()
    thread.join()
    release.set()
    assert file_store.queue.get(job).holder == worker.holder
    other = Worker(file_store, Serving((replace(kind, handler=lambda work: Passed()),)))
    until(other.run_until_idle)
    found = file_store.queue.get(job)
    assert (found.ended, found.crashes, asked) == ("passed", 0, [job])


@pytest.mark.parametrize("wake", [True, False])
def test_everything_completes_with_and_without_wake_ups(file_store: Store, wake: bool) -> None:
    worker = Worker(file_store, Serving((Kind("parcel", lambda work: Passed()),)), Settings(poll=0.2, wake=wake))
    thread = in_thread(worker)
    for _ in range(3):
        time.sleep(0.05)
        file_store.queue.submit([NewJob("parcel") for _ in range(10)])
    until(lambda: worker.settled_count == 30)
    worker.stop()
    thread.join()


def test_at_most_so_many_of_a_kind_run_at_once(file_store: Store) -> None:
    now, most, lock, two = 0, 0, threading.Lock(), threading.Event()

    def handler(work: Work) -> Outcome:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
            if now == 2:
                two.set()
        assert two.wait(60)
        time.sleep(0.01)
        with lock:
            now -= 1
        return Passed()

    file_store.queue.submit([NewJob("parcel") for _ in range(20)])
    worker = Worker(file_store, Serving((Kind("parcel", handler, at_once=2),)), Settings(threads=8))
    worker.run_until_quiet()
    assert worker.settled_count == 20
    assert most == 2


def test_lanes_take_turns(bench: Bench) -> None:
    for _ in range(50):
        bench.submit(lane="busy")
    quiet = [bench.submit(lane="quiet") for _ in range(2)]
    order: list[str] = []

    def handler(work: Work) -> Passed:
        order.append(work.job.lane)
        return Passed()

    bench.run(handler)
    assert order.index("quiet") < 4
    assert {bench.job(job).state for job in quiet} == {"done"}


def test_a_job_pinned_to_a_place_waits_for_a_worker_of_that_place(bench: Bench) -> None:
    parcel = bench.submit(place="attic")
    assert bench.run(lambda work: Passed()) == 0
    assert "pinned to attic" in bench.store.queue.why(parcel)[0].text
    worker = bench.worker(Kind("parcel", lambda work: Passed()), place="attic")
    assert worker.run_until_idle() == 1

"""Trouble of one kind stays there: what fails beside the work keeps nobody from working."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from custody.errors import BadInput, CustodyError, Unavailable
from custody.kernel.engine import Chore, Kind, Serving, Settings, Work, Worker
from custody.kernel.engine.listeners import NOTHING, Listener
from custody.kernel.engine.maintenance import chores
from custody.kernel.engine.pipe.keeper import Keeper
from custody.kernel.model.job import Answer, Change, Claim, Job, NewJob
from custody.kernel.model.outcome import Outcome, Passed
from custody.kernel.stores import open_store
from kernel.engine.conftest import Bench, HandClock
from kernel.engine.test_leases import until

SOON = 60.0


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Bench]:
    """As `bench`, for workers with threads."""
    clock = HandClock()
    with open_store(f"sqlite:///{tmp_path}/custody.db", clock) as store:
        yield Bench(store, clock)


def run_until(worker: Worker, what: Callable[[], object]) -> None:
    thread = threading.Thread(target=worker.run_forever)
    thread.start()
    try:
        until(what, SOON)
    finally:
        worker.stop()
        thread.join()


# The keeper


class Renewing:
    """A queue of which only the renewals are asked for."""

    def __init__(self, renew: Callable[[], None]) -> None:
        self._renew = renew

    def renew(self, claims: object, seconds: float) -> dict[int, str]:
        self._renew()
        return {}


def claimed(bench: Bench) -> Work:
    return Work(bench.store.queue.claim(["parcel|queued||"], "ann", 30)[0], bench.store.queue)


def test_a_renewal_that_is_answered_late_does_not_put_an_old_claim_in_the_place_of_a_newer_one(bench: Bench) -> None:
    bench.submit()
    now, first, second = [100.0], claimed(bench), list[Work]()

    def meanwhile() -> None:
        if not second:
            bench.store.queue.release([first.claim])
            keeper.drop([first])
            second.append(claimed(bench))
            keeper.add(second, now[0])

    keeper = Keeper(Renewing(meanwhile), 30.0, lambda: now[0])  # type: ignore[arg-type]
    keeper.add([first], now[0])
    now[0] += 11
    keeper.beat()
    assert keeper.held() == second, "else nobody would renew it, nor stop its work in time"


def test_work_is_stopped_in_time_while_a_store_that_says_nothing_keeps_a_renewal_waiting(bench: Bench) -> None:
    bench.submit()
    asked, answered = threading.Event(), threading.Event()

    def silence() -> None:
        asked.set()
        answered.wait(SOON)

    keeper = Keeper(Renewing(silence), 0.3)  # type: ignore[arg-type]
    work = claimed(bench)
    keeper.add([work], keeper._clock())
    keeper.start()
    try:
        assert asked.wait(SOON)
        until(lambda: work.stopped, SOON / 2)
        assert not answered.is_set()
        assert work.stop_reason == "unconfirmed"
    finally:
        answered.set()
        keeper.close()


def test_whoever_slept_past_its_lease_asks_first_who_has_the_job_now(bench: Bench) -> None:
    bench.submit()
    now, looks = [100.0], list[float | None]()
    keeper = Keeper(Renewing(lambda: looks.append(keeper.watch(None))), 30.0, lambda: now[0])  # type: ignore[arg-type]
    work = claimed(bench)
    keeper.add([work], now[0])
    now[0] += 1000  # stopped, and woken
    assert keeper.watch(keeper.watch(None)) is None
    assert not work.stopped, "nobody has been asked yet"
    keeper.beat()
    assert looks == [now[0]]
    assert not work.stopped, "it was asked, and answered: it is still ours"
    keeper.watch(looks[0])
    assert not work.stopped


def test_what_is_to_be_called_at_a_stop_may_fail_and_the_rest_is_called_all_the_same(bench: Bench) -> None:
    bench.submit()
    work, told = claimed(bench), list[str]()

    def fails() -> None:
        raise PermissionError("not yours to kill")

    work.on_stop(fails)
    work.on_stop(lambda: told.append(work.stop_reason))
    work.stop("lost")
    assert told == ["lost"]


# The hands, and those who watch them


async def cancelled(work: Work) -> Outcome:
    raise asyncio.CancelledError


class Odd(BaseException):
    pass


def odd(work: Work) -> Outcome:
    raise Odd("no exception at all")


@pytest.mark.parametrize("handler", [cancelled, odd])
def test_a_hand_outlives_whatever_its_work_throws(desk: Bench, handler: Callable[[Work], Outcome]) -> None:
    thrown, next_one = desk.submit(), desk.submit(kind="letter")
    kinds = Serving((Kind("parcel", handler, tries=1), Kind("letter", lambda work: Passed())))
    run_until(
        Worker(desk.store, kinds, Settings(threads=1)),
        lambda: desk.job(thrown).ended and desk.job(next_one).ended,
    )
    assert (desk.job(thrown).state, desk.job(thrown).code) == ("failed", "surprise")
    assert desk.job(next_one).state == "done"


def test_whoever_settles_outlives_any_trouble_with_one_of_them(desk: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    get = desk.store.queue.get

    def surprise(job_id: int) -> Job:
        if threading.current_thread().name == "custody-settler":  # which asks how a job was revoked
            raise RuntimeError("nobody thought of this")
        return get(job_id)

    def handler(work: Work) -> Outcome:
        if work.payload.get("stopped"):
            desk.store.queue.revoke(work.job.id, "cancel", "eva", "")
        return Passed()

    monkeypatch.setattr(desk.store.queue, "get", surprise)
    stopped, next_one = desk.submit(payload={"stopped": True}), desk.submit()
    worker = Worker(desk.store, Serving((Kind("parcel", handler),)), Settings(threads=1))
    run_until(worker, lambda: desk.job(next_one).ended and not worker._keeper.held())
    assert not desk.job(stopped).ended, "its lease will end, and whoever takes it over will say so"


class Broken:
    """Watches, and fails at it."""

    def started(self, job: Job) -> None:
        raise OSError("no space left")

    def settled(self, job: Job, change: Change, answer: Answer) -> None:
        raise OSError("no space left")

    def lost(self, job: Job, reason: str) -> None:
        raise OSError("no space left")

    def trouble(self, error: CustodyError) -> None:
        raise OSError("no space left")


def test_work_goes_on_although_nobody_can_watch_it(desk: Bench) -> None:
    jobs = [desk.submit() for _ in range(5)]
    watch: Listener = Broken()
    serving = Serving((Kind("parcel", lambda work: Passed()),))
    run_until(Worker(desk.store, serving, Settings(threads=2), watch), lambda: all(desk.job(job).ended for job in jobs))
    assert {desk.job(job).attempts for job in jobs} == {0}
    assert {desk.job(job).state for job in jobs} == {"done"}


# Between claims


@pytest.mark.parametrize("what", ["the schedules", "what is due", "the chores"])
def test_trouble_with_one_thing_keeps_nobody_from_the_work(
    bench: Bench, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trouble(*_: object) -> int:
        raise BadInput("there is no time zone 'Mars/Base'")

    if what == "the chores":
        monkeypatch.setattr(chores.Chores, "run_due", trouble)
    elif what == "the schedules":
        monkeypatch.setattr(bench.store.schedules, "run_due", trouble)
    else:
        monkeypatch.setattr(bench.store.queue, "tick", trouble)
    job = bench.submit()
    assert bench.run(lambda work: Passed()) == 1
    assert bench.job(job).state == "done"


def test_those_that_come_due_together_need_not_wait_for_each_other(bench: Bench) -> None:
    bench.store.queue.submit([NewJob("parcel", delay=1) for _ in range(1200)])
    bench.clock.advance(2)
    worker = Worker(bench.store, Serving((Kind("parcel", lambda work: Passed()),)), clock=lambda: 0.0)
    for _ in range(3):
        worker._maintenance.look(worker.holder)
    assert {job.unmet for job in bench.store.queue.every()} == {0}


def test_what_was_left_behind_is_not_compared_each_with_each(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.store.queue.submit([NewJob("parcel") for _ in range(20)])
    bench.store.queue.claim(["parcel|queued||"], "vanished", 30, 20)
    bench.clock.advance(31)
    compared: list[object] = []

    def equal(one: Claim, other: object) -> bool:
        compared.append(other)
        return one is other

    monkeypatch.setattr(Claim, "__eq__", equal)
    assert bench.worker(Kind("parcel", lambda work: Passed()), threads=20).run_until_idle() == 20
    assert not compared, "thousands may have been left behind, and a worker has nothing else to do meanwhile"


def test_a_chore_that_takes_long_keeps_its_lease_and_gives_it_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chores, "LEASE_SECONDS", 0.03)  # its own clock's; the store's moves by hand
    begun, go_on = threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        go_on.wait(SOON)

    mine = chores.Chores(bench.store, [Chore("dusting", 3600, slow)], "ann", NOTHING)
    mine.run_due()
    assert begun.wait(SOON)
    for _ in range(5):
        bench.clock.advance(0.02)
        time.sleep(0.011)
        mine.run_due()
    assert bench.store.leases.claim("chore/dusting", "bo", 30) is None, "it is still at it"
    go_on.set()
    mine.close()
    assert bench.store.leases.claim("chore/dusting", "bo", 30) is not None


def test_a_chore_whose_lease_cannot_be_renewed_just_now_is_not_asked_about_at_every_look(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, asked, begun, go_on = [100.0], list[object](), threading.Event(), threading.Event()

    def away(*lease: object) -> None:
        asked.append(lease)
        raise Unavailable("the store does not answer", code="store.down")

    def slow() -> None:
        begun.set()
        go_on.wait(SOON)

    monkeypatch.setattr(chores, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(bench.store.leases, "renew", away)
    mine = chores.Chores(bench.store, [Chore("dusting", 3600, slow)], "ann", NOTHING)
    try:
        mine.run_due()
        assert begun.wait(SOON)
        for pauses in (1, 2):
            now[0] += chores.LEASE_SECONDS / 3
            for _ in range(50):
                mine.run_due()
            assert len(asked) == pauses
    finally:
        go_on.set()
        mine.close()


# The settings, and the end


@pytest.mark.parametrize(
    "wrong", [{"threads": 0}, {"threads": -1}, {"lease": 0}, {"lease": float("nan")}, {"poll": 0}, {"grace": -1}]
)
def test_a_worker_that_could_do_nothing_is_refused(bench: Bench, wrong: dict[str, float]) -> None:
    with pytest.raises(BadInput) as refused:
        bench.worker(Kind("parcel", lambda work: Passed()), **wrong)
    assert refused.value.where == f"worker {next(iter(wrong))}"
    assert refused.value.hint


def test_a_worker_is_told_to_stop_without_asking_for_a_lock(bench: Bench) -> None:
    """It is told by a signal, which may come while the very same thread holds that lock."""
    worker = bench.worker(Kind("parcel", lambda work: Passed()))
    telling = threading.Thread(target=worker.stop, daemon=True)
    with worker._threads.change:
        telling.start()
        telling.join(SOON)
        assert not telling.is_alive()


def test_a_look_that_fails_before_the_loop_has_begun_its_round_does_not_end_the_worker(
    desk: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    troubles, heard = [Unavailable("the disk did not answer", code="store.disk")], desk.store.db.changed_elsewhere

    def fails_once() -> int:
        if troubles:
            raise troubles.pop()
        return heard()

    monkeypatch.setattr(desk.store.db, "changed_elsewhere", fails_once)
    job = desk.submit()
    serving = Serving((Kind("parcel", lambda work: Passed()),))
    run_until(Worker(desk.store, serving, Settings(poll=0.05)), lambda: desk.job(job).ended)
    assert not troubles


def test_a_worker_ends_although_nobody_can_be_told_what_it_did(desk: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = threading.Event()

    def away(_: object) -> None:
        asked.set()
        raise Unavailable("the disk is full", code="store.disk")

    monkeypatch.setattr(desk.store.queue, "settle", away)
    monkeypatch.setattr(desk.store.queue, "release", away)
    desk.submit()
    worker = Worker(desk.store, Serving((Kind("parcel", lambda work: Passed()),)), Settings(grace=0, lease=3600))
    thread = threading.Thread(target=worker.run_forever, daemon=True)
    thread.start()
    assert asked.wait(SOON)
    worker.stop()
    thread.join(SOON / 2)
    assert not thread.is_alive(), "its lease would be good for an hour, but it is kept no more"


@pytest.mark.parametrize("where", ["release", "farewell"])
def test_trouble_in_leaving_keeps_nothing_else_from_being_left(
    desk: Bench, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def surprise(*_: object) -> None:
        raise RuntimeError("nobody thought of this")

    monkeypatch.setattr(type(desk.store.queue) if where == "release" else type(desk.store), where, surprise)
    jobs = [desk.submit() for _ in range(9)]
    go_on = threading.Event()

    def slow(work: Work) -> Outcome:
        go_on.wait(SOON)
        return Passed()

    worker = Worker(desk.store, Serving((Kind("parcel", slow),)), Settings(threads=1))
    thread = threading.Thread(target=worker.run_forever, daemon=True)
    thread.start()
    until(lambda: len(worker._threads.ready) > 1, SOON)
    worker.stop()
    until(lambda: not worker._threads.ready, SOON)
    go_on.set()
    thread.join(SOON / 2)
    assert not thread.is_alive()
    assert not worker._keeper.held()
    assert desk.job(jobs[0]).state == "done", "what was begun has had its say"

"""With what care that is begun which others left behind, and what its neighbours notice of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from custody.errors import Unavailable
from custody.kernel.engine import Kind, Serving, Settings, Work, Worker
from custody.kernel.engine.recovery import quarantine
from custody.kernel.model.job import Job
from custody.kernel.model.machine import PLAIN
from custody.kernel.model.outcome import Outcome, Passed
from custody.kernel.model.suspicion import ALONE, CLEAN, LEFT, NEAR, ONLY
from custody.kernel.operations.jobs import Operator
from custody.kernel.stores import open_store
from kernel.engine.conftest import Bench, HandClock
from kernel.engine.test_leases import until


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Bench]:
    """As `bench`, for workers with threads."""
    clock = HandClock()
    with open_store(f"sqlite:///{tmp_path}/custody.db", clock) as store:
        yield Bench(store, clock)


def leave_behind(bench: Bench, mark: int, count: int = 1, **payload: object) -> list[int]:
    """Jobs whose holder vanished when this was thought of them."""
    jobs = [bench.submit(payload=payload) for _ in range(count)]
    claims = bench.store.queue.claim_jobs(jobs, "vanished", 1)
    bench.store.queue.suspect(claims, mark)
    bench.clock.advance(1)
    return jobs


@contextmanager
def at_work(bench: Bench, *kinds: Kind, threads: int = 4, **settings: float) -> Iterator[Worker]:
    worker = Worker(bench.store, Serving(kinds), Settings(threads=threads, **settings))  # type: ignore[arg-type]
    thread = threading.Thread(target=worker.run_forever)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        thread.join()


class Diary:
    """What ran beside what, and what the store would have thought of a death."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self._lock = bench, threading.Lock()
        self.running: set[int] = set()
        self.beside: dict[int, set[int]] = {}
        self.marks: dict[int, int] = {}

    @contextmanager
    def writing(self, work: Work) -> Iterator[None]:
        me = work.job.id
        mark = self.bench.job(me).suspect
        with self._lock:
            for other in self.running:
                self.beside[other].add(me)
            self.beside[me], self.marks[me] = set(self.running), mark
            self.running.add(me)
        try:
            yield
        finally:
            with self._lock:
                self.running.remove(me)

    def quick(self, work: Work) -> Outcome:
        with self.writing(work):
            time.sleep(0.005)
        return Passed()

    def until_told(self, told: threading.Event) -> Kind:
        """Work that takes long."""

        def long(work: Work) -> Outcome:
            with self.writing(work):
                told.wait(60)
            return Passed()

        return Kind("long", long)


@pytest.mark.parametrize(("left", "thought"), [(CLEAN, NEAR), (LEFT, NEAR), (NEAR, ALONE), (ONLY, ALONE)])
def test_before_it_is_begun_the_store_knows_what_a_death_would_mean(
    bench: Bench, left: int, thought: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quarantine, "FEW", 2)
    jobs, diary = leave_behind(bench, left, 3), Diary(bench)
    bench.run(diary.quick)
    assert diary.marks == dict.fromkeys(jobs, thought)
    assert {bench.job(job).state for job in jobs} == {"done"}
    assert {bench.job(job).suspect for job in jobs} == {CLEAN}


@pytest.mark.parametrize("left", [CLEAN, LEFT])
def test_a_few_that_were_left_behind_are_each_begun_alone(bench: Bench, left: int) -> None:
    jobs, diary = leave_behind(bench, left, quarantine.FEW), Diary(bench)
    bench.run(diary.quick)
    assert diary.marks == dict.fromkeys(jobs, ALONE)


def test_a_job_that_kills_is_put_aside_after_two_deaths_alone_and_never_after_one(bench: Bench) -> None:
    """Who pulls the plug cannot be told from who trips over it, if it happens once."""

    class Dies(BaseException):
        pass

    def handler(work: Work) -> Outcome:
        raise Dies

    job, deaths = bench.submit(), 0
    while bench.job(job).state != "failed":
        assert deaths < 4
        try:
            bench.run(handler)
        except Dies:
            deaths += 1
        bench.clock.advance(31)
    assert (deaths, bench.job(job).code) == (3, "poison")


def test_what_was_near_a_death_before_runs_with_nothing_beside_it_and_the_others_go_on(desk: Bench) -> None:
    near, diary = leave_behind(desk, NEAR, 5), Diary(desk)
    left = leave_behind(desk, CLEAN, 20)
    fresh = [desk.submit() for _ in range(100)]
    with at_work(desk, Kind("parcel", diary.quick)):
        until(lambda: all(desk.job(job).ended for job in (*near, *left, *fresh)), 60)
    assert {job: diary.beside[job] for job in near} == {job: set() for job in near}
    assert {diary.marks[job] for job in near} == {ALONE}
    assert any(diary.beside[job] for job in fresh), "otherwise several hands work at once"


def test_long_work_keeps_a_lone_one_waiting_for_a_moment_only(desk: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantine, "PAUSE_SECONDS", 0.05)
    diary, told = Diary(desk), threading.Event()
    long = desk.submit(kind="long")
    with at_work(desk, Kind("parcel", diary.quick), diary.until_told(told)):
        until(lambda: diary.running, 60)
        (job,) = leave_behind(desk, NEAR)
        until(lambda: desk.job(job).ended, 60)
        told.set()
    assert (diary.marks[job], diary.beside[job]) == (ONLY, {long}), "if the worker dies, the other may be to blame"


def test_a_lone_one_that_takes_long_lets_the_others_go_on(desk: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantine, "ALONE_SECONDS", 0.05)
    diary, told = Diary(desk), threading.Event()
    long = desk.submit(kind="long")
    desk.store.queue.suspect(desk.store.queue.claim_jobs([long], "vanished", 1), NEAR)
    desk.clock.advance(1)
    with at_work(desk, Kind("parcel", diary.quick), diary.until_told(told)):
        until(lambda: diary.running, 60)
        assert diary.marks[long] == ALONE
        fresh = desk.submit()
        until(lambda: desk.job(fresh).ended, 60)
        assert desk.job(long).suspect == ONLY, "it was said before anything else was begun"
        (next_one,) = leave_behind(desk, NEAR)
        until(lambda: desk.job(next_one).ended, 60)
        told.set()
        until(lambda: desk.job(long).ended, 60)


def test_many_suspects_do_not_keep_each_other_from_being_taken_over(desk: Bench) -> None:
    diary, told = Diary(desk), threading.Event()
    desk.submit(kind="long")
    with at_work(desk, Kind("parcel", diary.quick), diary.until_told(told), threads=2) as worker:
        until(lambda: diary.running, 60)
        leave_behind(desk, CLEAN, 3)
        jobs = leave_behind(desk, NEAR, 5)
        until(lambda: all(desk.job(job).holder == worker.holder or desk.job(job).ended for job in jobs), 60)
        told.set()
        until(lambda: all(desk.job(job).ended for job in jobs), 60)


def test_a_worker_that_has_no_room_takes_over_as_many_as_it_has_hands(desk: Bench) -> None:
    diary, told = Diary(desk), threading.Event()
    desk.submit(kind="long")
    with at_work(desk, Kind("parcel", diary.quick), diary.until_told(told), threads=1) as worker:
        worker._prefetch.seconds = 100.0  # as if all work took long: nothing is kept at hand
        until(lambda: diary.running, 60)
        (job,) = leave_behind(desk, CLEAN)
        until(lambda: desk.job(job).holder == worker.holder, 60)
        told.set()
        until(lambda: desk.job(job).ended, 60)


def test_suspects_are_not_given_back_because_work_turns_out_to_be_slow(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quarantine, "FEW", 0)
    jobs = leave_behind(bench, CLEAN, 3)
    worker = bench.worker(Kind("parcel", lambda work: Passed()), threads=1)
    worker._rescue(3)
    worker._begin_suspects()
    assert worker._threads.take_back(9) == []
    assert [work.job.id for work in worker._threads.ready] == jobs


def test_a_suspect_that_was_given_back_is_begun_with_the_same_care(bench: Bench) -> None:
    (job,) = leave_behind(bench, NEAR)
    bench.store.queue.release(bench.store.queue.claim_expired(["parcel|"], "leaving", 30))
    diary = Diary(bench)
    bench.run(diary.quick)
    assert diary.marks == {job: ALONE}


def test_neighbours_of_many_killers_are_never_charged(bench: Bench) -> None:
    """Five that kill among a hundred, all held by one worker after the other; workers die until all are put aside."""

    class Dies(BaseException):
        pass

    def handler(work: Work) -> Outcome:
        if work.payload.get("kills"):
            raise Dies
        return Passed()

    jobs = [bench.submit(payload={"kills": True} if number % 20 == 3 else {}) for number in range(100)]
    deaths = 0
    for _ in range(200):
        try:
            if bench.run(handler) == 0 and all(bench.job(job).ended for job in jobs):
                break
        except Dies:
            deaths += 1
        bench.clock.advance(31)
    killers = [job for job in jobs if bench.job(job).state != "done"]
    assert [bench.job(job).code for job in killers] == ["poison"] * 5
    assert [(job - jobs[0]) % 20 for job in killers] == [3] * 5
    assert deaths <= 4 * 5


def test_a_long_poll_does_not_delay_taking_over(desk: Bench) -> None:
    with at_work(desk, Kind("parcel", lambda work: Passed()), poll=3600.0, wake=False) as worker:
        until(lambda: worker._rescuer.next_look, 60)
        time.sleep(0.1)  # it has looked, found nothing, and waits
        (job,) = leave_behind(desk, CLEAN)
        until(lambda: desk.job(job).ended, 60)


@pytest.mark.parametrize("dead", [True, False])
def test_a_worker_that_leaves_gives_back_no_suspect_whose_death_nobody_has_confirmed(desk: Bench, dead: bool) -> None:
    """Given back, it could be cancelled at once, while an earlier attempt of it still runs somewhere."""
    diary, told, asked = Diary(desk), threading.Event(), list[int]()

    def confirm_dead(job: Job) -> None:
        asked.append(job.id)

    long = desk.submit(kind="long")
    parcel = Kind("parcel", diary.quick, confirm_dead=confirm_dead) if not dead else Kind("parcel", diary.quick)
    with at_work(desk, parcel, diary.until_told(told), threads=1, grace=0.0) as worker:
        until(lambda: diary.running, 60)
        (job,) = leave_behind(desk, CLEAN)
        until(lambda: desk.job(job).holder == worker.holder, 60)
        worker.stop()
        until(lambda: desk.job(long).holder is None, 60)
        told.set()
    assert (desk.job(job).holder is None) == dead
    answer = Operator(desk.store, PLAIN, "ada").cancel(job, "not wanted")
    assert (desk.job(job).state == "cancelled") == dead == (answer.code != "asked")
    desk.clock.advance(31)
    desk.run(diary.quick, confirm_dead=confirm_dead)
    assert desk.job(job).state == "cancelled"
    assert asked == ([] if dead else [job])


def test_trouble_while_the_store_is_told_delays_and_loses_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs, diary = leave_behind(bench, NEAR, 2), Diary(bench)
    worker = bench.worker(Kind("parcel", diary.quick))
    suspect, troubles = bench.store.queue.suspect, [Unavailable("away", code="store.down")]

    def fails_once(*given: object) -> int:
        if troubles:
            raise troubles.pop()
        return suspect(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(bench.store.queue, "suspect", fails_once)
    with pytest.raises(Unavailable):
        worker.run_until_idle()
    bench.submit()
    worker.run_until_idle()
    assert {bench.job(job).state for job in jobs} == {"done"}
    assert {diary.marks[job] for job in jobs} == {ALONE}


class StillHands:
    """Hands that note what they are told, and do nothing."""

    def __init__(self) -> None:
        self.paused, self.begun = False, list[Work]()

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    def rest(self) -> bool:
        return True

    def put(self, works: Iterable[Work], first: bool = False) -> None:
        self.begun += works

    def put_alone(self, work: Work) -> None:
        self.begun.append(work)


def test_one_that_leaves_while_the_next_is_called_forward_does_not_take_its_place_from_it(bench: Bench) -> None:
    """The one leaves in the settler's thread, the next is called forward in the worker's."""
    leave_behind(bench, NEAR, 2)
    claims = bench.store.queue.claim_expired(["parcel|"], "ann", 30, most=2)
    first, second = [Work(claim, bench.store.queue) for claim in claims]
    hands, now = StillHands(), [0.0]
    care = quarantine.Quarantine(
        bench.store.queue,
        Serving((Kind("parcel", lambda work: Passed()),)),
        hands,
        lambda: now[0],  # type: ignore[arg-type]
    )
    care.pick([first, second])
    care.begin(4)
    assert hands.begun == [first]
    now[0] += quarantine.ALONE_SECONDS + 1

    class Leaving(list[Work]):
        def __iter__(self) -> Iterator[Work]:
            care.begin(4)  # as the worker's thread may, at this very moment: the first makes way
            return super().__iter__()

    care.leave(Leaving([first]))
    assert hands.begun == [first, second]
    assert hands.paused, "the second is alone now"
    care.leave([second])
    assert (care.count, hands.paused) == (0, False)

"""A body forks, and its child comes back: it never goes on as the worker it was copied from."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from custody.kernel.engine import Chore, Kind, Serving, Settings, Work, Worker
from custody.kernel.engine.listeners import NOTHING, Unharmed
from custody.kernel.engine.maintenance.chores import Chores
from custody.kernel.engine.makers import Maker
from custody.kernel.engine.pipe.keeper import Keeper
from custody.kernel.engine.pipe.settler import Settler
from custody.kernel.engine.pipe.threads import Threads
from custody.kernel.engine.pipe.values import Lost
from custody.kernel.engine.recovery.strays import EXIT_CODE
from custody.kernel.model.authority.acting import system
from custody.kernel.model.job import Job, NewJob
from custody.kernel.model.outcome import Outcome, Passed
from custody.kernel.model.schedule import Schedule
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.fsck import recount
from kernel.stores.acts import submit, take_one
from kernel.stores.test_forks import Child

LONGEST = 15  # seconds that a stray lives which nobody ends
BOTH = pytest.mark.parametrize("url", ["file", "postgres"], indirect=True)


@pytest.fixture
def kept(url: str) -> Iterator[Store]:
    with open_store(url) as store:
        yield store
        assert recount(store) == []


def _returns() -> None: ...


def _raises() -> None:
    raise RuntimeError("a bug in\nthe child")


def _exits() -> None:
    sys.exit(0)


def _is_interrupted() -> None:
    raise KeyboardInterrupt


WAYS = (_returns, _raises, _exits, _is_interrupted)


class Forks:
    """Forks where it is called, the first time, and comes back in parent and child."""

    def __init__(self, way: Callable[[], None] = _returns) -> None:
        self._way, self._done = way, False
        self.child = 0

    def __call__(self, *_: object) -> None:
        if self._done:
            return
        self._done = True
        self.child = os.fork()
        if not self.child:
            signal.alarm(LONGEST)
            self._way()

    def code(self) -> int:
        """With which its child has ended; minus a signal's number if that had to end it."""
        assert self.child, "it was never called"
        _, status = os.waitpid(self.child, 0)
        return os.waitstatus_to_exitcode(status)


def code_in_a_child(act: Callable[[], Any]) -> int:
    """What a forked process ends with that does this, and would then end by itself, with 0."""
    child = os.fork()
    if not child:
        signal.alarm(LONGEST)
        with suppress(BaseException):
            act()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def until_all_ended(worker: Worker, store: Store) -> None:
    """`run_forever`, in the main thread, stopped by another when nothing is open."""

    def watch() -> None:
        while any(job.ended is None for job in store.queue.every()):
            time.sleep(0.02)
        worker.stop()

    threading.Thread(target=watch, daemon=True).start()
    worker.run_forever()


RUNS: dict[str, Callable[[Worker, Store], object]] = {
    "idle": lambda worker, _: worker.run_until_idle(),
    "quiet": lambda worker, _: worker.run_until_quiet(),
    "forever": until_all_ended,
}


@BOTH
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("way", WAYS)
def test_a_child_that_comes_back_out_of_a_body_ends_and_says_nothing_about_the_job(
    kept: Store, run: str, way: Callable[[], None], tmp_path: Path
) -> None:
    jobs = [kept.queue.submit_one(NewJob("parcel")).id for _ in range(6)]
    ran, told = tmp_path / "ran", tmp_path / "told"

    def work() -> Any:  # in a process of its own: without the guard there would be two of it from here on
        os.dup2(os.open(told, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
        forks = Forks(way)

        def body(work: Work) -> Outcome:
            with ran.open("a") as file:
                file.write(f"{work.job.id}\n")
            if work.job.id == jobs[0]:
                forks()
            return Passed()

        worker = Worker(kept, Serving((Kind("parcel", body),)), Settings(threads=2, poll=0.05))
        RUNS[run](worker, kept)
        return forks.code()

    assert Child(work).answer() == ["done", EXIT_CODE]
    assert sorted(map(int, ran.read_text().split())) == jobs, "each body runs once"
    for job in jobs:
        assert [event.type for event in kept.records.events(f"job/{job}")] == ["submitted", "passed"]
    sentence = told.read_text()
    assert sentence.count("\n") == 1
    assert f"came back from the body of job {jobs[0]} (parcel)" in sentence
    assert ("with RuntimeError: a bug in the child (" in sentence) == (way is _raises)


@BOTH
def test_what_a_body_prints_before_a_fork_is_not_said_a_second_time_by_the_child(kept: Store, tmp_path: Path) -> None:
    submit(kept)
    said = tmp_path / "said"

    def work() -> Any:
        forks = Forks()
        with said.open("w") as file:

            def body(work: Work) -> Outcome:
                file.write("begun\n")  # in the parent's buffer, which the fork copies
                forks()
                return Passed()

            Worker(kept, Serving((Kind("parcel", body),))).run_until_idle()
            return forks.code()

    assert Child(work).answer() == ["done", EXIT_CODE]
    assert said.read_text() == "begun\n"


@BOTH
def test_a_pool_of_processes_in_a_body_is_no_stray(kept: Store) -> None:
    submit(kept)

    def body(work: Work) -> Outcome:
        import multiprocessing

        with multiprocessing.get_context("fork").Pool(2) as pool:
            return Passed(keep={"sum": sum(pool.map(abs, [-1, -2, -3]))})

    assert Child(lambda: Worker(kept, Serving((Kind("parcel", body),))).run_until_idle()).answer() == ["done", 1]
    assert [job.facts for job in kept.queue.every()] == [{"sum": 6}]


# Whatever else a worker calls


def _in_a_coroutine(store: Store, forks: Forks) -> Worker:
    async def later() -> Outcome:
        forks()
        return Passed()

    def body(work: Work) -> Any:
        return later()

    return Worker(store, Serving((Kind("parcel", body),)))


def _in_preparing(store: Store, forks: Forks) -> Worker:
    return Worker(store, Serving((Kind("parcel", lambda work: Passed(), prepare=forks),)))


def _in_a_pass(store: Store, forks: Forks) -> Worker:
    def decide(jobs: Any) -> dict[int, Outcome]:
        forks()
        return {job.id: Passed() for job in jobs}

    return Worker(store, Serving((Kind("parcel", decide=decide),)))


def _in_asking_who_made_it(store: Store, forks: Forks) -> Worker:
    def verify(store: Any, job: Job) -> str:
        forks()
        return ""

    return Worker(store, Serving((Kind("parcel", lambda work: Passed(), maker=Maker(kind="parcel", verify=verify)),)))


def _in_asking_whether_it_is_dead(store: Store, forks: Forks) -> Worker:
    take_one(store, seconds=0.01)
    time.sleep(0.1)
    return Worker(store, Serving((Kind("parcel", lambda work: Passed(), confirm_dead=forks),)))


def _in_stopping(store: Store, forks: Forks) -> Worker:
    def body(work: Work) -> Outcome:
        work.on_stop(forks)
        work.stop("shutdown")
        return Passed()

    return Worker(store, Serving((Kind("parcel", body),)))


def _in_watching(store: Store, forks: Forks) -> Worker:
    class Watch(type(NOTHING)):  # type: ignore[misc]
        def settled(self, *_: object) -> None:
            forks()

    return Worker(store, Serving((Kind("parcel", lambda work: Passed()),)), listener=Watch())


def _in_asking_for_a_schedules_end(store: Store, forks: Forks) -> Worker:
    def ended(schedule: Schedule) -> str:
        forks()
        return ""

    store.schedules.put(Schedule("nightly", "every 1s", "letter"), system("ann"))
    time.sleep(1.1)
    return Worker(store, Serving((Kind("parcel", lambda work: Passed()),), ended=ended))


def _in_a_chore(store: Store, forks: Forks) -> Worker:
    class Waiting(Chores):
        def run_due(self) -> None:
            super().run_due()
            for thread in self._running.values():
                thread.join()

    chore = Chore("sealing", 3600.0, forks)
    worker = Worker(store, Serving((Kind("parcel", lambda work: Passed()),), (chore,)))
    worker._maintenance._chores = Waiting(store, (chore,), worker.holder, NOTHING)
    return worker


SEAMS: dict[Callable[[Store, Forks], Worker], str] = {
    _in_a_coroutine: "the body of job",
    _in_preparing: "preparing what was claimed",
    _in_a_pass: "the pass over parcel",
    _in_asking_who_made_it: "asking who made job",
    _in_asking_whether_it_is_dead: "asking whether job",
    _in_stopping: "stopping job",
    _in_watching: "telling those who watch",
    _in_asking_for_a_schedules_end: "asking whether the schedule nightly has ended",
    _in_a_chore: "the chore sealing",
}
"""Each with where its child is ended: there, and no step later."""


@BOTH
@pytest.mark.parametrize("seam", SEAMS)
@pytest.mark.parametrize("way", [_returns, _raises])
def test_a_child_that_comes_back_from_whatever_a_worker_calls_ends(
    kept: Store, seam: Callable[[Store, Forks], Worker], way: Callable[[], None], tmp_path: Path
) -> None:
    job = kept.queue.submit_one(NewJob("parcel")).id
    told = tmp_path / "told"

    def work() -> Any:
        os.dup2(os.open(told, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
        forks = Forks(way)
        seam(kept, forks).run_until_idle()
        return forks.code()

    assert Child(work).answer() == ["done", EXIT_CODE]
    assert f"came back from {SEAMS[seam]}" in told.read_text()
    types = [event.type for event in kept.records.events(f"job/{job}")]
    assert types.count("passed") == 1, types


# Where it is not called by us: a signal's handler forks anywhere in the loop


@BOTH
@pytest.mark.parametrize("way", [_returns, _raises])
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("call", [1, 9])
def test_a_child_that_was_forked_in_the_loop_itself_neither_goes_on_nor_comes_out(
    kept: Store, run: str, way: Callable[[], None], call: int
) -> None:
    """The clock stands for a signal's handler: it is called in the middle of the loop, and its child comes back there."""
    jobs = [kept.queue.submit_one(NewJob("parcel")).id for _ in range(3)]

    def work() -> Any:
        forks, main, calls = Forks(way), threading.get_ident(), -1

        def clock() -> float:
            nonlocal calls
            if calls >= 0 and threading.get_ident() == main:
                calls += 1
                forks() if calls == call else None
            return time.monotonic()

        kind = Kind("parcel", lambda work: Passed())
        worker = Worker(kept, Serving((kind,)), Settings(threads=2, poll=0.05), clock=clock)
        calls = 0
        RUNS[run](worker, kept)
        return forks.code()

    assert Child(work).answer() == ["done", EXIT_CODE]
    assert [kept.queue.get(job).ended for job in jobs] == ["passed"] * 3


def test_no_part_of_a_worker_does_anything_in_another_process(tmp_path: Path) -> None:
    """Each by itself, with where it ends: the others would end it as well, a step later."""
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as store:
        kind = Kind("parcel", lambda work: Passed())
        worker = Worker(store, Serving((kind,)))
        keeper, chores = Keeper(store.queue, 30), Chores(store, (), "here", NOTHING)
        settler, telling = Settler(store, Serving((kind,))), Unharmed(NOTHING)
        parts: dict[str, Callable[[], object]] = {
            "looking after what is due": worker._cycle,
            "deciding": lambda: worker._maintenance.decide("here", now=True),
            "claiming": lambda: worker._fetcher._claim(kind, ["parcel|queued||"], 1),
            "taking over": lambda: worker._rescue(1),
            "renewing": keeper.beat,
            "watching over leases": lambda: keeper.watch(None),
            "the chores": chores.run_due,
            "settling": lambda: next(settler.attempt([])),
            "telling those who watch": lambda: telling.lost(None, ""),  # type: ignore[arg-type]
        }
        for where, part in parts.items():
            told = tmp_path / "told"
            told.write_text("")

            def tell(part: Callable[[], object] = part, told: Path = told) -> None:
                os.dup2(os.open(told, os.O_WRONLY), 2)
                part()

            assert code_in_a_child(tell) == EXIT_CODE, where
            assert f"came back from {where}" in told.read_text()


def test_a_thread_that_comes_back_in_a_child_takes_nothing_more() -> None:
    forks, done = Forks(), threading.Event()

    def run(work: Work) -> Lost:
        forks()
        done.set()
        return Lost(work, "")

    threads = Threads(run)
    threads.start(1)
    threads.put([object()])  # type: ignore[list-item]
    assert done.wait(30)
    threads.stop()
    assert forks.code() == EXIT_CODE


def test_a_worker_is_neither_stopped_nor_shut_down_by_a_child(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as store:
        worker = Worker(store, Serving(()))
        assert Child(worker.stop).answer() == ["refused", "fork.foreign"]
        assert Child(worker.shut_down).answer() == ["refused", "fork.foreign"]


def test_a_stray_ends_though_nobody_hears_it_and_what_it_raised_cannot_be_told(tmp_path: Path) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("not even that")

    def raises() -> None:
        raise Mute

    def work() -> Any:
        os.close(2)
        forks = Forks(raises)

        def body(work: Work) -> Outcome:
            forks()
            return Passed()

        with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as store:
            submit(store)
            Worker(store, Serving((Kind("parcel", body),))).run_until_idle()
            return forks.code()

    assert Child(work).answer() == ["done", EXIT_CODE]

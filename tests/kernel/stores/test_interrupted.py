"""What a signal's handler raises comes anywhere: whoever is interrupted can go on, and nobody waits for it for ever.

Each test goes through a verb once for every place at which CPython lets a handler run in it (when a function begins,
and when a call has ended), and raises there, while other threads submit too.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from custody.errors import CustodyError
from custody.kernel.engine.kinds import Kind, Serving
from custody.kernel.engine.listeners import NOTHING, Unharmed
from custody.kernel.engine.settings import Settings
from custody.kernel.engine.work import Work
from custody.kernel.engine.worker import Worker
from custody.kernel.model.job import NewJob
from custody.kernel.model.outcome import Outcome, Passed
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.fsck import recount
from custody.kernel.stores.sql import forks, group_commit
from kernel.stores.clock import HandClock
from kernel.stores.test_forks import Child, submits, wrong

SOON = 60.0
OURS = (
    "/sql/group_commit.py",
    "/sql/future.py",
    "/stores/wakeups.py",
    "/sqlite/writer.py",
    "/sqlite/readers.py",
    "/postgres/batching.py",
    "/postgres/notify.py",
    "/sqlite/file_guard.py",
    "/sqlite/wal.py",
)


class Interrupt(BaseException):
    """What a program's own handler raises: Ctrl-C."""


class Alarm(TimeoutError):
    """An alarm, which looks like an error of the system."""


class Refusal(RuntimeError):
    """Any other that a handler may raise."""


RAISED = pytest.mark.parametrize("raised", [Interrupt, Alarm, Refusal])
LINED = pytest.mark.parametrize("url", ["file", "postgres"], indirect=True)
"""One in memory has no line, and is not used after a fork."""


class At:
    """Raises at the so-manieth place."""

    def __init__(self, number: int, raised: type[BaseException] = Interrupt) -> None:
        self.left, self.where, self._raised = number, "", raised

    def __enter__(self) -> At:
        sys.setprofile(self._step)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _step(self, frame: FrameType, event: str, arg: Any) -> None:
        if event not in ("call", "return", "c_return") or self.where:
            return
        if not frame.f_code.co_filename.endswith(OURS) or arg == sys.setprofile:
            return
        self.left -= 1
        if self.left < 0:
            self.where = f"{event} {frame.f_code.co_qualname}:{frame.f_lineno}"
            raise self._raised(self.where)


@contextmanager
def company(store: Store, told: list[tuple[str, int]], refused: list[BaseException]) -> Iterator[None]:
    """Two other threads that submit as long as it lasts."""
    over = threading.Event()

    def submits(who: int) -> None:
        number = 0
        while not over.is_set():
            number += 1
            key = f"{threading.get_ident()}-{who}-{number}"
            try:
                told.append((key, store.queue.submit_one(NewJob("parcel", key=key)).id))
            except BaseException as error:
                refused.append(error)

    with ThreadPoolExecutor(2) as threads:
        ends = [threads.submit(submits, who) for who in range(2)]
        try:
            yield
        finally:
            over.set()
            for end in ends:
                end.result(SOON)


@pytest.fixture(params=["memory", "file", "postgres"])
def url(request: pytest.FixtureRequest, quick_folder: Path) -> Iterator[str]:
    if request.param == "postgres":
        database = request.getfixturevalue("emptied")
        yield database.url
        database.empty()
    else:
        yield "sqlite://:memory:" if request.param == "memory" else f"sqlite:///{quick_folder / 'custody.db'}"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are hundreds of places."""
    monkeypatch.setattr(group_commit, "LOOK_SECONDS", 0.002)
    monkeypatch.setattr(group_commit, "RETURN_SECONDS", 0.0)


def everywhere(act: Callable[[], object], after: Callable[[str], None], raised: type[BaseException] = Interrupt) -> int:
    """Interrupt `act` at each of its places in turn; how many there are."""
    number = 0
    while True:
        with suppress(raised), At(number, raised) as at:
            act()
        if not at.where:
            return number
        after(at.where)
        number += 1


@RAISED
def test_one_who_is_interrupted_anywhere_in_a_submit_goes_on_and_the_others_never_hear_of_it(
    store: Store, raised: type[BaseException]
) -> None:
    told: list[tuple[str, int]] = []
    refused: list[BaseException] = []
    keys = iter(range(10_000))

    def act() -> None:
        key = f"mine-{next(keys)}"
        told.append((key, store.queue.submit_one(NewJob("parcel", key=key)).id))

    def after(where: str) -> None:
        key = f"after-{next(keys)}"
        told.append((key, store.queue.submit_one(NewJob("parcel", key=key)).id))

    with company(store, told, refused):
        assert everywhere(act, after, raised) > 10
    assert refused == []
    kept = {job.key: job.id for job in store.queue.every()}
    assert {key: kept.get(key) for key, _ in told} == dict(told)


@RAISED
def test_a_worker_beside_an_interrupted_thread_works_on_everything_once(
    store: Store, raised: type[BaseException]
) -> None:
    """What the worker's threads are told is their own: nothing is recorded as a failure, or claimed and not begun."""
    begun: Counter[int] = Counter()
    troubles: list[CustodyError] = []

    class Watching(Unharmed):
        def trouble(self, error: CustodyError) -> None:
            troubles.append(error)

    def body(work: Work) -> Outcome:
        begun[work.job.id] += 1
        return Passed()

    worker = Worker(store, Serving((Kind("parcel", body),)), Settings(threads=2, poll=0.01), Watching(NOTHING))
    running = threading.Thread(target=worker.run_forever)
    running.start()
    everywhere(
        lambda: store.queue.submit_one(NewJob("parcel")), lambda where: store.queue.submit_one(NewJob("parcel")), raised
    )
    jobs = [job.id for job in store.queue.every()]
    stop_at = time.monotonic() + SOON
    while time.monotonic() < stop_at and not all(job.ended for job in store.queue.every()):
        time.sleep(0.02)
    worker.stop()
    running.join(SOON)
    assert troubles == []
    assert {job: begun[job] for job in jobs} == dict.fromkeys(jobs, 1)
    assert {job.ended for job in store.queue.every()} == {"passed"}


@RAISED
def test_what_a_handler_raises_within_a_call_of_the_system_is_no_word_of_the_system(
    quick_folder: Path, raised: type[BaseException]
) -> None:
    """The store's file is there: nobody is told that it is gone, now or later."""

    def handle(number: int, frame: object) -> None:
        raise raised("too late")

    def interrupted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            os.kill(os.getpid(), signal.SIGUSR1)  # heard before this ends, in a frame below the one that calls
            return real(*given, **named)

        return call

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        with open_store(f"sqlite:///{quick_folder / 'custody.db'}") as store:
            for name in ("stat", "fstat", "pread"):
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(os, name, interrupted(getattr(os, name)))
                    with pytest.raises(raised, match="too late"):
                        store.queue.submit_one(NewJob("parcel"))
                store.queue.submit_one(NewJob("parcel"))
            assert recount(store) == []
    finally:
        signal.signal(signal.SIGUSR1, before)


@LINED
@RAISED
def test_the_main_thread_leads_for_itself_and_is_taken_along_by_the_others(
    url: str, clock: HandClock, raised: type[BaseException]
) -> None:
    """Also when all wait for it, and it is interrupted before it could pass its turn on: they find out by themselves."""
    with open_store(url, clock) as store, ThreadPoolExecutor(3) as threads:
        ours = store.db._writer._line if hasattr(store.db, "_writer") else store.db._life.submits._line  # type: ignore
        lead = ours._lead

        def leads_when_all_are_there(mine: Any) -> Any:
            if threading.current_thread() is threading.main_thread():
                waiting.extend(threads.submit(store.queue.submit_one, NewJob("parcel")) for _ in range(3))
                while len(ours._waiting) < 3:
                    time.sleep(0.0005)
            return lead(mine)

        ours._lead = leads_when_all_are_there
        number, is_over = 0, False
        while not is_over:
            waiting: list[Any] = []
            with suppress(raised), At(number, raised) as at:
                store.queue.submit_one(NewJob("parcel"))
            is_over, number = not at.where, number + 1
            assert [one.exception(SOON) for one in waiting] == [None] * len(waiting), at.where
        ours._lead = lead
        assert number > 10
        assert recount(store) == []


def test_one_who_is_interrupted_anywhere_in_a_look_leaves_nothing_open(store: Store) -> None:
    job = store.queue.submit_one(NewJob("parcel")).id
    everywhere(lambda: store.queue.get(job), lambda where: None)
    assert store.queue.get(job).id == job
    readers = getattr(store.db, "_readers", None)
    assert readers is None or readers.pause(0.5), "a fork would find a connection that is open"
    if readers is not None:
        readers.go_on()


def test_one_who_is_interrupted_while_ringing_leaves_the_bell_to_the_others(store: Store) -> None:
    def after(where: str) -> None:
        with ThreadPoolExecutor(1) as other:
            other.submit(store.db.bell.ring).result(SOON)
            assert not other.submit(store.db.bell.wait, store.db.bell.heard(), 0.0).result(SOON)

    assert everywhere(store.db.bell.ring, after)
    assert everywhere(lambda: store.db.bell.wait(store.db.bell.heard(), 0.0), after)


@LINED
@pytest.mark.parametrize("raised", [Interrupt, Alarm])
@pytest.mark.parametrize("hook", ["before_fork", "after_fork", "in_child", "_tell", "_tell_child"])
@pytest.mark.parametrize("late", [False, True], ids=["at first", "at last"])
def test_a_fork_that_is_interrupted_keeps_nobody_waiting(
    url: str, raised: type[BaseException], hook: str, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python prints what is raised in the middle of a hook, and goes on: neither side may rest on the hook's end."""
    monkeypatch.setattr(sys, "unraisablehook", lambda told: None)
    monkeypatch.setattr(traceback, "print_exc", lambda: None)
    monkeypatch.setattr("custody.kernel.stores.sqlite.database.FORK_SECONDS", 2.0)
    with open_store(url) as store, ThreadPoolExecutor(1) as other:
        owner: Any = forks if hook.startswith("_") else type(store.db)
        real, left, here = getattr(owner, hook), [True], os.getpid()

        def interrupted(*given: Any) -> None:
            if late:
                real(*given)
            if left and (hook != "_tell" or os.getpid() == here):
                left[:] = left[1:] if hook != "_tell" else left  # "_tell": nobody is told anything, on this side
                raise raised("in the middle of a fork")
            if not late:
                real(*given)

        answered = submits(store, "before", 1)
        with monkeypatch.context() as patch:
            patch.setattr(owner, hook, interrupted)
            how, theirs = Child(partial(submits, store, "child", 2)).answer()
        answered |= other.submit(submits, store, "thread", 1).result(SOON) | submits(store, "main", 1)
        assert how == "done" or (hook, theirs) == ("_tell", "fork.foreign"), theirs
        answered |= theirs if how == "done" else {}
        how, theirs = other.submit(Child, partial(submits, store, "later", 1)).result(SOON).answer()
        assert how == "done", theirs
        assert wrong(store, answered | theirs) == []
        assert recount(store) == []


@RAISED
def test_alarms_that_go_off_all_the_time_cost_nobody_else_anything(url: str, raised: type[BaseException]) -> None:
    """With real signals, wherever they come."""
    told: list[tuple[str, int]] = []
    refused: list[BaseException] = []
    alarms = 0

    def handle(number: int, frame: object) -> None:
        nonlocal alarms
        alarms += 1
        raise raised("too late")

    def once(number: int) -> None:
        key = f"mine-{number}"
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(0.00005, 0.004))
            told.append((key, store.queue.submit_one(NewJob("parcel", key=key)).id))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    before = signal.signal(signal.SIGALRM, handle)
    try:
        with open_store(url) as store, company(store, told, refused):
            stop_at, number = time.monotonic() + 2.0, 0
            while time.monotonic() < stop_at:
                number += 1
                with suppress(raised):
                    once(number)
            store.queue.submit_one(NewJob("parcel"))
            seen = list(told)
            kept = {job.key: job.id for job in store.queue.every()}
            assert {key: kept.get(key) for key, _ in seen} == dict(seen)
        assert alarms > 20
        assert refused == []
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

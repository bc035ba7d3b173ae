"""What a signal's handler raises comes anywhere: whoever is interrupted can go on, and nobody waits for it for ever.

Each test goes through a verb once for every place at which CPython lets a handler run in it (when a function begins,
and when a call has ended), and raises there, while other threads submit too.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from custody.kernel.model.job import NewJob
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.fsck import recount
from custody.kernel.stores.sql import group_commit
from kernel.stores.clock import HandClock

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
    """What a program's own handler raises: an alarm, Ctrl-C."""


class At:
    """Raises at the so-manieth place."""

    def __init__(self, number: int) -> None:
        self.left, self.where = number, ""

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
            raise Interrupt(self.where)


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


def everywhere(act: Callable[[], object], after: Callable[[str], None]) -> int:
    """Interrupt `act` at each of its places in turn; how many there are."""
    number = 0
    while True:
        with suppress(Interrupt), At(number) as at:
            act()
        if not at.where:
            return number
        after(at.where)
        number += 1


def test_one_who_is_interrupted_anywhere_in_a_submit_goes_on_and_so_do_the_others(store: Store) -> None:
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
        assert everywhere(act, after) > 10
    assert {getattr(error, "code", error) for error in refused} <= {"store.interrupted"}
    kept = {job.key: job.id for job in store.queue.every()}
    assert {key: kept.get(key) for key, _ in told} == dict(told)


def test_nobody_waits_for_a_leader_who_was_interrupted_before_he_could_tell(url: str, clock: HandClock) -> None:
    """No newcomer helps here: those who wait find out by themselves."""
    if url.startswith("sqlite://:"):
        pytest.skip("in memory there is no line")
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
            with suppress(Interrupt), At(number) as at:
                store.queue.submit_one(NewJob("parcel"))
            is_over, number = not at.where, number + 1
            told = [one.exception(SOON) for one in waiting]
            assert {getattr(error, "code", error) for error in told} <= {None, "store.interrupted"}, at.where
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

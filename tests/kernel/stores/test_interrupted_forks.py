"""A signal's handler that raises while a fork is being made: what the fork has left half done troubles nobody.

Python prints what is raised in the middle of a hook and goes on with the fork. Whoever comes next to what was being put
down or taken up finishes it: the other threads never hear of it, and a child has its store or is told that it is not.
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
from typing import Any

import pytest

from custody.kernel.model.job import NewJob
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.fsck import recount
from custody.kernel.stores.sql import forks
from custody.kernel.stores.sqlite.database import SqliteDatabase
from kernel.stores.test_forks import Child, files_open_here, submits, wrong
from kernel.stores.test_interrupted import RAISED, SOON, Alarm, At, Interrupt

ANSWERS = {"done", "fork.foreign"}
"""What a child may be told that was made in the middle of it."""


@pytest.fixture(autouse=True)
def unprinted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda told: None)
    monkeypatch.setattr(traceback, "print_exc", lambda: None)


@pytest.fixture
def file(quick_folder: Path) -> str:
    return f"sqlite:///{quick_folder / 'custody.db'}"


@contextmanager
def others(store: Store, answered: dict[str, int], troubles: list[BaseException]) -> Iterator[None]:
    """Two threads that write, look, and ask for news as long as it lasts."""
    over = threading.Event()

    def go_on(who: int) -> None:
        number = 0
        while not over.is_set():
            number += 1
            try:
                answered.update(submits(store, f"thread {who} {number}", 1))
                store.queue.why(answered[f"thread {who} {number}-0"])
                store.db.changed_elsewhere()
            except BaseException as error:
                troubles.append(error)

    with ThreadPoolExecutor(2) as threads:
        ends = [threads.submit(go_on, who) for who in range(2)]
        try:
            yield
        finally:
            over.set()
            for end in ends:
                end.result(SOON)


def told(child: Child, answered: dict[str, int]) -> str:
    how, what = child.answer()
    if how == "done":
        answered.update(what)
    return how if how == "done" else str(what)


@RAISED
@pytest.mark.parametrize("hook", ["before_fork", "after_fork"])
def test_a_hook_that_is_interrupted_anywhere_and_not_told_again_troubles_nobody(
    file: str, hook: str, raised: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forks, "ATTEMPTS", 1)
    real, places, answers = getattr(SqliteDatabase, hook), list[str](), Counter[str]()
    answered: dict[str, int] = {}
    troubles: list[BaseException] = []

    def interrupted(self: SqliteDatabase) -> None:
        at = At(len(places), raised)
        try:
            with at:
                real(self)
        finally:
            places.append(at.where)

    with open_store(file) as store:
        submits(store, "first", 1)
        with others(store, answered, troubles), monkeypatch.context() as patch:
            patch.setattr(SqliteDatabase, hook, interrupted)
            while not places or places[-1]:
                assert len(places) < 2000
                answers[told(Child(partial(submits, store, f"child {len(places)}", 1)), answered)] += 1
        assert troubles == []
        assert len(places) > 10
        assert set(answers) <= ANSWERS
        assert told(Child(partial(submits, store, "last", 1)), answered) == "done"
        assert wrong(store, answered | submits(store, "main", 1)) == []
        assert recount(store) == []
    assert files_open_here(file) == []


@pytest.mark.parametrize("raised", [Interrupt, Alarm])
def test_one_who_is_interrupted_anywhere_while_it_opens_the_file_again_leaves_it_to_the_next(
    file: str, raised: type[BaseException]
) -> None:
    """After a fork the first who writes does; what it has opened is known to the next, and to the next fork."""
    answered: dict[str, int] = {}
    number, where = 0, "begin"
    with open_store(file) as store, ThreadPoolExecutor(1) as other:
        while where:
            assert told(Child(partial(submits, store, f"child {number}", 1)), answered) in ANSWERS, where
            with suppress(raised), At(number, raised) as at:
                store.queue.submit_one(NewJob("parcel"))
            number, where = number + 1, at.where
            if number % 2:  # else the next fork finds it as it was left
                answered |= other.submit(submits, store, f"thread {number}", 1).result(SOON)
        assert number > 50
        assert told(Child(partial(submits, store, "last", 1)), answered) == "done"
        assert wrong(store, answered) == []
        assert recount(store) == []
    assert files_open_here(file) == []


@pytest.mark.parametrize("url", ["file", "postgres"], indirect=True)
def test_alarms_that_go_off_all_the_time_while_forks_are_made_trouble_nobody(url: str) -> None:
    """With real signals, wherever they come: also where what the one before has raised is dealt with."""
    answered: dict[str, int] = {}
    troubles: list[BaseException] = []
    answers: Counter[str] = Counter()
    armed, alarms, here = False, 0, os.getpid()

    def handle(number: int, frame: object) -> None:
        nonlocal alarms
        if armed and os.getpid() == here:
            alarms += 1
            raise Alarm("too late")

    def forks_once(act: Callable[[], Any]) -> Child | None:
        nonlocal armed
        made: list[Child] = []
        try:
            try:
                armed = True
                signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0003, 0.01), 0.002)
                made.append(Child(act))
            finally:
                armed = False
        except Alarm:
            armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        return made[0] if made else None

    before = signal.signal(signal.SIGALRM, handle)
    try:
        with open_store(url) as store:
            submits(store, "first", 1)
            with others(store, answered, troubles):
                stop_at, number = time.monotonic() + 6.0, 0
                while time.monotonic() < stop_at:
                    number += 1
                    if child := forks_once(partial(submits, store, f"child {number}", 1)):
                        answers[told(child, answered)] += 1
            assert troubles == []
            assert set(answers) <= ANSWERS
            assert alarms > 20
            assert told(Child(partial(submits, store, "last", 1)), answered) == "done"
            assert wrong(store, answered | submits(store, "main", 1)) == []
            assert recount(store) == []
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

"""Tests that share a run hold still for one that wants to be alone."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack
from pathlib import Path

from conftest import HEAVIEST
from rig.alone import turn

TESTS = Path(__file__).parents[1]
SOON, LONG = 0.2, 60


def taken(folder: Path, *, alone: bool) -> tuple[threading.Thread, threading.Event]:
    """Somebody who wants a turn, and whether it came."""
    came = threading.Event()

    def take() -> None:
        with turn(folder, alone=alone):
            came.set()

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    return thread, came


def test_in_company_nobody_waits(tmp_path: Path) -> None:
    with turn(tmp_path, alone=False), turn(tmp_path, alone=False):
        _, came = taken(tmp_path, alone=False)
        assert came.wait(LONG)


def test_one_that_is_alone_is_waited_for(tmp_path: Path) -> None:
    with turn(tmp_path, alone=True):
        others = [taken(tmp_path, alone=alone) for alone in (False, True)]
        assert not any(came.wait(SOON) for _, came in others)
    assert all(came.wait(LONG) for _, came in others)


def test_one_that_wants_to_be_alone_waits_for_those_who_began_and_nobody_else_begins(tmp_path: Path) -> None:
    with ExitStack() as begun:
        begun.enter_context(turn(tmp_path, alone=False))
        thread, alone = taken(tmp_path, alone=True)
        assert not alone.wait(SOON)
        _, late = taken(tmp_path, alone=False)
        assert not late.wait(SOON), "or the room would never be empty"
        begun.close()
        assert alone.wait(LONG)
        assert late.wait(LONG)
        thread.join(LONG)


def test_a_process_that_a_test_has_forked_and_left_behind_keeps_nobody_waiting(tmp_path: Path) -> None:
    with turn(tmp_path, alone=False):
        left, right = os.pipe()
        if not (child := os.fork()):
            os.close(right)
            os.read(left, 1)  # for as long as the test lives
            os._exit(0)
    try:
        _, came = taken(tmp_path, alone=True)
        assert came.wait(LONG)
    finally:
        os.close(right)
        os.close(left)
        os.waitpid(child, 0)


def test_the_files_to_begin_with_are_there() -> None:
    assert [name for name in HEAVIEST if not (TESTS / name).is_file()] == []

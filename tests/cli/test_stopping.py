"""What a worker does with signals is not what processes do that its work has forked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from custody.cli.stopping import stop_on_signals
from rig.commands import Run

POOL = """
import multiprocessing
from custody.engine import Kind
from custody.model.outcome import Passed

def count(work):
    with multiprocessing.get_context("fork").Pool(2) as pool:  # and ends it with SIGTERM
        return Passed(keep={"sum": sum(pool.map(abs, range(-9, 10)))})

KINDS = [Kind("count", count)]
"""


def test_a_pool_of_processes_in_a_job_ends_with_it(custody: Run, tmp_path: Path) -> None:
    (tmp_path / "pool.py").write_text(POOL)
    custody("job", "submit", "count")
    words = [sys.executable, "-m", "custody", "worker", "run", "--load", "pool.py", "--until-idle"]
    said = subprocess.run(words, cwd=tmp_path, timeout=120, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    assert custody("job", "show", "1", "--json").json()["job"]["facts"] == {"sum": 90}  # type: ignore[index]


@pytest.fixture
def handlers() -> Iterator[None]:
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_only_the_process_that_asked_for_it_is_stopped(handlers: None, number: signal.Signals) -> None:
    asked: list[int] = []
    stop_on_signals(lambda: asked.append(1))
    os.kill(os.getpid(), number)
    assert asked == [1]
    if not (child := os.fork()):
        os.kill(os.getpid(), number)
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == number

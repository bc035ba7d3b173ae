"""What a worker does with signals is not what processes do that its work has forked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from custody.cli.process.signals import stop_on_signals
from rig.commands import Run

POOL = """
import multiprocessing
from custody.kernel.engine import Kind
from custody.kernel.model.outcome import Passed

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


def test_a_forked_child_answers_to_signals_as_if_nobody_had_asked_from_its_first_moment_on(handlers: None) -> None:
    stop_on_signals(lambda: None)
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    if not (child := os.fork()):
        found = [signal.getsignal(number) == signal.SIG_DFL for number in kept]
        os._exit(0 if all(found) and signal.pthread_sigmask(signal.SIG_BLOCK, []) == before else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert {number: signal.getsignal(number) for number in kept} == kept
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


EARLY = """
import os, signal, time
hook = {}
os.register_at_fork(after_in_child=lambda: hook["at"]())
from custody.cli.process.signals import stop_on_signals
stop_on_signals(lambda: None)
def early():  # before the child has its own answer: what comes now must not be lost
    os.kill(os.getpid(), signal.SIGTERM)
    assert signal.SIGTERM in signal.sigpending()
hook["at"] = early
if not (child := os.fork()):
    time.sleep(60)
    os._exit(0)
hook["at"] = lambda: None
assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGTERM
"""


def test_a_signal_that_comes_while_the_child_is_being_made_ends_it() -> None:
    said = subprocess.run([sys.executable, "-c", EARLY], timeout=50, capture_output=True, text=True)
    assert (said.returncode, said.stderr) == (0, "")

"""A worker that stood still begins nothing whose lease is over: somebody else may have begun it meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from custody import Kind, NewJob, Outcome, Passed, Serving, Settings, Work, Worker, open_store
from custody.kernel.stores import Store
from rig.need import need
from rig.postgres import Postgres

PATIENCE = 90.0
JOBS, THREADS, LEASE = 1500, 2, 2.0
BODY = """
import os, time
from custody import Kind, Passed

def body(work):
    line = f"{work.job.id} {os.getpid()} {time.monotonic()}\\n"
    os.write(FILE, line.encode())
    time.sleep(0.002)
    return Passed()

FILE = os.open("begun", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
KINDS = [Kind("parcel", body)]
"""


@pytest.fixture(params=["file", "postgres"])
def kept(request: pytest.FixtureRequest, quick_folder: Path) -> Iterator[Store]:
    if request.param == "file":
        with open_store(f"sqlite:///{quick_folder / 'custody.db'}") as store:
            yield store
        return
    need("postgresql")
    server = Postgres(fast=True)
    server.start()
    try:
        with open_store(server.fresh_database() + "?unsafe=1") as store:
            yield store
    finally:
        server.remove()


def until(what: Callable[[], object]) -> None:
    stop_at = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < stop_at, "waited too long"
        time.sleep(0.01)


def test_what_waited_for_its_turn_while_the_clock_went_on_is_given_back_unbegun(kept: Store) -> None:
    now = 0.0
    begun: list[int] = []

    def body(work: Work) -> Outcome:
        nonlocal now
        assert work.trusted_until > now, "its lease is over"
        begun.append(work.job.id)
        now += 3 * LEASE  # the process stands still
        return Passed()

    jobs = [made.id for made in kept.queue.submit([NewJob("parcel") for _ in range(5)])]
    worker = Worker(kept, Serving((Kind("parcel", body),)), Settings(threads=5, lease=LEASE), clock=lambda: now)
    assert worker.run_until_idle() == 5
    assert sorted(begun) == sorted(jobs), "each once"
    assert {job.attempts for job in kept.queue.every()} <= {0, 1}, "what was not begun does not count"


def test_a_worker_that_was_stopped_for_longer_than_its_lease_begins_nothing_that_others_have_begun(
    kept: Store, quick_folder: Path
) -> None:
    (quick_folder / "body.py").write_text(BODY)
    (quick_folder / "begun").touch()
    kept.queue.submit([NewJob("parcel") for _ in range(JOBS)])
    words = [
        sys.executable,
        "-m",
        "custody",
        "worker",
        "run",
        "--load",
        "body.py",
        "--store",
        kept.url,
        "--no-log",
        "--threads",
        str(THREADS),
        "--lease",
        str(LEASE),
    ]

    def lines() -> list[tuple[int, int, float]]:
        parts = [line.split() for line in (quick_folder / "begun").read_text().splitlines()]
        return [(int(job), int(pid), float(at)) for job, pid, at in parts]

    workers = [subprocess.Popen(words, cwd=quick_folder)]
    try:
        until(lambda: len(lines()) > 200)  # by then it keeps dozens at hand
        os.kill(workers[0].pid, signal.SIGSTOP)
        workers.append(subprocess.Popen(words, cwd=quick_folder))
        until(lambda: any(job.ended for job in kept.queue.list(after=JOBS - 1, limit=1)))
        time.sleep(LEASE)
        until(lambda: all(job.ended for job in kept.queue.every()))  # also what the first one had at hand
        resumed = time.monotonic()
        os.kill(workers[0].pid, signal.SIGCONT)
        time.sleep(1.0)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    late = [job for job, pid, at in lines() if pid == workers[0].pid and at > resumed]
    assert len(late) <= THREADS, "only bodies that were about to begin"
    assert len(lines()) - JOBS <= 2 * THREADS + len(late) + 8, (
        "and what was begun or not yet settled when it was stopped"
    )

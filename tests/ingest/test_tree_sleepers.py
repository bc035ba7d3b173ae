"""Whoever wakes after its session has ended finds that its jobs are in other hands, is refused, and it is written down."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from custody.formats.checkm.form import Row
from custody.ingest.states import BATCH_KIND, JOB, JOB_KIND
from custody.kernel.engine import Kind, Serving, Settings, Worker
from custody.kernel.model.job import Fold, Job, fold
from custody.kernel.model.outcome import Passed
from faults.processes import until
from ingest import sleeper
from ingest.bench import SOURCE, Archive, archive
from ingest.test_mixed_fleet import orphans, tree_url
from prove.plugin import Scaled, Tell

pytestmark = [pytest.mark.kills, pytest.mark.slow]


@pytest.mark.proves("G5")
def test_a_sleeper_that_wakes_after_its_session_is_refused_and_it_is_written_down(
    zookeeper_hosts: str, tmp_path: Path, tell: Tell, scaled: Scaled[tuple[int, int]]
) -> None:
    rounds, size = scaled((1, 4), (5, 40), (100, 100))
    url = tree_url(zookeeper_hosts, tmp_path)
    with archive(tmp_path, url) as home:
        for number in range(rounds):
            folder = tmp_path / f"round-{number}"
            folder.mkdir()
            lull_and_wake(home, folder, size)
    tell(f"{rounds * size} sleepers refused on ZooKeeper", resumes=rounds * size)
    assert orphans(url) == []


def lull_and_wake(home: Archive, folder: Path, size: int) -> None:
    rows = [Row(n, f"https://depositor.example/{n}.checkm", f"{n}.checkm") for n in range(size)]
    batch = home.submit(home.batch_manifest(f"{folder.name}.checkm", rows))
    worker(home, *(kind for kind in home.worker().serving.kinds if kind.kind == BATCH_KIND)).run_until_idle()
    jobs = {job.id for job in home.jobs(batch)}
    zombie = start(home, folder, size)
    try:
        until(lambda: begun(folder) == jobs, why="all of them are in its hands")
        zombie.send_signal(signal.SIGSTOP)
        second = worker(home, Kind(JOB_KIND, lambda work: Passed(), state="pending", machine=JOB))
        until(lambda: taken_over(home, second, batch), why="someone else has taken over")
        (folder / "go").touch()
        zombie.send_signal(signal.SIGCONT)
        holder = (folder / str(zombie.pid)).read_text()
        until(lambda: refused(home, holder) == jobs, why="every late word is written down")
    finally:
        zombie.kill()
        zombie.wait()
    until(lambda: all(is_told(home, job, second) for job in home.jobs(batch)), why="the history follows the tree")
    for job in home.jobs(batch):
        events = list(home.store.records.all_events(job.subject))
        assert fold(events) == Fold.of(job)
        assert [event.agent for event in events if event.type == "passed"] == [second.holder], "once, and by the second"


def is_told(home: Archive, job: Job, by: Worker) -> bool:
    by.run_until_idle()  # whoever works follows
    return fold(list(home.store.records.all_events(job.subject))) == Fold.of(job)


def worker(home: Archive, *kinds: Kind) -> Worker:
    return Worker(home.store, Serving(kinds), Settings(threads=1, schedules=False))


def start(home: Archive, folder: Path, hands: int) -> subprocess.Popen[bytes]:
    words = [sys.executable, sleeper.__file__, home.store.url, str(folder), str(hands)]
    return subprocess.Popen(words, env=os.environ | {"PYTHONPATH": str(SOURCE)})


def begun(folder: Path) -> set[int]:
    lines = (folder / "begun").read_text().splitlines() if (folder / "begun").exists() else []
    return set(map(int, lines))


def taken_over(home: Archive, second: Worker, batch: int) -> bool:
    second.run_until_idle()
    return {job.state for job in home.jobs(batch)} == {"estimating"}


def refused(home: Archive, holder: str) -> set[int]:
    """By whoever was asked; or by itself, if its session was not back in time for asking anyone."""
    notes = home.store.records.events(f"worker/{holder}")
    assert {(note.type, note.detail["code"]) for note in notes} <= {
        ("refused", "lease.lost"),
        ("silenced", "lease.unconfirmed"),
    }
    return {note.detail["job"] for note in notes}

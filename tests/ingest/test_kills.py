"""Real workers, killed with SIGKILL again and again while a batch is being ingested: nothing lost, nothing doubled."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from custody.cli.nouns.init import CONFIG
from custody.formats.checkm.form import Row
from custody.ingest.states import JOB
from custody.kernel.model.job import Fold, fold
from ingest.bench import Archive
from ingest.test_end_to_end import ocfl_is_valid

LEASE = 1.0
KILLS = 6
STEPS = 8
APART = 60
"""So many steps apart that no job is alone in two deaths: then it would be put aside, as it should."""


def how_many(home: Archive) -> int:
    """Enough to be killed in the middle of: ZooKeeper takes its time."""
    return 25 if home.store.url.startswith("zookeeper:") else 60


def progress(home: Archive, batch: int) -> int:
    """How many steps all its jobs have taken together."""
    order = [*JOB.working, "completed"]
    return sum(order.index(state) * count for state, count in home.store.queue.children(batch) if state in order)


def start_worker(home: Archive) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "custody", "worker", "run", "--lease", str(LEASE), "--poll", "0.2", "--no-log"]
    environment = {**os.environ, "CUSTODY_STORE": home.store.url, "CUSTODY_CONFIG": str(home.home / "custody.toml")}
    return subprocess.Popen(command, env=environment, cwd=home.home)


def submit_objects(home: Archive) -> int:
    rows = []
    for number in range(1, how_many(home) + 1):
        files = [home.object_row(f"o{number}/{name}", f"{number} {name}".encode() * 100) for name in ("a.txt", "b.txt")]
        url = home.object_manifest(f"o{number}.checkm", files)
        rows.append(Row(number, url, f"o{number}.checkm", local_ids=(f"loc{number}",), title=f"Object {number}"))
    (home.home / "custody.toml").write_text(CONFIG.replace("threshold = 0.05", "threshold = 0.0"))
    return home.submit(home.batch_manifest("batch.checkm", rows))


@pytest.mark.kills
def test_killed_workers_lose_nothing_and_do_nothing_twice(home: Archive) -> None:
    batch = submit_objects(home)
    chance = random.Random(7)
    kills = 0
    workers = [start_worker(home) for _ in range(2)]
    end = time.monotonic() + 200
    try:
        while home.batch(batch).ended is None:
            assert time.monotonic() < end, f"stuck: {home.store.queue.children(batch)}"
            time.sleep(chance.uniform(0.005, 0.025))  # a fast machine does it all within a second or two
            if kills < KILLS and progress(home, batch) >= APART * (kills + 1):
                victim = workers.pop(0)  # who has worked longest: the other may just have been started
                victim.send_signal(signal.SIGKILL)
                victim.wait()
                workers.append(start_worker(home))
                kills += 1
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()

    jobs = home.jobs(batch)
    assert home.batch(batch).state == "completed"
    assert {job.state for job in jobs} == {"completed"}
    assert sorted(job.payload["row"] for job in jobs) == list(range(1, how_many(home) + 1)), (
        "each row became exactly one job"
    )
    arks = [job.facts["primary"] for job in jobs]
    assert len(set(arks)) == how_many(home), "one identifier for each object"
    for job, ark in zip(jobs, arks, strict=True):
        assert [version.job for version in home.world.inventory.versions(ark)] == [job.id], "one version for each"
        events = list(home.store.records.all_events(job.subject))
        assert fold(events) == Fold.of(job)
        passed = [event.detail["from"] for event in events if event.type == "passed"]
        assert len(passed) == len(set(passed)) == STEPS, "every step passed exactly once"
        ingested = [event for event in home.store.records.events(f"item/{ark}") if event.type == "ingested"]
        assert len(ingested) == 1
    assert ocfl_is_valid(home.home / "storage")
    assert kills >= 2
    assert not list(home.world.disk.folders()), "no working folder is left behind"
    deliver(home)
    assert home.letters() == [f"batch-{batch}-report-1@localhost.eml"]


def deliver(home: Archive) -> None:
    """What a killed worker was just delivering is delivered when its lease has ended."""
    end = time.monotonic() + 60
    while not home.mails() and time.monotonic() < end:
        home.run()
        time.sleep(0.05)

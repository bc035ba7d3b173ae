"""The demo, as a newcomer meets it: it starts, it answers, it is killed, it goes on."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from custody.demo.standins.web_server import FileServer
from custody.ingest.states import BATCH_KIND
from custody.kernel.model.job import Filter
from custody.kernel.stores import open_store
from custody.kernel.stores.fsck import recount

COMMAND = [str(Path(sys.executable).with_name("custody")), "demo"]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[subprocess.Popen[str]]]:
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


def start(folder: Path, processes: list[subprocess.Popen[str]]) -> tuple[subprocess.Popen[str], str]:
    """A running demo and the address of its dashboard, read from what it prints."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(COMMAND, cwd=folder, stdout=subprocess.PIPE, text=True, env=environment)
    processes.append(process)
    assert process.stdout is not None
    for line in process.stdout:
        found = re.search(r"Dashboard\s+(http://\S+)", line)
        if found:
            return process, found[1]
    raise AssertionError("the demo printed no address")


@pytest.mark.kills
def test_a_killed_demo_goes_on_where_it_was(tmp_path: Path, started: list[subprocess.Popen[str]]) -> None:
    process, address = start(tmp_path, started)
    with urllib.request.urlopen(address, timeout=60) as answer:
        assert answer.status == 200, "an address is printed only after it answers"
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = subprocess.run([*COMMAND, "--until-idle"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    with open_store(f"sqlite:///{tmp_path / 'custody-demo' / 'custody.db'}") as store:
        end = time.monotonic() + 150
        while store.queue.by_key(BATCH_KIND, "demo-papers").ended is None:  # type: ignore[union-attr]
            assert time.monotonic() < end
            subprocess.run([*COMMAND, "--until-idle"], cwd=tmp_path, capture_output=True, timeout=120)
        batch = store.queue.by_key(BATCH_KIND, "demo-papers")
        assert batch is not None
        jobs = list(store.queue.every(Filter(parent=batch.id)))
        assert len(jobs) == 12
        assert sorted(job.code for job in jobs if job.code and job.ended == "failed") == [
            "digest.mismatch",
            "digest.mismatch",
            "http.404",
        ]
        assert sum(job.state == "completed" for job in jobs) == 9
        assert recount(store) == []
    assert len(list((tmp_path / "custody-demo" / "outbox").glob("batch-1-report-*"))) == 1


def test_reset_begins_again_and_touches_nothing_that_is_not_a_demo(tmp_path: Path) -> None:
    mine = tmp_path / "custody-demo" / "precious.txt"
    mine.parent.mkdir()
    mine.write_text("keep")
    from custody.demo.together import reset

    reset(mine.parent)
    assert mine.exists(), "a folder that no demo made is left alone"


def test_the_depositors_server_is_as_slow_as_one_wants_to_watch(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a page")
    server = FileServer(tmp_path, pause=0.3).start()
    began = time.monotonic()
    with urllib.request.urlopen(f"{server.url}/a.txt", timeout=60) as answer:
        assert answer.read() == b"a page"
    assert time.monotonic() - began >= 0.3
    server.stop()


def test_a_speed_of_nothing_is_refused(tmp_path: Path) -> None:
    done = subprocess.run([*COMMAND, "--speed", "0"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "0.05" in done.stderr, "the least there is"

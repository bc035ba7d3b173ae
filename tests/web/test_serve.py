"""`custody serve` and `custody demo` as processes: addresses only when they answer, a graceful end."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

SOURCE = Path(__file__).parents[2] / "src"


@contextmanager
def program(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONUNBUFFERED": "1", "CUSTODY_WHO": "ada"}
    env.pop("CUSTODY_STORE", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "custody", *arguments],
        cwd=folder,
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=60)


def address_in(process: subprocess.Popen[str], pattern: str) -> str:
    """The first printed line that fits; it was printed because the address has answered."""
    assert process.stdout is not None
    for line in process.stdout:
        match = re.search(pattern, line)
        if match:
            return match[1]
    raise AssertionError(f"it ended without saying so: {process.stderr.read() if process.stderr else ''}")


def get(url: str, path: str, **headers: str) -> tuple[int, str]:
    asking = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    asking.request("GET", path, headers=headers)
    answer = asking.getresponse()
    told = answer.status, answer.read().decode()
    asking.close()
    return told


def custody(folder: Path, *arguments: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "CUSTODY_WHO": "ada"}
    done = subprocess.run(
        [sys.executable, "-m", "custody", *arguments], cwd=folder, env=env, text=True, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.kills
def test_serve_answers_where_it_says_asks_for_a_token_works_and_ends_well(tmp_path: Path) -> None:
    secret = custody(tmp_path, "token", "create", "ada", "--role", "admin").strip()
    custody(tmp_path, "schedule", "set", "often", "every 1s", "parcel")
    with program(tmp_path, "serve", "--port", "0", "--no-log") as serving:
        url = address_in(serving, r"dashboard\s+(http://127\.0\.0\.1:\d+)/")
        assert get(url, "/api/v1/jobs")[0] == 401
        bearer = {"Authorization": f"Bearer {secret}"}
        status, text = get(url, "/api/v1/workers", **bearer)
        assert status == 200
        assert json.loads(text)["workers"] is not None
        while not json.loads(get(url, "/api/v1/jobs", **bearer)[1])["jobs"]:
            time.sleep(0.05)  # the scheduler of this process makes one every second; who asks too often is refused
        serving.send_signal(signal.SIGTERM)
        assert serving.wait(timeout=60) == 0
    assert (tmp_path / "custody.secret").stat().st_mode & 0o777 == 0o600


@pytest.mark.kills
def test_serve_without_workers_only_serves_and_refuses_others_without_login(tmp_path: Path) -> None:
    with program(tmp_path, "serve", "--port", "0", "--no-workers", "--demo") as serving:
        url = address_in(serving, r"dashboard\s+(http://\S+:\d+)/")
        assert get(url, "/index.json")[0] == 200
        assert json.loads(get(url, "/api/v1/workers")[1])["workers"] == []
        serving.send_signal(signal.SIGINT)
        assert serving.wait(timeout=60) == 0
    with program(tmp_path, "serve", "--host", "0.0.0.0", "--port", "0", "--demo") as refused:
        assert refused.wait(timeout=60) == 2


@pytest.mark.kills
def test_the_demo_serves_its_dashboard_on_the_next_free_port_and_goes_on_after_a_kill(tmp_path: Path) -> None:
    with program(tmp_path, "demo") as first:
        url = address_in(first, r"Dashboard\s+(http://127\.0\.0\.1:\d+)/")
        assert get(url, "/", Accept="text/html")[0] == 200
        assert json.loads(get(url, "/batches.json")[1])["batches"]
        first.kill()
        first.wait()
    with program(tmp_path, "demo") as again:
        url = address_in(again, r"Dashboard\s+(http://127\.0\.0\.1:\d+)/")
        assert len(json.loads(get(url, "/batches.json")[1])["batches"]) == 4
        again.send_signal(signal.SIGTERM)
        assert again.wait(timeout=60) == 0

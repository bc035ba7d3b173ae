"""One caller who asks without end, dawdles on hundreds of connections and uploads for ever: the others are served on."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

import pytest

from custody.web.rates import KNOWN
from prove.plugin import Scaled, Tell
from web import abuser
from web.test_serve import SOURCE, address_in, custody, program

PAUSE = 0.02
"""Between two questions of the one who behaves."""


def seconds_for(netloc: str, token: str, times: int) -> list[float]:
    line, took = http.client.HTTPConnection(netloc, timeout=60), list[float]()
    for _ in range(times):
        time.sleep(PAUSE)
        began = time.monotonic()
        line.request("GET", "/api/v1/jobs", headers={"Authorization": f"Bearer {token}"})
        answer = line.getresponse()
        assert answer.status == 200, answer.read()
        answer.read()
        took.append(time.monotonic() - began)
    line.close()
    return sorted(took)


def memory(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def abused(port: int, token: str, connections: int) -> Iterator[dict[str, int]]:
    """While it goes on; afterwards, what the abuser was answered, and how often."""
    words = [sys.executable, abuser.__file__, str(port), token, str(connections)]
    heard: dict[str, int] = {}
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "at it\n"
        try:
            yield heard
            process.stdin.write("enough\n")
            process.stdin.flush()
            heard |= json.loads(process.stdout.readline())
        finally:
            process.kill()


@pytest.mark.proves("H13")
@pytest.mark.alone
def test_whoever_behaves_is_answered_while_another_does_his_worst(
    tmp_path: Path, scaled: Scaled[tuple[int, int]], tell: Tell
) -> None:
    times, connections = scaled((20, 50), (200, 500), (3_000, 500))
    good, bad = (custody(tmp_path, "token", "create", name, "--role", "reader").strip() for name in ("good", "bad"))
    assert SOURCE.is_dir()
    with program(tmp_path, "serve", "--port", "0", "--no-log", "--no-workers") as serving:
        netloc = urlsplit(address_in(serving, r"dashboard\s+(http://127\.0\.0\.1:\d+)/")).netloc
        seconds_for(netloc, good, times // 5)  # until everything is warm
        before, held = seconds_for(netloc, good, times), memory(serving.pid)
        began = time.monotonic()
        with abused(int(netloc.rpartition(":")[2]), bad, connections) as heard:
            during = seconds_for(netloc, good, times)
            grown = memory(serving.pid) / held - 1
        seconds = time.monotonic() - began
        after = seconds_for(netloc, good, times)
    worst = int(0.99 * times)
    slower = during[worst] / max(before[worst], after[worst])
    tell(
        f"beside {sum(heard.values())} requests of one caller on {connections} connections: "
        f"median {1000 * median(before):.1f} ms, then {1000 * median(during):.1f} ms, then {1000 * median(after):.1f} ms; "
        f"p99 {1000 * before[worst]:.1f}, {1000 * during[worst]:.1f}, {1000 * after[worst]:.1f} ms",
        slower=slower,
        memory_grown=max(0.0, grown),
    )
    assert set(heard) <= {"200", "429", "413"}
    assert heard.get("200", 0) <= KNOWN.burst + KNOWN.per_second * (seconds + 1), "whoever asks more often is sent away"

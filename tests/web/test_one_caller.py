"""One caller who asks without end, dawdles on hundreds of connections and uploads for ever: the others are served on."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

import pytest

from custody.web.access.rate_limits import KNOWN
from prove.plugin import Scaled, Tell
from web import abuser
from web.test_serve import address_in, custody, program

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
    return took


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


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, str, str, int]]:
    """A server of its own: its address, a token for each of two, and its process."""
    folder.mkdir()
    good, bad = (custody(folder, "token", "create", name, "--role", "reader").strip() for name in ("good", "bad"))
    with program(folder, "serve", "--port", "0", "--no-log", "--no-workers") as process:
        netloc = urlsplit(address_in(process, r"dashboard\s+(http://127\.0\.0\.1:\d+)/")).netloc
        yield netloc, good, bad, process.pid


@pytest.mark.proves("H13")
@pytest.mark.alone
def test_whoever_behaves_is_answered_while_another_does_his_worst(
    tmp_path: Path, scaled: Scaled[tuple[int, int, int]], tell: Tell
) -> None:
    """Compared with the same abuse of another server of this machine, in turns: that takes as much of the machine."""
    rounds, times, connections = scaled((1, 20, 50), (4, 150, 500), (40, 150, 500))
    beside, during, heard = list[float](), list[float](), Counter[str]()
    with serving(tmp_path / "ours") as (netloc, good, bad, pid), serving(tmp_path / "other") as other:
        seconds_for(netloc, good, 20)  # until everything is warm
        held, began = memory(pid), time.monotonic()
        for _ in range(rounds):
            with abused(port_of(other[0]), other[2], connections):
                beside += seconds_for(netloc, good, times)
            with abused(port_of(netloc), bad, connections) as told:
                during += seconds_for(netloc, good, times)
            heard.update(told)
        seconds, grown = time.monotonic() - began, memory(pid) / held - 1
    slower = p99(during) / p99(beside)
    tell(
        f"beside {sum(heard.values())} requests of one caller on {connections} connections: median "
        f"{1000 * median(during):.1f} ms, p99 {1000 * p99(during):.1f} ms; as many at another server of this machine: "
        f"{1000 * median(beside):.1f} and {1000 * p99(beside):.1f} ms",
        slower=slower,
        memory_grown=max(0.0, grown),
    )
    assert set(heard) <= {"200", "429", "413"}
    allowed = KNOWN.burst + KNOWN.per_second * (seconds + 1)
    assert heard["200"] <= allowed, "whoever asks more often is sent away"


def port_of(netloc: str) -> int:
    return int(netloc.rpartition(":")[2])


def p99(took: list[float]) -> float:
    return sorted(took)[int(0.99 * len(took))]

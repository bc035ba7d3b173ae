"""How soon the program answers, and how much memory a worker takes: idle, and after many jobs.

    python -m bench.starting [--quick | --long] [--json FILE]

The limit of `custody --help` is judged against a bare start of the interpreter on the same machine: 150 ms where
Python itself starts in 15. Memory is what the kernel counts as resident.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.peers.contest import PROJECT
from bench.rounds import Measure, Options, Row, in_turns, main
from custody.kernel.model.job import NewJob
from custody.kernel.stores import Store, open_store

HELP_STARTS = 10  # as many bare starts may help take
ENVIRONMENT = os.environ | {"PYTHONPATH": f"{PROJECT}:{PROJECT / 'src'}"}
KINDS = """\
from custody.kernel.engine import Kind
from custody.kernel.model.outcome import Passed
KINDS = [Kind("parcel", lambda work: Passed())]
"""


def measure(options: Options) -> Sequence[Row]:
    count = 20_000 if options.quick else 1_000_000 if options.long else 100_000
    figures = in_turns({"help": _start("-m", "custody", "--help"), "python": _start("-c", "pass")}, 7)
    starts = Row(
        "start.help-in-bare-starts",
        figures.median("help") / figures.median("python"),
        1.0,
        HELP_STARTS,
        "bare starts",
        limit=True,
        spread=figures.spread("help"),
    )
    idle, after = _memory(count)
    return [
        Row("start.help", figures.median("help"), figures.median("python"), 0.0, "ms", spread=figures.spread("help")),
        starts,
        Row("memory.idle", idle, 0.0, 60.0, "MB", limit=True),
        Row(f"memory.after-{count}-jobs", after, idle, idle * 1.25 + 5, "MB", limit=True),
    ]


def _start(*words: str) -> Measure:
    def milliseconds() -> float:
        began = time.monotonic()
        subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
        return (time.monotonic() - began) * 1000

    return milliseconds


def _memory(count: int) -> tuple[float, float]:
    """Megabytes of `custody worker run`: before it has done anything, and after it has done many."""
    with tempfile.TemporaryDirectory(prefix="custody-bench-") as folder:
        url = f"sqlite:///{folder}/store.db"
        (Path(folder) / "kinds.py").write_text(KINDS)
        with open_store(url) as store:
            command = [sys.executable, "-m", "custody", "worker", "run", "--load", "kinds.py", "--no-log"]
            worker = subprocess.Popen([*command, "--store", url], env=ENVIRONMENT, cwd=folder)
            try:
                _until(lambda: bool(store.workers()))
                store.queue.submit([NewJob("parcel")])
                _until(lambda: _left(store) == 0)
                idle = _resident(worker.pid)
                for at in range(0, count, 10_000):
                    store.queue.submit([NewJob("parcel", {"n": n}) for n in range(at, min(count, at + 10_000))])
                    _until(lambda: _left(store) < 5_000)
                _until(lambda: _left(store) == 0)
                return idle, _resident(worker.pid)
            finally:
                worker.send_signal(signal.SIGTERM)
                worker.wait()


def _left(store: Store) -> int:
    return sum(number for _, state, number in store.queue.counts() if state == "queued")


def _until(is_so: Callable[[], bool]) -> None:
    stop_at = time.monotonic() + 600
    while not is_so():
        if time.monotonic() > stop_at:
            raise SystemExit("the worker does not get on")
        time.sleep(0.05)


def _resident(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


if __name__ == "__main__":
    sys.exit(main(__doc__, measure))

"""Lines of small robots, and the running of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from custody.kernel.engine import Backoff, Serving, Settings, Worker
from custody.kernel.stores import Store
from custody.robots import Item, Report, Robot, robot
from custody.robots.locks import Locks
from custody.robots.programs.sandboxed import Yard
from custody.robots.runner import kinds, subscribe
from custody.robots.summary import Tally
from custody.robots.sweep import sweep

PATIENCE = 120.0


def make(name: str, event: str, log: list[str] | None = None, **when: set[str]) -> Robot:
    @robot(name=name, version="1", event=event, when=when, backoff=Backoff(first=0.01))
    def work(item: Item, report: Report) -> None:
        if log is not None:
            log.append(item.id)

    return work


def run(store: Store, *robots: Robot) -> int:
    return watched(store, robots)[0]


def watched(
    store: Store,
    robots: Sequence[Robot],
    locks: Locks | None = None,
    lease: float = 30,
    cycle: bool = False,
    yard: Yard | None = None,
) -> tuple[int, Tally]:
    """Run a line until it is quiet; how many moves that took, and what became of the items."""
    subscribe(store, robots)
    for each in robots:
        sweep(store, each)
    tally = Tally(store)
    serving = Serving(tuple(kinds(store, robots, locks, cycle, yard)))
    worker = Worker(store, serving, Settings(threads=4, lease=lease, grace=0.2), tally)
    worker.run_until_quiet() if "memory" not in store.url else worker.run_until_idle()
    return worker.settled_count, tally


def types(store: Store, item: str) -> list[str]:
    return [event.type for event in store.records.events(f"item/{item}")]


def wait_until(condition: Callable[[], object], what: str = "") -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, what or "it never came to pass"
        time.sleep(0.02)


class Said:
    """What a command said."""

    def __init__(self, folder: Path, *words: str) -> None:
        environment = {**os.environ, "CUSTODY_WHO": "ada"}
        environment.pop("CUSTODY_STORE", None)
        done = subprocess.run(
            [sys.executable, "-m", "custody", *words],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    def json(self) -> Any:
        return json.loads(self.out)

"""Real worker processes, started as a user would, and killed as a machine does."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

from custody.errors import Unavailable
from custody.kernel.model.job import NewJob
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.rules.claim import Left, expired
from faults.checker import Entry, Final, Log, check, final_state, read_log, read_worker_log
from faults.nursery import Born

TESTS = Path(__file__).parents[1]
PATIENCE = 90.0
"""Seconds for anything to happen: this machine may be busy with other things."""


def until(what: Callable[[], object], seconds: float = PATIENCE, why: str = "") -> None:
    """Asks often at first; after a while less often: who is asked all the time, a store that counts, gets nothing done."""
    began = time.monotonic()
    while not what():
        waited = time.monotonic() - began
        assert waited < seconds, f"waited too long: {why or what}"
        time.sleep(min(0.1, max(0.005, waited / 20)))


class Fleet:
    """Workers of one store, their logs, and the client's."""

    def __init__(self, url: str, folder: Path, lease: float = 2.0) -> None:
        self.url, self.folder, self.lease = url, folder, lease
        self.store = open_store(url)
        self.effects, self.go = folder / "effects", folder / "go"
        self.effects.touch()
        self.client = Log(folder / "client", "client")
        self.running: list[Born] = []
        self.started = 0
        self._begun = list[tuple[str, int]]()
        self._read = 0

    def __enter__(self) -> Fleet:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in list(self.running):
            self.signal(process, signal.SIGKILL)
        self.store.close()

    # Workers

    def start(self, *options: str, threads: int = 4) -> Born:
        self.started += 1
        words = ["worker", "run", "--load", str(TESTS / "faults" / "work.py"), "--store", self.url]
        words += ["--lease", str(self.lease), "--poll", "0.1", "--threads", str(threads), *options]
        environ = {"EFFECTS": str(self.effects), "GO": str(self.go)}
        process = Born(words, environ, self.folder / f"log-{self.started}")
        self.running.append(process)
        return process

    def signal(self, process: Born, what: signal.Signals) -> None:
        process.send_signal(what)
        if what is signal.SIGKILL:
            process.wait()
            self.running.remove(process)

    def holder(self, process: Born) -> str:
        """The name under which this process holds its leases; waits until it has said it."""
        found: list[str] = []

        def seen() -> bool:
            assert process.poll() is None, self.last_words()
            found[:] = [worker.id for worker in self.store.workers() if worker.pid == process.pid]
            return bool(found)

        until(seen, why="the worker says that it lives")
        return found[0]

    def alive(self) -> list[Born]:
        """Those that have begun to work."""
        seen = {worker.pid for worker in self.store.workers()}
        return [process for process in self.running if process.pid in seen]

    def last_words(self) -> str:
        return (self.folder / f"log-{self.started}").read_text(errors="replace")[-2000:]

    # The client

    def submit(self, *jobs: NewJob) -> list[int]:
        """Until it is acknowledged: the keys make that safe."""
        for job in jobs:
            self.client.write("invoke", "submit", key=job.key)
        while True:
            try:
                made = [each.id for each in self.store.queue.submit(jobs)]
                break
            except Unavailable:
                for job in jobs:
                    self.client.write("unknown", "submit", key=job.key)
                time.sleep(0.05)
        for job, id_ in zip(jobs, made, strict=True):
            self.client.write("ok", "submit", key=job.key, job=id_)
        return made

    def is_done(self) -> bool:
        """Everything has ended. (A store that does not answer is not done.)"""
        try:
            return all(state in ("done", "failed", "cancelled") for _, state, _ in self.store.queue.counts())
        except Unavailable:
            return False

    # Afterwards

    def wrong(self) -> list[str]:
        """What the history checker has to say about all the logs and the store."""
        return [str(wrong) for wrong in check(self.history(), self.final())]

    def final(self) -> Final:
        return final_state(self.store)

    def history(self) -> Iterator[Entry]:
        yield from read_log(self.folder / "client")
        yield from read_log(self.effects)
        for log in self.folder.glob("log-*"):
            yield from read_worker_log(log, log.name)

    def begun(self) -> list[int]:
        return [job for _, job in self.begun_by()]

    def begun_by(self) -> list[tuple[str, int]]:
        """Who has begun which job, again and again asked for: what was read once is not read again."""
        with self.effects.open("rb") as log:
            log.seek(self._read)
            lines = log.read().splitlines(keepends=True)
        for line in lines:
            if line.endswith(b"\n"):
                entry = json.loads(line)
                self._read += len(line)
                self._begun += [(entry["process"], entry["job"])] * (entry["act"] == "begin")
        return self._begun


class Watchman(threading.Thread):
    """Looks all the time for leases that have ended, and notes for each how long nobody had taken the job over.

    What is taken over between two looks is not seen at all: those who wait are told too long, never too short.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(daemon=True)
        self._store, self._over = store, threading.Event()
        self._left: dict[Left, int] = {}  # with the time of the last look
        self.late: list[tuple[float, int]] = []  # seconds, and how suspect the job was

    def run(self) -> None:
        while not self._over.wait(0.02):
            self.look()

    def look(self) -> None:
        try:
            left, now = self._store.db.read(lambda tx: (expired(tx, [""], None, 10_000), tx.now))
        except Unavailable:
            return
        for gone in self._left.keys() - set(left):
            self.late.append(((now - gone[0]) / 1e6, gone[2]))
        self._left = dict.fromkeys(left, now)

    def stop(self) -> list[float]:
        """How long each waited, the shortest first; those who wait still among them."""
        self._over.set()
        self.join()
        waiting = [((now - left[0]) / 1e6, left[2]) for left, now in self._left.items()]
        return sorted(seconds for seconds, _ in [*self.late, *waiting])


class Disk(threading.Thread):
    """Writes a little to the disk and waits until it is there, again and again: how long that took at worst is how long
    the machine stood still for everybody else, too."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self._file, self._over, self._worst = folder / "a bare write", threading.Event(), 0.0

    def run(self) -> None:
        with self._file.open("wb", buffering=0) as file:
            while not self._over.wait(0.05):
                began = time.monotonic()
                file.write(b"x")
                os.fsync(file.fileno())
                self._worst = max(self._worst, time.monotonic() - began)

    def stop(self) -> float:
        self._over.set()
        self.join()
        return self._worst


def share(ordered: list[float], part: float) -> float:
    """The value below which this part of them lies; 0 if there are none."""
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0

"""The line under fire: five robots in several processes that are killed, stopped and cut off, and each item exactly once.

A proof (`make prove ROW=G22`) has ten thousand items, a long one thirty.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from custody.kernel.model.item import NewItem
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.fsck import recount
from custody.robots.items.late_events import orphans
from prove.plugin import Scaled, Tell

if TYPE_CHECKING:
    from rig.zookeeper import ZooKeeper

# A proof runs beside others, and the disk may stand still for seconds: a worker that is kept waiting beyond its lease
# looks dead, and a job that was alone in two of those is put aside.
LEASE = 2.0 if os.environ["CUSTODY_SCALE"] == "test" else 6.0
EVENTS = ["A", "B", "C", "D", "E"]

LINE = """
import time
from custody.kernel.engine import Backoff
from custody.robots import robot

SOON = Backoff(first=0.05, most=0.5)

def make(event, before):
    when = {"past": {before} if before else set(), "absent": {event}}

    @robot(name=f"robot-{event}", version="1", event=event, when=when, at_once=8, hosts=9, tries=1000, backoff=SOON)
    def work(item, report):
        time.sleep(0.001)

    return work

A, B, C, D, E = (make(event, before) for event, before in zip("ABCDE", ["", *"ABCD"]))
"""


class Fleet:
    """Several processes that run one line; whoever ends is started again, as by a supervisor."""

    def __init__(self, folder: Path, words: list[str], size: int) -> None:
        self.folder, self.words = folder, words
        self.ended: Counter[int] = Counter()
        self.troubles: Counter[str] = Counter()
        self.processes = [self.start() for _ in range(size)]

    def start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "custody", "robot", "run", "line.py", "--lease", str(LEASE), *self.words]
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)

    def look_after(self) -> None:
        for number, process in enumerate(self.processes):
            if process.poll() is not None:
                self.ended[process.returncode] += 1
                self.processes[number] = self.start()

    def kill(self, chance: random.Random) -> None:
        victim = chance.choice(self.processes)
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        self.troubles["killed"] += 1

    def sleep(self, chance: random.Random) -> None:
        """Stop one past its lease and its session, and let it go on in the belief that nothing has happened."""
        victim = chance.choice(self.processes)
        victim.send_signal(signal.SIGSTOP)
        try:
            time.sleep(LEASE * 1.6)
        finally:
            victim.send_signal(signal.SIGCONT)
        self.troubles["stopped past its lease"] += 1


@contextmanager
def fleet(folder: Path, words: list[str], size: int) -> Iterator[Fleet]:
    (folder / "line.py").write_text(LINE)
    running = Fleet(folder, words, size)
    try:
        yield running
    finally:
        for process in running.processes:
            process.kill()
            process.wait()


def done(store: Store) -> int:
    """How many items have come to the end of the line."""
    return int(store.db.read(lambda tx: tx.run("count_type", type="E"))[0][0])


def stuck(store: Store) -> list[object]:
    """What is left, and why."""
    return [(job, [str(reason) for reason in store.queue.why(job.id)]) for job in store.queue.every()]


@pytest.mark.proves("G22")
@pytest.mark.kills
@pytest.mark.parametrize("where", ["sqlite, leases in the store", "postgres, locks on zookeeper"])
def test_every_item_has_exactly_one_event_of_each_robot_whatever_happens(
    where: str, tmp_path: Path, request: pytest.FixtureRequest, scaled: Scaled[int], tell: Tell
) -> None:
    chance, many = random.Random(5), scaled(0, 1, 1)
    names = [f"item-{number:05}" for number in range(scaled(100, 10_000, 30_000))]
    server: ZooKeeper | None = None
    url, words = f"sqlite:///{tmp_path / 'custody.db'}", []
    if "zookeeper" in where:
        server = request.getfixturevalue("zookeeper")
        url, words = request.getfixturevalue("postgres_url"), ["--locks", f"zookeeper://{server.fresh_root()}"]
    with open_store(url) as store:
        store.records.put([NewItem(name) for name in names])
        with fleet(tmp_path, ["--store", url, *words], 4 if many else 2) as running:
            began, turn = time.monotonic(), 0
            while done(store) < len(names):
                patience = 120 + len(names) / 5
                assert time.monotonic() < began + patience, (stuck(store), (tmp_path / "log").read_text()[-2000:])
                again = many and turn > 6
                if turn == 1 or (again and turn % 40 == 0):
                    running.kill(chance)
                elif turn == 2 or (again and turn % 55 == 0):
                    running.sleep(chance)
                elif server is not None and (turn == 3 or (again and turn % 90 == 0)):
                    server.stop("kill")
                    server.start()
                    running.troubles["zookeeper killed and started"] += 1
                running.look_after()
                turn += 1
                time.sleep(0.4)
        took = time.monotonic() - began
        told = {name: [event.type for event in store.records.events(f"item/{name}")] for name in names}
        wrong = {name: types for name, types in told.items() if types != ["changed", *EVENTS]}
        assert wrong == {}
        assert recount(store) == []
        late = orphans(store)
        assert all(event.detail["event"] in EVENTS for event in late)
    troubles = ", ".join(f"{count} × {what}" for what, count in running.troubles.items())
    tell(
        f"the line on {where}: {len(names)} items × {len(EVENTS)} robots in {took:.0f} s, {troubles}; "
        f"ends {dict(running.ended)}, late events kept aside {len(late)}",
        items=len(names),
        troubles=running.troubles.total(),
    )

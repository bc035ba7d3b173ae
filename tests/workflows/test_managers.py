"""Several managers on one PostgreSQL, killed again and again: no task runs twice at once, none is lost.

Every task keeps a connection to the test open from its first act to the death of its last process: the kernel closes
it, whoever was killed, so what the test sees does not depend on anything that we keep.
"""

from __future__ import annotations

import os
import random
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from custody.kernel.model.job import Filter
from custody.workflows.makers import COMMIT_KIND, TASK_KIND
from prove.plugin import Scaled, Tell
from rig import elsewhere
from rig.need import need
from rig.svn import Repository
from workflows.desk import Desk, sitting_at, until

TASK = """
- name: {name}
  depends: [{depends}]
  network: ["witness.example.org:{port}"]
  shell: bash
  script: |
    exec 3<>/dev/tcp/127.0.0.1/3128
    printf 'CONNECT witness.example.org:{port} HTTP/1.1\\r\\n\\r\\n' >&3
    read -r established <&3 && read -r nothing <&3
    echo "$CUSTODY_REVISION {name} begin" >&3
    sleep {seconds}
    echo "$CUSTODY_REVISION {name} end" >&3
    echo done
"""
NEEDS = {"a": ["PREV"], "b": ["a"], "c": [], "d": ["PREV", "c"]}
WORKERS = 3
TESTS = Path(__file__).parents[1]
MANAGER = "from rig import elsewhere; elsewhere.install(); from custody.cli import main; main()"
Who = tuple[int, str]  # the revision and the task


@dataclass
class Witness:
    """Hears every task begin and end, and sees how long each of its processes lives."""

    server: socket.socket
    alive: dict[socket.socket, Who] = field(default_factory=dict)
    ended: set[Who] = field(default_factory=set)
    begun: Counter[Who] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    over: bool = False

    def watch(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self.server, selectors.EVENT_READ)
            while not self.over:
                ready = [key.fileobj for key, _ in selector.select(0.05)]
                tasks = [each for each in ready if isinstance(each, socket.socket) and each is not self.server]
                # Ends first: whatever began because of one is in the same handful, or in a later one.
                for task, who in [begun for each in tasks for begun in self._hear(selector, each)]:
                    self._begin(task, who)
                if self.server in ready:
                    selector.register(self.server.accept()[0], selectors.EVENT_READ)
            for key in list(selector.get_map().values()):
                key.fileobj.close()  # type: ignore[union-attr]

    def _hear(self, selector: selectors.BaseSelector, task: socket.socket) -> list[tuple[socket.socket, Who]]:
        """Notes who has ended or died; answers who says that it begins."""
        try:
            words = task.recv(4096).decode().split()
        except ConnectionResetError:
            words = []
        if not words:
            selector.unregister(task)
            task.close()
            self.alive.pop(task, None)
        told = [(what, (int(revision), name)) for revision, name, what in zip(*[iter(words)] * 3, strict=True)]
        self.ended |= {who for what, who in told if what == "end"}
        return [(task, who) for what, who in told if what == "begin"]

    def _begin(self, task: socket.socket, who: Who) -> None:
        self._drop_the_dead()
        if who in self.alive.values():
            self.wrong.append(f"{who} runs twice at once")
        self.wrong += [f"{who} began before {need} had ended" for need in _needs(who) if need not in self.ended]
        self.alive[task] = who
        self.begun[who] += 1

    def _drop_the_dead(self) -> None:
        """Whoever died before this moment has been hung up on already, though we may not have read that far."""
        for task in list(self.alive):
            try:
                if task.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b"":
                    self.alive.pop(task)
            except BlockingIOError:
                pass
            except ConnectionResetError:
                self.alive.pop(task)


def _needs(who: Who) -> Sequence[Who]:
    revision, name = who
    wanted = [(revision - 1, name) if need == "PREV" else (revision, need) for need in NEEDS[name]]
    return [need for need in wanted if need[0] > 0]


@contextmanager
def witness() -> Iterator[Witness]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = Witness(server)
        thread = threading.Thread(target=found.watch)
        thread.start()
        try:
            yield found
        finally:
            found.over = True
            thread.join()


def manager(home: Path, url: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", MANAGER, "worker", "run", "--lease", "2", "--no-log", "--threads", "3"]
    environment = {
        **os.environ,
        "PYTHONPATH": str(TESTS),
        "CUSTODY_STORE": url,
        "CUSTODY_CONFIG": str(home / "custody.toml"),
    }
    return subprocess.Popen(command, env=environment, cwd=home)


@pytest.mark.kills
@pytest.mark.proves("G4")
def test_killing_any_of_several_managers_loses_nothing_and_runs_nothing_twice_at_once(
    tmp_path: Path, repository: Repository, postgres_url: str, scaled: Scaled[int], seed: int, tell: Tell
) -> None:
    need("bubblewrap")
    (tmp_path / "custody.toml").write_text("")
    (tmp_path / "profiles").mkdir()
    chance = random.Random(4 + seed)
    strikes, revisions = scaled(6, 60, 2_000), scaled(4, 40, 1_500)
    with sitting_at(postgres_url, repository, tmp_path) as desk, witness() as seen:
        port = seen.server.getsockname()[1]
        desk.store.grants.grant("archive/proj", "network", f"{elsewhere.HOST}:{port}", "ada", "the witness")
        for number in range(revisions):
            desk.commit({"_workflows/a.yaml": _workflow(port), "n.txt": str(number)})
        managers = [manager(tmp_path, postgres_url) for _ in range(WORKERS)]
        try:
            desk.notify(revisions)
            until(lambda: seen.begun)  # not a storm over an empty sea
            killed = 0
            for _ in range(strikes):
                time.sleep(chance.uniform(0.05, 1.0))
                for place in chance.sample(range(WORKERS), chance.choice([1, 1, 2, WORKERS])):
                    managers[place].kill()
                    managers[place].wait()
                    managers[place] = manager(tmp_path, postgres_url)
                    killed += 1
                _take_up_again(desk)
            until(lambda: _take_up_again(desk) == len(NEEDS) * revisions, 120 + 2 * strikes)
        finally:
            for process in managers:
                process.send_signal(signal.SIGTERM)
            for process in managers:
                process.wait()
        assert seen.wrong == []
        until(lambda: not seen.alive)
        _every_one_ended_once_and_in_order(desk, seen, revisions)
        again = sum(seen.begun.values()) - len(seen.begun)
        tell(f"{killed} managers killed, {again} tasks begun again", kills=killed, jobs=len(seen.begun) + revisions)


def _workflow(port: int) -> str:
    return "".join(
        TASK.format(name=name, depends=", ".join(needs), port=port, seconds=0.2) for name, needs in NEEDS.items()
    )


def _take_up_again(desk: Desk) -> int:
    """How many tasks have ended well. One whose workers died too often is put aside; an operator says: once more."""
    tasks = list(desk.store.queue.every(Filter(kind="workflow/*")))
    for job in tasks:
        if job.code == "poison" and job.ended == "failed":
            desk.operator.resume(job.id, "it was not its fault")
    return sum(job.ended == "passed" and job.kind == TASK_KIND for job in tasks)


def _every_one_ended_once_and_in_order(desk: Desk, seen: Witness, revisions: int) -> None:
    everyone = {(revision, name) for revision in range(1, revisions + 1) for name in NEEDS}
    assert set(seen.begun) == seen.ended == everyone
    passed = [(revision, task) for revision, task, how in desk.ends() if how == "passed"]
    assert Counter(passed) == dict.fromkeys(everyone | {(n, "COMMIT") for n in range(1, revisions + 1)}, 1)
    for who in everyone:
        before = [need for need in (*_needs(who), (who[0], "COMMIT"))]
        assert all(passed.index(need) < passed.index(who) for need in before), f"{who} ended out of turn"
    commits = [revision for revision, task in passed if task == "COMMIT"]
    assert commits == list(range(1, revisions + 1)), "planned once each, in order"
    assert len(list(desk.store.queue.every(Filter(kind=COMMIT_KIND)))) == revisions
    tasks = desk.store.queue.every(Filter(kind=TASK_KIND))
    assert {desk.log(job.position, str(job.task)) for job in tasks} == {"done\n"}

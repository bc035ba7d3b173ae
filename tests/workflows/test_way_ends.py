"""A way out ends with the lease and with the grant, though the worker is killed or stopped and a container lives on."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from custody.workflows.kinds import WorkflowConfig
from rig import elsewhere
from rig.podman import Podman
from rig.svn import Repository
from workflows.desk import Desk, sitting_at, until

pytestmark = pytest.mark.kills
WITHIN = 10.0  # seconds after a grant was withdrawn, whatever has become of the worker
QUIET = 3.0
WORKER = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from rig import elsewhere
elsewhere.install()
from custody.cli import main
main()
"""
SENDER = """
import socket, time
while True:
    try:
        wire = socket.socket()
        wire.settimeout(600)
        wire.connect((b"127.0.0.1", 3128))
        wire.sendall(b"CONNECT {place} HTTP/1.1\\r\\n\\r\\n")
        print(wire.recv(4096).decode().split("\\r")[0], flush=True)
        while True:
            wire.sendall(b".")
            time.sleep(0.05)
    except OSError as error:
        print(error, flush=True)
    time.sleep(0.2)
"""


class Collector:
    """A server that counts what it gets, and knows when it got the last of it."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.place = f"{elsewhere.HOST}:{self.listener.getsockname()[1]}"
        self.count, self.last = 0, 0.0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                wire, _ = self.listener.accept()
                threading.Thread(target=self._take, args=(wire,), daemon=True).start()

    def _take(self, wire: socket.socket) -> None:
        with wire, suppress(OSError):
            while piece := wire.recv(4096):
                self.count, self.last = self.count + len(piece), time.monotonic()

    def hears(self) -> None:
        """Something new comes."""
        before = self.count
        until(lambda: self.count > before + 5)

    def falls_silent(self) -> float:
        """When it got the last of it."""
        until(lambda: time.monotonic() - self.last > QUIET)
        return self.last


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.listener.close()


@pytest.fixture(params=["bwrap", "podman"])
def sending(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    repository: Repository,
    collector: Collector,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Desk]:
    """A desk with a task that sends without end, in an image or not, to whom that is granted."""
    monkeypatch.setattr(*elsewhere.PATCH)
    image = ""
    if request.param == "podman":
        podman: Podman = request.getfixturevalue("podman")
        for name, value in podman.environ.items():
            if name.startswith("CONTAINERS"):
                monkeypatch.setenv(name, value)
        image = f"  image: {podman.add_python()}\n"
    config = WorkflowConfig(images=("localhost/custody/*",), adopt=300.0)
    with sitting_at(f"sqlite:///{tmp_path / 'custody.db'}", repository, tmp_path, config) as desk:
        grant(desk, collector)
        text = f"- name: send\n{image}  network: true\n  command: [python3, -u, send.py]\n"
        desk.commit({"_workflows/a.yaml": text, "send.py": SENDER.format(place=collector.place)})
        desk.notify(1)
        (tmp_path / "custody.toml").write_text('[workflows]\nimages = ["localhost/custody/*"]\nadopt = 300\n')
        (tmp_path / "profiles").mkdir()
        yield desk
        for name in desk.shop.sandboxes.names():
            if running := desk.shop.sandboxes.find(name):
                running.stop(0)


def grant(desk: Desk, collector: Collector) -> None:
    desk.store.grants.grant("archive/proj", "network", collector.place, "ada", "a test")


def withdraw(desk: Desk, collector: Collector) -> None:
    desk.store.grants.withdraw("archive/proj", "network", collector.place, "bo", "it leaked")


@contextmanager
def worker(desk: Desk, lease: float) -> Iterator[subprocess.Popen[bytes]]:
    tests = str(Path(__file__).parents[1])
    words = [sys.executable, "-c", WORKER, tests, "worker", "run", "--lease", str(lease), "--no-log"]
    environ = {**os.environ, "CUSTODY_STORE": desk.store.url, "CUSTODY_CONFIG": str(desk.home / "custody.toml")}
    process = subprocess.Popen(words, env=environ, cwd=desk.home)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("sort", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_a_withdrawn_grant_ends_the_sending_of_a_task_whose_worker_is_gone(
    sending: Desk, collector: Collector, sort: signal.Signals
) -> None:
    with worker(sending, lease=60) as process:
        collector.hears()
        process.send_signal(sort)
        withdraw(sending, collector)
        withdrawn = time.monotonic()
        assert collector.falls_silent() - withdrawn < WITHIN
        assert len(sending.shop.sandboxes.names()) == 1


@pytest.mark.parametrize("sending", ["podman"], indirect=True)
def test_a_container_that_lives_on_sends_nothing_until_a_worker_has_taken_it_up(
    sending: Desk, collector: Collector
) -> None:
    with worker(sending, lease=3) as process:
        collector.hears()
        process.kill()
        killed = time.monotonic()
        assert collector.falls_silent() - killed < 3 + WITHIN / 2, "the lease, and a little"
    (name,) = sending.shop.sandboxes.names()
    running = sending.shop.sandboxes.find(name)
    assert running is not None
    assert running.end() is None, "it lives on"
    until(lambda: b"its worker has not confirmed in time" in running.output())
    with sending.working():
        collector.hears()
        assert sending.shop.sandboxes.names() == [name], "it was gone on with"
        withdraw(sending, collector)
        withdrawn = time.monotonic()
        assert collector.falls_silent() - withdrawn < WITHIN
        grant(sending, collector)
        collector.hears()
        sending.operator.cancel(sending.task(1, "send").id, "enough")
        until(lambda: sending.task(1, "send").ended)

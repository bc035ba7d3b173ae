"""Whatever becomes of the worker, its sandboxes end on time, and the next worker finds them."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import custody
from border.sandbox_rig import PATIENCE, Box, box, need
from custody.border import processes
from custody.border.sandbox.launch import mark_of
from custody.border.sandbox.sandbox import Running, Sandboxes, Spec
from custody.errors import CustodyError, Refused

pytestmark = pytest.mark.kills

LEASE = 1.5

_WORKER = """
import sys, time
from pathlib import Path
from custody.border.sandbox.sandbox import Sandboxes, Spec
state, work, script, lease = sys.argv[1:]
with Sandboxes(Path(state)) as sandboxes:
    spec = Spec(name="task", work=Path(work), script=script, lease=float(lease), grace=0.2)
    running = sandboxes.start(spec)
    print("started", flush=True)
    while running.confirm(time.monotonic() + float(lease)):
        time.sleep(0.02)
"""


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Box]:
    with box(tmp_path) as made:
        yield made


class Worker:
    """A worker in a process of its own, which holds one sandbox named `task`."""

    def __init__(self, here: Box, script: str, lease: float) -> None:
        path = str(Path(custody.__file__).parent.parent)
        self.process = subprocess.Popen(
            [sys.executable, "-c", _WORKER, str(here.sandboxes.root), str(here.work), script, str(lease)],
            env={"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"started\n"
        found = here.sandboxes.find("task")
        assert found is not None
        self.task = found

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def bury(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def confirming(here: Box, script: str) -> Worker:
    """One whose sandbox has outlived its lease, because it is confirmed. A machine may stand still for a lease, but not
    again and again."""
    for _ in range(10):
        worker = Worker(here, script, LEASE)
        if worker.task.wait(1.1 * LEASE) is None:
            return worker
        worker.bury()
        worker.task.remove()
    raise AssertionError("confirming does not keep it alive")


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_the_sandbox_of_a_worker_that_went_silent_is_killed_when_the_lease_ends(
    here: Box, number: signal.Signals
) -> None:
    worker = confirming(here, "trap '' TERM; setsid sleep 600 & while :; do sleep 600; done")
    try:
        worker.send(number)
        silent = time.monotonic()
        end = worker.task.wait(PATIENCE)
        assert end is not None
        assert end.reason == "lease"
        assert time.monotonic() - silent < PATIENCE, "long before its work would end"
        assert here.left_behind()["processes"] == []
    finally:
        worker.bury()


def test_a_new_worker_takes_over_a_running_sandbox_with_all_its_output(here: Box) -> None:
    worker = Worker(here, "for i in 1 2 3 4 5 6; do echo line $i; sleep 0.1; done; exit 5", lease=PATIENCE)
    worker.bury()
    found = here.sandboxes.find("task")
    assert found is not None
    assert found.confirm(time.monotonic() + PATIENCE)
    said = b"".join(chunk.data for chunk in found.follow())
    end = found.wait(PATIENCE)
    assert said == b"".join(b"line %d\n" % i for i in range(1, 7))
    assert end is not None
    assert (end.reason, end.code) == ("exited", 5)


def test_the_end_of_a_sandbox_is_kept_for_a_worker_that_comes_later(here: Box) -> None:
    worker = Worker(here, "echo all of it; exit 4", lease=PATIENCE)
    worker.bury()
    with Sandboxes(here.sandboxes.root) as later:
        found = later.find("task")
        assert found is not None
        end = found.wait(PATIENCE)
    assert end is not None
    assert (end.reason, end.code, found.output()) == ("exited", 4, b"all of it\n")


def test_another_process_may_stop_a_sandbox(here: Box) -> None:
    worker = Worker(here, "setsid sleep 60 & sleep 60", lease=PATIENCE)
    assert worker.task.stop(0.1).reason == "stopped"
    assert here.left_behind()["processes"] == []
    worker.process.wait(PATIENCE)  # its next confirm says no
    worker.bury()


def test_if_the_deadman_is_killed_the_sandbox_dies_with_it(here: Box) -> None:
    running = here.start("trap '' TERM; setsid sleep 600 & while :; do sleep 600; done", lease=600.0, timeout=600.0)
    os.kill(_deadman(running), signal.SIGKILL)
    began = time.monotonic()
    end = running.wait(PATIENCE)
    assert end is not None
    assert (end.reason, end.code) == ("lost", None)
    assert time.monotonic() - began < PATIENCE, "long before its work or its lease would end"
    assert here.left_behind() == {"processes": [], "groups": [], "mounts": []}
    assert here.sandboxes.find(running.name).end() == end  # type: ignore[union-attr]


def test_a_sandbox_without_a_deadman_dies_by_itself(here: Box) -> None:
    running = here.start("trap '' TERM; setsid sleep 600 & while :; do sleep 600; done", lease=600.0, timeout=600.0)
    os.kill(_deadman(running), signal.SIGKILL)
    _until_empty(here)  # nobody looks after it


def test_a_command_never_starts_if_its_deadman_dies_at_the_door(here: Box) -> None:
    launching = """
import sys, time
from pathlib import Path
from custody.border.sandbox.spec import Spec
from custody.border.sandbox.launch import launch
made = launch(Spec(name="door", work=Path(sys.argv[1]), script="echo x > started; sleep 60"), {}, sys.argv[2])
while "\\nCapEff:\\t0000000000000000" not in Path(f"/proc/{made.init.pid}/status").read_text():
    time.sleep(0.001)  # bwrap gives up its rights right before the door
print("at the door", flush=True)
time.sleep(60)
"""
    source, token = str(Path(custody.__file__).parent.parent), f"{mark_of(here.sandboxes.root)}-door"
    process = subprocess.Popen(
        [sys.executable, "-c", launching, str(here.work), token],
        env={"PYTHONPATH": source, "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"at the door\n"
    process.kill()
    process.wait()
    process.stdout.close()
    _until_empty(here)  # nobody looks after it
    assert not (here.work / "started").exists()


def test_what_a_deadman_leaves_that_dies_before_the_door_is_found_by_the_next_look(here: Box) -> None:
    """bwrap's first process waits for a word of bwrap's own; killed before it is said, bwrap leaves it waiting."""
    launching = """
import os, signal, sys
from pathlib import Path
from custody.border.sandbox import fork_server, launch
from custody.border.sandbox.spec import Spec
launch._read_line = lambda status, seconds: os.read(status, 1) and os.kill(os.getpid(), signal.SIGKILL)
spec = Spec(name="door", work=Path(sys.argv[1]), script="echo x > started; sleep 60")
launch.launch(spec, {}, fork_server._take_charge(spec, Path(sys.argv[2], f".door.{os.getpid()}"), {}))
"""
    source = str(Path(custody.__file__).parent.parent)
    for _ in range(6):  # it hits the moment in one of three
        done = subprocess.run(
            [sys.executable, "-c", launching, str(here.work), str(here.sandboxes.root)],
            env={"PYTHONPATH": source, "PYTHONDONTWRITEBYTECODE": "1"},
        )
        assert done.returncode == -signal.SIGKILL
    here.sandboxes._sweep()
    assert here.left_behind()["processes"] == []
    assert os.listdir(here.sandboxes.root) == []
    assert not (here.work / "started").exists()


def test_a_child_missed_by_the_first_look_is_found_by_the_second(here: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    running = here.start("true")
    running.wait(PATIENCE)
    while running._watched():  # its deadman has written the end, but is not gone yet
        time.sleep(0.001)
    token = json.loads((running.folder / "spec.json").read_text())["token"]
    missed = subprocess.Popen(["sleep", "60"], env={"CUSTODY_SANDBOX": token})
    real, looks = processes.all_processes, [iter(())]
    monkeypatch.setattr(
        "custody.border.sandbox.sandbox.processes.all_processes", lambda: looks.pop() if looks else real()
    )
    (running.folder / "end.json").unlink()
    end = running.end()
    assert end is not None
    assert end.reason == "lost"
    assert missed.wait(PATIENCE) == -signal.SIGKILL


def test_stop_works_even_if_the_deadman_does_not(here: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("custody.border.sandbox.sandbox._ANSWER_WITHIN", 0.2)
    running = here.start("trap '' TERM; while :; do sleep 60; done", lease=60.0)
    deadman = _deadman(running)
    os.kill(deadman, signal.SIGSTOP)
    try:
        with pytest.raises(CustodyError):  # dead, but its deadman cannot write down how
            running.stop(0)
        assert _inside(running) == []
    finally:
        os.kill(deadman, signal.SIGCONT)
    assert running.wait(PATIENCE) is not None


def test_a_deadman_has_a_session_of_its_own(here: Box) -> None:
    """So that a Ctrl-C, or a signal to the worker's group, is not for it."""
    running = here.start("sleep 60")
    deadman = processes.look(_deadman(running))
    assert deadman is not None
    assert deadman.session == deadman.pid


def test_a_deadman_told_to_terminate_stops_its_sandbox_in_good_order(here: Box) -> None:
    running = here.start("trap 'echo cleaned; exit 3' TERM; echo ready; sleep 60", grace=PATIENCE)
    next(iter(running.follow()))
    os.kill(_deadman(running), signal.SIGTERM)
    end = running.wait(PATIENCE)
    assert end is not None
    assert (end.reason, end.code) == ("stopped", 3)
    assert b"cleaned" in running.output()


def test_no_moment_of_the_start_is_a_bad_one_to_lose_the_deadman(here: Box) -> None:
    """Kill every process of the start at a random moment; whatever was reached, nothing may live on."""
    nursery = here.sandboxes._nursery
    dice = random.Random(20)
    for round_ in range(25):
        assert nursery._process is not None
        parent, patience = nursery._process.pid, dice.uniform(0, 0.02)
        killer = threading.Thread(target=_kill_a_child, args=(parent, patience))
        killer.start()
        try:
            here.start("setsid sleep 60 & sleep 60", name=f"test-unlucky-{round_}", lease=60.0).wait(0.05)
        except CustodyError:
            pass
        killer.join()
        until = (
            time.monotonic() + PATIENCE
        )  # whoever was killed may take a moment to die, and is taken for alive until then
        while not swept(here, f"test-unlucky-{round_}"):
            assert time.monotonic() < until, [_portrait(pid) for pid in here.left_behind()["processes"]]
            time.sleep(0.01)


def swept(here: Box, name: str) -> bool:
    """Stop it if it got a name, look after what got none; is nothing left?"""
    running = here.sandboxes.find(name)
    if running is not None:
        running.stop(0)
    here.sandboxes._sweep()
    nameless = [name for name in os.listdir(here.sandboxes.root) if name.startswith(".")]
    return here.left_behind() == {"processes": [], "groups": [], "mounts": []} and not nameless


def test_of_two_who_start_the_same_name_at_once_one_is_refused_and_leaves_nothing(here: Box) -> None:
    said: list[str] = []

    def start() -> None:
        with Sandboxes(here.sandboxes.root) as sandboxes:
            try:
                sandboxes.start(Spec(name="race", work=here.work, script="sleep 60", lease=60))
                said.append("started")
            except Refused as error:
                said.append(error.code)

    for round_ in range(6):
        said.clear()
        threads = [threading.Thread(target=start) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(said) == ["sandbox.exists", "sandbox.exists", "started"], round_
        running = here.sandboxes.find("race")
        assert running is not None
        running.stop(0)
        running.remove()
        assert here.left_behind() == {"processes": [], "groups": [], "mounts": []}
        assert os.listdir(here.sandboxes.root) == []


def test_process_numbers_of_another_boot_mean_nothing(here: Box) -> None:
    running = here.start("sleep 60")
    running.stop(0)
    while running._watched():
        time.sleep(0.001)
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        process = processes.look(bystander.pid)
        assert process is not None
        old = {"boot": "another", "pid": process.pid, "started": process.started}
        (running.folder / "pids.json").write_text(json.dumps(old))
        (running.folder / "end.json").unlink()
        end = running.end()
        assert end is not None
        assert end.reason == "lost"
        assert bystander.poll() is None
        reused = {"boot": processes.boot(), "pid": process.pid, "started": process.started - 1}
        (running.folder / "pids.json").write_text(json.dumps(reused))
        (running.folder / "end.json").unlink()
        assert running.end() == end
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_forty_sandboxes_at_once_all_end(here: Box) -> None:
    need("bwrap", "bubblewrap")
    with Sandboxes(here.sandboxes.root) as sandboxes:
        running = [
            sandboxes.start(Spec(name=f"crowd-{n}", work=here.work, script=f"sleep 0.2; exit {n}", lease=60))
            for n in range(40)
        ]
        ends = [one.wait(2 * PATIENCE) for one in running]
    assert [end.code for end in ends if end] == list(range(40))
    assert here.left_behind() == {"processes": [], "groups": [], "mounts": []}


def _until_empty(here: Box) -> None:
    until = time.monotonic() + 60  # far more than it takes, also beside other work
    while left := here.left_behind()["processes"]:
        assert time.monotonic() < until, [_portrait(pid) for pid in left]
        time.sleep(0.005)


def _portrait(pid: str) -> dict[str, str]:
    """What a process is, and what it waits for."""
    told = {}
    for part in ("cmdline", "status", "wchan", "stack"):
        with suppress(OSError):
            told[part] = Path(f"/proc/{pid}/{part}").read_text(errors="replace")[:600]
    return told


def _deadman(running: Running) -> int:
    pids = json.loads((running.folder / "pids.json").read_text())
    init = processes.look(pids["pid"])
    assert init is not None
    bwrap = processes.look(init.parent)
    assert bwrap is not None
    return bwrap.parent


def _inside(running: Running) -> list[int]:
    pids = json.loads((running.folder / "pids.json").read_text())
    return [process.pid for process in processes.descendants(pids["pid"])]


def _kill_a_child(parent: int, patience: float) -> None:
    """Wait for the first child of the nursery, a little longer, and kill it."""
    until = time.monotonic() + 2
    while time.monotonic() < until:
        for process in processes.all_processes():
            if process.parent == parent:
                time.sleep(patience)
                processes.send(process, signal.SIGKILL)
                return

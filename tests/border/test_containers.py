"""Commands in images, by a real podman: output, limits, ends, and that nothing is left."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from custody.border import processes
from custody.border.roots import ours
from custody.border.sandbox import containers
from custody.border.sandbox.sandbox import Mount, Running, Sandboxes, Spec
from custody.border.sandbox.spec import EXITED, LEASE, LOST, MEMORY, MIB, NOT_STARTED, STOPPED, TIMEOUT, Engine, Limits
from custody.errors import BadInput, Refused
from rig.podman import IMAGE, Podman


@pytest.fixture
def engine(podman: Podman, monkeypatch: pytest.MonkeyPatch) -> Engine:
    for name, value in podman.environ.items():
        if name.startswith("CONTAINERS"):
            monkeypatch.setenv(name, value)
    return containers.engine("podman")


class Boxes:
    def __init__(self, sandboxes: Sandboxes, engine: Engine, folder: Path) -> None:
        self.sandboxes, self.engine, self.folder = sandboxes, engine, folder
        self.work = folder / "work"
        self.work.mkdir()
        self._count = 0

    def start(self, script: str = "", **more: Any) -> Running:
        self._count += 1
        fields: dict[str, Any] = {"name": f"box-{self._count}", "work": self.work, "script": script, "timeout": 60.0}
        fields |= {"image": IMAGE, "engine": self.engine, "grace": 0.2, **more}
        return self.sandboxes.start(Spec(**fields))


@pytest.fixture
def boxes(engine: Engine, tmp_path: Path, podman: Podman) -> Iterator[Boxes]:
    before = set(os.listdir("/dev/shm"))
    with Sandboxes(tmp_path / "state") as sandboxes:
        yield Boxes(sandboxes, engine, tmp_path)
        for name in sandboxes.names():
            (running := Running(sandboxes.root / name)).stop(0)
            running.remove()
    assert podman.podman("ps", "--all", "--quiet").strip() == "", "no container is left"
    left = {name for name in set(os.listdir("/dev/shm")) - before if name.startswith("custody-secrets-")}
    assert not left, "no secret is left"


def inits(running: Running) -> list[int]:
    import json

    file = running.folder / "pids.json"
    return [json.loads(file.read_text())["pid"]] if file.exists() else []


def test_a_script_runs_without_rights_and_its_output_code_and_files_come_back(boxes: Boxes) -> None:
    script = """
id -u; echo to-err >&2; cat /run/secrets/key; echo; ls /sys/class/net
touch /etc/x 2>/dev/null && echo root-is-writable
echo made > made.txt; echo "$GREETING"; exit 7
"""
    running = boxes.start(script, secrets={"key": b"open sesame"}, env={"GREETING": "hej"})
    end = running.wait(60)
    assert end is not None
    assert (end.reason, end.code) == (EXITED, 7)
    lines = running.output().decode().split()
    assert int(lines[0]) >= 1_900_000_000, "a user of its own"
    assert {"lo", "hej"} <= set(lines)
    assert all(word in running.output() for word in (b"to-err", b"***")), "two streams may meet in one line"
    assert not {"eth0", "root-is-writable", "sesame"} & set(lines)
    assert (boxes.work / "made.txt").read_text() == "made\n"


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"argv": ("no-such-command",)}, NOT_STARTED),
        ({"argv": ("sleep", "300"), "timeout": 0.5}, TIMEOUT),
        ({"script": "x=a; while :; do x=$x$x; done", "limits": Limits(memory=48 * MIB)}, MEMORY),
    ],
    ids=["no such command", "too long", "too much memory"],
)
def test_how_it_ended_is_told(boxes: Boxes, more: dict[str, Any], reason: str) -> None:
    end = boxes.start(**more).wait(60)
    assert end is not None
    assert end.reason == reason, end


def test_a_stop_is_heard_and_what_does_not_hear_is_killed(boxes: Boxes) -> None:
    polite = boxes.start("trap 'echo bye; exit 9' TERM; echo ready; sleep 300 & wait", grace=30.0)
    assert next(polite.follow()).data == b"ready\n"
    end = polite.stop()
    assert (end.reason, end.code) == (STOPPED, 9)
    assert polite.output() == b"ready\nbye\n"
    deaf = boxes.start("trap '' TERM; (busybox setsid sleep 301 &) ; echo ready; sleep 301")
    assert next(deaf.follow()).data == b"ready\n"
    (pid,) = inits(deaf)
    assert deaf.stop(0.1).reason == STOPPED
    assert processes.look(pid) is None, "and all that was in it"


def test_when_nobody_confirms_it_is_killed_on_time(boxes: Boxes) -> None:
    end = boxes.start(argv=("sleep", "302"), lease=1.0).wait(60)
    assert end is not None
    assert end.reason == LEASE


@pytest.mark.kills
def test_a_container_whose_deadman_was_killed_is_ended_by_whoever_looks(boxes: Boxes) -> None:
    running = boxes.start(argv=("sleep", "303"))
    (pid,) = inits(running)
    deadman = next(process for process in processes.all_processes() if _works_in(process.pid, running.folder))
    os.kill(deadman.pid, signal.SIGKILL)
    until = time.monotonic() + 30
    while (end := running.end()) is None and time.monotonic() < until:
        time.sleep(0.02)
    assert end is not None
    assert end.reason == LOST
    assert processes.look(pid) is None


def _works_in(pid: int, folder: Path) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/cwd") == str(folder)
    except OSError:
        return False


ABUSE = """
bad() { echo "BAD: $*"; }
touch /usr/x 2>/dev/null && bad wrote to the image
mkdir /m 2>/dev/null && bad made a folder in the root
echo x > /run/script 2>/dev/null && bad changed its own script
echo x > /run/secrets/key 2>/dev/null && bad changed a secret
ls /run/secrets/other 2>/dev/null && bad found a secret that it was not given
busybox grep -q CONTAINERS /proc/1/environ && bad saw the environment of the worker
ls /dev/sda /dev/mem /dev/kmsg 2>/dev/null && bad found a device
[ "$(ls /sys/class/net)" = lo ] || bad has a network
busybox mount -t tmpfs none /tmp 2>/dev/null && bad mounted something
busybox chroot / true 2>/dev/null && bad changed its root
busybox ln -s /etc/passwd link
(busybox setsid sleep 304 &) ; (trap '' TERM HUP; sleep 304 &)
i=0; while [ $i -lt 300 ]; do sleep 304 & i=$((i+1)); done 2>/dev/null
"""


def test_a_task_that_does_its_worst_reaches_nothing_and_leaves_nothing(boxes: Boxes) -> None:
    own = str(300_000 + os.getpid())  # no other test run's
    running = boxes.start(
        ABUSE.replace("304", own), limits=Limits(processes=40), secrets={"key": b"mine alone"}, timeout=15.0
    )
    (pid,) = inits(running) or (0,)
    end = running.wait(60)
    assert end is not None
    said = running.output().decode(errors="replace")
    assert "BAD" not in said, said
    assert not pid or processes.look(pid) is None
    left = [process for process in processes.all_processes() if f"sleep\0{own}".encode() in _command(process.pid)]
    assert not left, "nothing that it started is alive"


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("image", ["--privileged", "-v/:/host", "", "a b", "A", "../x", "x//y", "a\nb", "x" * 300])
def test_a_name_like_an_option_is_no_image(image: str) -> None:
    with pytest.raises(BadInput, match="not the name of an image"):
        containers.check_image(image)


def test_an_engine_that_is_not_there_or_does_not_work_says_so() -> None:
    assert containers.trouble(Engine("no-such-engine", (), {"PATH": "/usr/bin:/bin"})) == (
        "no-such-engine is not installed"
    )
    assert containers.trouble(Engine("false", (), {"PATH": "/usr/bin:/bin"})).startswith("false does not work")


def test_a_container_that_sees_another_folder_than_was_opened_is_refused(tmp_path: Path) -> None:
    """As if it had been swapped before the engine bound it: our own process stands for the container's first."""
    seen = next(path for path in sorted(Path("/run").iterdir()) if path.is_dir() and not path.is_symlink())
    at = f"/run/{seen.name}"
    spec = SimpleNamespace(mounts=(Mount(ours(tmp_path), at),))
    made: Any = SimpleNamespace(spec=spec, init=SimpleNamespace(pid=os.getpid()))
    opened = [os.open(folder, os.O_PATH) for folder in (seen, tmp_path)]
    try:
        containers._compare(made, opened[:1])
        with pytest.raises(Refused) as caught:
            containers._compare(made, opened[1:])
    finally:
        for descriptor in opened:
            os.close(descriptor)
    assert caught.value.code == "sandbox.mount"

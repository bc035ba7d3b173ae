"""Runs commands and scripts that came out of an archive, where they can do no harm.

    with Sandboxes(Path("/var/lib/custody/sandboxes")) as sandboxes:
        running = sandboxes.start(Spec(name="proj.12.index.1", work=folder, argv=("make", "index")))
        for chunk in running.follow():      # live, numbered
            ...
        end = running.wait()                # exited with a code, or killed, and why

A sandbox is a set of namespaces made by bwrap, watched by a deadman (watchdog.py) that is independent of this
process. While the work is wanted the worker calls `confirm`; if it stops doing so, whatever the reason, the
sandbox is killed on time. A worker that starts again on the same machine finds its sandboxes by name and goes
on with them.

Whether a task may run, and what becomes of its output, is for others to decide.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from custody.border import modes, processes
from custody.border.egress.allowance import FRESH_SECONDS, Leave
from custody.border.egress.gate import clock as now
from custody.border.sandbox import bwrap, cgroup, containers, output, seccomp
from custody.border.sandbox.fork_server import Nursery
from custody.border.sandbox.launch import MARK
from custody.border.sandbox.output import Chunk
from custody.border.sandbox.spec import LOST, End, Limits, Mount, Spec, check_name, engine_from
from custody.border.sandbox.watchdog import GRANTED, write_file
from custody.errors import CustodyError, NotFound, Refused, Unavailable

__all__ = ["Available", "Chunk", "End", "Limits", "Mount", "Running", "Sandboxes", "Spec", "available"]

_ANSWER_WITHIN = 5.0
_DEATH_WITHIN = 10.0


class Sandboxes:
    """The sandboxes of one machine, each with a folder below `root`, which only its owner enters."""

    def __init__(self, root: Path, *, control_group: Path | None = None) -> None:
        self.root = root
        self._nursery = Nursery()
        self._parents = {"all": control_group} if control_group else cgroup.places()

    def __enter__(self) -> Sandboxes:
        modes.make_closed(self.root, "sandboxes")
        self._sweep()
        self._nursery.warm()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Ends nothing that runs: the deadmen go on, and the sandboxes until their leases end."""
        self._nursery.close()

    def start(self, spec: Spec) -> Running:
        """Refused if this name has been used before; attempts carry their number in the name. Unsafe if others on this
        machine can come to its work folder: what is inside could let them in, or be let out by them.

        `Unavailable` with code `sandbox.deadman` means that the answer was lost: `find` tells.
        """
        modes.must_be_closed(spec.work)
        try:
            self._nursery.start(spec, self.root, now() + spec.lease, self._parents)
        except Unavailable as error:
            if error.code == "sandbox.deadman":
                self._sweep()  # one that died may have left something of bwrap behind
            raise
        return Running(self.root / spec.name)

    def find(self, name: str) -> Running | None:
        """The sandbox of this name, running or ended, whoever started it."""
        check_name(name)
        folder = self.root / name
        return Running(folder) if folder.is_dir() else None

    def names(self) -> list[str]:
        return sorted(name for name in os.listdir(self.root) if not name.startswith("."))

    def _sweep(self) -> None:
        """What a deadman left that was killed before its sandbox had a name."""
        for name in os.listdir(self.root):
            if name.startswith(".") and (unnamed := Running(self.root / name)).end():
                unnamed.remove()


class Running:
    """One sandbox, seen through its state folder; holds nothing open."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.name

    def __repr__(self) -> str:
        return f"Running({self.name!r})"

    def confirm(self, until: float, leave: Leave | None = None) -> bool:
        """Say that the work is wanted until then (`time.monotonic`). False if it has ended or is being ended.

        Count from when the lease was *asked* for, not from the answer: a slow one must not lengthen it. `leave` is for
        its way out, which is closed when nobody says so again, although the sandbox itself may live longer.
        """
        later = now() - time.monotonic()
        asked: dict[str, Any] = {"do": "confirm", "until": until + later}
        if leave is not None:
            if leave.granted is not None:
                write_file(str(self.folder / GRANTED), list(leave.granted))
            asked["leave"] = {
                "fresh": round(leave.looked + FRESH_SECONDS + later, 2),
                "lease": round(leave.lease + later, 2),
                "granted": leave.granted is not None,
            }
        answer = self._ask(asked)
        return bool(answer and answer["ok"])

    def end(self) -> End | None:
        """How it ended, or nothing while it runs. Makes sure that a sandbox without a deadman is dead."""
        found = self._read("end.json")
        if found is None and not self._watched():
            return self._bury()
        return _end(found)

    def wait(self, timeout: float | None = None) -> End | None:
        """Wait for the end; nothing if the time passes first."""
        until = None if timeout is None else time.monotonic() + timeout
        for _ in self._hints(until):
            pass
        return self.end()

    def follow(self, after: int = 0) -> Iterator[Chunk]:
        """The chunks numbered above `after`, then each new one as it is printed, until the end."""
        reader = output.Follower(self.folder, after)
        for _ in self._hints(None):
            yield from reader.new()
        yield from reader.new()

    def stop(self, grace: float | None = None) -> End:
        """TERM to everything inside, KILL after `grace` seconds; returns when it is known to be empty."""
        if grace is None:
            grace = float((self._read("spec.json") or {}).get("grace", 0))
        self._ask({"do": "stop", "grace": grace})
        end = self.wait(grace + _ANSWER_WITHIN)
        if end is None:  # its deadman does not do its work; do it here
            self._kill_recorded()
            end = self.wait(_ANSWER_WITHIN) or self._given_up()
        return end

    def output(self) -> bytes:
        """All that was kept, with a line where something was dropped."""
        return output.whole(self.folder)

    def remove(self) -> None:
        """Forget an ended sandbox. Its work folder is the caller's."""
        if self.end() is None:
            raise Refused(f"sandbox {self.name} is still running", code="sandbox.running", hint="stop it first")
        shutil.rmtree(self.folder)

    def _watched(self) -> bool:
        with self._lock(wait=0) as held:
            return not held

    def _bury(self) -> End | None:
        """No deadman: see to it that nothing of the sandbox lives, then record that its end is unknown."""
        with self._lock(wait=_ANSWER_WITHIN) as held:
            if not held:
                return None
            found = self._read("end.json")
            if found is None:
                self._kill_recorded()
                self._kill_marked()
                self._remove_container()
                groups = (self._read("spec.json") or {}).get("groups", [])
                cgroup.Group(tuple(Path(folder) for folder in groups)).remove()
                surprise = self.folder / "deadman.err"
                detail = surprise.read_text().strip().splitlines()[-1] if surprise.exists() else ""
                found = {"reason": LOST, "detail": detail or "its deadman was killed"}
                write_file(str(self.folder / "end.json"), found)
            return _end(found)

    def _kill_recorded(self) -> None:
        pids = self._read("pids.json")
        if pids is None or pids["boot"] != processes.boot():
            return
        for pid, started in ((pids["pid"], pids["started"]), pids.get("proxy", (0, 0))):
            process = processes.look(pid) if pid else None
            if process and process.started == started and not processes.kill(process, _DEATH_WITHIN):
                self._given_up()

    def _kill_marked(self) -> None:
        """The few processes of bwrap whose deadman died before it could write their numbers down.

        Two looks in a row must find none: one that dies while we look may have had a child that we missed.
        """
        mark = f"{MARK}={(self._read('spec.json') or {}).get('token', 'none')}".encode()
        clean = 0
        while clean < 2:
            marked = [p for p in processes.all_processes() if mark in processes.environment(p.pid).split(b"\0")]
            clean = 0 if marked else clean + 1
            if not all([processes.kill(process, _DEATH_WITHIN) for process in marked]):
                self._given_up()

    def _remove_container(self) -> None:
        told = self._read("spec.json") or {}
        if told.get("engine"):
            containers.remove(engine_from(told["engine"]), told["token"])

    def _given_up(self) -> End:
        raise Unavailable(
            f"sandbox {self.name} does not die",
            code="sandbox.undead",
            hint="a disk or network mount may hang",
        )

    @contextmanager
    def _lock(self, wait: float) -> Iterator[bool]:
        """The deadman holds this lock as long as it lives; True if we have it now."""
        try:
            file = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            raise self._missing() from None
        until = time.monotonic() + wait
        try:
            while not (held := _locked(file)) and time.monotonic() < until:
                time.sleep(0.005)
            yield held
        finally:
            os.close(file)

    def _ask(self, question: Mapping[str, Any]) -> dict[str, Any] | None:
        wire = self._connect()
        if wire is None:
            return None
        with wire:
            wire.settimeout(_ANSWER_WITHIN)
            try:
                wire.sendall(json.dumps(question).encode())
                answer = wire.recv(4096)
            except OSError:
                return None
        return json.loads(answer) if answer else None

    def _hints(self, until: float | None) -> Iterator[None]:
        """One whenever something may be new, until the end or until then; the files are the truth."""
        while self.end() is None and not _passed(until):
            wire = self._connect()
            if wire is None:  # between the last answer and the last word
                time.sleep(0.002)
                continue
            with wire, suppress(OSError):
                wire.sendall(b'{"do": "follow"}')
                wire.settimeout(None if until is None else max(0.001, until - time.monotonic()))
                while wire.recv(4096) and not _passed(until):
                    yield

    def _connect(self) -> socket.socket | None:
        """A line to the deadman, if there is one. Goes through a descriptor, since socket paths are short."""
        try:
            folder = os.open(self.folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise self._missing() from None
        wire = socket.socket(socket.AF_UNIX)
        try:
            wire.settimeout(_ANSWER_WITHIN)
            wire.connect(f"/proc/self/fd/{folder}/control")
            return wire
        except OSError:
            wire.close()
            return None
        finally:
            os.close(folder)

    def _missing(self) -> NotFound:
        return NotFound(f"there is no sandbox named {self.name}", code="sandbox.missing")

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads((self.folder / name).read_text())
        except FileNotFoundError:
            return None
        return found


def _passed(until: float | None) -> bool:
    return until is not None and time.monotonic() >= until


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _end(found: dict[str, Any] | None) -> End | None:
    return End(**found) if found else None


@dataclass(frozen=True, slots=True)
class Available:
    works: bool
    reason: str = ""  # why it does not
    hint: str = ""  # what to install or to set
    groups: tuple[str, ...] = ()  # controllers that limit a whole sandbox
    seccomp: bool = False

    def __bool__(self) -> bool:
        return self.works


def available() -> Available:
    """Does a sandbox work here? Found out by making one."""
    if not shutil.which("bwrap", path=bwrap.PATH):
        return Available(False, "bwrap is not installed", "apt-get install bubblewrap")
    with tempfile.TemporaryDirectory(prefix="custody-") as folder:
        work = Path(folder, "work")
        work.mkdir()
        with Sandboxes(Path(folder, "state")) as sandboxes:
            try:
                running = sandboxes.start(Spec(name="try", work=work, argv=("true",), timeout=10))
                end = running.wait(20)
            except CustodyError as error:
                return Available(False, error.message, error.hint)
    if end is None or not end.ok:
        return Available(False, end.detail if end else "the sandbox did not end", "run it by hand: bwrap --help")
    return Available(True, groups=tuple(cgroup.places()), seccomp=bool(seccomp.program()))

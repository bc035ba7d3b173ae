"""One server process: started in a session of its own, watched until it answers, ended by its pid.

A test run that is killed must not leave servers behind, so the kernel is asked to end each one when the run
dies (`setpriv --pdeathsig`, Linux only). It does so when the *thread* that started the process ends, hence
one thread starts them all and lives as long as the interpreter; a test may then restart a server from any
thread. What a server keeps on disk is the business of the modules beside this one.
"""

from __future__ import annotations

import atexit
import errno
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from rig.install import program

LOOPBACK = "127.0.0.1"
STARTER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="rig-starter")


class CannotStart(Exception):
    """A server ended, or did not answer in time; the end of its log says why."""


class Program:
    """A server's process. `run` waits until `ready()` no longer refuses; `end` waits until it is gone."""

    def __init__(self, name: str, log: Path, *, user: str = "", dies_by: signal.Signals = signal.SIGKILL) -> None:
        self.name = name
        self.log = log
        self.user = user
        self.dies_by = dies_by
        self.process: subprocess.Popen[bytes] | None = None
        atexit.register(self.end, signal.SIGKILL)

    @property
    def pid(self) -> int:
        if self.process is None:
            raise CannotStart(f"{self.name} is not running")
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def run(
        self,
        command: Sequence[str | Path],
        ready: Callable[[], object],
        *,
        seconds: float = 120,
        cwd: Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        if self.running:
            raise CannotStart(f"{self.name} is running already, as process {self.pid}")
        with self.log.open("ab") as log:
            self.process = STARTER.submit(
                subprocess.Popen,
                [*as_user(self.user, self.dies_by), *map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env=environ,
                start_new_session=True,
            ).result()
        self._wait(ready, seconds)

    def end(self, how: signal.Signals = signal.SIGTERM, seconds: float = 15) -> None:
        """Ask the process to go; when it has, or has not after `seconds`, kill what is left of its family."""
        if self.process is None:
            return
        process, self.process = self.process, None
        pids = standstill(process.pid) if how is signal.SIGKILL else family(process.pid)
        if how is not signal.SIGKILL:
            tell_all([process.pid], how)
            tell_all(pids, signal.SIGCONT)  # a frozen process hears nothing else
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                pass
        while left := [pid for pid in pids if is_running(pid)]:
            tell_all(left, signal.SIGKILL)
            time.sleep(0.002)
        process.wait()

    def freeze(self) -> None:
        """As if the machine stood still: connections stay open and nobody answers, until `resume`."""
        standstill(self.pid)

    def resume(self) -> None:
        tell_all(family(self.pid), signal.SIGCONT)

    def _wait(self, ready: Callable[[], object], seconds: float) -> None:
        """Tight polls: a server that is up in 40 ms should not cost its test 500."""
        end = time.monotonic() + seconds
        while True:
            try:
                ready()
                return
            except Exception as refusal:
                if not self.running:
                    self.process = None
                    raise CannotStart(f"{self.name} ended at once:\n{tail(self.log)}") from refusal
                if time.monotonic() > end:
                    self.end(signal.SIGKILL)
                    raise CannotStart(f"{self.name} is silent after {seconds} s:\n{tail(self.log)}") from refusal
                time.sleep(0.01)


def tool(name: str) -> str:
    """Where a program is; the fixtures have asked before whether it is there."""
    path = program(name)
    if path is None:
        raise CannotStart(f"{name} is not installed")
    return path


def as_user(user: str, dies_by: signal.Signals = signal.SIGKILL) -> list[str]:
    """The words before a command that make it end with us and, if root runs the tests, not be root."""
    setpriv = shutil.which("setpriv") or shutil.which("setpriv", path="/usr/bin:/bin")
    if setpriv is None:
        return []
    words = [setpriv, "--pdeathsig", dies_by.name.removeprefix("SIG")]
    if user:
        words += ["--reuid", user, "--regid", str(pwd.getpwnam(user).pw_gid), "--clear-groups"]
    return [*words, "--"]


def unprivileged_user() -> str:
    """Whom to run a server as that refuses to run as root; empty when we are not root."""
    if os.geteuid() != 0:
        return ""
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise CannotStart("root runs the tests and there is neither a user postgres nor a user nobody")


def room(name: str, user: str = "") -> Path:
    """A private folder for one server, which the server's `remove` removes."""
    for folder in left_over():
        if f" {folder}/" not in Path("/proc/mounts").read_text():
            shutil.rmtree(folder, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"custody-rig-{os.getpid()}-{name}-", dir=parent_of_rooms()))
    if user:
        shutil.chown(folder, user)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def parent_of_rooms() -> Path:
    """Not /tmp if it can be helped: that may be memory, where fsync costs nothing and proves nothing."""
    return Path("/var/tmp") if Path("/var/tmp").is_dir() else Path(tempfile.gettempdir())


def left_over(name: str = "*") -> list[Path]:
    """The folders of test runs that were killed and could not remove them."""
    folders = parent_of_rooms().glob(f"custody-rig-*-{name}-*")
    return [folder for folder in folders if not is_running(int(folder.name.split("-")[2]))]


def free_port() -> int:
    """A port that nothing listens on, below those the kernel hands out by itself.

    A server that is stopped and started again wants its old port back; one from the kernel's own range could
    have gone to somebody's outgoing connection in between.
    """
    while True:
        port = random.randint(15_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind((LOOPBACK, port))
                return port
            except OSError as refusal:
                if refusal.errno != errno.EADDRINUSE:
                    raise


def answers(port: int) -> None:
    """Somebody accepts connections; enough for a server that does so only when it is ready."""
    socket.create_connection((LOOPBACK, port), timeout=1).close()


def family(pid: int) -> list[int]:
    """A process and all it has started. PostgreSQL's leave their parent's group, so /proc is asked."""
    return [pid, *(one for child in _children(pid) for one in family(child))]


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):  # it may end while it is looked at, or one of its threads
        for task in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    return found


def standstill(pid: int) -> list[int]:
    """Stop the whole family; look again until nobody has been born meanwhile."""
    stopped, end = list[int](), time.monotonic() + 1.0
    while new := [member for member in family(pid) if member not in stopped]:
        tell_all(new, signal.SIGSTOP)
        # One that is just giving birth ends that first; but it may be waiting for a child that stands already.
        while not all(map(_stands, new)) and time.monotonic() < end:
            time.sleep(0.001)
        stopped += new
    return stopped


def _stands(pid: int) -> bool:
    """All its threads have stopped, or it is gone."""
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                if Path(f"/proc/{pid}/task/{task}/stat").read_text().rpartition(")")[2].split()[0] not in "TtZX":
                    return False
    return True


def tell_all(pids: Iterable[int], what: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, what)
        except ProcessLookupError:
            pass


def is_running(pid: int) -> bool:
    """A zombie is not: it has ended, and waits only for its parent to notice."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def tail(log: Path, lines: int = 20) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else "(no log)"


AGAIN = "import subprocess, sys; subprocess.run([sys.executable, '-c', '1'], check=True)"


def reachable_python(words: list[str]) -> str:
    """An interpreter of our own version that this user may start."""
    for python in (sys.executable, f"/usr/bin/python{sys.version_info[0]}.{sys.version_info[1]}"):
        try:
            if subprocess.run([*words, python, "-c", AGAIN], cwd="/", capture_output=True).returncode == 0:
                return python
        except OSError:
            continue
    pytest.skip(f"{pwd.getpwuid(os.geteuid()).pw_name}'s Python can be started by nobody else")

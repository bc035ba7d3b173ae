"""Starting contestants and asking them, alone or together."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.rounds import skipped

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]


def cache() -> Path:
    return Path(os.environ.get("CUSTODY_RIG") or Path.home() / ".cache" / "custody-rig")


@dataclass(frozen=True, slots=True)
class Peer:
    name: str
    script: str  # a module beside this one, or a Node program
    setting: str = ""  # as its best setting is told to it

    @property
    def command(self) -> list[str]:
        if self.script.endswith(".mjs"):
            return ["node", str(node_folder() / self.script)]
        python = Path(sys.executable) if self.name == "custody" else python_folder() / "bin" / "python"
        return [str(python), "-m", f"bench.peers.{self.script}"]


CUSTODY = Peer("custody", "ours")
PGQUEUER = Peer("pgqueuer", "with_pgqueuer")
PROCRASTINATE = Peer("procrastinate", "with_procrastinate")
DBOS = Peer("dbos", "with_dbos")
HUEY = Peer("huey", "with_huey")
CELERY = Peer("celery", "with_celery")  # with a Redis of its own
TEMPORAL = Peer("temporal", "with_temporal")  # with a server of its own
GRAPHILE = Peer("graphile-worker", "with_graphile.mjs")
PG_BOSS = Peer("pg-boss", "with_pg_boss.mjs")


class Contestant:
    """A running peer."""

    def __init__(self, peer: Peer, url: str) -> None:
        self.peer = peer
        environment = os.environ | {"PYTHONPATH": f"{PROJECT}:{PROJECT / 'src'}", "PYTHONWARNINGS": "ignore"}
        self._log = (cache() / f"bench-{peer.name}.log").open("ab")
        self._process = subprocess.Popen(
            [*peer.command, url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment,
            cwd=PROJECT,
            text=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, act: str, **more: Any) -> Any:
        self.begin(act, **more)
        return self.answer()

    def begin(self, act: str, **more: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"act": act, **more}) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.peer.name} has ended; see {self._log.name}")
        return json.loads(line)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


@contextmanager
def running(peer: Peer, url: str, processes: int = 1) -> Iterator[list[Contestant]]:
    with ExitStack() as stack:
        contestants = []
        for _ in range(processes):
            contestants.append(Contestant(peer, url))
            stack.callback(contestants[-1].close)
        yield contestants


def drain_rate(contestants: Sequence[Contestant], count: int, **more: Any) -> float:
    """All of them work until nothing is left; from the first start to the last end."""
    for contestant in contestants:
        contestant.begin("drain", count=count, **more)
    told = [contestant.answer() for contestant in contestants]
    done = sum(one["count"] for one in told)
    if done != count:
        raise SystemExit(f"{contestants[0].peer.name} did {done} of {count} jobs")
    return float(count / (max(one["ended"] for one in told) - min(one["began"] for one in told)))


# Getting them


def python_folder() -> Path:
    return cache() / "bench-venv"


def node_folder() -> Path:
    return cache() / "bench-node"


def present(peers: Sequence[Peer]) -> list[Peer]:
    """Those that can be had; the others are named as skipped."""
    return [peer for peer in peers if _has_server(peer) and _has_client(peer)]


def _has_client(peer: Peer) -> bool:
    return _has_node() if peer.script.endswith(".mjs") else _has_python(peer)


def _has_server(peer: Peer) -> bool:
    """Those that want no PostgreSQL and no file: is what they want installed, or can it be?"""
    name = {"celery": "redis", "temporal": "temporal"}.get(peer.name)
    if name is None:
        return True
    from bench.server import install

    install.main(["--only", name])
    lacking = install.missing(install.wanted([name]))
    for service in lacking:
        skipped(peer.name, f"{service.name} is not installed: {install.how(service)}")
    return not lacking


def _has_python(peer: Peer) -> bool:
    if peer is CUSTODY:
        return True
    wanted = HERE / "requirements.txt"
    if _is_there(python_folder() / "stamp", wanted):
        return True
    subprocess.run([sys.executable, "-m", "venv", str(python_folder())], check=True)
    pip = [str(python_folder() / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    done = subprocess.run([*pip, "-r", str(wanted)], capture_output=True, text=True)
    return _stamped(python_folder() / "stamp", wanted, done, peer.name)


def _has_node() -> bool:
    wanted = HERE / "package.json"
    folder = node_folder()
    if not _is_there(folder / "stamp", wanted):
        if not (shutil.which("npm") and shutil.which("node")):
            skipped("graphile-worker, pg-boss", "npm is not installed")
            return False
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(wanted, folder)
        done = subprocess.run(["npm", "install", "--no-audit", "--no-fund"], cwd=folder, capture_output=True, text=True)
        if not _stamped(folder / "stamp", wanted, done, "graphile-worker, pg-boss"):
            return False
    for script in HERE.glob("*.mjs"):  # Node looks for packages beside the program
        shutil.copy(script, folder)
    return True


def _is_there(stamp: Path, wanted: Path) -> bool:
    return stamp.is_file() and stamp.read_text() == wanted.read_text()


def _stamped(stamp: Path, wanted: Path, done: subprocess.CompletedProcess[str], name: str) -> bool:
    if done.returncode:
        skipped(name, f"cannot be installed: {done.stderr.strip()[-300:]}")
        return False
    stamp.write_text(wanted.read_text())
    return True

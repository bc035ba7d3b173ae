"""An archive for one test: a store, profiles, a depositor's web server, an OCFL root, an outbox."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from custody.border.http.fetch import Fetcher
from custody.demo.standins.web_server import FileServer
from custody.formats.checkm.form import BATCH_OF_MANIFESTS, OBJECT, Row
from custody.formats.checkm.writer import write
from custody.ingest.adapters import Adapters
from custody.ingest.config import IngestConfig
from custody.ingest.kinds import kinds
from custody.ingest.states import MACHINES
from custody.ingest.submission.submission import Submission, submit
from custody.ingest.world import open_world, policy_of
from custody.ingest.zookeeper.rows import Limits
from custody.ingest.zookeeper.store import open_tree
from custody.kernel.engine import Backoff, Serving, Settings, Worker
from custody.kernel.model.authority.acting import system
from custody.kernel.model.job import Filter, Job
from custody.kernel.model.machine import Machines
from custody.kernel.operations.jobs import Operator
from custody.kernel.stores import Store, open_store

SOURCE = Path(__file__).parents[2] / "src"
CONFIG = IngestConfig(threshold=0.0)
PROFILE = """
owner = "ark:/99999/owner"
[identifier]
shoulder = "fk4"
[notification]
addresses = ["depositor@example.org"]
[fetch]
schemes = ["http"]
ports = [{port}]
hosts = ["127.0.0.1"]
networks = ["127.0.0.0/8"]
{more}
"""


@dataclass
class Archive:
    home: Path
    store: Store
    server: FileServer
    world: Adapters

    @property
    def operator(self) -> Operator:
        return Operator(self.store, Machines(MACHINES), "ada")

    def put(self, name: str, data: bytes) -> str:
        """A file on the depositor's web server; its address."""
        path = self.server.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return f"{self.server.url}/{name}"

    def object_row(self, path: str, data: bytes, **changes: object) -> Row:
        digest = hashlib.sha256(data).hexdigest()
        values = {"line": 1, "url": self.put(path, data), "name": Path(path).name, "algorithm": "sha256"}
        values |= {"digest": digest, "size": len(data)} | changes
        return Row(**values)  # type: ignore[arg-type]

    def object_manifest(self, name: str, rows: Iterable[Row]) -> str:
        return self.put(name, "".join(write(OBJECT, rows)).encode())

    def batch_manifest(self, name: str, rows: Iterable[Row]) -> str:
        return self.put(name, "".join(write(BATCH_OF_MANIFESTS, rows)).encode())

    def submit(self, payload: str, profile: str = "papers", key: str | None = None, **fields: object) -> int:
        return submit(self.store, Submission(profile, payload, **fields), key, system("depositor"))[0]  # type: ignore[arg-type]

    def worker(self, **settings: object) -> Worker:
        serving = Serving(tuple(kinds(self.world, Backoff(first=0.01))))
        return Worker(self.store, serving, Settings(**settings))  # type: ignore[arg-type]

    def run(self) -> None:
        """Until nothing can be done, and nothing becomes due by itself."""
        while True:
            self.worker(threads=4).run_until_quiet()
            waiting = [job.due for job in self.store.queue.every() if job.due]
            if not waiting:
                return
            time.sleep(max(0.0, (min(waiting) - self.store.now()) / 1e6))

    def jobs(self, batch: int) -> list[Job]:
        return list(self.store.queue.every(Filter(parent=batch)))

    def batch(self, number: int) -> Job:
        return self.store.queue.get(number)

    def mails(self) -> list[str]:
        return sorted(path.name for path in (self.home / "outbox").glob("*.eml"))

    def letters(self) -> list[str]:
        """The same without the moment that their batch was made."""
        return sorted(re.sub(r"-\d{10,}@", "@", name) for name in self.mails())

    def report(self, batch: int) -> Mapping[str, object]:
        url = self.batch(batch).facts["report"]
        loaded: Mapping[str, object] = json.loads(self.world.staging.path(url).read_text())
        return loaded


def custody(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command, as an archivist gives it in this folder."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "CUSTODY_WHO": "ada"}
    command = [sys.executable, "-m", "custody", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


def quick(world: Adapters) -> Adapters:
    """The same world, with a fetcher that does not pause for long between tries."""
    policies = {name: policy_of(profile) for name, profile in world.profiles.items()}
    fetchers = {
        name: Fetcher(replace(policy, backoff_seconds=0.01, slow_seconds=60, tries=3))
        for name, policy in policies.items()
    }
    return replace(world, fetchers=fetchers)


@contextmanager
def opened(url: str, external: Sequence[str] = (), limits: Limits | None = None) -> Iterator[Store]:
    """A database, or a tree on ZooKeeper with a database beside it."""
    tree = url.startswith("zookeeper:")
    with open_tree(url, 10, external, limits=limits) if tree else open_store(url) as store:
        yield store


@contextmanager
def archive(
    home: Path, url: str, more: str = "", config: IngestConfig = CONFIG, limits: Limits | None = None
) -> Iterator[Archive]:
    server = FileServer(home / "depositor").start()
    (home / "profiles").mkdir()
    for name in ("papers", "maps"):
        (home / "profiles" / f"{name}.toml").write_text(PROFILE.format(port=server.port, more=more))
    try:
        with opened(url, config.external, limits) as store:
            yield Archive(home, store, server, quick(open_world(store, config, home)))
    finally:
        server.stop()

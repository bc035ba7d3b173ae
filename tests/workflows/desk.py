"""A store, a real repository and a worker when one is wanted: what most workflow tests sit at."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from custody.kernel.engine import Serving, Settings, Worker
from custody.kernel.model.job import Job
from custody.kernel.model.machine import PLAIN
from custody.kernel.operations.jobs import Operator
from custody.kernel.stores import Store, open_store
from custody.workflows.archives.notices import notify
from custody.workflows.archives.table import Archives
from custody.workflows.kinds import WorkflowConfig, kinds, open_shop
from custody.workflows.makers import COMMIT_KIND, TASK_KIND, commit_key, task_key
from custody.workflows.tasks.runner import Runner
from rig.svn import Repository

PUBLISH = """
- name: indexing
  depends: [PREV]
  script: echo indexed
- name: build-PDF
  depends: [indexing]
  cancels: [PREV]
  script: |
    {script}
"""


@dataclass
class Desk:
    """A store, a repository, and a worker when one is wanted."""

    store: Store
    repository: Repository
    home: Path
    shop: Runner

    def commit(self, files: dict[str, str], message: str = "more") -> int:
        return self.repository.commit(message, files)

    def publish(self, script: str = "echo built", note: str = "") -> int:
        return self.commit(
            {"_workflows/publish.yaml": PUBLISH.format(script=script), "notes.txt": note or os.urandom(4).hex()}
        )

    def notify(self, revision: int) -> int:
        return notify(self.store, "proj", revision)

    def worker(self, **settings: object) -> Worker:
        return Worker(
            self.store, Serving(tuple(kinds(self.shop))), Settings(**{"lease": 6.0, "threads": 4, **settings})
        )  # type: ignore[arg-type]

    def run(self) -> None:
        self.worker().run_until_quiet()

    def task(self, revision: int, name: str) -> Job:
        key, kind = (
            (commit_key("proj", revision), COMMIT_KIND)
            if name == "COMMIT"
            else (task_key("proj", revision, "commit", name), TASK_KIND)
        )
        job = self.store.queue.by_key(kind, key)
        assert job is not None, f"there is no {name} at {revision}"
        return job

    def states(self, name: str, *revisions: int) -> list[str]:
        return [self.task(revision, name).state for revision in revisions]

    def log(self, revision: int, name: str) -> str:
        return (self.shop.kept / self.task(revision, name).facts["log"]).read_text()

    def ends(self) -> list[tuple[int, str, str]]:
        """Which task of which revision ended how, in the order of the history."""
        found = []
        for event in self.store.records.since(0, 10_000):
            if event.subject.startswith("job/") and event.detail.get("ended"):
                job = self.store.queue.get(int(event.subject[4:]))
                found.append((job.position, str(job.task), str(event.detail["ended"])))
        return found

    @property
    def operator(self) -> Operator:
        return Operator(self.store, PLAIN, "ada")

    @contextmanager
    def working(self, **settings: object) -> Iterator[Worker]:
        """A worker in the background, for as long as this lasts."""
        worker = self.worker(**settings)
        thread = threading.Thread(target=worker.run_forever)
        thread.start()
        try:
            yield worker
        finally:
            worker.stop()
            thread.join()


@contextmanager
def sitting_at(url: str, repository: Repository, home: Path, config: WorkflowConfig | None = None) -> Iterator[Desk]:
    with open_store(url) as store:
        Archives(store).add("proj", "svn", str(repository.path), "ada")
        shop = open_shop(store, config or WorkflowConfig(), home)
        yield Desk(store, repository, home, shop)
        shop.sandboxes.__exit__(None, None, None)


def alive(command: str) -> bool:
    return subprocess.run(["pgrep", "-f", f"^{command}$"], capture_output=True).returncode == 0


def until(what: object, seconds: float = 120) -> None:
    assert callable(what)
    end = time.monotonic() + seconds
    while True:
        try:
            if what():
                return
        except AssertionError:
            pass  # it is not planned yet
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)

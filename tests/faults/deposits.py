"""A deposit as a story for the crash points: two objects, one of which fails, is mended and resumed; two reports.

The archive's disks (working folder, storage root, staging, outbox) outlive every crash, as disks do; the world of the
steps is made anew by each process.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from custody.border.http.fetch import Fetcher
from custody.demo.standins.web_server import FileServer
from custody.formats.checkm.form import BATCH_OF_FILES, Row
from custody.formats.checkm.writer import write
from custody.ingest.actions import ask_for_update
from custody.ingest.adapters import Adapters
from custody.ingest.config import IngestConfig
from custody.ingest.kinds import kinds
from custody.ingest.states import BATCH_KIND, JOB_KIND, MACHINES, STEPS
from custody.ingest.storage.ocfl.fixity import verify
from custody.ingest.storage.ocfl.root import OcflRoot
from custody.ingest.submission.submission import Submission, submit
from custody.ingest.world import open_world, policy_of
from custody.kernel.engine import Backoff
from custody.kernel.model.authority.acting import system
from custody.kernel.model.job import Filter, Job
from custody.kernel.model.machine import Machines
from custody.kernel.operations.jobs import Operator
from faults.audit import audit
from faults.crash import Stage

PROFILE = """
owner = "ark:/99999/owner"
[notification]
addresses = ["depositor@example.org"]
confirm = true
[fetch]
schemes = ["http"]
ports = [{port}]
hosts = ["127.0.0.1"]
networks = ["127.0.0.0/8"]
"""
MOST_ROUNDS = 40


@dataclass
class Archive:
    """What lies on disks, and the depositor's web server."""

    home: Path
    server: FileServer

    def begin_anew(self) -> None:
        """Empty disks; the depositor's server and the profile stay."""
        for path in self.home.iterdir():
            if path.name not in ("depositor", "profiles"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.server.mend()

    def world(self, stage: Stage) -> Adapters:
        world = open_world(stage.store, IngestConfig(threshold=0.0), self.home)
        policies = {name: policy_of(profile) for name, profile in world.profiles.items()}
        fetchers = {name: Fetcher(replace(policy, tries=1)) for name, policy in policies.items()}
        return replace(world, fetchers=fetchers)

    def play(self, stage: Stage) -> None:
        """The story, told so that it can be told again from the beginning."""
        stage.machines = dict(MACHINES)
        stage.operator = Operator(stage.store, Machines(MACHINES), "ada")
        world = self.world(stage)
        try:
            self._play(stage, world)
        finally:
            for fetcher in world.fetchers.values():
                fetcher.close()

    def _play(self, stage: Stage, world: Adapters) -> None:
        given = Submission("papers", f"{self.server.url}/batch.checkm", "single-file-batch-manifest", "batch.checkm")
        batch = stage.act("submit", lambda: submit(stage.store, given, "k1", system("m"))[0])
        if "mended" not in stage.notes:
            self.server.misbehave("/two.txt", "gone")
        _work(stage, world)
        stage.act("mended", lambda: self.server.mend())
        for job in stage.store.queue.every(Filter(kind=JOB_KIND, ended="failed")):
            stage.act(f"resume {job.id}", lambda job=job: stage.operator.resume(job.id, "mended"))  # type: ignore[misc]
        _work(stage, world)
        stage.act("update", lambda: ask_for_update(stage.store, stage.store.queue.get(batch), "ada"))
        _work(stage, world)

    def wrong(self, stage: Stage) -> list[str]:
        """What is not as it must be at the end, however often and wherever it crashed."""
        store = stage.store
        found = audit(store, Machines(MACHINES))
        batches = list(store.queue.every(Filter(kind=BATCH_KIND)))
        jobs = list(store.queue.every(Filter(kind=JOB_KIND)))
        found += _unless([job.state for job in batches] == ["completed"], f"batches: {[job.state for job in batches]}")
        found += _unless(
            [(job.payload["row"], job.state) for job in jobs] == [(1, "completed"), (2, "completed")], f"jobs: {jobs}"
        )
        world = self.world(stage)
        for job in jobs:
            found += _wrong_with(stage, job, world)
        found += _unless(len({job.facts["primary"] for job in jobs}) == 2, "two objects share an identifier")
        return found + self._left_over(world, batches[0])

    def _left_over(self, world: Adapters, batch: Job) -> list[str]:
        names = ("queued", "report-1", "report-2")
        wanted = sorted(f"batch-{batch.id}-{name}-{batch.created}@localhost.eml" for name in names)
        sent = sorted(path.name for path in (self.home / "outbox").iterdir())
        found = _unless(sent == wanted, f"mails: {sent}")
        told = json.loads(world.staging.path(batch.facts["report"]).read_text())
        found += _unless(len(told["jobs"]) == 2 and told["ok"], f"the last report: {told}")
        found += _unless(len(told["changes"]["newly_completed"]) == 1, f"the update: {told['changes']}")
        working = [str(path) for path in (self.home / "work").rglob("*")]
        found += _unless(not working, f"left on the working disk: {working}")
        benches = [str(path) for path in (self.home / "storage-staging").iterdir()]
        found += _unless(not benches, f"left beside the storage root: {benches}")
        return found


def _work(stage: Stage, world: Adapters) -> None:
    """Until nothing is left to do; time passes when only time can help."""
    serving = kinds(world, Backoff(first=1, most=1, jitter=0))
    for _ in range(MOST_ROUNDS):
        stage.run(*serving, schedules=False)
        waiting = [job for job in stage.store.queue.every() if job.ended is None and (job.runnable or job.holder)]
        if not waiting:
            return
        stage.clock.advance(20)
    raise AssertionError(f"stuck: {waiting}")


def _wrong_with(stage: Stage, job: Job, world: Adapters) -> list[str]:
    ark, root = job.facts["primary"], world.nodes["main"]
    assert isinstance(root, OcflRoot)
    versions = [version.job for version in world.inventory.versions(ark)]
    events = list(stage.store.records.all_events(job.subject))
    passed = [event.detail["from"] for event in events if event.type == "passed"]
    ingested = [event for event in stage.store.records.events(f"item/{ark}") if event.type == "ingested"]
    return [
        *_unless(versions == [job.id], f"{ark} was recorded by {versions}"),
        *_unless(len(root.inventory(ark).versions) == 1, f"{ark} was stored more than once"),
        *_unless(verify(root, ark) == [], f"{ark} is damaged: {verify(root, ark)}"),
        *_unless(sorted(passed) == sorted(STEPS), f"job {job.id} passed {passed}"),
        *_unless(len(ingested) == 1, f"{ark} was ingested {len(ingested)} times"),
        *_unless(world.inventory.local_ids(ark) == [f"l{job.payload['row']}"], f"{ark} has other names"),
    ]


def _unless(right: bool, wrong: str) -> list[str]:
    return [] if right else [wrong]


@contextmanager
def deposit(folder: Path) -> Iterator[Archive]:
    """An archive in a folder that must be empty."""
    server = FileServer(folder / "depositor").start()
    try:
        (folder / "depositor").mkdir(parents=True)
        rows = []
        for number, name in enumerate(("one.txt", "two.txt"), start=1):
            (folder / "depositor" / name).write_text(f"{name} " * 20)
            rows.append(Row(number, f"{server.url}/{name}", name, local_ids=(f"l{number}",)))
        (folder / "depositor" / "batch.checkm").write_text("".join(write(BATCH_OF_FILES, rows)))
        (folder / "profiles").mkdir()
        (folder / "profiles" / "papers.toml").write_text(PROFILE.format(port=server.port))
        yield Archive(folder, server)
    finally:
        server.stop()

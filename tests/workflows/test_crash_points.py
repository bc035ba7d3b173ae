"""A crash before and after every word that a workflow says to the store: planned once, each task ended once, in order."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from custody.kernel.stores import Store
from custody.workflows.archives.notices import notify
from custody.workflows.archives.table import Archives
from custody.workflows.kinds import WorkflowConfig, kinds, open_shop
from custody.workflows.makers import COMMIT_KIND, TASK_KIND
from faults.audit import audit
from faults.crash import Memory, Point, Stage, play, points
from prove.plugin import Scaled, Tell
from rig.need import need
from rig.svn import Repository
from workflows.desk import PUBLISH

REVISIONS = 2
MOST_ROUNDS = 40
LOGS = ["0\n", "1\n", "indexed\n", "indexed\n"]
WANTED = {(revision, task): 1 for revision in (1, 2) for task in ("COMMIT", "indexing", "build-PDF")}


class Bindery:
    """Two revisions with two tasks each; every time in a new store and a new shop, as after a fire."""

    def __init__(self, repository: Repository, folder: Path) -> None:
        self._repository, self._folder, self._numbers = repository, folder, itertools.count()
        self._memory = Memory()
        for number in range(REVISIONS):
            text = PUBLISH.format(script="cat notes.txt").replace("  cancels: [PREV]\n", "")
            repository.commit("more", {"_workflows/publish.yaml": text, "notes.txt": f"{number}\n"})

    def run(self, *plan: Point) -> Stage:
        self._home = self._folder / str(next(self._numbers))
        self._home.mkdir()
        stage = play(self._play, self._memory.stage(), plan)
        assert self._wrong(stage) == [], f"after {plan}"
        return stage

    def _play(self, stage: Stage) -> None:
        stage.act("add", lambda: Archives(stage.store).add("proj", "svn", str(self._repository.path), "ada") and None)
        notify(stage.store, "proj", REVISIONS)
        shop = open_shop(stage.store, WorkflowConfig(), self._home)
        self._kept = shop.kept
        try:
            for _ in range(MOST_ROUNDS):
                stage.run(*kinds(shop), schedules=False)
                if not _left(stage.store):
                    return
                stage.clock.advance(20)
            raise AssertionError(f"stuck: {_left(stage.store)}")
        finally:
            shop.sandboxes.__exit__(None, None, None)

    def _wrong(self, stage: Stage) -> list[str]:
        passed = Counter(_passed(stage.store))
        order = list(passed)
        found = audit(stage.store)
        found += [] if passed == WANTED else [f"ended: {passed}"]
        for revision in (1, 2):
            if not order.index((revision, "COMMIT")) < order.index((revision, "indexing")):
                found.append(f"{revision} was not planned first: {order}")
            if not order.index((revision, "indexing")) < order.index((revision, "build-PDF")):
                found.append(f"{revision} was built before it was indexed: {order}")
        tasks = [job for job in stage.store.queue.every() if job.kind == TASK_KIND]
        logs = sorted((self._kept / job.facts["log"]).read_text() for job in tasks)
        return found + ([] if logs == LOGS else [f"logs: {logs}"])


def _left(store: Store) -> list[str]:
    return [str(job) for job in store.queue.every() if job.ended is None]


def _passed(store: Store) -> Iterator[tuple[int, str]]:
    """Which task of which revision has passed, in the order of the history."""
    for event in store.records.since(0, 10_000):
        if event.subject.startswith("job/") and event.detail.get("ended") == "passed":
            job = store.queue.get(int(event.subject[4:]))
            if job.kind in (COMMIT_KIND, TASK_KIND):
                yield job.position, "COMMIT" if job.kind == COMMIT_KIND else str(job.task)


@pytest.mark.slow
@pytest.mark.proves("G2")
def test_a_crash_at_any_point_of_a_workflow_loses_doubles_and_reorders_nothing(
    repository: Repository, tmp_path: Path, scaled: Scaled[int], tell: Tell
) -> None:
    """In the test run at some of them; in a proof before and after each."""
    need("bubblewrap")
    bindery = Bindery(repository, tmp_path)
    every = points(bindery.run().verbs)
    chosen = every[:: scaled(9, 1, 1)]
    assert len(every) > 20
    for point in chosen:
        bindery.run(point)
    tell(f"{len(chosen)} crashes of a workflow", stories=1, crashes=len(chosen))

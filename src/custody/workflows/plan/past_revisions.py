"""Earlier revisions of an archive, as the store has them: what PREV means is found by looking."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from custody.kernel.stores import Store
from custody.kernel.stores.rows import loads
from custody.workflows.archives.port import Archive
from custody.workflows.definition.task import COMMIT
from custody.workflows.makers import COMMIT_KIND, commit_key
from custody.workflows.plan.plan import Ref, nearest


class StorePast:
    """Earlier revisions, as the store has them."""

    def __init__(
        self,
        store: Store,
        archive: Archive,
        name: str,
        revision: int,
        parents: Collection[int],
        lines: Sequence[str],
        tasks: Collection[str] = (),
    ) -> None:
        """`tasks` are those that will be asked for: on an archive with one line of revisions, all in one go."""
        self._store, self._archive, self._name, self._revision = store, archive, name, revision
        self._parents, self._lines = tuple(parents), lines
        self._is_one_line = self._parents == (revision - 1,)
        self._known: dict[str, Collection[int]] = {}
        self._blocking: dict[int, Sequence[str]] = {}  # by revision
        self.jobs: dict[Ref, int] = {}
        """Those that were met on the way."""
        self.definition = ""  # of the commit before
        if self._is_one_line:
            self._look_up({COMMIT, *tasks})

    def nearest(self, task: str) -> Collection[int]:
        if self._is_one_line:
            if task not in self._known:
                self._look_up({task})
            return self._known[task]
        return nearest(
            self._parents, lambda number: self._archive.parents(number, self._lines), lambda n: self._has(task, n)
        )

    def blocking(self) -> Iterable[Ref]:
        for parent in self._parents:
            if parent not in self._blocking:
                job = self._store.queue.by_key(COMMIT_KIND, commit_key(self._name, parent))
                self._blocking[parent] = job.facts.get("blocking", []) if job else []
            yield from (Ref(parent, task) for task in self._blocking[parent])

    def _look_up(self, tasks: Collection[str]) -> None:
        self._known |= dict.fromkeys(tasks, ())
        for found in nearest_jobs(self._store, self._name, tasks, self._revision):
            self._known[found.task] = (found.revision,)
            self.jobs[Ref(found.revision, found.task)] = found.job
            if found.commit is not None:
                self._blocking[found.revision] = found.commit.get("blocking", [])
                self.definition = str(found.commit.get("definition", ""))

    def _has(self, task: str, revision: int) -> bool:
        return bool(self._store.db.read(lambda tx: tx.run("wf_has", line=self._name, task=task, position=revision)))


@dataclass(frozen=True, slots=True)
class Nearest:
    task: str
    revision: int
    job: int
    commit: Mapping[str, Any] | None  # what a commit job has kept


def nearest_jobs(store: Store, name: str, tasks: Collection[str], before: int) -> Iterator[Nearest]:
    """Each of these tasks in the newest revision before this one that has it; looked up all in one go."""
    asked = {"line": name, "position": before, "tasks": json.dumps(sorted(tasks)), "commit": COMMIT_KIND}
    for task, revision, job, facts in store.db.glance(lambda tx: tx.run("wf_nearest", **asked)):
        yield Nearest(task, revision, job, None if facts is None else loads(facts))

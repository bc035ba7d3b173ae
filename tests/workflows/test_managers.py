"""Several managers on one PostgreSQL, killed at any time: no task runs twice at once, none is lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from custody.border.sandbox import Sandboxes
from custody.model.job import Filter
from custody.workflows.notify import COMMIT_KIND
from custody.workflows.planning import TASK_KIND
from rig.need import need
from rig.svn import Repository
from workflows.desk import sitting_at, until

TEXT = """
- name: a
  depends: [PREV]
  script: sleep 0.2; echo done
- name: b
  depends: [a]
  script: sleep 0.2; echo done
- name: c
  script: sleep 0.3; echo done
"""
REVISIONS, KILLS, WORKERS = 3, 2, 3


def manager(home: Path, url: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "custody", "worker", "run", "--lease", "2", "--no-log", "--threads", "3"]
    environment = {**os.environ, "CUSTODY_STORE": url, "CUSTODY_CONFIG": str(home / "custody.toml")}
    return subprocess.Popen(command, env=environment, cwd=home)


class Watcher(threading.Thread):
    """Looks all the time whether two sandboxes of one job are alive together."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        super().__init__(daemon=True)
        self.sandboxes, self.over, self.twice = sandboxes, False, list[str]()

    def run(self) -> None:
        while not self.over:
            alive = Counter(name.split("-")[1] for name in self.sandboxes.names() if self._alive(name))
            self.twice += [job for job, count in alive.items() if count > 1]
            time.sleep(0.02)

    def _alive(self, name: str) -> bool:
        folder = self.sandboxes.root / name
        return name.startswith("task-") and (folder / "pids.json").exists() and not (folder / "end.json").exists()


@pytest.mark.kills
def test_killing_any_of_several_managers_loses_nothing_and_runs_nothing_twice_at_once(
    tmp_path: Path, repository: Repository, postgres_url: str
) -> None:
    need("bubblewrap")
    (tmp_path / "custody.toml").write_text("")
    (tmp_path / "profiles").mkdir()
    chance = random.Random(4)
    with sitting_at(postgres_url, repository, tmp_path) as desk:
        for number in range(REVISIONS):
            desk.commit({"_workflows/a.yaml": TEXT, "n.txt": str(number)})
        watcher = Watcher(desk.shop.sandboxes)
        watcher.start()
        managers = [manager(tmp_path, postgres_url) for _ in range(WORKERS)]
        try:
            desk.notify(REVISIONS)
            for _ in range(KILLS):
                time.sleep(chance.uniform(0.3, 1.2))
                victim = managers.pop(chance.randrange(len(managers)))
                victim.send_signal(signal.SIGKILL)
                victim.wait()
                managers.append(manager(tmp_path, postgres_url))
            until(lambda: _all_ended(desk.store.queue.every(Filter(kind="workflow/*"))) == 4 * REVISIONS, 120)
        finally:
            for process in managers:
                process.terminate()
            for process in managers:
                process.wait()
            watcher.over = True
            watcher.join()
        assert watcher.twice == []
        tasks = list(desk.store.queue.every(Filter(kind=TASK_KIND)))
        assert Counter(job.state for job in tasks) == {"done": 3 * REVISIONS}
        assert [desk.log(job.position, str(job.task)) for job in tasks] == ["done\n"] * (3 * REVISIONS)
        commits = [revision for revision, task, _ in desk.ends() if task == "COMMIT"]
        assert commits == list(range(1, REVISIONS + 1)), "planned once each, in order"
        assert len(list(desk.store.queue.every(Filter(kind=COMMIT_KIND)))) == REVISIONS


def _all_ended(jobs: object) -> int:
    return sum(job.ended == "passed" for job in jobs)  # type: ignore[attr-defined]

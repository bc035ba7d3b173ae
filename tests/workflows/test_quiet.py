"""A worker that ends when there is nothing left to do has asked every repository first, whatever its hook told."""

from __future__ import annotations

from pathlib import Path

import pytest

from custody.kernel.engine import Serving, Settings, Worker
from custody.kernel.stores import open_store
from custody.workflows.archives.folder import FolderArchive
from custody.workflows.archives.table import Archives
from custody.workflows.kinds import WorkflowConfig, chores, kinds, open_shop
from custody.workflows.makers import TASK_KIND, task_key
from rig.need import need as need_service
from workflows.repositories import GitRepository, SvnRepository

TASK = "- {name: build, script: echo built}\n"


@pytest.mark.parametrize("system", ["git", "svn", "folder"])
def test_a_revision_that_nobody_told_of_is_worked_on_before_a_worker_calls_itself_idle(
    request: pytest.FixtureRequest, tmp_path: Path, system: str
) -> None:
    need_service("bubblewrap")
    if system == "git":
        git: GitRepository = request.getfixturevalue("proj_git")
        git.commit("_workflows/a.yaml", TASK)
        git.push()
        place = git.path
    elif system == "svn":
        svn: SvnRepository = request.getfixturevalue("proj_svn")
        svn.mucc("one", "mkdir", "_workflows")
        svn.put("_workflows/a.yaml", TASK.encode())
        place = svn.path
    else:
        place = tmp_path / "kept"
        (tmp_path / "source" / "_workflows").mkdir(parents=True)
        (tmp_path / "source" / "_workflows" / "a.yaml").write_text(TASK)
        FolderArchive.make(place).keep(tmp_path / "source", "one", "ada")
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as store:
        kept = Archives(store).add("proj", system, str(place), "ada")
        last = Archives(store).open(kept).youngest()
        shop = open_shop(store, WorkflowConfig(), tmp_path)
        serving = Serving(tuple(kinds(shop)), tuple(chores(store)))
        Worker(store, serving, Settings(lease=6.0)).run_until_quiet()
        job = store.queue.by_key(TASK_KIND, task_key("proj", last, "commit", "build"))
        assert job is not None
        assert job.ended == "passed"
        shop.sandboxes.__exit__(None, None, None)

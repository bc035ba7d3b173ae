"""A commit that was counted and is cleared away before it is planned: told, and the archive goes on in order."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from custody.cli.doctor.report import examine
from custody.kernel.engine import Serving, Settings, Worker
from custody.kernel.stores import Store, open_store
from custody.workflows import kinds as serving
from custody.workflows.archives.git import git_reader
from custody.workflows.archives.notices import reconcile
from custody.workflows.archives.table import Archives
from custody.workflows.commands.archive import app
from custody.workflows.kinds import WorkflowConfig, kinds, open_shop
from custody.workflows.makers import COMMIT_KIND, TASK_KIND, commit_key, task_key
from custody.workflows.plan import job as planning
from rig.need import need as need_service
from workflows.desk import until
from workflows.repositories import GitRepository
from workflows.test_stopping import end_idle_readers

TASK = "- {name: build, depends: [PREV], script: echo built}\n"


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_a_commit_that_was_pruned_before_it_was_planned_is_gone_and_holds_up_nothing(
    request: pytest.FixtureRequest,
    proj_git: GitRepository,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    database: str,
) -> None:
    need_service("bubblewrap")
    monkeypatch.setattr(planning, "PATIENCE", 0.1)
    proj_git.commit("_workflows/a.yaml", TASK)
    proj_git.push()
    local = f"sqlite:///{tmp_path / 'custody.db'}"
    url = local if database == "sqlite" else request.getfixturevalue("postgres_url")
    with open_store(url) as store:
        kept = Archives(store).add("proj", "git", str(proj_git.path), "ada")
        reconcile(store, kept)
        proj_git.commit("data.txt", "to be pushed away")
        proj_git.push()
        reconcile(store, kept)
        proj_git.git("reset", "-q", "--hard", "HEAD~1")
        proj_git.commit("data.txt", "in its place")
        proj_git.push("--force", "origin", "HEAD")
        subprocess.run(["git", "-C", str(proj_git.path), "reflog", "expire", "--expire=now", "--all"], check=True)
        subprocess.run(["git", "-C", str(proj_git.path), "gc", "-q", "--prune=now"], check=True)
        reconcile(store, Archives(store).get("proj"))
        assert Archives(store).get("proj").last == 3
        shop = open_shop(store, WorkflowConfig(), tmp_path)

        def passed(revision: int) -> bool:
            Worker(store, Serving(tuple(kinds(shop))), Settings(lease=6.0)).run_until_quiet()
            job = store.queue.by_key(TASK_KIND, task_key("proj", revision, "commit", "build"))
            return job is not None and job.ended == "passed"

        until(lambda: passed(1))
        until(lambda: passed(3), 60)
        gone = store.queue.by_key(COMMIT_KIND, commit_key("proj", 2))
        assert gone is not None
        assert gone.ended == "passed"
        (reason,) = store.queue.why(gone.id)
        assert "of revision 2 is gone" in reason.text
        assert "revision 2 is gone" in Archives(store).gone("proj")
        shop.sandboxes.__exit__(None, None, None)
    assert "revision 2 is gone" in CliRunner().invoke(app, ["list", "--json", "--store", url]).output
    assert any("revision 2 is gone" in finding.what for finding in examine(url, None))


def test_a_commit_that_is_missed_for_a_moment_is_looked_for_once_more(
    own_store: Store, proj_git: GitRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while a repository is being packed."""
    monkeypatch.setattr(planning, "PATIENCE", 1.5)
    proj_git.commit("_workflows/a.yaml", TASK)
    proj_git.push()
    reconcile(own_store, Archives(own_store).add("proj", "git", str(proj_git.path), "ada"))
    tip = proj_git.commit("data.txt", "data")
    proj_git.push()
    reconcile(own_store, Archives(own_store).get("proj"))
    place = proj_git.path / "objects" / tip[:2] / tip[2:]
    aside = proj_git.path.parent / "aside"
    place.rename(aside)
    git_reader._memories.clear()  # as in a process that has never read it
    end_idle_readers()

    def planned() -> str | None:
        Worker(own_store, Serving((serving.planning(own_store),)), Settings(lease=6.0)).run_until_quiet()
        job = own_store.queue.by_key(COMMIT_KIND, commit_key("proj", 2))
        assert job is not None
        return job.ended if job.ended else "".join(reason.text for reason in own_store.queue.why(job.id))

    assert "it is looked for once more" in str(planned())
    aside.rename(place)
    end_idle_readers()
    until(lambda: planned() == "passed", 60)
    assert own_store.queue.by_key(TASK_KIND, task_key("proj", 2, "commit", "build")) is not None, (
        "nothing of it is lost"
    )
    assert Archives(own_store).gone("proj") == ""

"""A git repository whose objects are named by SHA-256: read whole, planned, run and committed to like any other."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from custody.kernel.engine import Serving, Settings, Worker
from custody.kernel.stores import open_store
from custody.workflows.archives.table import Archives
from custody.workflows.commands.archive import app
from custody.workflows.kinds import WorkflowConfig, chores, kinds, open_shop
from custody.workflows.makers import TASK_KIND, task_key
from rig.need import need as need_service
from workflows.repositories import GitRepository, need

TASKS = """\
- {name: build, depends: [PREV], script: cat data.txt > built.txt; custody archive commit -m built built.txt}
- {name: check, script: cat built.txt || echo none}
"""


@pytest.fixture
def wide(tmp_path: Path) -> GitRepository:
    need("git", "git")
    bare, clone = tmp_path / "wide.git", tmp_path / "clone"
    for words in (
        ["init", "-q", "--bare", "-b", "main", "--object-format=sha256", str(bare)],
        ["init", "-q", "-b", "main", "--object-format=sha256", str(clone)],
    ):
        subprocess.run(["git", *words], check=True)
    made = GitRepository(bare, clone)
    for name, value in (("user.name", "Ann"), ("user.email", "ann@example.org")):
        made.git("config", name, value)
    made.git("remote", "add", "origin", str(bare))
    return made


def test_a_repository_of_sha256_is_planned_run_and_committed_to(wide: GitRepository, tmp_path: Path) -> None:
    need_service("bubblewrap")
    url = f"sqlite:///{tmp_path / 'custody.db'}"
    assert CliRunner().invoke(app, ["add", "proj", str(wide.path), "--no-hook", "--store", url]).exit_code == 0
    (wide.clone / "sub").mkdir()
    (wide.clone / "sub" / "run.sh").write_text("#!/bin/sh\n")
    os.chmod(wide.clone / "sub" / "run.sh", 0o755)
    wide.commit("_workflows/a.yaml", TASKS)
    first = wide.commit("data.txt", "some data\n")
    assert len(first) == 64
    wide.push("origin", "main")
    subprocess.run(["git", "-C", str(wide.path), "gc", "-q"], check=True)  # packs, and packed refs
    with open_store(url) as store:
        shop = open_shop(store, WorkflowConfig(), tmp_path)
        Worker(store, Serving(tuple(kinds(shop)), tuple(chores(store))), Settings(lease=6.0)).run_until_quiet()
        archive = Archives(store).opened("proj")
        assert archive.youngest() == 2, "the push and what the task has committed"
        assert archive.read(2, "built.txt") == b"some data\n"
        assert archive.parents(2) == (1,)
        assert [change.path for change in archive.changed(2)] == ["built.txt"]
        assert archive.runs(2, "sub/run.sh")
        assert len(archive.meta(2).id) == 64
        archive.export(2, tmp_path / "out")
        assert (tmp_path / "out" / "data.txt").read_text() == "some data\n"
        job = store.queue.by_key(TASK_KIND, task_key("proj", 2, "commit", "check"))
        assert job is not None
        assert job.ended == "passed"
        shop.sandboxes.__exit__(None, None, None)
    subprocess.run(["git", "-C", str(wide.path), "fsck", "--strict"], check=True, capture_output=True)
    subprocess.run(["git", "-C", str(wide.path), "config", "receive.denyDeleteCurrent", "ignore"], check=True)
    wide.git("push", "-q", "origin", ":main")  # a branch that is deleted is told with 64 noughts
    with open_store(url) as store:
        assert Archives(store).opened("proj").youngest() == 2

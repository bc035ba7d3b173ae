"""Links planted where tasks' logs, outputs and indexes are kept lead nothing elsewhere, and show nobody anything else."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from custody.border.sandbox.sandbox import Sandboxes
from custody.errors import CustodyError, NotFound, Refused
from custody.kernel.model.job import Job
from custody.workflows.commands.archive import app
from custody.workflows.kinds import WorkflowConfig
from custody.workflows.makers import QUICK_KIND, TASK_KIND, task_key
from custody.workflows.pages import task_panel
from rig.need import need as need_service
from rig.program import room
from rig.svn import Repository
from workflows.desk import Desk, sitting_at
from workflows.shown import site_over

MADE = {
    "_workflows/all.yaml": """
- name: build
  script: mkdir out && echo made | tee out/file
  outputs: [out/*]
- name: uses
  depends: [build]
  script: cat /inputs/build/out/file
"""
}
INDEXED = {"_workflows/all.yaml": "- {name: indexing, ready: index}\n"}


@pytest.fixture
def open_desk(repository: Repository) -> Iterator[Desk]:
    """At a place to which others may come."""
    need_service("bubblewrap")
    home = room("planted")
    home.chmod(0o755)
    (home / "elsewhere").mkdir()
    with sitting_at(f"sqlite:///{home / 'custody.db'}", repository, home, WorkflowConfig()) as desk:
        desk.shop.kept.chmod(0o755)
        yield desk
    shutil.rmtree(home, ignore_errors=True)


def done(desk: Desk, files: dict[str, str]) -> int:
    revision = desk.commit(files)
    desk.notify(revision)
    desk.run()
    return revision


def job_of(desk: Desk, revision: int, task: str) -> Job:
    kind = QUICK_KIND if task == "indexing" else TASK_KIND
    job = desk.store.queue.by_key(kind, task_key("proj", revision, "commit", task))
    assert job is not None
    return job


def all_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_nothing_of_a_task_is_kept_through_a_link(open_desk: Desk, depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = list[str]()
    real = Sandboxes.start
    monkeypatch.setattr(Sandboxes, "start", lambda self, spec: begun.append(spec.name) or real(self, spec))
    elsewhere = open_desk.home / "elsewhere"
    revision = open_desk.commit(MADE)
    parts = ("proj", f"r{revision}", "commit", "build")[:depth]
    planted = open_desk.shop.kept.joinpath(*parts)
    planted.parent.mkdir(parents=True, exist_ok=True)
    planted.symlink_to(elsewhere)
    open_desk.notify(revision)
    open_desk.run()
    job = open_desk.task(revision, "build")
    assert (job.ended, job.code) == ("failed", "place.link")
    assert begun == [], "it is not run for nothing"
    assert all_in(elsewhere) == []


@pytest.mark.parametrize("files", [MADE, INDEXED], ids=["task", "index"])
def test_nothing_is_kept_where_others_may_put_a_link(open_desk: Desk, files: dict[str, str]) -> None:
    folder = open_desk.shop.kept / "proj"
    folder.mkdir()
    folder.chmod(0o777)
    revision = done(open_desk, files)
    job = job_of(open_desk, revision, "build" if files is MADE else "indexing")
    assert (job.ended, job.code) == ("failed", "folder.closed")
    assert all_in(folder) == []
    folder.chmod(0o700)
    open_desk.operator.resume(job.id, "closed")
    open_desk.run()
    assert job_of(open_desk, revision, str(job.task)).ended == "passed"


@pytest.mark.parametrize("planted", ["proj", "proj/index.db"])
def test_no_index_is_written_through_a_link(open_desk: Desk, planted: str) -> None:
    elsewhere = open_desk.home / "elsewhere"
    place = open_desk.shop.kept / planted
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(elsewhere if planted == "proj" else elsewhere / "their.db")
    revision = done(open_desk, INDEXED)
    job = job_of(open_desk, revision, "indexing")
    assert (job.ended, job.code) == ("failed", "place.link")
    assert all_in(elsewhere) == []


def test_what_a_task_left_is_not_shown_through_a_link(open_desk: Desk) -> None:
    revision = done(open_desk, MADE)
    job, shop = open_desk.task(revision, "build"), open_desk.shop
    assert task_panel.log(site_over(shop), job, 1) == b"made\n"
    assert task_panel.output(site_over(shop), job, "out/file").read_text() == "made\n"
    secret = open_desk.home / "secret"
    secret.write_text("not-for-them")
    folder = shop.folder(job)
    log = folder / "attempt-1.log"
    log.unlink()
    log.symlink_to(secret)
    (folder / "outputs/out").rename(open_desk.home / "elsewhere/out")
    (folder / "outputs/out").symlink_to(open_desk.home / "elsewhere/out")
    assert task_panel.attempts(site_over(shop), job) == []
    assert task_panel.outputs(site_over(shop), job) == []
    for act in (
        lambda: task_panel.log(site_over(shop), job, 1),
        lambda: task_panel.output(site_over(shop), job, "out/file"),
    ):
        with pytest.raises((NotFound, Refused)):
            act()
    config = open_desk.home / "custody.toml"
    config.write_text(f'store = "{open_desk.store.url}"\n')
    words = ["log", "proj", str(revision), "build", "--config", str(config), "--store", open_desk.store.url]
    told = CliRunner().invoke(app, words)
    assert isinstance(told.exception, CustodyError)
    assert "not-for-them" not in told.output


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5, 6])
def test_neither_web_nor_tasks_see_what_is_behind_a_link_on_the_way(open_desk: Desk, depth: int) -> None:
    revision = done(open_desk, MADE)
    job, shop = open_desk.task(revision, "build"), open_desk.shop
    parts = (*shop.folder(job).relative_to(shop.kept).parts, "outputs")[:depth]
    moved, planted = open_desk.home / "elsewhere/moved", shop.kept.joinpath(*parts)
    planted.rename(moved)
    planted.symlink_to(moved)
    with pytest.raises((NotFound, Refused)):
        task_panel.output(site_over(shop), job, "out/file")
    if depth < 6:
        with pytest.raises(Refused, match="a link is in the way"):
            task_panel.log(site_over(shop), job, 1)
    else:
        assert task_panel.outputs(site_over(shop), job) == []


def test_a_swap_while_it_is_read_shows_nothing_else(open_desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at the way and the opening."""
    revision = done(open_desk, MADE)
    job, shop = open_desk.task(revision, "build"), open_desk.shop
    real, folder = os.lstat, shop.folder(job)
    evil = open_desk.home / "elsewhere/evil"
    evil.mkdir()
    (evil / "attempt-1.log").write_text("not-for-them")

    def swapped(path: os.PathLike[str] | str, **how: object) -> os.stat_result:
        about = real(path, **how)  # type: ignore[arg-type]
        if Path(path) == folder and not folder.is_symlink():
            folder.rename(folder.with_name("was"))
            folder.symlink_to(evil)
        return about

    monkeypatch.setattr(os, "lstat", swapped)
    with pytest.raises(CustodyError):
        task_panel.log(site_over(shop), job, 1)

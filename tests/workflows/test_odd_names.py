"""Names that are not text, and things in a tree that are neither file nor folder: nobody's archive stops because of
them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from custody.kernel.engine import Serving, Settings, Worker
from custody.kernel.model.job import Job
from custody.kernel.stores import Store, open_store
from custody.workflows.archives.git.git import GitArchive
from custody.workflows.archives.notices import reconcile
from custody.workflows.archives.port import read_workflows
from custody.workflows.archives.table import Archives
from custody.workflows.kinds import WorkflowConfig, kinds, open_shop
from custody.workflows.makers import COMMIT_KIND, QUICK_KIND, TASK_KIND, commit_key, task_key
from custody.workflows.pages import task_panel
from custody.workflows.plan.plan_jobs import FAULTY
from custody.workflows.tasks.index import index_file, open_index
from custody.workflows.tasks.runner import Runner
from rig.need import need
from workflows.repositories import GitRepository
from workflows.shown import site_over

LATIN = os.fsdecode(b"caf\xe9")


@pytest.fixture
def archive(proj_git: GitRepository, own_store: Store) -> GitArchive:
    return GitArchive(proj_git.path, own_store)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Runner]:
    need("bubblewrap")
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as store:
        made = open_shop(store, WorkflowConfig(), tmp_path)
        yield made
        made.sandboxes.__exit__(None, None, None)


def run(shop: Runner, repository: Path) -> None:
    kept = Archives(shop.store).add("proj", "git", str(repository), "ada")
    reconcile(shop.store, kept)
    Worker(shop.store, Serving(tuple(kinds(shop))), Settings(threads=2)).run_until_quiet()


def job(store: Store, task: str, kind: str = TASK_KIND, revision: int = 1) -> Job:
    key = commit_key("proj", revision) if task == "COMMIT" else task_key("proj", revision, "commit", task)
    found = store.queue.by_key(kind, key)
    assert found is not None
    return found


def add_submodule(repository: GitRepository, path: str) -> None:
    commit = repository.commit("first", "1")
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{commit},{path}")
    repository.git("commit", "-q", "-m", "a submodule")


def test_a_workflow_file_whose_name_is_no_text_is_read_and_its_faults_are_told(
    shop: Runner, proj_git: GitRepository
) -> None:
    proj_git.commit(f"_workflows/{LATIN}.yaml", "- nmae: wrong\n")
    proj_git.push()
    run(shop, proj_git.path)
    assert job(shop.store, "COMMIT", COMMIT_KIND).state == "done", "it would have been tried again for ever"
    assert r"_workflows/caf\xe9.yaml:1:3: unknown key" in job(shop.store, FAULTY).payload["faults"][0]


def test_a_submodule_is_no_workflow_file_and_its_revision_is_planned(
    archive: GitArchive, proj_git: GitRepository
) -> None:
    add_submodule(proj_git, "_workflows/nightly.yaml")
    proj_git.push()
    assert archive.youngest() == 1
    assert read_workflows(archive, 1) == ({}, [])


def test_submodules_and_names_that_are_no_text_are_indexed_as_far_as_they_can_be(
    shop: Runner, proj_git: GitRepository
) -> None:
    proj_git.commit("_workflows/a.yaml", "- {name: index, ready: index}\n")
    proj_git.commit(f"menu/{LATIN}.txt", "coffee")
    add_submodule(proj_git, "sub")
    proj_git.push()
    run(shop, proj_git.path)
    assert job(shop.store, "index", QUICK_KIND).state == "done"
    with open_index(index_file(shop.kept, "proj", "main")) as index:
        assert [hit.path for hit in index.search(["coffee"])] == [r"menu/caf\xe9.txt"]
    proj_git.git("rm", "-q", "-r", "menu", "sub")
    proj_git.commit("b", "2")
    proj_git.push()
    assert reconcile(shop.store, Archives(shop.store).get("proj")) == 1
    Worker(shop.store, Serving(tuple(kinds(shop))), Settings(threads=2)).run_until_quiet()
    with open_index(index_file(shop.kept, "proj", "main")) as index:
        assert index.revision == 2
        assert index.search(["coffee"]) == []


def test_what_a_task_leaves_under_a_name_that_is_no_text_is_kept_and_shown(
    shop: Runner, proj_git: GitRepository
) -> None:
    text = "- name: a\n  outputs: [dist]\n  script: |\n    mkdir dist; echo 1 > \"dist/$(printf 'caf\\351')\"\n"
    text += "- name: b\n  depends: [a]\n  script: cat \"/inputs/a/dist/$(printf 'caf\\351')\"\n"
    proj_git.commit("_workflows/a.yaml", text)
    proj_git.push()
    run(shop, proj_git.path)
    assert [job(shop.store, task).state for task in "ab"] == ["done", "done"]
    (left,) = task_panel.outputs(site_over(shop), job(shop.store, "a"))
    assert left.name == r"dist/caf\xe9"
    assert task_panel.output(site_over(shop), job(shop.store, "a"), left.name).read_text() == "1\n"


def test_a_branch_whose_name_is_no_text_is_counted_once(archive: GitArchive, proj_git: GitRepository) -> None:
    proj_git.commit("f", "1")
    branch = f"refs/heads/{LATIN}"
    proj_git.git("push", "-q", "origin", f"HEAD:{branch}")
    note = proj_git.path / "custody-spool" / "1.1"
    note.parent.mkdir()
    note.write_text("\n".join(["0" * 40, proj_git.git("rev-parse", "HEAD"), branch, ""]), errors="surrogateescape")
    assert archive.youngest() == 1
    assert archive.update(1).ref == branch
    assert index_file(Path("x"), "proj", branch) == Path("x/proj/index-caf%E9.db")

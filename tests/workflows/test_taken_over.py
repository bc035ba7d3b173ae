"""How much of a commit is taken over, into memory and into the store: whoever can push decides what it says, not how much
room that takes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from custody.formats.text.strict_yaml import MOST_FILES
from custody.kernel.engine import Serving, Settings, Worker
from custody.kernel.model.job import Job
from custody.kernel.stores import Store
from custody.workflows.archives.git import git_reader
from custody.workflows.archives.git.git_objects import Commit, Leaf
from custody.workflows.archives.git.git_reader import Memory
from custody.workflows.archives.notices import reconcile
from custody.workflows.archives.table import Archives
from custody.workflows.commands.archive import app
from custody.workflows.definition.definition import read
from custody.workflows.kinds import planning
from custody.workflows.makers import TASK_KIND, task_key
from custody.workflows.plan.job import revision_item
from custody.workflows.plan.plan_jobs import FAULTY, MOST_TOLD
from workflows.repositories import GitRepository, SvnRepository

TASK = "- {name: build, script: echo built}\n"


def plan(store: Store) -> None:
    Worker(store, Serving((planning(store),)), Settings(lease=6.0)).run_until_quiet()


def faulty(store: Store, revision: int) -> Job:
    job = store.queue.by_key(TASK_KIND, task_key("proj", revision, "commit", FAULTY))
    assert job is not None
    return job


def fill(repository: GitRepository, files: int) -> None:
    (repository.clone / "_workflows").mkdir(exist_ok=True)
    for number in range(files):
        file = repository.clone / "_workflows" / f"{number:04d}.yaml"
        file.write_text(f"- {{name: t{number}, script: 'true'}}\n")


def test_so_many_workflow_files_are_read_and_one_more_is_a_fault_in_words(
    own_store: Store, proj_git: GitRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(proj_git, MOST_FILES)
    proj_git.commit("f", "1")
    proj_git.push()
    reconcile(own_store, Archives(own_store).add("proj", "git", str(proj_git.path), "ada"))
    plan(own_store)
    assert own_store.queue.by_key(TASK_KIND, task_key("proj", 1, "commit", f"t{MOST_FILES - 1}"))
    fill(proj_git, MOST_FILES + 40)
    proj_git.commit("f", "2")
    proj_git.push()
    reconcile(own_store, Archives(own_store).get("proj"))
    asked = list[str]()
    archive = type(Archives(own_store).opened("proj"))
    before = archive.head

    def seen(self: object, revision: int, path: str, *words: object) -> tuple[bytes, int]:
        asked.append(path)
        return before(self, revision, path, *words)  # type: ignore[arg-type]

    monkeypatch.setattr(archive, "head", seen)
    plan(own_store)
    assert f"there are more than {MOST_FILES} workflow files in this revision" in faulty(own_store, 2).facts["reason"]
    assert len(asked) == MOST_FILES + 1, "what is too much is not read"
    done = CliRunner().invoke(app, ["lint", str(proj_git.clone)])
    assert done.exit_code != 0


def test_faults_without_number_are_told_up_to_some_and_how_many_more(own_store: Store, proj_git: GitRepository) -> None:
    proj_git.commit("_workflows/a.yaml", "".join(f"- {{nam: t{number}}}\n" for number in range(5_000)))
    proj_git.push()
    reconcile(own_store, Archives(own_store).add("proj", "git", str(proj_git.path), "ada"))
    plan(own_store)
    told = faulty(own_store, 1).payload["faults"]
    assert len(told) == MOST_TOLD + 1
    assert told[-1] == "and 9,950 more: `custody archive lint` tells all of them"


@pytest.mark.parametrize("system", ["git", "svn"])
def test_a_long_message_and_a_long_name_are_cut_in_the_store_and_the_archive_goes_on(
    request: pytest.FixtureRequest, own_store: Store, system: str
) -> None:
    long = "x" * 3_000_000
    if system == "git":
        git: GitRepository = request.getfixturevalue("proj_git")
        text = f"commit refs/heads/main\ncommitter {long} <a@b> 0 +0000\ndata {len(long)}\n{long}\n"
        argv = ["git", "-C", str(git.path), "fast-import", "--quiet"]
        subprocess.run(argv, input=text.encode(), check=True, capture_output=True)
        where: Path = git.path
    else:
        svn: SvnRepository = request.getfixturevalue("proj_svn")
        file = svn.path.parent / "long"
        file.write_text(long)
        svn.mucc("one", "mkdir", "a")
        for name in ("svn:log", "svn:author"):
            argv = ["svnadmin", "setrevprop", str(svn.path), "-r1", name, str(file)]
            subprocess.run(argv, check=True)
        where = svn.path
    reconcile(own_store, Archives(own_store).add("proj", system, str(where), "ada"))
    plan(own_store)
    item = own_store.records.item(revision_item("proj", 1))
    assert item is not None
    assert (len(item.detail["author"]), len(item.detail["message"])) == (200, 500)
    assert sum(len(str(event.detail)) for event in own_store.records.since(0, 1000)) < 20_000


def test_what_is_remembered_of_commits_and_trees_is_as_much_as_it_may_be() -> None:
    memory = Memory()
    for number in range(100):
        memory.keep_commit(f"{number:040x}", Commit("t", (), "a", "", "x" * (2 << 20)))
        memory.keep_tree(f"{number:040x}", (Leaf(b"a", 0o100644, "b"),) * 9_999)
    assert sum(len(commit.message) for commit in memory.commits.values()) <= git_reader._LETTERS
    assert sum(map(len, memory.trees.values())) <= git_reader._LEAVES
    assert memory.commits
    memory.keep_commit("f" * 40, Commit("t", (), "a", "", "x" * git_reader._LETTERS))
    assert "f" * 40 not in memory.commits, "one that is so long does not push out all others"
    assert memory.commits


def test_a_file_that_is_too_large_and_tasks_that_are_too_many_are_faults() -> None:
    large = read({"_workflows/a.yaml": TASK.encode() + b"#" * (256 << 10)})
    assert "larger than 256 KiB" in large.faults[0].message
    many = read({"_workflows/a.yaml": "".join(f"- {{name: t{number}}}\n" for number in range(1_001)).encode()})
    assert "more than 1000 tasks" in many.faults[0].message

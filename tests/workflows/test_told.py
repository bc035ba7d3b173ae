"""What is amiss with an archive is told wherever one looks, with commands that help when they are pasted."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from custody.cli.doctor.ownership import whose_findings
from custody.errors import Unavailable
from custody.kernel.engine import Serving, Settings, Worker
from custody.kernel.stores import Store, open_store
from custody.workflows.archives.notices import reconcile
from custody.workflows.archives.table import Archives
from custody.workflows.findings import all_amiss
from custody.workflows.kinds import planning, reconcile_all
from custody.workflows.makers import COMMIT_KIND, commit_key
from custody.workflows.patience import hurry
from rig.commands import Run, Said
from workflows.repositories import GitRepository

TASK = "- name: build\n  script: 'true'\n"
NOBODY = 65534


@pytest.fixture
def store(tmp_path: Path, custody: Run) -> Iterator[Store]:
    """The one that commands mean where they are given."""
    with open_store(f"sqlite:///{Path.cwd() / 'custody.db'}") as opened:
        yield opened


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def link(path: Path) -> None:
    aside = Path.cwd() / f"{path.name}-aside"
    shutil.rmtree(aside, ignore_errors=True)
    path.rename(aside)
    path.symlink_to(aside)


def heads(path: Path) -> None:
    link(path.parent)


ODD: dict[str, tuple[str, Callable[[Path], None]]] = {
    "a branch is a pipe": ("refs/heads/main", pipe),
    "a branch is a link": ("refs/heads/main", link),
    "all branches are a link": ("refs/heads/main", heads),
    "HEAD is a pipe": ("HEAD", pipe),
    "HEAD is a link": ("HEAD", link),
}


def told(store: Store) -> list[str]:
    """By `archive list`, and by the doctor."""
    listed = " ".join(text for _, text in all_amiss(store))
    return [listed, " ".join(f"{found.what} {found.do}" for found in whose_findings(store))]


def plan_all(store: Store) -> None:
    hurry(store, "book")
    Worker(store, Serving((planning(store),)), Settings()).run_until_quiet()


@pytest.mark.parametrize("which", ODD)
def test_a_branch_that_cannot_be_read_is_told_and_mends_itself(
    store: Store, custody: Run, proj_git: GitRepository, tmp_path: Path, which: str
) -> None:
    place, spoil = ODD[which]
    proj_git.commit("_workflows/a.yaml", TASK)
    proj_git.push()
    shutil.copytree(proj_git.path, tmp_path / "whole")
    spoil(proj_git.path / place)
    said = custody("archive", "add", "book", str(proj_git.path))
    assert (said.code, "not a" in said.err) == (2, True), said
    assert Archives(store).list() == ()
    with pytest.raises(Unavailable) as caught:
        Archives(store).add("book", "git", str(proj_git.path), "ada")
    assert caught.value.code == "archive.corrupt"
    shutil.rmtree(proj_git.path)
    shutil.copytree(tmp_path / "whole", proj_git.path)
    reconcile(store, Archives(store).add("book", "git", str(proj_git.path), "ada"))
    assert Archives(store).get("book").last == 1
    spoil(proj_git.path / place)
    reconcile_all(store)
    assert "not a" in Archives(store).out_of_reach("book")
    for words in told(store):
        assert "not a" in words
    assert Archives(store).get("book").last == 1, "and it is not taken for a branch that was deleted"
    plan_all(store)
    job = store.queue.by_key(COMMIT_KIND, commit_key("book", 1))
    assert job is not None
    assert job.ended in (None, "passed"), "it waits"
    shutil.rmtree(proj_git.path)
    shutil.copytree(tmp_path / "whole", proj_git.path)
    reconcile_all(store)
    plan_all(store)
    assert Archives(store).out_of_reach("book") == ""
    assert store.queue.get(job.id).ended == "passed"
    assert Archives(store).get("book").last == 1


def test_of_one_branch_that_cannot_be_read_the_others_go_on_and_that_is_said(
    store: Store, proj_git: GitRepository
) -> None:
    proj_git.commit("a", "a")
    proj_git.push()
    reconcile(store, Archives(store).add("book", "git", str(proj_git.path), "ada"))
    proj_git.commit("b", "b")
    proj_git.push()
    os.mkfifo(proj_git.path / "refs/heads/other")  # no git is asked from here on: it would wait for ever
    reconcile_all(store)
    assert Archives(store).get("book").last == 2
    doctors = told(store)[1]
    assert "archive book is taken in but for a part" in doctors
    assert "refs/heads/other is a pipe, a socket or a device" in doctors
    assert "stands still" not in doctors


FAULTY = {
    "wrong": "- name: [\n",
    "twice": TASK + TASK,
    "huge": "# " + "x" * 3_000_000,
    "asks": "- name: a\n  network: [example.org]\n  depends: [nobody]\n",
}


@pytest.mark.parametrize("which", FAULTY)
def test_faulty_workflow_files_are_told_and_nothing_is_asked_for(
    store: Store, custody: Run, proj_git: GitRepository, which: str
) -> None:
    proj_git.commit("_workflows/a.yaml", FAULTY[which])
    proj_git.push()
    reconcile(store, Archives(store).add("book", "git", str(proj_git.path), "ada"))
    plan_all(store)
    said = custody("archive", "list"), custody("doctor")
    for each in said:
        assert "the workflow files of revision 1 have faults" in " ".join(each.out.split()), each
        assert "archive grant" not in each.out
    paste(custody, said[0], "…")
    proj_git.commit("_workflows/a.yaml", TASK)
    proj_git.push()
    reconcile_all(store)
    plan_all(store)
    assert "have faults" not in " ".join(told(store))


def paste(custody: Run, said: Said, why: str = "pasted") -> list[list[str]]:
    """Every command of archives that was told, each run as it stands, in turn."""
    text = " ".join((said.out + said.err).split())
    found = re.findall(
        r"custody (archive (?:add|remove|thaw|grant|log|accept|retry) [^`]*?)(?:`|$| fine | WARNING )", text
    )
    pasted = [shlex.split(words.replace("…", why)) for words in found]
    assert pasted, text
    for words in pasted:
        done = custody(*words)
        assert done.code == 0, (words, done)
    return pasted


def another(path: Path) -> None:
    """Another repository in its place, that is shorter."""
    shutil.rmtree(path)
    subprocess.run(["svnadmin", "create", str(path)], check=True)
    subprocess.run(["svn", "mkdir", "-q", "-m", "one", f"file://{path}/trunk"], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs owners of its own")
@pytest.mark.parametrize("owner", [0, NOBODY], ids=["ours", "theirs"])
@pytest.mark.parametrize("by", ["thaw", "doctor"])
def test_what_is_told_of_a_repository_that_was_replaced_helps(
    store: Store, custody: Run, repository: Any, owner: int, by: str
) -> None:
    for name in ("a", "b", "c"):
        repository.commit(name, {name: name})
    own(repository.path, owner)
    reconcile(store, Archives(store).add("op", "svn", str(repository.path), "ada", foreign="known"))
    plan_all(store)
    another(repository.path)
    own(repository.path, owner)
    reconcile_all(store)
    assert Archives(store).get("op").frozen
    said = custody("archive", "thaw", "op", "--why", "x")
    assert said.code == 3, said
    said = said if by == "thaw" else custody("doctor")
    assert "archive thaw" not in said.out
    assert [words[1] for words in paste(custody, said)][-2:] == ["remove", "add"]
    assert [kept.frozen for kept in Archives(store).list()] == [""]


def own(path: Path, uid: int) -> None:
    for name in (path, *path.rglob("*")):
        os.chown(name, uid, uid, follow_symlinks=False)


def test_what_add_tells_helps(store: Store, custody: Run, repository: Any, proj_git: GitRepository) -> None:
    assert custody("archive", "add", "op", str(repository.path)).code == 0
    said = custody("archive", "add", "op", str(proj_git.path))
    assert said.code == 3, said
    paste(custody, said)
    assert custody("archive", "add", "op", str(repository.path)).code == 0
    said = custody("archive", "add", "other", str(repository.path))
    assert said.code == 3, said
    paste(custody, said)
    assert custody("archive", "add", "other", str(repository.path)).code == 0


def test_thaw_says_when_there_was_nothing_to_thaw(store: Store, custody: Run, repository: Any) -> None:
    assert custody("archive", "add", "op", str(repository.path)).code == 0
    said = custody("archive", "thaw", "op", "--why", "x")
    assert (said.code, "it is not frozen" in said.out) == (0, True), said

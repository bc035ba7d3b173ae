"""The ready-made index: searchable, incremental, and never behind the long tasks of earlier revisions."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from custody.kernel.stores import Store
from custody.workflows.archives.git.git import GitArchive
from custody.workflows.archives.port import read_workflows
from custody.workflows.archives.svn.svn import SvnArchive
from custody.workflows.definition.definition import read
from custody.workflows.makers import QUICK_KIND, task_key
from custody.workflows.tasks.index import Index, index_file, open_index
from workflows.desk import Desk, until
from workflows.repositories import GitRepository, SvnRepository

LONG = "- name: index\n  depends: [PREV]\n  ready: index\n- name: pdf\n  script: sleep 600\n"


def index_job_ended(desk: Desk, revision: int) -> bool:
    job = desk.store.queue.by_key(QUICK_KIND, task_key("proj", revision, "commit", "index"))
    assert job is not None
    return job.ended == "passed"


def test_the_index_is_never_blocked_by_long_tasks_of_earlier_revisions(one_desk: Desk) -> None:
    """More long tasks than a worker has threads are running or waiting, and every index is made all the same."""
    for number in range(1, 7):
        one_desk.commit({"_workflows/a.yaml": LONG, "chapter.txt": f"revision number{number}"})
    one_desk.notify(6)
    with one_desk.working(threads=3, grace=0.1):
        until(lambda: index_job_ended(one_desk, 6))
        running = [one_desk.task(number, "pdf") for number in range(1, 7)]
        assert not any(job.ended for job in running)
        until(lambda: sum(one_desk.task(number, "pdf").holder is not None for number in range(1, 7)) == 2)
        with open_index(index_file(one_desk.shop.kept, "proj")) as index:
            assert index.revision == 6
            assert [hit.path for hit in index.search(["number6"])] == ["chapter.txt"]
            assert index.search(["number5"]) == []
        for number in range(1, 7):
            one_desk.operator.cancel(one_desk.task(number, "pdf").id, "enough")
        until(lambda: all(one_desk.task(number, "pdf").ended for number in range(1, 7)))


def test_a_task_in_the_quick_lane_has_a_thread_kept_for_it(one_desk: Desk) -> None:
    text = "- name: fast\n  lane: quick\n  script: echo fast\n- name: slow\n  script: sleep 600\n"
    for _ in range(3):
        one_desk.commit({"_workflows/a.yaml": text, "n": str(_)})
    one_desk.notify(3)
    with one_desk.working(threads=2, grace=0.1):
        key = task_key("proj", 3, "commit", "fast")
        until(lambda: getattr(one_desk.store.queue.by_key(QUICK_KIND, key), "ended", None) == "passed")
        for number in range(1, 4):
            one_desk.operator.cancel(one_desk.task(number, "slow").id, "enough")
        until(lambda: all(one_desk.task(number, "slow").ended for number in range(1, 4)))


@pytest.fixture
def index(tmp_path: Path) -> Index:
    with open_index(tmp_path / "kept" / "index.db") as opened:
        yield opened  # type: ignore[misc]


def paths(index: Index, *words: str) -> list[str]:
    return sorted(hit.path for hit in index.search(words, 100))


def test_files_folders_copies_properties_and_deletions_are_followed(index: Index, proj_svn: SvnRepository) -> None:
    archive = SvnArchive(str(proj_svn.path))
    proj_svn.mucc("r1", "mkdir", "trunk", "mkdir", "trunk/a", "mkdir", "branches")
    proj_svn.put("trunk/a/letter.txt", b"dear whale")
    proj_svn.put("trunk/picture.bin", b"\x00whale")
    assert index.bring_to(archive, 3) == 2
    assert paths(index, "whale") == ["trunk/a/letter.txt"]
    assert paths(index, "picture") == ["trunk/picture.bin"], "of a binary file only the name is searchable"
    proj_svn.mucc("branch", "cp", "3", "trunk", "branches/x")
    assert index.bring_to(archive, 4) == 2
    assert paths(index, "whale") == ["branches/x/a/letter.txt", "trunk/a/letter.txt"]
    proj_svn.mucc("gone", "rm", "trunk/a")
    proj_svn.mucc("noted", "propset", "subject", "cetacea", "trunk/picture.bin")
    proj_svn.put("branches/x/a/letter.txt", b"dear seal")
    index.bring_to(archive, 7)
    assert paths(index, "whale") == []
    assert paths(index, "dear", "seal") == ["branches/x/a/letter.txt"]
    assert paths(index, "cetacea") == ["trunk/picture.bin"]
    assert index.bring_to(archive, 5) == 0, "it never goes back"


def test_brought_up_step_by_step_or_at_once_it_is_the_same(tmp_path: Path, proj_svn: SvnRepository) -> None:
    archive = SvnArchive(str(proj_svn.path))
    proj_svn.mucc("r1", "mkdir", "a", "mkdir", "a/b")
    proj_svn.put("a/b/one.txt", b"one")
    proj_svn.mucc("moved", "cp", "2", "a/b", "c", "rm", "a/b")
    proj_svn.put("c/one.txt", b"one changed")
    contents = []
    for name, revisions in (("steps", (1, 2, 3, 4)), ("jump", (1, 4)), ("fresh", (4,))):
        with open_index(tmp_path / f"{name}.db") as index:
            for revision in revisions:
                index.bring_to(archive, revision)
            contents.append((index.revision, paths(index, "one"), paths(index, "changed")))
    assert contents[0] == contents[1] == contents[2] == (4, ["c/one.txt"], ["c/one.txt"])


def test_each_branch_of_git_has_its_own_index(tmp_path: Path, proj_git: GitRepository, own_store: Store) -> None:
    archive = GitArchive(proj_git.path, own_store)
    proj_git.commit("a.txt", "whale")
    proj_git.push()
    assert archive.youngest() == 1
    proj_git.git("checkout", "-q", "-b", "side")
    proj_git.commit("b.txt", "seal")
    proj_git.push()
    assert archive.youngest() == 2
    with open_index(index_file(tmp_path, "book", "refs/heads/side")) as side:
        assert side.bring_to(archive, 2) == 2
        assert paths(side, "seal") == ["b.txt"]
    with open_index(index_file(tmp_path, "book", "refs/heads/main")) as main:
        main.bring_to(archive, 1)
        assert paths(main, "seal") == []


@pytest.mark.parametrize("words", [['"'], ["*"], ["NEAR("], ["a", "AND"], ["\0"], [""], ["body:x"]])
def test_nothing_that_is_searched_for_is_taken_for_a_command(index: Index, words: list[str]) -> None:
    assert index.search(words) == []


def test_an_index_that_is_stopped_is_as_it_was(index: Index, proj_svn: SvnRepository) -> None:
    proj_svn.put("a.txt", b"whale")
    assert index.bring_to(SvnArchive(str(proj_svn.path)), 1, lambda: True) is None
    assert index.revision == 0
    assert paths(index, "whale") == []


def test_a_file_larger_than_our_memory_is_indexed_by_its_beginning(
    tmp_path: Path, proj_git: GitRepository, own_store: Store
) -> None:
    archive = GitArchive(proj_git.path, own_store)
    proj_git.commit("film.txt", "whale " + "x" * 40_000_000)
    proj_git.push()
    assert archive.youngest() == 1
    tracemalloc.start()
    try:
        with open_index(index_file(tmp_path, "book", "refs/heads/main")) as index:
            index.bring_to(archive, 1)
            assert paths(index, "whale") == ["film.txt"]
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_a_workflow_file_that_is_far_too_large_is_not_read_whole(proj_git: GitRepository, own_store: Store) -> None:
    archive = GitArchive(proj_git.path, own_store)
    proj_git.commit("_workflows/a.yaml", "#" * 5_000_000)
    proj_git.push()
    assert archive.youngest() == 1
    files, _ = read_workflows(archive, 1)
    assert len(files["_workflows/a.yaml"]) < 300_000
    assert "larger than 256 KiB" in read(files).faults[0].message

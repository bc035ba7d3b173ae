"""git repositories, real ones: updates of branches are revisions with numbers of their own."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path

import pytest

from custody.errors import NotFound, Unavailable
from custody.kernel.stores import Store
from custody.workflows.archives import hook_spool, hooks
from custody.workflows.archives.git.git import GitArchive
from custody.workflows.archives.git.git_journal import Journal
from custody.workflows.archives.port import Change, Entry, read_workflows
from workflows.repositories import GitRepository

ZERO = "0" * 40


@pytest.fixture
def store(own_store: Store) -> Store:
    return own_store


@pytest.fixture
def archive(proj_git: GitRepository, store: Store) -> GitArchive:
    return GitArchive(proj_git.path, store)


def test_a_push_is_one_revision_however_many_commits_it_has(proj_git: GitRepository, archive: GitArchive) -> None:
    assert archive.youngest() == 0
    proj_git.commit("a", "1")
    proj_git.commit("b", "2")
    proj_git.push()
    assert archive.youngest() == 1
    tip = proj_git.commit("_workflows/main.yaml", "- name: x\n", "third\n\nwith a body")
    proj_git.push()
    assert archive.youngest() == 2
    assert read_workflows(archive, 2) == ({"_workflows/main.yaml": b"- name: x\n"}, ["_workflows/main.yaml"])
    assert read_workflows(archive, 1) == ({}, [])
    meta = archive.meta(2)
    assert (meta.id, meta.author, meta.message) == (tip, "Ann <ann@example.org>", "third\n\nwith a body")
    assert meta.properties["git:ref"] == "refs/heads/main"
    assert archive.changed(2) == [Change("_workflows/main.yaml", "added")]
    assert {change.path for change in archive.changed(1)} == {"a", "b"}
    assert archive.parents(2) == (1,)
    assert archive.parents(1) == ()


def test_a_hook_and_a_look_at_the_branches_count_the_same_update_once(
    proj_git: GitRepository, archive: GitArchive
) -> None:
    first = proj_git.commit("a", "1")
    proj_git.push()
    assert archive.record("refs/heads/main", ZERO, first) == 1
    assert archive.record("refs/heads/main", ZERO, first) == 1
    second = proj_git.commit("a", "2")
    proj_git.push()
    assert archive.youngest() == 2
    assert archive.record("refs/heads/main", first, second) == 2
    assert archive.youngest() == 2


def test_a_hook_that_comes_too_late_is_a_known_update(proj_git: GitRepository, archive: GitArchive) -> None:
    commits = []
    for number in range(3):
        commits.append(proj_git.commit("a", str(number)))
        proj_git.push()
    assert archive.record("refs/heads/main", commits[1], commits[2]) == 1
    assert archive.record("refs/heads/main", commits[0], commits[1]) == 1  # contained in it
    assert archive.record("refs/heads/main", ZERO, commits[0]) == 1
    assert archive.youngest() == 1


def test_a_branch_set_back_and_forth_is_counted_each_time(proj_git: GitRepository, archive: GitArchive) -> None:
    one = proj_git.commit("a", "1")
    proj_git.push()
    two = proj_git.commit("a", "2")
    proj_git.push()
    assert archive.record("refs/heads/main", ZERO, one) == 1
    assert archive.record("refs/heads/main", one, two) == 2
    proj_git.push("--force", "origin", f"{one}:refs/heads/main")
    assert archive.record("refs/heads/main", two, one) == 3
    proj_git.push("origin", f"{two}:refs/heads/main")
    assert archive.record("refs/heads/main", one, two) == 4
    assert archive.youngest() == 4


def test_tags_deletions_and_unknown_commits_are_no_revisions(proj_git: GitRepository, archive: GitArchive) -> None:
    tip = proj_git.commit("a", "1")
    proj_git.push()
    proj_git.push("origin", f"{tip}:refs/heads/other", f"{tip}:refs/tags/v1")
    assert archive.youngest() == 2
    assert archive.record("refs/tags/v1", ZERO, tip) is None
    proj_git.push("origin", ":refs/heads/other")
    assert archive.record("refs/heads/other", tip, ZERO) is None
    assert archive.youngest() == 2
    proj_git.push("origin", f"{tip}:refs/heads/other")  # made again: a new revision
    assert archive.youngest() == 3
    with pytest.raises(NotFound):
        archive.record("refs/heads/main", tip, "1" * 40)


def test_a_merge_has_both_tips_as_parents(proj_git: GitRepository, archive: GitArchive) -> None:
    proj_git.commit("base", "1")
    proj_git.push()
    assert archive.youngest() == 1
    proj_git.git("checkout", "-q", "-b", "side")
    proj_git.commit("side", "1")
    proj_git.commit("side", "2")
    proj_git.push()
    assert archive.youngest() == 2
    proj_git.git("checkout", "-q", "main")
    proj_git.commit("main", "1")
    proj_git.push()
    assert archive.youngest() == 3
    proj_git.git("merge", "-q", "--no-ff", "-m", "merge", "side")
    proj_git.push()
    assert archive.youngest() == 4
    assert {number: archive.parents(number) for number in (1, 2, 3, 4)} == {
        1: (),
        2: (1,),
        3: (1,),
        4: (2, 3),
    }


def test_a_forced_push_is_a_new_line_from_where_the_histories_meet(
    proj_git: GitRepository, archive: GitArchive
) -> None:
    base = proj_git.commit("a", "1")
    proj_git.push()
    assert archive.youngest() == 1
    proj_git.commit("a", "2")
    proj_git.push()
    assert archive.youngest() == 2
    proj_git.git("reset", "-q", "--hard", base)
    proj_git.commit("a", "other")
    proj_git.push("--force")
    assert archive.youngest() == 3
    assert archive.parents(3) == (1,)
    proj_git.git("checkout", "-q", "--orphan", "fresh")
    proj_git.commit("b", "1")
    proj_git.push("--force", "origin", "HEAD:main")
    assert archive.youngest() == 4
    assert archive.parents(4) == ()


def test_a_branch_from_the_middle_of_a_push_follows_the_nearest_recorded_one(
    proj_git: GitRepository, archive: GitArchive
) -> None:
    proj_git.commit("a", "1")
    proj_git.push()
    assert archive.youngest() == 1
    middle = proj_git.commit("a", "2")
    proj_git.commit("a", "3")
    proj_git.push()
    assert archive.youngest() == 2
    proj_git.git("checkout", "-q", "-b", "side", middle)
    proj_git.commit("b", "1")
    proj_git.push()
    assert archive.youngest() == 3
    assert archive.parents(3) == (1,)
    proj_git.push("origin", f"{middle}:refs/heads/again")
    assert archive.youngest() == 4
    assert archive.parents(4) == (1,)


def test_a_second_branch_on_the_same_commit_follows_the_first(proj_git: GitRepository, archive: GitArchive) -> None:
    tip = proj_git.commit("a", "1")
    proj_git.push()
    assert archive.youngest() == 1
    proj_git.push("origin", f"{tip}:refs/heads/copy")
    assert archive.youngest() == 2
    assert archive.parents(2) == (1,)


def test_the_export_is_the_whole_commit_whatever_its_attributes_say(
    proj_git: GitRepository, archive: GitArchive, tmp_path: Path
) -> None:
    (proj_git.clone / ".gitattributes").write_text("hidden export-ignore\nstamp export-subst\n*.x filter=run\n")
    (proj_git.clone / "hidden").write_text("still here")
    (proj_git.clone / "stamp").write_text("$Format:%H$")
    (proj_git.clone / "link").symlink_to("/etc/passwd")
    proj_git.commit("dir/ünï cödé.x", "1\r\n")
    proj_git.push()
    archive.youngest()
    archive.export(1, tmp_path / "out")
    assert (tmp_path / "out/hidden").read_text() == "still here"
    assert (tmp_path / "out/stamp").read_text() == "$Format:%H$"
    assert (tmp_path / "out/dir/ünï cödé.x").read_bytes() == b"1\r\n"
    assert os.readlink(tmp_path / "out/link") == "/etc/passwd"
    assert not (tmp_path / "out/.git").exists()
    assert archive.list(1, "dir") == [Entry("dir/ünï cödé.x", is_folder=False)]


def test_what_is_not_there_is_not_found(proj_git: GitRepository, archive: GitArchive, tmp_path: Path) -> None:
    proj_git.commit("f", "1")
    proj_git.push()
    archive.youngest()
    for ask in (
        lambda: archive.read(1, "nothing"),
        lambda: archive.read(1, "../f"),
        lambda: archive.list(1, "nothing"),
        lambda: archive.list(1, "f"),
        lambda: archive.meta(2),
        lambda: archive.parents(0),
        lambda: archive.export(9, tmp_path / "out"),
    ):
        with pytest.raises(NotFound):
            ask()


def test_a_repository_that_is_not_there_is_unavailable(tmp_path: Path, store: Store) -> None:
    with pytest.raises(Unavailable):
        GitArchive(tmp_path / "nothing", store).youngest()


def test_a_repository_of_somebody_else_can_be_read(proj_git: GitRepository, archive: GitArchive) -> None:
    proj_git.commit("f", "1")
    proj_git.push()
    if os.geteuid() != 0:
        pytest.skip("needs another owner")
    for folder, _, files in os.walk(proj_git.path):
        for name in (folder, *(os.path.join(folder, file) for file in files)):
            os.chown(name, 65534, 65534)
    assert archive.youngest() == 1


def test_another_repository_has_another_uuid(
    proj_git: GitRepository, archive: GitArchive, store: Store, tmp_path: Path
) -> None:
    assert archive.uuid() == archive.uuid()
    proj_git.git("init", "-q", "--bare", str(tmp_path / "second.git"))
    assert GitArchive(tmp_path / "second.git", store).uuid() != archive.uuid()


def test_numbers_are_given_once_however_many_ask(proj_git: GitRepository, archive: GitArchive, store: Store) -> None:
    tips = []
    for number in range(6):
        tips.append(proj_git.commit("a", str(number)))
        proj_git.push("origin", f"HEAD:refs/heads/b{number}")
    asked = [threading.Thread(target=archive.youngest) for _ in range(4)]
    for thread in asked:
        thread.start()
    for thread in asked:
        thread.join()
    assert [update.number for update in Journal(store, archive.uuid()).updates()] == [1, 2, 3, 4, 5, 6]


def test_what_an_earlier_version_counted_goes_on(proj_git: GitRepository, archive: GitArchive, store: Store) -> None:
    """Its name was in the repository's configuration, its count in a file beside; half a line was told to nobody."""
    first = proj_git.commit("a", "1")
    proj_git.push()
    second = proj_git.commit("a", "2")
    proj_git.push()
    name = "0b8a4d1c-6c0e-4c52-9f4e-8d8a3b0f2a11"
    proj_git.git("--git-dir", str(proj_git.path), "config", "custody.uuid", name)
    lines = [
        {"number": 1, "ref": "refs/heads/main", "old": ZERO, "new": first},
        {"number": 0, "ref": "refs/heads/gone", "old": first, "new": ZERO},
    ]
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (proj_git.path / "custody-journal").write_text(text + text[:30])
    config = (proj_git.path / "config").read_bytes()
    assert (archive.uuid(), archive.youngest()) == (name, 2)
    assert [archive.update(number).new for number in (1, 2)] == [first, second]
    assert (proj_git.path / "config").read_bytes() == config, "it is its owner's"
    assert GitArchive(proj_git.path, store).youngest() == 2, "and it is taken over once"


def test_a_repository_is_known_again_where_it_was_moved_to_and_another_in_its_place_is_not(
    proj_git: GitRepository, archive: GitArchive, store: Store, tmp_path: Path
) -> None:
    proj_git.commit("a", "1")
    proj_git.push()
    assert archive.youngest() == 1
    before, moved = archive.uuid(), tmp_path / "moved.git"
    os.rename(proj_git.path, moved)
    assert GitArchive(moved, store).uuid() == before
    proj_git.git("init", "-q", "--bare", str(proj_git.path))
    assert GitArchive(proj_git.path, store).uuid() != before


def test_every_push_is_a_revision_however_late_its_hook_is_heard(proj_git: GitRepository, archive: GitArchive) -> None:
    """Five pushes while nobody listens: forwards, a branch and its end, backwards by force. Each left a note."""
    hooks.install(proj_git.path, ["/bin/false"])
    one = proj_git.commit("a", "1")
    proj_git.push()
    two = proj_git.commit("a", "2")
    proj_git.push()
    proj_git.push("origin", f"{one}:refs/heads/side")
    proj_git.push("origin", ":refs/heads/side")
    proj_git.push("--force", "origin", f"{one}:refs/heads/main")
    proj_git.push("origin", f"{two}:refs/heads/main")
    assert archive.youngest() == 5
    told = {
        number: (archive.update(number).ref.removeprefix("refs/heads/"), archive.update(number).new)
        for number in range(1, 6)
    }
    assert sorted(told.values()) == sorted([("main", one), ("main", two), ("side", one), ("main", one), ("main", two)])
    assert [tip for branch, tip in told.values() if branch == "main"] == [one, two, one, two]
    assert hook_spool.spooled(proj_git.path) == []
    assert archive.youngest() == 5


def test_notes_are_counted_in_the_order_of_pushes(proj_git: GitRepository, archive: GitArchive) -> None:
    hooks.install(proj_git.path, ["/bin/false"])
    tips = []
    for number in range(4):
        tips.append(proj_git.commit("a", str(number)))
        proj_git.push()
    for age, note in enumerate(hook_spool.spooled(proj_git.path)):
        os.utime(proj_git.path / hook_spool.SPOOL / note.name, (1000 - age, 1000 - age))  # the clock went backwards
    assert archive.youngest() == 4
    assert [archive.update(number).new for number in range(1, 5)] == tips


def test_a_commit_that_was_pushed_away_and_cleared_away_does_not_hold_up_the_others(
    proj_git: GitRepository, archive: GitArchive
) -> None:
    tip = proj_git.commit("a", "1")
    proj_git.push()
    (proj_git.path / hook_spool.SPOOL).mkdir()
    (proj_git.path / hook_spool.SPOOL / "note").write_text(f"{ZERO}\n{'5' * 40}\nrefs/heads/main\n")
    assert archive.youngest() == 1
    assert archive.update(1).new == tip


def test_a_history_of_merges_whose_dates_are_in_disorder_is_walked_once(
    proj_git: GitRepository, archive: GitArchive
) -> None:
    """Thirty diamonds are a thousand million ways; a commit that is older than what it follows is told last."""
    git = proj_git.path
    tree = made(git, "mktree")

    def commit(date: int, *parents: str) -> str:
        words = [word for parent in parents for word in ("-p", parent)]
        return made(git, "commit-tree", tree, *words, "-m", "x", date=date)

    tip = commit(1_000)
    for step in range(30):
        left, right = (commit(2_000_000 + step * 10 + side, tip) for side in (1, 2))
        tip = commit(2_000_003 + step * 10, left, right)
    late = commit(5, tip)  # somebody's clock is wrong
    top = commit(3_000_000, tip, late)
    made(git, "update-ref", "refs/heads/main", top)
    assert archive.youngest() == 1
    found: list[tuple[int, ...]] = []
    asking = threading.Thread(target=lambda: found.append(archive.parents(1)), daemon=True)
    asking.start()
    asking.join(60)
    assert found == [()]


def made(repository: Path, *words: str, date: int = 0) -> str:
    people = {f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    dates = {f"GIT_{who}_DATE": f"@{date} +0000" for who in ("AUTHOR", "COMMITTER")}
    argv = ["git", f"--git-dir={repository}", *words]
    done = subprocess.run(
        argv, input="", capture_output=True, text=True, check=True, env={**os.environ, **people, **dates}
    )
    return done.stdout.strip()


def test_a_commit_is_looked_for_only_in_pushes_that_can_have_brought_it(
    proj_git: GitRepository, archive: GitArchive
) -> None:
    for number in range(4):
        proj_git.commit("f", str(number), f"more\n\nCustody-Lineage: a\nCustody-Commit: 7.0.{number}")
        proj_git.push()
        archive.youngest()
    assert archive.committed("7.0.3", since=3) == 4
    assert archive.committed("7.0.3", since=4) is None
    assert archive.committed("7.0.1", since=2) is None
    assert archive.committed("7.0.1", since=0) == 2

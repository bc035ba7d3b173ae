"""How large a working copy may be: told before the disk is full, with what to set; git, Subversion and folders."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from custody.errors import Refused, Unavailable
from custody.kernel.stores import Store
from custody.workflows.archives.folder import FolderArchive
from custody.workflows.archives.git.git import GitArchive
from custody.workflows.archives.port import Archive
from custody.workflows.archives.svn.svn import SvnArchive
from custody.workflows.archives.working_copy import write_out
from custody.workflows.archives.working_copy.size_limits import LIMITS, Limits
from custody.workflows.archives.working_copy.write_out import Into
from custody.workflows.kinds import WorkflowConfig, open_shop
from workflows.repositories import GitRepository, SvnRepository

FILES = {f"a/b/{number}.txt": "x" * 100 for number in range(6)}


def given(repository: GitRepository, *words: str, text: str) -> str:
    argv = ["git", "-C", str(repository.clone), *words]
    return subprocess.run(argv, input=text, capture_output=True, text=True, check=True).stdout.strip()


def with_git(request: pytest.FixtureRequest, store: Store) -> Archive:
    repository: GitRepository = request.getfixturevalue("proj_git")
    for name, text in FILES.items():
        (repository.clone / name).parent.mkdir(parents=True, exist_ok=True)
        (repository.clone / name).write_text(text)
    repository.commit("a/b/0.txt", "x" * 100)
    repository.push()
    archive = GitArchive(repository.path, store)
    assert archive.youngest() == 1
    return archive


def with_svn(request: pytest.FixtureRequest, store: Store) -> Archive:
    repository: SvnRepository = request.getfixturevalue("proj_svn")
    draft = repository.path.parent / "draft"
    draft.write_text("x" * 100)
    words = [word for name in FILES for word in ("put", str(draft), name)]
    repository.mucc("one", "mkdir", "a", "mkdir", "a/b", *words)
    return SvnArchive(str(repository.path))


def with_server(request: pytest.FixtureRequest, store: Store) -> Archive:
    with_svn(request, store)
    return SvnArchive(request.getfixturevalue("svn_server"), username="ann", password="open sesame")


def with_folders(request: pytest.FixtureRequest, store: Store) -> Archive:
    place: Path = request.getfixturevalue("tmp_path")
    for name, text in FILES.items():
        (place / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        (place / "source" / name).write_text(text)
    archive = FolderArchive.make(place / "kept")
    archive.keep(place / "source", "one", "ada")
    return archive


@pytest.mark.parametrize("kind", [with_git, with_svn, with_server, with_folders], ids=lambda kind: kind.__name__)
def test_a_working_copy_is_as_large_as_it_may_be_and_no_larger(
    request: pytest.FixtureRequest, own_store: Store, tmp_path: Path, kind: object
) -> None:
    archive = kind(request, own_store)  # type: ignore[operator]
    archive.export(1, tmp_path / "whole", limits=Limits(files=8, bytes=600, depth=3))
    assert len(list((tmp_path / "whole/a/b").iterdir())) == 6
    tries = [
        (Limits(files=7), "checkout_files"),
        (Limits(bytes=599), "checkout_bytes"),
        (Limits(depth=2), "checkout_depth"),
    ]
    for number, (limits, setting) in enumerate(tries):
        with pytest.raises(Refused) as refused:
            archive.export(1, tmp_path / f"out-{number}", limits=limits)
        assert (refused.value.code, setting in refused.value.hint) == ("archive.large", True)


def test_a_few_trees_that_stand_for_more_files_than_there_are_atoms_are_refused_at_once(
    own_store: Store, proj_git: GitRepository, tmp_path: Path
) -> None:
    blob = given(proj_git, "hash-object", "-w", "--stdin", text="x")
    tree = given(proj_git, "mktree", text="".join(f"100644 blob {blob}\t{number}\n" for number in range(10)))
    for _ in range(10):
        tree = given(proj_git, "mktree", text="".join(f"040000 tree {tree}\t{number}\n" for number in range(10)))
    commit = proj_git.git("commit-tree", tree, "-m", "a bomb")
    proj_git.git("update-ref", "refs/heads/main", commit)
    proj_git.push("origin", "main")
    archive = GitArchive(proj_git.path, own_store)
    archive.youngest()
    begun = time.monotonic()
    with pytest.raises(Refused) as refused:
        archive.export(1, tmp_path / "out", limits=Limits(files=100_000))
    assert refused.value.code == "archive.large"
    assert time.monotonic() - begun < 20
    assert list((tmp_path / "out").iterdir()) == [], "told before anything is written"


def test_folders_two_thousand_deep_are_refused(own_store: Store, proj_git: GitRepository, tmp_path: Path) -> None:
    path = "/".join(["d"] * 2_000)
    told = f"commit refs/heads/main\ncommitter a <a@b> 0 +0000\ndata 0\nM 100644 inline {path}\ndata 1\nx\n\n"
    given(proj_git, "fast-import", "--quiet", text=told)
    proj_git.push("origin", "main")
    archive = GitArchive(proj_git.path, own_store)
    archive.youngest()
    with pytest.raises(Refused) as refused:
        archive.export(1, tmp_path / "out")
    assert "checkout_depth" in refused.value.hint


def test_a_large_file_that_was_packed_small_is_refused_before_it_is_written(
    own_store: Store, proj_git: GitRepository, tmp_path: Path
) -> None:
    with (proj_git.clone / "zeros").open("wb") as file:
        os.truncate(file.fileno(), 50 << 20)
    proj_git.commit("a.txt", "a")
    proj_git.push()
    archive = GitArchive(proj_git.path, own_store)
    archive.youngest()
    with pytest.raises(Refused):
        archive.export(1, tmp_path / "out", limits=Limits(bytes=20 << 20))
    assert not (tmp_path / "out" / "zeros").exists()


def test_a_path_that_no_program_could_open_is_refused(
    own_store: Store, proj_git: GitRepository, tmp_path: Path
) -> None:
    path = "/".join(["d" * 200] * 21)
    told = f"commit refs/heads/main\ncommitter a <a@b> 0 +0000\ndata 0\nM 100644 inline {path}\ndata 1\nx\n\n"
    given(proj_git, "fast-import", "--quiet", text=told)
    proj_git.push("origin", "main")
    archive = GitArchive(proj_git.path, own_store)
    archive.youngest()
    with pytest.raises(Refused, match=r"has a path of 4,\d\d\d bytes") as refused:
        archive.export(1, tmp_path / "out")
    assert refused.value.code == "archive.name"


def test_what_does_not_fit_is_told_before_any_of_it_is_asked_for(tmp_path: Path) -> None:
    with Into(tmp_path, "here", Limits(bytes=10)) as place:
        place.expect(10)
        with pytest.raises(Refused) as refused:
            place.expect(11)
    assert "checkout_bytes" in refused.value.hint


@pytest.mark.parametrize("kind", [with_git, with_svn], ids=lambda kind: kind.__name__)
def test_a_disk_that_is_nearly_full_is_left_its_rest(
    request: pytest.FixtureRequest, own_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: object
) -> None:
    archive = kind(request, own_store)  # type: ignore[operator]
    monkeypatch.setattr(write_out, "KEEP_FREE", 1 << 60)
    with pytest.raises(Unavailable) as full:
        archive.export(1, tmp_path / "out")
    assert full.value.code == "disk.full"


def test_what_is_configured_holds_for_tasks(own_store: Store, tmp_path: Path) -> None:
    assert WorkflowConfig().checkout_files == LIMITS.files
    shop = open_shop(own_store, WorkflowConfig(checkout_files=7, checkout_bytes=8, checkout_depth=9), tmp_path)
    assert shop.limits == Limits(7, 8, 9)
    shop.sandboxes.__exit__(None, None, None)

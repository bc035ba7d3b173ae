"""What a task commits keeps its mode, wherever it goes; links and odd names are told in words; hooks read nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from custody.border import modes
from custody.errors import BadInput, Refused
from custody.kernel.stores import Store
from custody.workflows.archives.folder import FolderArchive
from custody.workflows.archives.git.git import GitArchive
from custody.workflows.archives.port import Archive
from custody.workflows.archives.processes.vcs_process import call
from custody.workflows.archives.svn.svn import SvnArchive
from custody.workflows.archives.working_copy.draft import Draft, gather
from workflows.repositories import GitRepository, SvnRepository


@pytest.fixture(params=["svn", "git", "folder"])
def archive(request: pytest.FixtureRequest, own_store: Store, tmp_path: Path) -> Archive:
    """With one revision: a file, a program and (where there are any) a link."""
    if request.param == "svn":
        svn: SvnRepository = request.getfixturevalue("proj_svn")
        svn.put("plain", b"plain")
        svn.put("program", b"program")
        svn.mucc("it runs", "propset", "svn:executable", "*", "program")
        svn.put("link", b"link plain")
        svn.mucc("a link", "propset", "svn:special", "*", "link")
        return SvnArchive(str(svn.path))
    if request.param == "git":
        git: GitRepository = request.getfixturevalue("proj_git")
        (git.clone / "program").write_text("program")
        (git.clone / "program").chmod(0o755)
        (git.clone / "link").symlink_to("plain")
        git.commit("plain", "plain")
        git.push()
        return GitArchive(git.path, own_store)
    kept = FolderArchive.make(tmp_path / "kept")
    source = tmp_path / "source"
    source.mkdir()
    (source / "plain").write_text("plain")
    (source / "program").write_text("program")
    (source / "program").chmod(0o755)
    kept.keep(source, "one", "ada")
    return kept


def committed(archive: Archive, work: Path, paths: list[str], into: Path) -> int | None:
    base = archive.youngest()
    found = gather(work, paths, archive, base, into)
    if not found.put and not found.gone:
        return None
    return archive.commit(Draft("made", base, found.put, found.gone, ["task"], f"1.0.{base}.word"), 60)


def test_a_program_stays_one_and_what_was_one_can_cease_to_be(archive: Archive, tmp_path: Path) -> None:
    work = tmp_path / "work"
    archive.export(archive.youngest(), work)
    assert os.access(work / "program", os.X_OK)
    assert not os.access(work / "plain", os.X_OK)
    assert committed(archive, work, ["plain", "program"], tmp_path / "nothing") is None, "nothing has changed"
    (work / "new").write_text("new")
    (work / "new").chmod(0o755)
    (work / "plain").chmod(0o755)
    (work / "program").chmod(0o644)
    revision = committed(archive, work, ["plain", "program", "new"], tmp_path / "drafts")
    assert revision is not None
    archive.export(revision, tmp_path / "out")
    runs = {name: os.access(tmp_path / "out" / name, os.X_OK) for name in ("plain", "program", "new")}
    assert runs == {"plain": True, "program": False, "new": True}


def test_a_link_that_was_there_may_stay_and_no_other_is_committed(archive: Archive, tmp_path: Path) -> None:
    work = tmp_path / "work"
    archive.export(archive.youngest(), work / "all")
    if (work / "all" / "link").is_symlink():
        (work / "all" / "link").rename(work / "link")
        os.rename(work / "all" / "plain", work / "plain")
        assert committed(archive, work, ["link", "plain"], tmp_path / "nothing") is None
        (work / "link").unlink()
    (work / "link").symlink_to("/etc/passwd")
    with pytest.raises(Refused, match="link is a link, and only files are committed") as refused:
        committed(archive, work, ["link"], tmp_path / "drafts")
    assert refused.value.code == "name.blocked"


def test_a_name_with_a_line_break_is_told_as_such(archive: Archive, tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "folder").mkdir(parents=True)
    (work / "folder" / "a\nb").write_text("odd")
    with pytest.raises(BadInput, match="has a line break in its name"):
        committed(archive, work, ["folder"], tmp_path / "drafts")


def test_a_hook_that_reads_what_it_is_given_reads_nothing_and_the_commit_is_made(
    proj_svn: SvnRepository, tmp_path: Path
) -> None:
    proj_svn.put("plain", b"plain")
    hooks = proj_svn.path / "hooks"
    (hooks / "helper").write_text("#!/bin/sh\necho helped\n")
    (hooks / "helper").chmod(0o755)
    for name in ("start-commit", "pre-commit", "post-commit"):
        text = f'#!/bin/sh\ncat > "$1/{name}-read"\n"$(dirname "$0")/helper" >> "$1/{name}-read"\n'
        (hooks / name).write_text(text)
        (hooks / name).chmod(0o755)
    archive = SvnArchive(str(proj_svn.path))
    file = tmp_path / "file"
    file.write_text("more")
    assert archive.commit(Draft("made", 1, {"more": file}, [], ["task"], "1.0.0.word"), 30) == 2
    for name in ("start-commit", "pre-commit", "post-commit"):
        assert (proj_svn.path / f"{name}-read").read_text() == "helped\n"


def test_what_a_tool_writes_into_a_repository_is_as_readable_as_before() -> None:
    """Others read it too, and their rights are the business of whoever started us."""
    before = os.umask(0o027)
    try:
        with modes.decided():
            assert os.umask(0o077) == 0o077
            assert call(["sh", "-c", "umask"]) == b"0027\n"
        assert call(["sh", "-c", "umask"]) == b"0027\n"
    finally:
        os.umask(before)

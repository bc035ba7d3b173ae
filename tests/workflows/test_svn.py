"""Subversion repositories, real ones, over every way they are reached."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from custody.errors import BadInput, NotFound, Unavailable
from custody.workflows.archives.port import Archive, Change, Entry, read_workflows
from custody.workflows.archives.svn.svn import SvnArchive
from workflows.repositories import SvnRepository


@pytest.fixture(params=["path", "file", "svn"])
def archive(request: pytest.FixtureRequest, proj_svn: SvnRepository) -> Archive:
    """The same repository by its path, as file:// and through a server."""
    if request.param == "svn":
        return SvnArchive(request.getfixturevalue("svn_server"), username="ann", password="open sesame")
    return SvnArchive(str(proj_svn.path) if request.param == "path" else proj_svn.url)


def test_a_new_repository_has_no_revisions(archive: Archive) -> None:
    assert archive.youngest() == 0
    assert len(archive.uuid()) == 36
    assert archive.list(0, "") == []


def test_files_are_listed_and_read_as_they_were_at_a_revision(archive: Archive, proj_svn: SvnRepository) -> None:
    proj_svn.mucc("folder", "mkdir", "_workflows")
    proj_svn.put("_workflows/main.yaml", b"- name: one\n")
    proj_svn.put("_workflows/main.yaml", b"- name: two\n")
    assert archive.youngest() == 3
    assert archive.list(3, "_workflows") == [Entry("_workflows/main.yaml", is_folder=False)]
    assert archive.list(1, "_workflows") == []
    assert archive.list(2, "") == [Entry("_workflows", is_folder=True)]
    assert [archive.read(revision, "_workflows/main.yaml") for revision in (2, 3)] == [
        b"- name: one\n",
        b"- name: two\n",
    ]
    assert read_workflows(archive, 3) == (
        {"_workflows/main.yaml": b"- name: two\n"},
        ["_workflows/main.yaml"],
    )
    assert read_workflows(archive, 0) == ({}, [])


@pytest.mark.parametrize("name", ["with space", "at@12", "per%cent", "#hash?", "ünï", "d-ash", "a'b\"c", "semi;$(id)"])
def test_awkward_names_are_only_names(proj_svn: SvnRepository, name: str) -> None:
    archive = SvnArchive(str(proj_svn.path))
    quoted = name.replace("%", "%25").replace("#", "%23").replace("?", "%3F")
    proj_svn.put(quoted, name.encode())
    assert archive.list(1, "") == [Entry(name, is_folder=False)]
    assert archive.read(1, name) == name.encode()
    assert [change.path for change in archive.changed(1)] == [name]


def test_what_is_known_of_a_revision(archive: Archive, proj_svn: SvnRepository) -> None:
    message = "Überschrift\n\nzweite Zeile <&> ]]>"
    proj_svn.mucc(message, "mkdir", "a", options=("--with-revprop", "custody:task=r1:index", "-u", "bob"))
    meta = archive.meta(1)
    assert (meta.revision, meta.id, meta.author, meta.message) == (1, "1", "bob", message)
    assert meta.properties == {"custody:task": "r1:index"}
    assert meta.date.endswith("Z")


def test_changed_paths_with_their_copies(archive: Archive, proj_svn: SvnRepository) -> None:
    proj_svn.mucc("one", "mkdir", "trunk")
    proj_svn.put("trunk/a", b"1")
    proj_svn.mucc("three", "cp", "2", "trunk", "branch", "rm", "trunk/a")
    proj_svn.put("branch/a", b"2")
    assert sorted(archive.changed(3), key=lambda change: change.path) == [
        Change("branch", "added", "trunk", 2),
        Change("trunk/a", "deleted"),
    ]
    assert archive.changed(4) == [Change("branch/a", "changed")]


def test_a_revision_is_exported_whole_and_nothing_else(
    archive: Archive, proj_svn: SvnRepository, tmp_path: Path
) -> None:
    proj_svn.mucc("one", "mkdir", "d")
    proj_svn.put("d/f", b"$Id$ kept as it is\r\n")
    proj_svn.mucc("props", "propset", "svn:keywords", "Id", "d/f")
    proj_svn.mucc("out", "propset", "svn:externals", f"{proj_svn.url}/d stolen", "d")
    target = tmp_path / "out"
    target.mkdir()
    archive.export(4, target)
    assert (target / "d/f").read_bytes() == b"$Id$ kept as it is\r\n"
    assert sorted(str(path.relative_to(target)) for path in target.rglob("*")) == ["d", "d/f"]
    archive.export(1, tmp_path / "older")
    assert list((tmp_path / "older/d").iterdir()) == []


def test_a_link_in_the_archive_stays_a_link(proj_svn: SvnRepository, tmp_path: Path) -> None:
    proj_svn.put("l", b"link /etc/passwd")
    proj_svn.mucc("special", "propset", "svn:special", "*", "l")
    SvnArchive(str(proj_svn.path)).export(2, tmp_path / "out")
    assert os.readlink(tmp_path / "out/l") == "/etc/passwd"


def test_what_is_not_there_is_not_found(archive: Archive, proj_svn: SvnRepository) -> None:
    proj_svn.put("f", b"x")
    for ask in (
        lambda: archive.read(1, "nothing"),
        lambda: archive.read(1, "../f"),
        lambda: archive.list(1, "nothing"),
        lambda: archive.list(1, "f"),
        lambda: archive.meta(7),
        lambda: archive.changed(7),
        lambda: archive.read(7, "f"),
        lambda: archive.export(7, Path("/nonexistent")),
    ):
        with pytest.raises(NotFound):
            ask()


def test_a_repository_that_does_not_answer_is_unavailable(proj_svn: SvnRepository, tmp_path: Path) -> None:
    nowhere = SvnArchive(str(tmp_path / "nothing"))
    closed = SvnArchive("svn://127.0.0.1:1/proj")
    for archive in (nowhere, closed):
        for ask in (archive.youngest, archive.uuid, lambda archive=archive: archive.read(1, "f")):
            with pytest.raises(Unavailable) as caught:
                ask()
            assert caught.value.where == archive.where


def test_a_wrong_password_is_told_as_such(svn_server: str) -> None:
    with pytest.raises(Unavailable) as caught:
        SvnArchive(svn_server, username="ann", password="wrong").youngest()
    assert caught.value.code == "archive.forbidden"


@pytest.mark.parametrize(
    "location",
    ["svn+ssh://host/x", "ftp://host/x", "svn+evil://host", "svn://ann:secret@host/x", "http:///x"],
)
def test_an_address_that_could_start_a_program_or_hold_a_password_is_refused(location: str) -> None:
    with pytest.raises(BadInput):
        SvnArchive(location)


def test_the_password_is_not_on_the_command_line(
    svn_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = tmp_path / "argv"
    tool = tmp_path / "svn"
    tool.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {said}\nexec /usr/bin/svn "$@"\n')
    tool.chmod(0o755)
    monkeypatch.setattr("custody.workflows.archives.processes.vcs_process._PATH", f"{tmp_path}:/usr/bin:/bin")
    assert SvnArchive(svn_server, username="ann", password="open sesame").youngest() == 0
    assert "ann" in said.read_text()
    assert "sesame" not in said.read_text()


def test_without_lines_each_revision_follows_the_one_before(proj_svn: SvnRepository) -> None:
    archive = SvnArchive(str(proj_svn.path))
    for name in "abc":
        proj_svn.mucc("m", "mkdir", name)
    assert [archive.parents(revision) for revision in (1, 2, 3)] == [(), (1,), (2,)]


def test_lines_follow_themselves_a_branch_its_source_and_a_merge_both(proj_svn: SvnRepository, tmp_path: Path) -> None:
    archive = SvnArchive(str(proj_svn.path))
    lines = ("trunk", "branches/*")
    proj_svn.mucc("1", "mkdir", "trunk", "mkdir", "branches")
    proj_svn.put("trunk/a", b"1\n")  # 2
    proj_svn.mucc("3 branch", "cp", "2", "trunk", "branches/x")
    proj_svn.put("trunk/b", b"2\n")  # 4
    proj_svn.put("branches/x/c", b"3\n")  # 5
    proj_svn.put("branches/x/d", b"4\n")  # 6
    proj_svn.mucc("7 aside", "mkdir", "elsewhere")
    copy = tmp_path / "copy"
    for words in (
        ["co", "-q", f"{proj_svn.url}/trunk", str(copy)],
        ["merge", "-q", "--non-interactive", f"{proj_svn.url}/branches/x", str(copy)],
        ["ci", "-q", "-m", "8 merge", str(copy)],
    ):
        subprocess.run(["svn", *words], check=True, capture_output=True)
    found = {revision: archive.parents(revision, lines) for revision in range(1, 9)}
    assert found == {1: (), 2: (1,), 3: (2,), 4: (2,), 5: (3,), 6: (5,), 7: (6,), 8: (4, 6)}

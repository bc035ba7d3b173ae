"""Subversion repositories whose owner is hostile, as root reads them and as an ordinary user does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from custody.workflows.archives.svn.svn import SvnArchive
from hostile.stage import NOBODY, SECRET, Stage
from prove.plugin import Tell
from rig.svn import Subversion

HOOKS = ("start-commit", "pre-commit", "post-commit", "pre-revprop-change", "post-revprop-change")


@pytest.fixture
def theirs(stage: Stage) -> Stage:
    subprocess.run(["svnadmin", "create", str(stage.repository)], check=True)
    return stage


def commit(stage: Stage, *files: str) -> None:
    draft = stage.folder / "draft"
    draft.write_text("one")
    words = [word for name in files for word in ("put", str(draft), name)]
    argv = ["svnmucc", "--non-interactive", "-U", f"file://{stage.repository}", "-m", "theirs", *words]
    subprocess.run(argv, check=True, capture_output=True)


@pytest.mark.proves("P5")
def test_an_external_brings_nothing_into_a_working_copy(svn: Subversion, tmp_path: Path, tell: Tell) -> None:
    private, hostile = svn.fresh_repository(), svn.fresh_repository()
    private.commit("ours", {"secret": "not for them"})
    hostile.commit("theirs", {"trunk/file": "1"})
    asked = [
        "-U",
        hostile.url,
        "-m",
        "an external",
        "propset",
        "svn:externals",
        f"file://{private.path} taken",
        "trunk",
    ]
    hostile.svn(*asked, client="svnmucc")
    SvnArchive(str(hostile.path)).export(2, tmp_path / "out")
    assert (tmp_path / "out/trunk/file").read_text() == "1"
    assert not (tmp_path / "out/trunk/taken").exists()
    tell("", tries=1, got_through=0)


@pytest.mark.proves("P5")
def test_its_hooks_run_as_its_owner_or_not_at_all(theirs: Stage, tell: Tell) -> None:
    commit(theirs, "a.txt")
    for name in HOOKS:
        if name in ("start-commit", "pre-commit"):
            theirs.gate(f"hooks/{name}")
        else:
            theirs.program(f"hooks/{name}", "exit 0")
    told = theirs.act("svn", commits=True)
    if theirs.worker == "root":
        assert (told["words"], told["committed"], told["read"]) == ([], 2, "made")
        assert told["content"]["1"] == {"a.txt": "one"}
        assert set((theirs.repository / "mark").read_text().split()) == {str(NOBODY)}
        said = subprocess.run(["svnlook", "author", str(theirs.repository)], capture_output=True, text=True, check=True)
        assert said.stdout.strip() == "custody"
    else:
        assert told["errors"] == ["archive.owner"], "told when it is added: nothing of it can be planned"
        assert "is read as its owner only" in told["words"][0]
        assert "svn://" in told["words"][0]
        assert not (theirs.repository / "mark").exists()
    tell("", tries=len(HOOKS), got_through=0)


@pytest.mark.proves("P5")
def test_a_hook_that_refuses_is_heard_and_sees_nothing_of_ours(theirs: Stage, tell: Tell) -> None:
    commit(theirs, "a.txt")
    looks = f"cat {theirs.secret} /proc/net/dev; ls /root {theirs.secret.parent}"
    theirs.program("hooks/pre-commit", f"(echo not today; {looks}) >&2; exit 1")
    told = theirs.act("svn", commits=True)
    if theirs.worker == "root":
        assert told["errors"] == ["archive.gate"], "it is ended when it looks for what it is not shown"
        assert "the repository's hook pre-commit looks for " in told["words"][0]
        assert "eth0" not in told["words"][0]
    tell("", tries=3, got_through=0)


@pytest.mark.proves("P5")
@pytest.mark.parametrize("name", ["db/revs/0/1", "db/current", "db/uuid", "db/format", "db/fs-type", "db/fsfs.conf"])
def test_a_link_in_its_folder_shows_no_bytes_of_ours(theirs: Stage, name: str, tell: Tell) -> None:
    commit(theirs, "a.txt")
    (theirs.repository / name).unlink()
    (theirs.repository / name).symlink_to(theirs.secret)
    told = theirs.act("svn")  # which looks for the secret in all that was told
    assert told["errors"] or name == "db/fsfs.conf", "without its settings it is read all the same"
    tell("", tries=1, got_through=0)


@pytest.mark.proves("P5")
@pytest.mark.parametrize("name", ["db", "hooks", "conf", "db/revs/0"])
def test_a_folder_that_leads_elsewhere_shows_nothing_of_it(theirs: Stage, name: str, tell: Tell) -> None:
    commit(theirs, "a.txt")
    place = theirs.secret.parent / "elsewhere"
    os.rename(theirs.repository / name, place)
    (theirs.repository / name).symlink_to(place)
    told = theirs.act("svn", commits=True)
    found = [os.path.join(at, file) for at, _, files in os.walk(place) for file in files]
    assert all(SECRET not in Path(file).read_text(errors="replace") for file in found)
    assert name in ("hooks", "conf") or told["errors"]
    tell("", tries=1, got_through=0)


@pytest.mark.proves("P5")
def test_its_own_settings_are_not_asked(theirs: Stage, tell: Tell) -> None:
    commit(theirs, "a.txt")
    settings = f"[general]\nanon-access = write\nauth-access = none\npassword-db = {theirs.secret}\n"
    settings += f"authz-db = {theirs.secret}\nhooks-env = {theirs.secret}\n"
    (theirs.repository / "conf/svnserve.conf").write_text(settings)
    told = theirs.act("svn")
    if theirs.worker == "root":
        assert told["errors"] == []
        assert told["content"]["1"] == {"a.txt": "one"}
    tell("", tries=1, got_through=0)


@pytest.mark.proves("P5")
def test_a_kind_that_is_not_known_is_refused_in_words(theirs: Stage, tell: Tell) -> None:
    commit(theirs, "a.txt")
    (theirs.repository / "db/fs-type").write_text("bdb\n")
    assert "archive.kind" in theirs.act("svn")["errors"]
    tell("", tries=1, got_through=0)

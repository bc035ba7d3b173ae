"""Archives are added and removed whole, whatever state their repository is in."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from custody.errors import BadInput, NotFound, Unavailable
from custody.kernel.stores import open_store
from custody.workflows.archives import hooks
from custody.workflows.archives.folder import FolderArchive
from custody.workflows.archives.table import Archives
from custody.workflows.commands.archive import app
from workflows.repositories import SvnRepository


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUSTODY_STORE", f"sqlite:///{tmp_path / 'custody.db'}")
    return tmp_path


def archive(*words: str) -> Result:
    return CliRunner().invoke(app, [*words])


def known() -> dict[str, int]:
    with open_store(os.environ["CUSTODY_STORE"]) as store:
        return {kept.name: kept.last for kept in Archives(store).list()}


def test_an_archive_of_folders_can_be_removed(home: Path) -> None:
    FolderArchive.make(home / "kept")
    assert archive("add", "proj", "kept").exit_code == 0
    assert archive("remove", "proj", "--why", "enough").exit_code == 0
    assert known() == {}


def test_an_archive_with_a_hook_of_somebody_else_can_be_removed_and_the_hook_stays(proj_svn: SvnRepository) -> None:
    hook = proj_svn.path / "hooks" / "post-commit"
    hook.write_text("#!/bin/sh\nexit 0\n")
    assert archive("add", "proj", str(proj_svn.path), "--no-hook").exit_code == 0
    done = archive("remove", "proj", "--why", "enough")
    assert done.exit_code == 0
    assert "this hook is not ours" in done.stdout
    assert known() == {}
    assert hook.read_text() == "#!/bin/sh\nexit 0\n"


def test_an_archive_whose_repository_was_emptied_can_be_removed(proj_svn: SvnRepository) -> None:
    assert archive("add", "proj", str(proj_svn.path)).exit_code == 0
    shutil.rmtree(proj_svn.path)
    proj_svn.path.mkdir()  # as a disk that is not mounted
    assert archive("remove", "proj", "--why", "gone").exit_code == 0
    assert known() == {}


@pytest.mark.parametrize("since", ["-3", "2"])
def test_revisions_that_do_not_exist_cannot_be_taken_as_done(proj_svn: SvnRepository, since: str) -> None:
    proj_svn.put("a", b"1")
    done = archive("add", "proj", str(proj_svn.path), "--since", since)
    assert isinstance(done.exception, BadInput)
    assert known() == {}, "it would have waited for revision -2, or been frozen at once"


def test_an_archive_whose_hook_cannot_be_installed_is_not_half_added(
    proj_svn: SvnRepository,
) -> None:
    hook = proj_svn.path / "hooks" / "post-commit"
    hook.mkdir()
    (hook / "something").touch()
    done = archive("add", "proj", str(proj_svn.path))
    assert isinstance(done.exception, Unavailable)
    assert "--no-hook" in done.exception.hint
    assert known() == {}
    assert archive("add", "proj", str(proj_svn.path), "--no-hook").exit_code == 0


def test_a_repository_without_a_folder_for_hooks_gets_one(home: Path) -> None:
    subprocess.run(["git", "init", "-q", "--bare", "--template=", "bare.git"], check=True, cwd=home)
    assert not (home / "bare.git" / "hooks").exists()
    assert archive("add", "proj", "bare.git").exit_code == 0
    assert hooks.is_installed(home / "bare.git")


def test_an_installation_that_was_cut_off_between_its_halves_is_finished(proj_svn: SvnRepository) -> None:
    hook = proj_svn.path / "hooks" / "post-commit"
    hook.write_text("#!/bin/sh\necho theirs\n")
    os.link(hook, hook.with_name("post-commit.before-custody"))  # killed before ours was written
    hooks.install(proj_svn.path, ["/bin/true"])
    assert hooks.is_installed(proj_svn.path)
    hooks.uninstall(proj_svn.path)
    assert hook.read_text() == "#!/bin/sh\necho theirs\n"


def test_a_folder_inside_a_repository_is_no_archive(proj_svn: SvnRepository, svn_server: str, home: Path) -> None:
    """It would wait for ever for the folder in the revisions before it was made."""
    proj_svn.mucc("more", "mkdir", "inside")
    who = home / "who"
    who.write_text("ann\nopen sesame\n")
    who.chmod(0o600)
    refused = archive("add", "proj", f"{svn_server}/inside", "--credentials", str(who))
    assert isinstance(refused.exception, BadInput)
    assert svn_server in refused.exception.hint
    assert known() == {}
    assert archive("add", "proj", f"{svn_server}/", "--credentials", str(who)).exit_code == 0


def test_another_repository_under_an_old_name_does_not_inherit_its_grants(proj_svn: SvnRepository, home: Path) -> None:
    assert archive("add", "proj", str(proj_svn.path)).exit_code == 0
    assert archive("grant", "proj", "secret", "key", "--why", "it publishes").exit_code == 0
    assert archive("remove", "proj", "--why", "enough").exit_code == 0
    subprocess.run(["git", "init", "-q", "--bare", "theirs.git"], check=True, cwd=home)
    assert archive("add", "proj", "theirs.git").exit_code == 0
    assert "nothing is granted" in archive("grants", "proj").stdout


def test_where_there_is_no_configuration_a_newcomer_is_told_who_runs_the_tasks(home: Path) -> None:
    FolderArchive.make(home / "kept")
    FolderArchive.make(home / "more")
    assert "`custody init`" in archive("add", "proj", "kept").stdout
    (home / "custody.toml").write_text("")
    assert "`custody init`" not in archive("add", "more", "more").stdout


def test_a_working_copy_is_told_from_a_repository(home: Path) -> None:
    subprocess.run(["git", "init", "-q", "copy"], check=True, cwd=home)
    refused = archive("add", "proj", "copy").exception
    assert isinstance(refused, NotFound)
    assert "working copy" in refused.hint


def test_a_revision_without_tasks_says_so_when_it_is_planned(home: Path) -> None:
    (home / "source").mkdir()
    (home / "source" / "a.txt").write_text("a")
    FolderArchive.make(home / "kept").keep(home / "source", "one", "ada")
    assert "1 revision taken in" in archive("add", "proj", "kept").stdout
    assert archive("plan", "proj").stdout.startswith("revision 1 adds no tasks")

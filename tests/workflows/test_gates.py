"""A gate that a repository's owner has set is asked, or no commit is made: whatever way the hook is put there."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from custody.border.sandbox import host_tool
from custody.cli.doctor.report import app as doctor
from custody.errors import CustodyError, Refused
from custody.kernel.stores import Store
from custody.workflows.archives import hooks
from custody.workflows.archives.git.git import GitArchive
from custody.workflows.archives.ownership.commit_gates import git_unasked
from custody.workflows.archives.port import Archive
from custody.workflows.archives.svn.svn import SvnArchive
from custody.workflows.archives.table import Archives
from custody.workflows.archives.working_copy.draft import Draft
from custody.workflows.commands.archive import app
from rig.need import need as need_service
from workflows.repositories import GitRepository, SvnRepository

NO = "#!/bin/sh\necho GATE-SAYS-NO >&2\nexit 1\n"
GIT_GATES = ["pre-receive", "update", "reference-transaction"]
SVN_GATES = ["start-commit", "pre-commit"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of whoever works; nothing is said there yet."""
    need_service("bubblewrap")
    made = tmp_path / "home"
    made.mkdir()
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_SYSTEM", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(made))
    return made


def program(file: Path, text: str = NO, mode: int = 0o755) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(mode)
    return file


def own(repository: Path, name: str, shared: Path) -> None:
    program(repository / "hooks" / name)


def linked(repository: Path, name: str, shared: Path) -> None:
    (repository / "hooks" / name).symlink_to(program(shared / name))


def linked_twice(repository: Path, name: str, shared: Path) -> None:
    """By way of another name in the repository."""
    (repository / "hooks" / "common").symlink_to(program(shared / name))
    (repository / "hooks" / name).symlink_to("common")


def linked_within(repository: Path, name: str, shared: Path) -> None:
    """Elsewhere in the repository, where nobody has looked at who may write."""
    program(repository / "gates" / name)
    (repository / "hooks" / name).symlink_to(f"../gates/{name}")


def folder_linked(repository: Path, name: str, shared: Path) -> None:
    program(shared / name)
    shutil.rmtree(repository / "hooks")
    (repository / "hooks").symlink_to(shared)


def another_name(repository: Path, name: str, shared: Path) -> None:
    program(repository / "hooks" / "common")
    (repository / "hooks" / name).symlink_to("common")


def another_name_in_full(repository: Path, name: str, shared: Path) -> None:
    (repository / "hooks" / name).symlink_to(program(repository / "hooks" / "common"))


def config(repository: Path, *words: str, file: Path | None = None) -> None:
    subprocess.run(["git", "config", "--file", str(file or repository / "config"), *words], check=True)


def hooks_path(repository: Path, name: str, shared: Path) -> None:
    config(repository, "core.hooksPath", str(program(shared / name).parent))


def hooks_path_relative(repository: Path, name: str, shared: Path) -> None:
    config(repository, "core.hooksPath", os.path.relpath(program(shared / name).parent, repository))


def hooks_path_at_home(repository: Path, name: str, shared: Path) -> None:
    program(Path(os.environ["HOME"]) / "gates" / name)
    config(repository, "core.hooksPath", "~/gates")


def hooks_path_included(repository: Path, name: str, shared: Path) -> None:
    program(shared / name)
    config(repository, "core.hooksPath", str(shared), file=shared / "more")
    config(repository, "include.path", str(shared / "more"))


def hooks_path_included_within(repository: Path, name: str, shared: Path) -> None:
    program(shared / name)
    config(repository, "core.hooksPath", str(shared), file=repository / "more")
    config(repository, "includeIf.gitdir:/.path", "more")


def hooks_path_of_the_user(repository: Path, name: str, shared: Path) -> None:
    program(shared / name)
    config(repository, "core.hooksPath", str(shared), file=Path(os.environ["HOME"]) / ".gitconfig")


def hooks_path_included_by_the_user(repository: Path, name: str, shared: Path) -> None:
    program(shared / name)
    home = Path(os.environ["HOME"])
    (home / ".config/git").mkdir(parents=True)
    config(repository, "include.path", "../more", file=home / ".config/git/config")
    config(repository, "core.hooksPath", str(shared), file=home / ".config/more")


def hooks_path_of_the_machine(repository: Path, name: str, shared: Path) -> None:
    program(shared / name)
    config(repository, "core.hooksPath", str(shared), file=shared / "gitconfig")
    os.environ["GIT_CONFIG_SYSTEM"] = str(shared / "gitconfig")


Prepare = Callable[[Path, str, Path], None]
ASKED: list[Prepare] = [own, another_name, another_name_in_full]
PASSED_BY: list[Prepare] = [linked, linked_twice, linked_within, folder_linked]
GIT_ONLY: list[Prepare] = [
    hooks_path,
    hooks_path_relative,
    hooks_path_at_home,
    hooks_path_included,
    hooks_path_included_within,
    hooks_path_of_the_user,
    hooks_path_included_by_the_user,
    hooks_path_of_the_machine,
]


def put(archive: Archive, tmp_path: Path) -> int:
    file = tmp_path / "made"
    file.write_text("made")
    return archive.commit(Draft("made", 1, {"made": file}, [], ["task"], "1.0.0.word"), 30)


@pytest.fixture
def git_archive(proj_git: GitRepository, own_store: Store) -> GitArchive:
    proj_git.commit("a.txt", "one")
    proj_git.push()
    archive = GitArchive(proj_git.path, own_store)
    assert archive.youngest() == 1
    return archive


@pytest.fixture
def svn_archive(proj_svn: SvnRepository) -> SvnArchive:
    proj_svn.put("a.txt", b"one")
    return SvnArchive(str(proj_svn.path))


def really_pushed(repository: GitRepository) -> bool:
    """By git itself, as whoever works."""
    repository.commit("b.txt", "two")
    env = {**os.environ, "PATH": "/usr/bin:/bin"}
    argv = ["git", "-C", str(repository.clone), "push", "-q", "origin", "HEAD"]
    return subprocess.run(argv, capture_output=True, env=env).returncode == 0


@pytest.mark.parametrize("name", GIT_GATES)
@pytest.mark.parametrize("prepare", [*ASKED, *PASSED_BY, *GIT_ONLY], ids=lambda each: each.__name__)
def test_no_commit_of_a_task_passes_a_gate_of_a_git_repository(
    git_archive: GitArchive,
    proj_git: GitRepository,
    tmp_path: Path,
    prepare: Prepare,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", "/dev/null")
    prepare(proj_git.path, name, tmp_path / "shared")
    assert not really_pushed(proj_git), "git itself asks this gate"
    before = (proj_git.path / "refs/heads/main").read_text()
    with pytest.raises(Refused) as refused:
        put(git_archive, tmp_path)
    assert (proj_git.path / "refs/heads/main").read_text() == before
    if prepare in ASKED:
        assert refused.value.code == "archive.refused"
        assert name == "reference-transaction" or "GATE-SAYS-NO" in refused.value.message
    else:
        assert refused.value.code == "archive.gate"
        assert "outputs" in refused.value.hint


@pytest.mark.parametrize("name", SVN_GATES)
@pytest.mark.parametrize("prepare", [*ASKED, *PASSED_BY], ids=lambda each: each.__name__)
def test_no_commit_of_a_task_passes_a_gate_of_a_subversion_repository(
    svn_archive: SvnArchive, proj_svn: SvnRepository, tmp_path: Path, prepare: Prepare, name: str
) -> None:
    prepare(proj_svn.path, name, tmp_path / "shared")
    with pytest.raises(subprocess.CalledProcessError):
        proj_svn.put("b.txt", b"two")
    with pytest.raises(Refused) as refused:
        put(svn_archive, tmp_path)
    assert svn_archive.youngest() == 1
    if prepare in ASKED:
        assert "GATE-SAYS-NO" in refused.value.message
    else:
        assert refused.value.code == "archive.gate"
        assert name in refused.value.message


@pytest.mark.parametrize("prepare", [own, linked, hooks_path], ids=lambda each: each.__name__)
def test_where_nothing_can_be_confined_a_gate_is_not_left_out(
    git_archive: GitArchive, proj_git: GitRepository, tmp_path: Path, prepare: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_tool, "works", lambda: False)
    assert put(git_archive, tmp_path) == 2, "there is no gate yet"
    prepare(proj_git.path, "pre-receive", tmp_path / "shared")
    with pytest.raises(Refused) as refused:
        put(git_archive, tmp_path)
    assert refused.value.code == "archive.gate"


def test_a_hook_that_may_not_be_run_is_left_out_by_git_and_fails_in_subversion(
    git_archive: GitArchive, svn_archive: SvnArchive, tmp_path: Path
) -> None:
    program(git_archive.repository / "hooks/pre-receive", mode=0o644)
    assert put(git_archive, tmp_path) == 2
    program(Path(svn_archive.where) / "hooks/pre-commit", mode=0o644)
    with pytest.raises(CustodyError):
        put(svn_archive, tmp_path)
    assert svn_archive.youngest() == 1


def test_what_leads_nowhere_is_no_leave_to_commit(
    git_archive: GitArchive, svn_archive: SvnArchive, tmp_path: Path
) -> None:
    for archive, name in ((git_archive, "pre-receive"), (svn_archive, "pre-commit")):
        (Path(archive.where) / "hooks" / name).symlink_to(tmp_path / "gone")
        with pytest.raises(Refused) as refused:
            put(archive, tmp_path)
        assert refused.value.code == "archive.gate"


def test_hooks_that_refuse_nothing_may_be_links_and_settings_that_are_overruled_count_no_more(
    git_archive: GitArchive, svn_archive: SvnArchive, tmp_path: Path, home: Path
) -> None:
    linked(git_archive.repository, "post-receive", tmp_path / "shared")
    linked(Path(svn_archive.where), "post-commit", tmp_path / "shared")
    config(git_archive.repository, "core.hooksPath", str(tmp_path / "shared"), file=home / ".gitconfig")
    config(git_archive.repository, "transfer.fsckObjects", "true", file=home / ".gitconfig")
    config(git_archive.repository, "receive.fsckObjects", "true")
    assert (put(git_archive, tmp_path), put(svn_archive, tmp_path)) == (2, 2)


@pytest.mark.parametrize("name", ["receive.hideRefs", "transfer.hideRefs", "receive.procReceiveRefs"])
def test_a_setting_for_all_repositories_of_a_user_that_refuses_pushes_is_no_leave_to_commit(
    git_archive: GitArchive, proj_git: GitRepository, tmp_path: Path, home: Path, name: str
) -> None:
    config(git_archive.repository, name, "refs/heads/main", file=home / ".gitconfig")
    assert not really_pushed(proj_git)
    with pytest.raises(Refused, match=r"\.gitconfig sets") as refused:
        put(git_archive, tmp_path)
    assert refused.value.code == "archive.gate"


def test_it_is_told_beforehand(git_archive: GitArchive, tmp_path: Path, own_store: Store) -> None:
    folder_linked(git_archive.repository, "pre-receive", tmp_path / "shared")
    run, words = CliRunner(), ["--store", own_store.url]
    added = run.invoke(app, ["add", "book", str(git_archive.repository), *words])
    assert added.exit_code != 0, "its own hook would be everybody's"
    assert not (tmp_path / "shared/post-receive").exists()
    added = run.invoke(app, ["add", "book", str(git_archive.repository), "--no-hook", *words])
    assert "commits of its tasks will be refused: its hook pre-receive is in" in added.output
    listed = run.invoke(app, ["list", *words])
    assert "commits of its tasks are refused" in listed.output
    assert "pre-receive" in json.loads(run.invoke(app, ["list", "--json", *words]).output)[0]["unasked"]
    assert "archive book: commits of its tasks are refused" in run.invoke(doctor, words).output
    (git_archive.repository / "hooks").unlink()
    assert not Archives(own_store).unasked(Archives(own_store).get("book"))
    (git_archive.repository / "hooks").symlink_to(tmp_path / "shared")
    with pytest.raises(Refused):
        hooks.install(git_archive.repository, ("/bin/true",))


def test_of_the_configuration_of_somebody_else_only_what_he_may_read_is_read(
    git_archive: GitArchive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root works as somebody else")
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    somebody = pwd.struct_passwd(("x", "x", 54321, 54321, "", str(theirs), ""))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: somebody)
    os.chown(git_archive.repository, 54321, 54321)
    secret = tmp_path / "secret"
    secret.write_text("[core]\n\thooksPath = /for/root/only\n")
    secret.chmod(0o600)
    assert git_unasked(git_archive.repository) == ""
    config(git_archive.repository, "include.path", str(secret), file=theirs / ".gitconfig")
    assert git_unasked(git_archive.repository) == f"{secret} is not for x to read"

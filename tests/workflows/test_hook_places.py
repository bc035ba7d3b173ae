"""A hook is written where git will look for it, or it is said that none was: never "installed" and not heard of."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from custody.border.sandbox import host_tool as outside
from custody.cli.doctor.report import app as doctor
from custody.errors import CustodyError, Refused
from custody.kernel.stores import Store
from custody.workflows.archives import hooks
from custody.workflows.archives.table import Archives
from custody.workflows.commands.archive import app
from rig.need import need as need_service
from workflows.repositories import GitRepository, SvnRepository


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    need_service("bubblewrap")
    made = tmp_path / "home"
    made.mkdir()
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", "/dev/null")
    monkeypatch.setenv("HOME", str(made))
    return made


@pytest.fixture
def repository(proj_git: GitRepository) -> Path:
    proj_git.commit("a.txt", "one")
    proj_git.push()
    return proj_git.path


@pytest.fixture
def heard(tmp_path: Path, proj_git: GitRepository) -> Callable[[], bool]:
    """Whether a push is told of, by git itself."""
    script, said = tmp_path / "listener", tmp_path / "heard"
    script.write_text(f"#!/bin/sh\necho heard >> {said}\n")
    script.chmod(0o755)

    def pushed() -> bool:
        said.unlink(missing_ok=True)
        proj_git.commit("b.txt", str(time.monotonic()))
        env = {**os.environ, "PATH": "/usr/bin:/bin"}
        subprocess.run(["git", "-C", str(proj_git.clone), "push", "-q", "origin", "HEAD"], check=True, env=env)
        until = time.monotonic() + 5
        while not said.exists() and time.monotonic() < until and list(proj_git.path.glob("custody-spool/*")):
            time.sleep(0.01)
        return said.exists()

    return pushed


def listener(tmp_path: Path) -> tuple[str, ...]:
    return (str(tmp_path / "listener"),)


def set_path(repository: Path, value: str, file: Path | None = None) -> None:
    config = ["git", "config", "--file", str(file or repository / "config")]
    subprocess.run([*config, "core.hooksPath", value], check=True)


def archive(store: Store, *words: str) -> Result:
    return CliRunner().invoke(app, [*words, "--store", store.url])


def found_by_the_doctor(store: Store) -> str:
    told = CliRunner().invoke(doctor, ["--store", store.url]).output
    return "\n".join(line for line in told.splitlines() if "its hook" in line)


@pytest.mark.parametrize(
    "value", ["", "gates", "./gates/of/ours", "{}/gates", "hooks", "{}/hooks", "../bare.git/gates/"]
)
def test_it_is_written_where_git_will_look_in_the_repository(
    repository: Path, tmp_path: Path, heard: Callable[[], bool], value: str
) -> None:
    if value:
        set_path(repository, value.format(repository))
    before = Path(os.path.normpath(repository / (value.format(repository) or "hooks"))) / "post-receive"
    before.parent.mkdir(parents=True, exist_ok=True)
    before.write_text(f"#!/bin/sh\ncat > {tmp_path}/before\n")
    before.chmod(0o755)
    assert hooks.install(repository, listener(tmp_path)) == before
    assert hooks.is_installed(repository)
    assert heard()
    assert "refs/heads/main" in (tmp_path / "before").read_text(), "the one from before is called first"
    hooks.uninstall(repository)
    assert "cat >" in before.read_text()
    assert not hooks.is_installed(repository)


@pytest.mark.parametrize("whose", ["repository", "user", "machine"])
def test_it_is_not_called_installed_where_git_looks_elsewhere(
    repository: Path,
    own_store: Store,
    tmp_path: Path,
    home: Path,
    heard: Callable[[], bool],
    whose: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = tmp_path / "shared"
    place.mkdir()
    file = {"repository": repository / "config", "user": home / ".gitconfig", "machine": tmp_path / "gitconfig"}[whose]
    set_path(repository, str(place), file)
    if whose == "machine":
        monkeypatch.setenv("GIT_CONFIG_SYSTEM", str(file))
    for words in (["--hook"], []):
        refused = archive(own_store, "add", "proj", str(repository), *words)
        assert isinstance(refused.exception, CustodyError)
        assert refused.exception.code == "archive.hook"
        assert str(place) in refused.exception.message
        assert str(file) in refused.exception.message
        assert "--no-hook" in refused.exception.hint
        assert Archives(own_store).list() == ()
    assert list(place.iterdir()) == []
    assert list(repository.rglob("custody-store")) == []
    with pytest.raises(Refused, match=r"core\.hooksPath") as told:
        hooks.install(repository, listener(tmp_path))
    assert "unset" in told.value.hint
    assert not (repository / "hooks/post-receive").exists()
    assert not heard()
    done = archive(own_store, "add", "proj", str(repository), "--no-hook")
    assert done.exit_code == 0, done.exception
    assert "installed" not in done.output


def test_the_hook_for_an_api_is_refused_there_too(repository: Path, tmp_path: Path) -> None:
    set_path(repository, str(tmp_path / "shared"))
    (tmp_path / "token").write_text("secret")
    words = ["hook", "proj", str(repository), "--api", "http://127.0.0.1:9", "--token", str(tmp_path / "token")]
    refused = CliRunner().invoke(app, words)
    assert isinstance(refused.exception, Refused)
    assert list(repository.rglob("custody-api")) == [], "its token is written nowhere"


def linked(place: Path, elsewhere: Path) -> None:
    place.symlink_to(elsewhere)


def above_it_a_link(place: Path, elsewhere: Path) -> None:
    place.parent.rmdir()
    (elsewhere / place.name).mkdir()
    place.parent.symlink_to(elsewhere)


def linked_within(place: Path, elsewhere: Path) -> None:
    (place.parent / "others").mkdir()
    place.symlink_to("others")


def open_to_others(place: Path, elsewhere: Path) -> None:
    place.mkdir()
    place.chmod(0o777)


def of_somebody(place: Path, elsewhere: Path) -> None:
    place.mkdir()
    os.chown(place, 54321, 54321)


def a_file(place: Path, elsewhere: Path) -> None:
    place.write_text("")


@pytest.mark.parametrize(
    "prepare",
    [linked, above_it_a_link, linked_within, open_to_others, of_somebody, a_file],
    ids=lambda each: each.__name__,
)
def test_nothing_is_written_into_a_folder_that_is_not_surely_ours(
    repository: Path, tmp_path: Path, prepare: Callable[[Path, Path], None]
) -> None:
    if prepare is of_somebody and os.geteuid() != 0:
        pytest.skip("needs somebody else")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    place = repository / "of/ours"
    place.parent.mkdir()
    prepare(place, elsewhere)
    set_path(repository, "of/ours")
    with pytest.raises(Refused, match="of/ours") as refused:
        hooks.install(repository, listener(tmp_path))
    assert refused.value.code == "archive.hook"
    assert [path for path in elsewhere.rglob("*") if not path.is_dir()] == []


def test_a_folder_of_hooks_that_a_group_may_write_to_is_its_owners_to_have(repository: Path, tmp_path: Path) -> None:
    """As `git init --shared` makes it: whoever owns the repository installs a hook there."""
    (repository / "hooks").mkdir(exist_ok=True)
    (repository / "hooks").chmod(0o2775)
    hooks.install(repository, listener(tmp_path))
    assert hooks.is_installed(repository)


def test_a_condition_that_is_not_met_leads_nowhere_else(
    repository: Path, tmp_path: Path, home: Path, heard: Callable[[], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    set_path(repository, str(tmp_path / "shared"), home / "more")
    for condition in ("onbranch:other", "gitdir:elsewhere.git"):
        with (home / ".gitconfig").open("a") as config:
            config.write(f'[includeIf "{condition}"]\n\tpath = more\n')
    assert hooks.install(repository, listener(tmp_path)) == repository / "hooks/post-receive"
    assert heard()
    monkeypatch.setattr(outside, "works", lambda: False)
    with pytest.raises(Refused, match=r"may lead|core\.hooksPath"):  # nobody can say whether it is met
        hooks.install(repository, listener(tmp_path))


def test_what_cannot_be_read_may_lead_elsewhere(repository: Path, tmp_path: Path) -> None:
    with (repository / "config").open("a") as config:
        config.write("[include]\n\tpath = /outside/of/it\n")
    with pytest.raises(Refused, match="/outside/of/it") as refused:
        hooks.install(repository, listener(tmp_path))
    assert refused.value.code == "archive.hook"


def test_the_doctor_tells_of_a_hook_that_is_not_heard_any_more(
    repository: Path, own_store: Store, tmp_path: Path
) -> None:
    assert archive(own_store, "add", "proj", str(repository), "--hook").exit_code == 0
    assert found_by_the_doctor(own_store) == ""
    set_path(repository, str(tmp_path / "shared"))
    told = found_by_the_doctor(own_store)
    assert "archive proj" in told
    assert str(tmp_path / "shared") in told
    assert not hooks.is_installed(repository)
    set_path(repository, "hooks")
    assert found_by_the_doctor(own_store) == ""
    (repository / "hooks/post-receive").chmod(0o644)
    assert "0644" in found_by_the_doctor(own_store)
    assert archive(own_store, "remove", "proj", "--why", "over").exit_code == 0


def test_the_doctor_tells_of_a_hook_of_subversion_that_cannot_be_run(proj_svn: SvnRepository, own_store: Store) -> None:
    assert archive(own_store, "add", "proj", str(proj_svn.path), "--hook").exit_code == 0
    assert found_by_the_doctor(own_store) == ""
    (proj_svn.path / "hooks/post-commit").chmod(0o644)
    assert "0644" in found_by_the_doctor(own_store)


def test_an_archive_without_a_hook_is_nothing_to_tell_of(repository: Path, own_store: Store, tmp_path: Path) -> None:
    assert archive(own_store, "add", "proj", str(repository), "--no-hook").exit_code == 0
    set_path(repository, str(tmp_path / "shared"))
    assert found_by_the_doctor(own_store) == ""


def test_it_is_taken_away_wherever_it_was_written(repository: Path, tmp_path: Path) -> None:
    """Also where the path was set, or unset, after that."""
    old = hooks.install(repository, listener(tmp_path))
    set_path(repository, "gates")
    new = hooks.install(repository, listener(tmp_path))
    assert (old.exists(), new.exists()) == (False, True), "one commit is told once"
    set_path(repository, str(tmp_path / "shared"))
    hooks.uninstall(repository)
    assert not old.exists()
    assert not new.exists()

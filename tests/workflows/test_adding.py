"""Looking after a repository from now on: all of that or nothing, whatever leads there, in words that are true."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from custody.errors import BadInput, CustodyError, Refused, Unavailable
from custody.kernel.stores import Store, open_store
from custody.workflows.archives import hooks
from custody.workflows.archives.folder import NAME, FolderArchive
from custody.workflows.archives.git import git_reader
from custody.workflows.archives.notices import reconcile
from custody.workflows.archives.table import Archives
from custody.workflows.commands import archive as verbs
from custody.workflows.tasks import network
from rig.need import need as need_service
from workflows.desk import Desk
from workflows.repositories import GitRepository, SvnRepository


def archive(store: Store, *words: str) -> Result:
    return CliRunner().invoke(verbs.app, [*words, "--store", store.url])


def made(system: str, path: Path) -> Path:
    if system == "folder":
        return FolderArchive.make(path).folder
    make = ["git", "init", "-q", "--bare", "-b", "main"] if system == "git" else ["svnadmin", "create"]
    subprocess.run([*make, str(path)], check=True)
    return path


@pytest.fixture(params=["git", "svn", "folder"])
def system(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_link_to_a_repository_is_followed_when_it_is_added_and_never_again(
    own_store: Store, tmp_path: Path, system: str
) -> None:
    place, link = made(system, tmp_path / "place"), tmp_path / "link"
    link.symlink_to(place)
    done = archive(own_store, "add", "proj", str(link))
    assert done.exit_code == 0, done.exception
    assert Archives(own_store).get("proj").location == str(place)
    if system != "folder":
        assert hooks.is_installed(place)
    assert archive(own_store, "remove", "proj", "--why", "over").exit_code == 0
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Unavailable, match="a link stands here") as told:
        Archives(own_store).add("other", system, str(place), "ada")
    assert str(tmp_path / "elsewhere") in told.value.hint


def test_the_hook_for_an_api_is_installed_through_a_link_too(tmp_path: Path) -> None:
    place, link = made("git", tmp_path / "place"), tmp_path / "link"
    link.symlink_to(place)
    (tmp_path / "token").write_text("secret")
    words = ["hook", "proj", str(link), "--api", "http://127.0.0.1:9", "--token", str(tmp_path / "token")]
    assert CliRunner().invoke(verbs.app, words).exit_code == 0
    assert hooks.is_installed(place)


@pytest.mark.parametrize(
    "trouble", [Unavailable("gone just now", code="x"), OSError("a full disk"), KeyboardInterrupt()]
)
def test_an_archive_that_could_not_be_added_is_not_there_and_neither_is_its_hook(
    own_store: Store, tmp_path: Path, system: str, trouble: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = made(system, tmp_path / "place")
    before = sorted(path.relative_to(place) for path in place.rglob("*"))

    def fails(*_: object) -> int:
        raise trouble

    with monkeypatch.context() as patch:
        patch.setattr(verbs, "reconcile", fails)
        assert archive(own_store, "add", "proj", str(place)).exit_code != 0
    assert Archives(own_store).list() == ()
    assert [path for path in before if not (place / path).exists()] == []
    assert list(place.rglob("custody-store")) == []
    assert system == "folder" or not hooks.is_installed(place)
    assert archive(own_store, "add", "proj", str(place)).exit_code == 0, "and it can be added when all is well again"


@pytest.mark.parametrize("kind", ["git", "svn"])
def test_a_hook_that_cannot_be_installed_leaves_nothing_behind(own_store: Store, tmp_path: Path, kind: str) -> None:
    place = made(kind, tmp_path / "place")
    hook = place / "hooks" / hooks.kind_of(place).hook
    for name, text in ((hook.name, "one"), (f"{hook.name}.before-custody", "two")):
        (hook.parent / name).write_text(text)
    refused = archive(own_store, "add", "proj", str(place))
    assert isinstance(refused.exception, CustodyError)
    assert refused.exception.code == "archive.hook"
    assert Archives(own_store).list() == ()
    assert not (place / "custody-store").exists(), "the store's address may have a password in it"
    assert hook.read_text() == "one"


def test_a_repository_whose_revisions_cannot_be_counted_is_not_added(own_store: Store, proj_svn: SvnRepository) -> None:
    (proj_svn.path / "db" / "current").write_text("what?\n")
    with pytest.raises(Unavailable, match="youngest revision cannot be read"):
        Archives(own_store).add("proj", "svn", str(proj_svn.path), "ada")
    assert Archives(own_store).list() == ()


def test_what_to_do_with_a_repository_that_is_looked_after_already_is_told_for_its_kind(
    own_store: Store, tmp_path: Path, system: str
) -> None:
    place = made(system, tmp_path / "place")
    Archives(own_store).add("proj", system, str(place), "ada")
    with pytest.raises(Refused, match="is the repository of archive proj already") as told:
        Archives(own_store).add("other", system, str(place), "ada")
    assert ("svnadmin setuuid" in told.value.hint) == (system == "svn")
    assert (NAME in told.value.hint) == (system == "folder")


def test_a_history_that_was_rewritten_as_a_whole_is_not_called_another_repository(
    own_store: Store, proj_git: GitRepository
) -> None:
    proj_git.commit("data.txt", "one")
    proj_git.push()
    reconcile(own_store, Archives(own_store).add("proj", "git", str(proj_git.path), "ada"))
    proj_git.git("checkout", "-q", "--orphan", "anew")
    proj_git.commit("data.txt", "two")
    proj_git.push("--force", "origin", "HEAD:main")
    subprocess.run(["git", "-C", str(proj_git.path), "gc", "-q", "--prune=now"], check=True)
    git_reader._memories.clear()  # as in a process that has never read it
    reconcile(own_store, Archives(own_store).get("proj"))
    told = Archives(own_store).get("proj").frozen
    assert "none of the commits that were counted is in the repository" in told
    assert "or its history was rewritten and cleared away" in told


def test_an_archive_of_folders_with_another_uuid_says_what_was_seen(own_store: Store, tmp_path: Path) -> None:
    place = made("folder", tmp_path / "place")
    Archives(own_store).add("proj", "folder", str(place), "ada")
    (place / NAME).write_text("00000000-0000-0000-0000-000000000000\n")
    reconcile(own_store, Archives(own_store).get("proj"))
    assert "has another uuid now" in Archives(own_store).get("proj").frozen


def test_nothing_is_granted_for_a_repository_that_is_all_ours(own_store: Store, proj_git: GitRepository) -> None:
    Archives(own_store).add("proj", "git", str(proj_git.path), "ada")
    told = archive(own_store, "grant", "proj", "repository", "uid:0", "--why", "x").exception
    assert isinstance(told, BadInput)
    assert "is all ours" in told.message


# Who waits for a grant.


def test_a_plan_tells_of_every_unfinished_task_that_waits_for_a_host_whichever_its_revision(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_service("bubblewrap")
    monkeypatch.setattr(network, "LOOKED_AT_ONCE", 2)
    for host in ("one", "two", "three", "four"):
        wants = f"- {{name: a, network: [{host}.example.org], script: 'true'}}\n- {{name: b, script: 'true'}}\n"
        desk.notify(desk.commit({"_workflows/a.yaml": wants}))
    desk.notify(desk.commit({"_workflows/a.yaml": "- {name: b, script: 'true'}\n"}))
    desk.run()
    said = archive(desk.store, "plan", "proj").output
    for host in ("one", "two", "three", "four"):
        assert f"{host}.example.org" in said
    assert "tasks of proj that have not ended wait" in said


def test_a_task_of_a_run_that_somebody_asked_for_is_told_of_too(desk: Desk) -> None:
    need_service("bubblewrap")
    wants = "when: manual\ntasks:\n- {name: a, network: [one.example.org], script: 'true'}\n"
    first = desk.commit({"_workflows/a.yaml": wants})
    desk.notify(first)
    desk.run()
    assert archive(desk.store, "run", "proj", "a").exit_code == 0
    desk.run()
    desk.notify(desk.commit({"_workflows/a.yaml": "- {name: b, script: 'true'}\n"}))
    desk.run()
    assert "one.example.org" in archive(desk.store, "plan", "proj").output
    assert any("one.example.org" in told for _, told in network.waiting(desk.store))


def test_an_archive_that_looks_like_another_is_not_added(own_store: Store, tmp_path: Path) -> None:
    Archives(own_store).add("book", "git", str(made("git", tmp_path / "one")), "ada")
    for name in ("Book", "b\u043e\u043ek"):
        with pytest.raises(BadInput, match="looks like the archive book"):
            Archives(own_store).add(name, "git", str(made("git", tmp_path / name)), "ada")
    assert [kept.name for kept in Archives(own_store).list()] == ["book"]


@pytest.mark.parametrize("name", ["*", "maps*", "book@maps", "-x", ".x", "~a", "a b", "a/b", "a:b", "a|b", ""])
def test_a_name_that_means_something_else_is_none_for_an_archive(tmp_path: Path, name: str) -> None:
    """An archive's name is its collection's: rights, holds and folders are found by it."""
    with open_store("sqlite://:memory:") as store, pytest.raises(BadInput) as refused:
        Archives(store).add(name, "git", str(tmp_path), "ada")
    assert refused.value.code == "archive.name"

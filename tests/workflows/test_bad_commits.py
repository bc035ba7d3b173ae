"""Commits and branches that git would never make, and commits that could not be planned: told as what they are, with a
way on; what comes after them is run."""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from custody.cli.doctor.report import examine
from custody.errors import Unavailable
from custody.kernel.engine import Serving, Settings, Worker
from custody.kernel.stores import Store, open_store
from custody.workflows.archives.git import git_reader
from custody.workflows.archives.notices import reconcile
from custody.workflows.archives.table import Archives
from custody.workflows.commands.archive import app
from custody.workflows.kinds import reconcile_all
from custody.workflows.makers import COMMIT_KIND, commit_key
from custody.workflows.plan import job as planning
from workflows.desk import until
from workflows.repositories import GitRepository


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setattr(planning, "PATIENCE", 0.1)
    local = f"sqlite:///{tmp_path / 'custody.db'}"
    with open_store(local if request.param == "sqlite" else request.getfixturevalue("postgres_url")) as opened:
        yield opened


def put(repository: GitRepository, kind: str, data: bytes) -> str:
    """An object, whatever it says."""
    whole = f"{kind} {len(data)}\0".encode() + data
    name = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
    place = repository.path / "objects" / name[:2] / name[2:]
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(zlib.compress(whole))
    return name


def commit_of(repository: GitRepository, tree: str, parent: str) -> str:
    who = "A <a@example.org> 1 +0000"
    text = f"tree {tree}\nparent {parent}\nauthor {who}\ncommitter {who}\n\nm\n"
    return put(repository, "commit", text.encode())


def branch(repository: GitRepository, id_: str, name: str = "main") -> None:
    (repository.path / "refs" / "heads" / name).write_text(f"{id_}\n")


def plan(store: Store) -> None:
    from custody.workflows.kinds import planning as kind

    Worker(store, Serving((kind(store),)), Settings(lease=6.0)).run_until_quiet()


def ended(store: Store, revision: int) -> str | None:
    plan(store)
    job = store.queue.by_key(COMMIT_KIND, commit_key("proj", revision))
    assert job is not None
    return job.ended


def listed(store: Store) -> str:
    done = CliRunner().invoke(app, ["list", "--json", "--store", store.url])
    assert done.exit_code == 0, done.exception
    return done.output


def archive(store: Store, *words: str) -> str:
    done = CliRunner().invoke(app, [*words, "--store", store.url])
    assert done.exit_code == 0, done.exception
    return done.output


def found_by_the_doctor(store: Store) -> str:
    return "\n".join(f"{finding.what} {finding.do}" for finding in examine(store.url, None))


@pytest.fixture
def first(store: Store, proj_git: GitRepository) -> str:
    tip = proj_git.commit("f", "1")
    proj_git.push()
    reconcile(store, Archives(store).add("proj", "git", str(proj_git.path), "ada"))
    until(lambda: ended(store, 1) == "passed")
    return tip


def again(store: Store) -> int:
    return reconcile(store, Archives(store).get("proj"))


def test_a_commit_that_was_made_wrong_is_told_of_and_those_after_it_go_on(
    store: Store, proj_git: GitRepository, first: str
) -> None:
    file = put(proj_git, "blob", b"x")
    branch(proj_git, commit_of(proj_git, file, first))
    assert again(store) == 1
    branch(proj_git, commit_of(proj_git, put(proj_git, "tree", b"nonsense"), first))
    assert again(store) == 1
    branch(proj_git, first)
    assert again(store) == 1
    until(lambda: ended(store, 4) == "passed", 60)
    said = archive(store, "why", "proj", "2")
    assert f"object {file} is a file, and should be a folder" in said
    for told in (listed(store), found_by_the_doctor(store)):
        assert f"revision 2 cannot be used: object {file} is a file, and should be a folder" in told
        assert "revision 3 cannot be used" in told
        assert "is missing" not in told


def test_a_commit_whose_repository_is_damaged_waits_and_says_how_to_go_on_without_it(
    store: Store, proj_git: GitRepository, first: str
) -> None:
    branch(proj_git, commit_of(proj_git, "1" * 40, first))
    again(store)
    branch(proj_git, first)
    again(store)
    until(lambda: "is missing" in (plan(store), archive(store, "why", "proj", "2"))[1], 60)  # type: ignore[func-returns-value]
    said = archive(store, "why", "proj", "2")
    ways = [f"custody archive {verb} proj 2 COMMIT --why …" for verb in ("cancel", "accept")]
    assert all(way in said for way in ways), said
    for told in (listed(store), found_by_the_doctor(store)):
        assert f"revision 2 cannot be read: object {'1' * 40} is missing" in told
        assert "custody archive why proj 2 COMMIT" in told
    assert ended(store, 3) is None
    archive(store, "cancel", "proj", "2", "COMMIT", "--why", "it is lost")
    archive(store, "accept", "proj", "2", "COMMIT", "--why", "it is lost")
    until(lambda: ended(store, 3) == "passed", 60)
    assert "cannot be read" not in listed(store)


@pytest.mark.parametrize("kind", ["tag", "file"])
def test_a_branch_that_names_no_commit_is_called_so_and_the_others_are_taken_in(
    store: Store, proj_git: GitRepository, first: str, kind: str
) -> None:
    text = f"object {first}\ntype commit\ntag v\ntagger A <a@example.org> 1 +0000\n\nx\n".encode()
    branch(proj_git, put(proj_git, "tag" if kind == "tag" else "blob", text))
    branch(proj_git, first, "other")
    reconcile_all(store)
    git_reader._memories.clear()  # as in a process that has never read it
    reconcile_all(store)
    kept = Archives(store).get("proj")
    assert (kept.frozen, kept.last) == ("", 2), "it is not another repository, and the other branch is taken in"
    for told in (listed(store), found_by_the_doctor(store)):
        assert f"refs/heads/main is a {kind}, not a commit" in told
    branch(proj_git, first)
    reconcile_all(store)
    assert Archives(store).out_of_reach("proj") == ""


def test_one_whose_only_branch_names_no_commit_is_not_added(store: Store, proj_git: GitRepository) -> None:
    branch(proj_git, put(proj_git, "blob", b"x"))
    branch(proj_git, put(proj_git, "blob", b"x"), os.fsdecode(b"a-caf\xe9"))
    with pytest.raises(Unavailable, match="refs/heads/main is a file, not a commit") as caught:
        Archives(store).add("proj", "git", str(proj_git.path), "ada")
    assert "refs/heads/a-caf\\xe9 is a file" in caught.value.message
    assert "taken in" not in caught.value.hint
    assert Archives(store).list() == ()


def test_the_doctor_and_the_list_name_what_is_frozen_cannot_be_reached_or_was_not_planned(
    store: Store, proj_git: GitRepository, first: str
) -> None:
    branch(proj_git, commit_of(proj_git, put(proj_git, "tree", b""), first))
    again(store)
    job = store.queue.by_key(COMMIT_KIND, commit_key("proj", 2))
    assert job is not None
    (proj_git.path / "shallow").write_text("")  # refused as long as it is there
    until(lambda: ended(store, 2) == "failed", 60)
    for told in (listed(store), found_by_the_doctor(store)):
        assert "revision 2 was not planned: its COMMIT is failed" in told
        assert "it is shallow" in told
        assert "custody archive retry proj 2 COMMIT" in told
        assert "custody archive accept proj 2 COMMIT --why …" in told
    reconcile_all(store)
    assert "archive proj stands still: " + Archives(store).out_of_reach("proj") in found_by_the_doctor(store)
    kept = Archives(store).get("proj")
    Archives(store).freeze("proj", "it went back", kept.uuid, "ada")
    said = found_by_the_doctor(store)
    assert "archive proj stands still: it went back custody archive thaw proj" in said
    (proj_git.path / "shallow").unlink()
    archive(store, "thaw", "proj", "--why", "looked")
    reconcile_all(store)
    archive(store, "retry", "proj", "2", "COMMIT")
    until(lambda: ended(store, 2) == "passed", 60)
    assert "stands still" not in found_by_the_doctor(store)

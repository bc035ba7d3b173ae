"""A notice is a hint to look: what is taken in is what the repository shows, and nothing grows by telling."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from custody.errors import NotFound, Unavailable
from custody.kernel.engine import Serving, Settings, Worker
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.fsck import recount
from custody.workflows.archives import notices
from custody.workflows.archives.notices import RECONCILER, notify, reconcile
from custody.workflows.archives.table import Archives, Kept
from custody.workflows.commands.archive import app
from custody.workflows.kinds import planning, reconcile_all
from custody.workflows.makers import COMMIT_KIND, commit_key
from custody.workflows.patience import FIRST, MOST, hurry, patiently
from rig.postgres import Postgres
from rig.svn import Repository
from workflows.repositories import GitRepository
from workflows.test_notices import client


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "sqlite":
        with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as opened:
            yield opened
        return
    server: Postgres = request.getfixturevalue("postgres")
    url = server.fresh_database()
    with open_store(url) as opened:
        yield opened
    server.give_back(url)


@pytest.fixture(params=["git", "svn"])
def told_of(request: pytest.FixtureRequest, store: Store) -> tuple[Store, Any]:
    """An archive without a revision."""
    repository = request.getfixturevalue("proj_git" if request.param == "git" else "repository")
    Archives(store).add("book", request.param, str(repository.path), "ada")
    return store, repository


def commit(repository: GitRepository | Repository, name: str) -> None:
    if isinstance(repository, GitRepository):
        repository.commit(name, name)
        repository.push()
    else:
        repository.commit(name, {name: name})


def rows(store: Store) -> tuple[int, int, int]:
    """What is on record of the archive: how far, how many jobs, the newest event."""
    jobs = [job for number in range(1, 10) if (job := store.queue.by_key(COMMIT_KIND, commit_key("book", number)))]
    return Archives(store).get("book").last, len(jobs), store.records.recent(limit=1)[0].id


@pytest.mark.parametrize("number", [1, 2, 7, 2**53])
def test_nobody_invents_a_revision(told_of: tuple[Store, Any], number: int) -> None:
    store, repository = told_of
    before = rows(store)
    with pytest.raises(NotFound) as caught:
        notify(store, "book", number)
    assert (caught.value.code, rows(store)) == ("archive.revision", before)
    commit(repository, "one")
    assert notify(store, "book", 1) == 1
    with pytest.raises(NotFound):
        notify(store, "book", 2)
    assert rows(store)[:2] == (1, 1)


def test_nobody_invents_one_by_the_api_or_the_command(told_of: tuple[Store, Any]) -> None:
    store, _ = told_of
    asking, before = client(store, "hook", "book"), rows(store)[:2]
    for body, status in (
        ({"revision": 1}, 404),
        ({"revision": True}, 422),
        ({"revision": "1"}, 422),
        ({"revision": 1.0}, 422),
    ):
        answer = asking.post("/api/v1/archives/book/notify", json=body)
        assert answer.status_code == status, body
    CliRunner().invoke(app, ["notify", "book", "1", "--store", store.url])
    assert rows(store)[:2] == before


def test_while_the_repository_does_not_answer_nothing_is_believed(told_of: tuple[Store, Any], tmp_path: Path) -> None:
    store, repository = told_of
    moved = Path(repository.path).rename(tmp_path / "away")
    before = rows(store)
    for number in (1, 2):
        with pytest.raises(Unavailable):
            notify(store, "book", number)
    assert rows(store) == before
    moved.rename(repository.path)
    commit(repository, "one")
    assert reconcile_all(store) == 1


def test_what_an_earlier_version_believed_is_taken_back_and_its_numbers_are_for_what_comes(
    told_of: tuple[Store, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, repository = told_of
    commit(repository, "one")
    reconcile_all(store)
    store.db.write(lambda tx: notices._take_in(tx, "book", 6, RECONCILER))
    phantoms = [store.queue.by_key(COMMIT_KIND, commit_key("book", number)) for number in range(2, 7)]
    reconcile(store, Archives(store).get("book"))
    assert Archives(store).get("book").last == 6, "a disk that is behind may still show it"
    monkeypatch.setattr(notices, "NEVER_CAME", -1)
    monkeypatch.setattr(notices, "MOST_AT_ONCE", 2)
    reconcile_all(store)
    kept: Kept = Archives(store).get("book")
    assert (kept.last, kept.frozen) == (1, "")
    assert [store.queue.by_key(COMMIT_KIND, commit_key("book", number)) for number in range(2, 7)] == [None] * 5
    for phantom in phantoms:
        assert phantom is not None
        last = list(store.records.all_events(phantom.subject))[-1]
        assert last.type == "deleted"
        assert "there never was a revision" in last.detail["why"]
    commit(repository, "two")
    assert reconcile_all(store) == 1
    assert Archives(store).get("book").last == 2
    assert recount(store) == []


def test_whatever_waits_for_the_same_waits_longer_each_time_and_is_hurried() -> None:
    work, pauses = SimpleNamespace(facts={}), list[float]()
    for why in [*["it is away"] * 12, "it is frozen"]:
        waited = patiently(work, why)  # type: ignore[arg-type]
        work.facts = {**work.facts, **waited.keep}
        pauses.append(waited.seconds)
    assert pauses[:4] == [FIRST, 2 * FIRST, 4 * FIRST, 8 * FIRST]
    assert pauses[-2:] == [MOST, FIRST], "another reason is told soon"


def test_what_ends_a_wait_lets_all_of_it_look_again(told_of: tuple[Store, Any]) -> None:
    store, repository = told_of
    commit(repository, "one")
    reconcile_all(store)
    Archives(store).freeze("book", "somebody must look", Archives(store).get("book").uuid, "ada")
    Worker(store, Serving((planning(store),)), Settings()).run_until_quiet()
    job = store.queue.by_key(COMMIT_KIND, commit_key("book", 1))
    assert job is not None
    assert job.due is not None
    assert job.due > store.now()
    assert notices.thaw(store, "book", "ada", "looked")
    assert not notices.thaw(store, "book", "ada", "looked"), "it is not frozen any more"
    Worker(store, Serving((planning(store),)), Settings()).run_until_quiet()
    assert store.queue.get(job.id).ended == "passed"
    hurry(store, "book")
    assert recount(store) == []

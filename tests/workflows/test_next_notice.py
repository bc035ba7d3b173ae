"""The usual notice, of the next revision, is one statement on PostgreSQL: it leaves what the common way leaves."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from custody.kernel.model.authority.acting import system
from custody.kernel.model.job import Job
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.fsck import recount
from custody.workflows.archives import notices
from custody.workflows.archives.folder import FolderArchive
from custody.workflows.archives.notices import notify
from custody.workflows.archives.table import Archives
from custody.workflows.makers import COMMIT_KIND, commit_key
from kernel.stores.acts import moved, take_one, worked
from rig.postgres import Postgres
from rig.proxy import Proxy


@pytest.fixture
def store(postgres: Postgres, tmp_path: Path) -> Iterator[Store]:
    url = postgres.fresh_database()
    with open_store(url + "?notify=0") as opened:
        for name in ("proj", "other"):
            add(opened, name, tmp_path / name)
        yield opened
        assert recount(opened) == []
    postgres.give_back(url)


def add(store: Store, name: str, folder: Path) -> None:
    """An archive that has forty revisions already."""
    kept = FolderArchive.make(folder)
    for number in range(1, 41):
        (folder / str(number)).mkdir()
    values = {"name": name, "system": "folder", "location": str(folder), "uuid": kept.uuid(), "last": 0}
    store.db.write(lambda tx: tx.run("wf_add_archive", **values))


def commit_of(store: Store, archive: str, revision: int) -> Job:
    job = store.queue.by_key(COMMIT_KIND, commit_key(archive, revision))
    assert job is not None
    return job


def edges(store: Store, job: int) -> list[Any]:
    with store.db._pool.connection() as db:  # type: ignore[attr-defined]
        return db.execute("select target, wants, otherwise, met from edge where job = %s", (job,)).fetchall()


def as_left(store: Store, archive: str, revision: int) -> dict[str, Any]:
    """Everything that a notice leaves, but for what differs between any two jobs."""
    job, before = commit_of(store, archive, revision), commit_of(store, archive, revision - 1)
    assert [row[0] for row in edges(store, job.id)] == [before.id]
    (event,) = store.records.events(job.subject)
    assert event.detail["needs"] == [before.id]
    assert (event.move, event.at) == (job.move, job.created)
    own = {"id", "key", "lane", "collection", "line", "payload", "move", "created", "changed", "needs", "queue"}
    row = {name: getattr(job, name) for name in job.__dataclass_fields__ if name not in own}
    told = {name: value for name, value in event.detail.items() if name not in own}
    said = (event.seq, event.type, event.outcome, event.agent, event.token, told)
    return {
        "row": row,
        "edge": edges(store, job.id)[0][1:],
        "event": said,
        "names": (job.lane, job.line, job.collection),
    }


def test_one_by_one_they_leave_what_all_at_once_would(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [notify(store, "proj", number, system("hook")) for number in range(1, 5)] == [1, 1, 1, 1]
    monkeypatch.setattr(notices, "_take_in_next", lambda *_: None)
    assert [notify(store, "other", number, system("hook")) for number in range(1, 5)] == [1, 1, 1, 1]
    for number in range(2, 5):
        ours, theirs = as_left(store, "proj", number), as_left(store, "other", number)
        assert ours.pop("names") == ("proj",) * 3
        assert theirs.pop("names") == ("other",) * 3
        assert ours == theirs
        assert commit_of(store, "proj", number).payload == {"archive": "proj", "revision": number}


def test_it_is_written_in_one_statement(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert notify(store, "proj", 1) == 1
    monkeypatch.setattr(store.db._transactions, "write", None)  # type: ignore[attr-defined]
    assert [notify(store, "proj", number) for number in (2, 3)] == [1, 1]


@pytest.mark.parametrize(
    ("how", "unmet"), [("pass", 0), ("fail", 1), ("cancel", 1), ("", 1)], ids=["passed", "failed", "cancelled", "open"]
)
def test_how_the_commit_before_ended_counts(store: Store, how: str, unmet: int) -> None:
    notify(store, "proj", 1)
    if how == "cancel":
        assert store.queue.move(moved(commit_of(store, "proj", 1), how)).done
    elif how:
        store.queue.settle([worked(take_one(store, COMMIT_KIND, lane="proj"), how)])
    assert notify(store, "proj", 2) == 1
    job = commit_of(store, "proj", 2)
    assert job.unmet == unmet
    assert edges(store, job.id)[0][3] == 1 - unmet


def test_a_commit_job_that_was_deleted_is_not_waited_for(store: Store) -> None:
    notify(store, "proj", 1)
    assert store.queue.delete(commit_of(store, "proj", 1).id, "ann", "by mistake")
    assert notify(store, "proj", 2) == 1
    assert commit_of(store, "proj", 2).unmet == 0


def test_late_repeated_and_frozen_notices_write_nothing(store: Store) -> None:
    for number in (1, 2, 3):
        notify(store, "proj", number)
    before = store.records.recent(limit=1)[0].id
    assert [notify(store, "proj", number) for number in (1, 2, 3)] == [0, 0, 0]
    assert store.records.recent(limit=1)[0].id == before
    Archives(store).freeze("proj", "it went back", "proj", "ada")
    assert notify(store, "proj", 4) == 0
    assert Archives(store).get("proj").last == 3


def test_many_at_once_in_any_order_make_one_chain(store: Store) -> None:
    told = [(name, number) for name in ("proj", "other") for number in [*range(1, 41)] * 2]
    random.Random(4).shuffle(told)
    with open_store(store.url) as second, ThreadPoolExecutor(8) as pool:
        stores = (store, second)
        made = list(pool.map(lambda each: notify(stores[each[0] % 2], *each[1]), enumerate(told)))
    assert sum(made) == 80
    for name in ("proj", "other"):
        for number in range(2, 41):
            job = commit_of(store, name, number)
            assert [row[0] for row in edges(store, job.id)] == [commit_of(store, name, number - 1).id]


@pytest.mark.parametrize("what", ["request", "answer"])
def test_a_notice_whose_answer_is_lost_is_taken_in_once(store: Store, postgres: Postgres, what: str) -> None:
    notify(store, "proj", 1)
    with Proxy(postgres.port) as proxy:
        with open_store(store.url.replace(f":{postgres.port}/", f":{proxy.port}/")) as far:
            cut = (proxy.cut_answer if what == "answer" else proxy.cut_request)(b"proj:2")
            notify(far, "proj", 2)
            assert cut.is_set()
    assert Archives(store).get("proj").last == 2
    as_left(store, "proj", 2)

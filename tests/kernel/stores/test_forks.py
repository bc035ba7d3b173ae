"""A store that was opened before a fork: parent and children each have their own, and none answers for another."""

from __future__ import annotations

import copy
import gc
import json
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from custody.errors import CustodyError, Refused
from custody.kernel.engine.kinds import Serving
from custody.kernel.engine.worker import Worker
from custody.kernel.model.job import NewJob
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.fsck import recount
from custody.kernel.stores.postgres.database import PostgresDatabase
from custody.kernel.stores.sqlite.database import FORK_SECONDS, SqliteDatabase
from custody.kernel.stores.store import RandomMoves
from kernel.stores.acts import submit, take_one
from prove.plugin import Scaled, Tell
from rig.need import need
from rig.postgres import Postgres

LONGEST = 60  # seconds


class Child:
    """A forked process that does one thing and says, as JSON, what came of it."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self._ear, mouth = os.pipe()
        self.pid = os.fork()
        if self.pid:
            os.close(mouth)
            return
        signal.alarm(LONGEST)  # a child that hangs is ended, and has said nothing
        try:
            said: Any = ["done", act()]
        except CustodyError as error:
            said = ["refused", error.code]
        except BaseException as error:
            said = ["raised", repr(error)]
        os.write(mouth, json.dumps(said).encode())
        os._exit(0)

    def answer(self) -> Any:
        with os.fdopen(self._ear) as ear:
            text = ear.read()
        os.waitpid(self.pid, 0)
        return json.loads(text) if text else ["hung", None]


OUTLIVES = pytest.mark.parametrize("url", ["file", "postgres", "pooled"], indirect=True)
"""One in memory ends with its process, and has its own test."""


@pytest.fixture
def kept(url: str) -> Iterator[Store]:
    with open_store(url) as store:
        yield store
        assert recount(store) == []


def submits(store: Store, name: str, count: int) -> dict[str, int]:
    """Keys, and the ids that were answered for them."""
    return {
        f"{name}-{number}": store.queue.submit_one(NewJob("parcel", {"n": name}, key=f"{name}-{number}")).id
        for number in range(count)
    }


def wrong(store: Store, answered: dict[str, int]) -> list[str]:
    """Keys that are not there, or whose id is another's."""
    there = {str(job.key): job.id for job in store.queue.every()}
    return [key for key, job in answered.items() if there.get(key) != job]


def files_open_here(url: str) -> list[str]:
    names = [os.path.realpath(f"/proc/self/fd/{entry}") for entry in os.listdir("/proc/self/fd")]
    return [name for name in names if name.startswith(url.removeprefix("sqlite:///"))]


@OUTLIVES
def test_children_and_their_parent_each_get_their_own_answers(kept: Store) -> None:
    submit(kept)
    children = [Child(lambda name=f"child {n}": submits(kept, name, 20)) for n in range(3)]  # type: ignore[misc]
    answered = submits(kept, "parent", 20)
    for child in children:
        how, ids = child.answer()
        assert how == "done", ids
        answered |= ids
    assert len(answered) == 80
    assert wrong(kept, answered) == []


@OUTLIVES
def test_a_fork_in_the_middle_of_another_threads_verbs_hangs_nobody(kept: Store) -> None:
    over = threading.Event()
    answered: dict[str, int] = {}

    def go_on() -> None:
        number = 0
        while not over.is_set():
            answered.update(submits(kept, f"thread {number}", 5))
            number += 1

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        children = [Child(lambda name=f"child {n}": submits(kept, name, 5)) for n in range(4)]  # type: ignore[misc]
        for child in children:
            how, ids = child.answer()
            assert how == "done", (how, ids)
            answered |= ids
    finally:
        over.set()
        thread.join()
    assert wrong(kept, answered) == []


@OUTLIVES
def test_a_store_that_nobody_has_used_yet_is_not_open_in_a_child(kept: Store) -> None:
    """What opening it has left open is put down as well: SQLite would take the parent's locks for the child's."""
    assert Child(lambda: files_open_here(kept.url)).answer() == ["done", []]
    children = [Child(lambda name=f"child {n}": submits(kept, name, 5)) for n in range(2)]  # type: ignore[misc]
    answered = submits(kept, "parent", 5)
    for child in children:
        how, ids = child.answer()
        assert how == "done", ids
        answered |= ids
    assert wrong(kept, answered) == []


def test_a_fork_waits_for_a_store_that_is_being_opened(quick_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, opens, forked = f"sqlite:///{quick_folder / 'custody.db'}", threading.Event(), threading.Event()
    migrate = SqliteDatabase._migrate

    def slowly(self: SqliteDatabase, db: Any) -> None:
        opens.set()
        forked.wait(1)  # never, as the fork waits for us
        migrate(self, db)

    monkeypatch.setattr(SqliteDatabase, "_migrate", slowly)
    stores: list[Store] = []
    thread = threading.Thread(target=lambda: stores.append(open_store(url)))
    thread.start()
    opens.wait(LONGEST)
    child = Child(lambda: [files_open_here(url), submits(open_store(url), "child", 3)])
    forked.set()
    thread.join()
    how, (inherited, answered) = child.answer()
    assert (how, inherited) == ("done", [])
    with stores[0] as store:
        assert wrong(store, answered | submits(store, "parent", 3)) == []


def test_nothing_stays_open_of_a_store_that_nobody_has_closed(quick_folder: Path) -> None:
    url = f"sqlite:///{quick_folder / 'custody.db'}"
    store = open_store(url)
    submit(store)
    assert files_open_here(url)
    del store
    gc.collect()
    assert files_open_here(url) == []


@OUTLIVES
def test_a_child_of_a_child_has_its_own_as_well(kept: Store) -> None:
    def child() -> Any:
        own = submits(kept, "child", 3)
        how, theirs = Child(lambda: submits(kept, "grandchild", 3)).answer()
        assert how == "done", theirs
        return own | theirs

    how, answered = Child(child).answer()
    assert how == "done", answered
    assert wrong(kept, answered | submits(kept, "parent", 3)) == []


@OUTLIVES
def test_a_child_that_ends_or_closes_its_store_does_not_end_the_parents_session(kept: Store) -> None:
    submit(kept)
    assert Child(kept.close).answer() == ["done", None]
    assert Child(lambda: submits(kept, "child", 1) and None).answer() == ["done", None]
    assert wrong(kept, submits(kept, "parent", 3)) == []


@OUTLIVES
def test_pools_of_processes_made_by_fork_are_served(kept: Store) -> None:
    submit(kept)
    global _SHARED
    _SHARED = kept
    with multiprocessing.get_context("fork").Pool(3) as pool:
        made = pool.map(_submits_in_a_pool, range(12))
    answered = {key: job for part in made for key, job in part.items()}
    assert len(answered) == 24
    assert wrong(kept, answered) == []


_SHARED: Store


def _submits_in_a_pool(number: int) -> dict[str, int]:
    return submits(_SHARED, f"task {number}", 2)


def test_parent_and_child_never_name_two_moves_alike() -> None:
    moves = RandomMoves()
    moves()  # and many more are drawn already
    how, theirs = Child(lambda: [moves() for _ in range(300)]).answer()
    assert how == "done"
    assert not set(theirs) & {moves() for _ in range(300)}


def test_a_store_in_memory_is_refused_in_a_child() -> None:
    with open_store("sqlite://:memory:") as store:
        submit(store)
        assert Child(lambda: submit(store)).answer() == ["refused", "fork.foreign"]
        assert Child(lambda: len(store.queue.list())).answer() == ["refused", "fork.foreign"]
        assert Child(store.close).answer() == ["done", None]
        submit(store)
        assert len(store.queue.list()) == 2


def test_a_child_waits_for_no_store_that_is_not_its_own_when_it_forks_in_turn() -> None:
    """Each would cost ten seconds, and the leases of a worker end meanwhile."""

    def child() -> float:
        begun = time.monotonic()
        assert Child(lambda: 1).answer() == ["done", 1]
        return time.monotonic() - begun

    with open_store("sqlite://:memory:"), open_store("sqlite://:memory:"):
        how, seconds = Child(child).answer()
        assert how == "done"
        assert seconds < FORK_SECONDS


def test_a_file_that_is_being_read_by_the_one_who_forks_is_refused_in_the_child(
    quick_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite keeps the locks of a process in its memory: a child would believe that it has its parent's."""
    monkeypatch.setattr("custody.kernel.stores.sqlite.database.FORK_SECONDS", 0.2)
    url = f"sqlite:///{quick_folder / 'custody.db'}"
    with open_store(url) as store:
        answers = store.db.read(
            lambda tx: [Child(lambda: submit(store)).answer(), Child(lambda: open_store(url).close()).answer()]
        )
        assert answers == [["refused", "fork.foreign"]] * 2
        submit(store)
        assert Child(lambda: submit(store)).answer()[0] == "done"


@OUTLIVES
def test_what_was_claimed_belongs_to_the_process_that_claimed_it(kept: Store) -> None:
    submit(kept)
    claim = take_one(kept)
    for act in (
        lambda: kept.queue.renew([claim], 30),
        lambda: kept.queue.release([claim]),
        lambda: kept.queue.keep(claim, {"n": 1}, {"n": 1}, [], "ann"),
    ):
        assert Child(act).answer() == ["refused", "fork.foreign"]
    assert kept.queue.renew([claim], 30) == {}


@OUTLIVES
def test_a_worker_belongs_to_the_process_that_made_it(kept: Store) -> None:
    worker = Worker(kept, Serving(()))
    assert Child(worker.run_until_idle).answer() == ["refused", "fork.foreign"]
    assert Child(worker.run_forever).answer() == ["refused", "fork.foreign"]
    assert worker.run_until_idle() == 0


# The proof


def prefork(store: Store, number: int, each: int) -> tuple[dict[str, int], int]:
    """Four children, made while a thread of the parent submits: what all were answered, and how many hung."""
    answered: dict[str, int] = {}
    over = threading.Event()

    def go_on() -> None:
        count = 0
        while not over.is_set() and count < each:
            answered.update(submits(store, f"{number} parent {count}", 5))
            count += 5

    thread = threading.Thread(target=go_on)
    thread.start()
    children = [
        Child(lambda name=f"{number} child {n}": submits(store, name, each))  # type: ignore[misc]
        for n in range(4)
    ]
    hung = 0
    for child in children:
        how, ids = child.answer()
        hung += how != "done"
        answered.update(ids if how == "done" else {})
    over.set()
    thread.join()
    return answered, hung


@pytest.mark.proves("P2")
@pytest.mark.parametrize("sort", ["postgres", "pooled", "file"])
def test_stores_opened_before_a_fork_answer_every_child_for_itself(
    request: pytest.FixtureRequest, quick_folder: Path, sort: str, scaled: Scaled[int], tell: Tell
) -> None:
    need("postgresql", "pgbouncer")
    server: Postgres = request.getfixturevalue("quick_postgres")
    database = server.fresh_database()
    url = f"sqlite:///{quick_folder / 'forks.db'}" if sort == "file" else f"{database}?unsafe=1"
    if sort == "pooled":
        url = request.getfixturevalue("pooler").url(url)
    answers = mistakes = hung = 0
    rounds = scaled(1, 4, 170)
    with open_store(url) as store:
        submit(store)
        for number in range(rounds):
            answered, silent = prefork(store, number, 40)
            answers, hung = answers + len(answered), hung + silent
            mistakes += len(wrong(store, answered))
        assert recount(store) == []
    server.give_back(database)
    tell(
        f"{rounds * 4} children of {sort}: {answers} answers, {mistakes} wrong, {hung} hung",
        forks=rounds * 4,
        answers=answers,
        wrong_answers=mistakes,
        hung=hung,
    )
    assert (mistakes, hung) == (0, 0)


def session_of(store: Store) -> int:
    """The server's process on the other side of the connection that is used next."""
    return int(store.db.write(lambda tx: tx.db.execute("select pg_backend_pid()").fetchall()[0][0]))  # type: ignore[attr-defined]


def test_a_child_speaks_in_a_session_of_its_own_and_the_old_way_did_not(
    quick_postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = quick_postgres.fresh_database()
    with open_store(f"{database}?unsafe=1&notify=0") as store:
        parents = session_of(store)
        assert Child(lambda: session_of(store)).answer()[1] != parents
        assert session_of(store) == parents, "and nobody has ended the parent's"
        with monkeypatch.context() as old:
            old.setattr(PostgresDatabase, "in_child", lambda self: None)
            assert Child(lambda: session_of(store)).answer()[1] == parents, "two processes on one connection"
    quick_postgres.give_back(database)


@pytest.mark.parametrize("url", ["memory", "file"], indirect=True)
def test_a_store_whose_closing_met_a_fork_is_closed_after_it(url: str) -> None:
    store = open_store(url)
    submit(store)
    database = store.db
    assert isinstance(database, SqliteDatabase)
    database.before_fork()
    closing = threading.Thread(target=store.close, daemon=True)
    closing.start()
    closing.join(0.2)
    assert closing.is_alive(), "it waits for the fork"
    database.after_fork()
    closing.join(LONGEST)
    assert not closing.is_alive()


@pytest.mark.parametrize("churned", ["file", "memory"])
def test_children_are_served_while_other_threads_open_use_and_close_other_stores(
    quick_folder: Path, churned: str
) -> None:
    """A lock of SQLite's own that is held at the fork would never be opened in the child."""
    over = threading.Event()

    def churn(name: str) -> None:
        other = f"sqlite:///{quick_folder / name}.db" if churned == "file" else "sqlite://:memory:"
        while not over.is_set():
            with open_store(other) as store:
                for _ in range(5):
                    submit(store)

    threads = [threading.Thread(target=churn, args=(f"other-{n}",)) for n in range(2)]
    with open_store(f"sqlite:///{quick_folder / 'custody.db'}") as store:
        answered = submits(store, "parent", 1)
        for thread in threads:
            thread.start()
        try:
            for number in range(12):
                how, ids = Child(lambda name=f"child {number}": submits(store, name, 2)).answer()  # type: ignore[misc]
                assert how == "done", (how, ids)
                answered |= ids
        finally:
            over.set()
            for thread in threads:
                thread.join()
        assert wrong(store, answered) == []


def test_a_store_is_not_handed_to_another_process_in_a_letter(kept: Store) -> None:
    """What would arrive is no store; `spawn` writes the arguments of a process such a letter."""
    spawned = multiprocessing.get_context("spawn").Process(target=submit, args=(kept,))
    for act in (lambda: pickle.dumps(kept), spawned.start, lambda: copy.copy(kept)):
        with pytest.raises(Refused, match="pass its URL") as refused:
            act()
        assert refused.value.code == "store.pickled"

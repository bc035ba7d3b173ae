"""Behind a pooler: it is recognised, nothing of ours stays in its sessions, and nothing that others left there counts."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib import resources
from pathlib import Path

import psycopg
import pytest

from custody.errors import BadInput, CustodyError, Unavailable, Unsafe
from custody.kernel.model.job import NewJob
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.postgres import connection, transaction_words
from custody.kernel.stores.postgres.connection import check_server
from custody.kernel.stores.postgres.server.address import Address
from custody.kernel.stores.postgres.server.failover import connect
from custody.kernel.stores.sql.statements import load
from kernel.stores.acts import submit, take
from kernel.stores.test_postgres import ask, bare, until
from prove.plugin import Scaled, Tell
from rig.need import need
from rig.pgbouncer import PgBouncer
from rig.postgres import Postgres
from rig.proxy import Proxy

SAID = "select name, setting from pg_settings where source = 'session'"


@pytest.fixture
def database(quick_postgres: Postgres) -> Iterator[str]:
    url = quick_postgres.fresh_database()
    yield url + "?unsafe=1"
    quick_postgres.give_back(url)


@pytest.fixture(params=["transaction", "session"])
def lender(request: pytest.FixtureRequest, quick_postgres: Postgres) -> Iterator[PgBouncer]:
    """A pooler with one session, so that everybody meets in it."""
    need("pgbouncer")
    server = PgBouncer(quick_postgres, request.param, size=1 if request.param == "transaction" else 4)
    server.start()
    yield server
    server.remove()


def everything(store: Store) -> None:
    """A bit of all that is done with a store."""
    store.queue.submit([NewJob("parcel", key="one"), NewJob("parcel", lane="b")])
    submit(store)
    taken = take(store)
    store.queue.renew(taken, 30)
    store.queue.release(taken)
    store.leases.claim("door", "ann", 30)
    store.records.note("door", "opened", "ann")
    store.wake()
    store.queue.counts()
    time.sleep(0.2)  # until the wake-up is said


def test_nothing_of_ours_stays_in_a_session_that_is_lent_to_others(lender: PgBouncer, database: str) -> None:
    with open_store(lender.url(database)) as store:
        everything(store)
        with psycopg.connect(lender.url(database).partition("?")[0], autocommit=True) as stranger:
            names = stranger.execute(SAID).fetchall()
            assert [name for name, _ in names if name not in ("application_name", "client_encoding")] == []
            assert stranger.execute("show synchronous_commit").fetchall() == [("on",)]
            assert stranger.execute("select count(*) from pg_prepared_statements").fetchall() == [(0,)]
            locks = "select 1 from pg_locks where locktype = 'advisory'"
            assert stranger.execute(locks).fetchall() == []


LEFT_BEHIND = (
    "set synchronous_commit = off",
    "set search_path = nowhere",
    "set default_transaction_read_only = on",
    "set default_transaction_isolation = 'serializable'",
    "set statement_timeout = '1ms'",
    "set lock_timeout = '1ms'",
    "set timezone = 'Asia/Kathmandu'",
    "set datestyle = 'German'",
    "set row_security = off",
    "set enable_indexscan = off",
    "set role pg_monitor",
    "prepare submit_single as select 1",
    "reset role",
    "set search_path = public",
    "set client_min_messages = error",
    "create temp table job (like public.job including all)",
    "create temp table event as select 1 as a",
    "create temp view item as select 1 as a where false",
    "create temp table schema_version (version int)",
)


def test_what_a_stranger_left_in_a_session_does_not_weaken_us(
    lender: PgBouncer, database: str, quick_postgres: Postgres
) -> None:
    open_store(database).close()
    with psycopg.connect(lender.url(database).partition("?")[0], autocommit=True) as stranger:
        for statement in LEFT_BEHIND:
            with suppress(psycopg.Error):
                stranger.execute(statement)
        # In session mode it keeps its session; what matters there is that the next one gets a clean or a dirty one.
    with open_store(lender.url(database)) as store:
        everything(store)

        def said(tx: object) -> object:
            shown = "select current_setting('synchronous_commit'), current_setting('client_min_messages')"
            return tx.db.execute(shown).fetchall()[0]  # type: ignore[attr-defined]

        assert store.db.write(said) == ("on", "warning")
        assert len(store.queue.list()) == 3
    with open_store(database) as store:
        assert len(store.queue.list()) == 3, "not in a stranger's temporary table"


def test_a_direct_session_is_ours_and_a_lent_one_is_not(lender: PgBouncer, database: str) -> None:
    with connect(Address.of(database)) as db:
        assert db.own
    with connect(Address.of(lender.url(database))) as db:
        assert not db.own
    with connect(Address.of(f"{database}&pooler=yes")) as db:
        assert not db.own, "said to be lent"
    with pytest.raises(Unsafe) as refused:
        open_store(lender.url(database) + "&pooler=no")
    assert refused.value.code == "postgres.pooler"


def test_a_pooler_that_lends_for_single_statements_is_refused_in_words(quick_postgres: Postgres, database: str) -> None:
    need("pgbouncer")
    server = PgBouncer(quick_postgres, "statement")
    server.start()
    try:
        with pytest.raises(Unsafe) as refused:
            open_store(server.url(database))
    finally:
        server.remove()
    assert refused.value.code == "postgres.pooler"
    assert "transaction" in refused.value.hint


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_a_pooler_whose_sessions_or_clients_are_all_taken_is_told_as_full(
    quick_postgres: Postgres, database: str, mode: str
) -> None:
    need("pgbouncer")
    server = PgBouncer(quick_postgres, mode, size=1, clients=2, waits=1)
    server.start()
    url = server.url(database)
    try:
        with psycopg.connect(url.partition("?")[0]) as first:
            first.execute("select 1")  # and holds the one session
            with pytest.raises(Unavailable, match=r"none of its sessions .* query_wait_timeout") as no_session:
                open_store(f"{url}&patience=0")
            with psycopg.connect(url.partition("?")[0]), pytest.raises(Unavailable, match="no more clients") as no_room:
                open_store(f"{url}&patience=0")
        if mode == "transaction":
            with open_store(f"{url}&patience=0") as store, psycopg.connect(url.partition("?")[0]) as stranger:
                submit(store)
                stranger.execute("select 1")
                with pytest.raises(Unavailable, match="none of its sessions") as in_use:
                    submit(store)
                assert in_use.value.code == "postgres.full"
    finally:
        server.remove()
    assert (no_session.value.code, no_room.value.code) == ("postgres.full", "postgres.full")
    assert "default_pool_size" in no_session.value.hint
    assert "max_client_conn" in no_room.value.hint
    assert not any("running?" in str(each.value) for each in (no_session, no_room))


def test_wake_ups_are_heard_through_a_direct_address_or_it_is_said_that_they_are_not(
    pooler: PgBouncer, database: str
) -> None:
    with open_store(pooler.url(database)) as store, open_store(database) as other:
        assert "pooler" in store.listen()
        with open_store(f"{pooler.url(database)}&listen={database.partition('?')[0]}") as listening:
            assert listening.listen() == ""
            heard = listening.heard()
            until(lambda: _rang(other, listening, heard))


def _rang(other: Store, listening: Store, heard: tuple[int, int]) -> bool:
    submit(other)
    return listening.wait(heard, 0.2)


@pytest.mark.parametrize("way", ["direct", "pooled"])
def test_a_store_may_live_in_a_schema_of_its_own(
    way: str, pooler: PgBouncer, database: str, quick_postgres: Postgres
) -> None:
    with bare(database) as db:
        db.execute('create schema "our store"')
    url = (pooler.url(database) if way == "pooled" else database) + "&schema=our%20store"
    with open_store(url) as store:
        everything(store)
    assert ask(database, 'select count(*) from "our store".job') == [(3,)]
    assert ask(database, "select count(*) from pg_tables where schemaname = 'public'") == [(0,)]
    with pytest.raises(BadInput) as refused:
        open_store(url.replace("our%20store", "nowhere"))
    assert refused.value.code == "store.schema"


def test_an_older_postgresql_is_refused_in_words(database: str) -> None:
    with connect(Address.of(database)) as db:
        server = connection.ask_server(db)
    values = {name: getattr(server, name) for name in server.__slots__} | {"version": 130_023}
    with pytest.raises(Unsafe) as refused:
        check_server(connection.Server(**values), unsafe=True)
    assert refused.value.code == "postgres.version"
    assert "13" in str(refused.value)
    assert "14" in refused.value.hint


@pytest.mark.parametrize(
    "wrong", ["pooler=perhaps", "patience=-1", "patience=soon", "require=luck", "unsafe=2", "patience=nan"]
)
def test_what_cannot_be_meant_in_an_address_is_refused(wrong: str) -> None:
    with pytest.raises(BadInput) as refused:
        Address.of(f"postgresql://localhost/custody?{wrong}")
    assert refused.value.code == "store.url"


def test_no_statement_and_no_word_of_ours_is_for_a_whole_session() -> None:
    lasting = re.compile(r"^\s*(set|listen)\b|advisory_lock\(|set_config|temp table|with hold", re.IGNORECASE)
    assert [name for name, text in load("postgres").items() if lasting.search(text)] == []
    for text in (
        transaction_words.OWN.begin,
        transaction_words.OWN.look,
        transaction_words.for_any_session("q", "on", True).begin,
    ):
        assert not [part for part in text.decode().split(";") if re.match(r"\s*set (?!local )", part)]
    folder = Path(str(resources.files("custody.kernel.stores.postgres")))
    for file in folder.rglob("*.py"):
        found = [
            line
            for line in file.read_text().splitlines()
            if "hint=" not in line
            and re.search(r"""["'](set (?!local)|select (set_config|pg_advisory_lock)\()""", line)
        ]
        assert found == [], file.name
        if file.name != "notify.py":
            assert "listen {" not in file.read_text(), file.name


# The proof


class Stranger:
    """Somebody else in the same pool, who leaves behind what he can, and counts how often somebody ended his session."""

    def __init__(self, url: str) -> None:
        self._url, self._over, self.hurt, self.served = url, threading.Event(), 0, 0
        self._thread = threading.Thread(target=self._go_on)
        self._thread.start()

    def _go_on(self) -> None:
        while not self._over.is_set():
            try:
                with psycopg.connect(self._url, autocommit=True, prepare_threshold=None) as db:
                    while not self._over.is_set():
                        db.execute("set synchronous_commit = off")
                        db.execute("set search_path = nowhere")
                        db.execute("select pg_sleep(0.02)")
                        self.served += 1
            except psycopg.errors.AdminShutdown:
                self.hurt += 1
            except psycopg.Error:
                time.sleep(0.05)

    def leave(self) -> None:
        self._over.set()
        self._thread.join()


class Crashing:
    """A durable server, a pooler before it, a proxy before that, which cuts; and strangers in the pool."""

    def __init__(self) -> None:
        need("postgresql", "pgbouncer")
        self.server = Postgres()
        # Whatever a commit did not wait for stays in memory for long, and is lost with it.
        self.server.settings |= {"wal_writer_delay": "10s", "wal_writer_flush_after": "1GB"}
        self.server.start()
        self.direct = self.server.fresh_database()
        open_store(self.direct).close()
        self.pooler = PgBouncer(self.server, size=4, round_robin=True)
        self.pooler.start()
        self.proxy = Proxy(self.pooler.port)
        self.url = (
            self.pooler.url(self.direct).replace(f":{self.pooler.port}/", f":{self.proxy.port}/") + "?patience=30"
        )
        self.strangers = [Stranger(self.pooler.url(self.direct)) for _ in range(2)]

    def crash(self) -> None:
        self.server.program.end(signal.SIGKILL)
        self.server.start()

    def keys(self) -> set[str]:
        return {str(key) for (key,) in ask(self.direct, "select key from job where key is not null")}

    def remove(self) -> None:
        for stranger in self.strangers:
            stranger.leave()
        self.proxy.stop()
        self.pooler.remove()
        self.server.remove()


def round_of(world: Crashing, store: Store, number: int, each: int) -> set[str]:
    """Submits, with a cut among them, and then the server is killed: what was acknowledged."""
    acknowledged: set[str] = set()
    for count in range(each):
        if count == each // 2:
            world.proxy.cut_answer(b"commit")
        key = f"{number}-{count}"
        with suppress(CustodyError):
            store.queue.submit_one(NewJob("parcel", key=key))
            acknowledged.add(key)
    world.crash()
    return acknowledged


@pytest.mark.proves("P1")
def test_behind_a_pooler_crashes_lose_nothing_acknowledged_and_strangers_are_left_alone(
    scaled: Scaled[int], tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old way, which trusted a session to be as it was when it was opened, is tried beside it."""
    crashes, acknowledged = scaled(2, 20, 500), set[str]()
    world = Crashing()
    try:
        with open_store(world.url) as store:
            for number in range(crashes):
                acknowledged |= round_of(world, store, number, 60)
        missing = acknowledged - world.keys()
        hurt = sum(stranger.hurt for stranger in world.strangers)
        served = sum(stranger.served for stranger in world.strangers)
        missing_of_old = _the_old_way(world, monkeypatch)
    finally:
        world.remove()
    tell(
        f"{crashes} crashes behind a pooler: {len(acknowledged)} acknowledged, {len(missing)} lost"
        f" (the old way: {missing_of_old}), strangers served {served} times and hurt {hurt} times",
        crashes=crashes,
        acknowledged=len(acknowledged),
        lost=len(missing),
        strangers_hurt=hurt,
        lost_by_the_old_way=missing_of_old,
    )
    assert (missing, hurt) == (set(), 0)
    assert served > 0
    assert missing_of_old > 0, "the trial is too soft: even the old way loses nothing"


def _the_old_way(world: Crashing, monkeypatch: pytest.MonkeyPatch) -> int:
    said = transaction_words.for_any_session

    def without_the_promise(schema: str, durable: str, watches: bool) -> transaction_words.Words:
        whole = said(schema, durable, watches)
        cut = whole.begin.replace(f"set local synchronous_commit to {durable}; ".encode(), b"")
        return transaction_words.Words(cut, whole.look, whole.glance)

    with monkeypatch.context() as old:
        old.setattr(
            "custody.kernel.stores.postgres.server.connect.transaction_words.for_any_session", without_the_promise
        )
        for number in range(-10, 0):  # whatever somebody else's commit takes along to the disk is not lost
            with open_store(world.url) as store:
                acknowledged = round_of(world, store, number, 50)
            if lost := acknowledged - world.keys():
                break
    return len(lost)

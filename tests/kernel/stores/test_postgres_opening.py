"""Opening: which server is taken, what it is asked for, what is said when it cannot be had, and no password ever."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import psycopg
import pytest

from custody.cli.doctor.server import server_findings
from custody.errors import BadInput, CustodyError, Unavailable, Unsafe
from custody.ingest.zookeeper.store import read_address
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.postgres.server import causes
from custody.kernel.stores.postgres.server.address import Address
from custody.kernel.stores.postgres.server.failover import Way
from custody.kernel.stores.zookeeper_leases import ZooKeeperLeases
from kernel.stores.acts import submit
from kernel.stores.test_postgres import until
from kernel.stores.test_postgres_failover import primary, standby, url_of
from kernel.stores.test_postgres_pooled import database
from rig.need import need
from rig.pgbouncer import PgBouncer
from rig.postgres import Postgres
from rig.program import LOOPBACK

__all__ = ["database", "primary", "standby"]
SECRET = "hunter2"

# Several hosts


def test_a_new_process_takes_the_newer_of_two_primaries_whichever_comes_first(
    primary: Postgres, standby: Postgres
) -> None:
    open_store(url_of(primary)).close()
    standby.promote()
    for url in (url_of(primary, standby), url_of(standby, primary)):
        with open_store(url) as store:
            submit(store)
            told = [finding for finding in server_findings(store) if finding.grade == "unsafe"]
            assert len(told) == 1
            assert f"{primary.port} (timeline 1)" in told[0].what
            assert f"{standby.port} (timeline 2)" in told[0].what
    with psycopg.connect(primary.url()) as db:
        assert db.execute("select count(*) from job").fetchall() == [(0,)]
    with psycopg.connect(standby.url()) as db:
        assert db.execute("select count(*) from job").fetchall() == [(2,)]


def test_hosts_that_are_different_servers_are_refused_in_words(primary: Postgres) -> None:
    stranger = Postgres(fast=True)
    stranger.start()
    try:
        with psycopg.connect(stranger.url(), autocommit=True) as db:
            db.execute(f"alter role custody password '{primary.password}'")
        with pytest.raises(Unsafe) as refused:
            open_store(url_of(primary, stranger))
    finally:
        stranger.remove()
    assert refused.value.code == "postgres.two"
    assert str(stranger.port) in str(refused.value)


def test_two_ways_to_one_server_are_no_two_primaries(primary: Postgres) -> None:
    with open_store(url_of(primary, primary)) as store:
        submit(store)
        assert {finding.grade for finding in server_findings(store)} == {"fine"}


def test_doctor_says_which_host_does_not_answer(primary: Postgres, standby: Postgres) -> None:
    standby.stop("immediate")
    with open_store(url_of(standby, primary)) as store:
        (told,) = [finding.what for finding in server_findings(store) if finding.grade == "warning"]
    assert str(standby.port) in told
    assert "does not answer" in told


# What a commit waits for


def waits_for(store: Store) -> object:
    return store.db.write(lambda tx: tx.db.execute("show synchronous_commit").fetchall()[0][0])  # type: ignore[attr-defined]


class Followed:
    """A server with a standby that it may wait for, and a pooler before it."""

    def __init__(self) -> None:
        self.server = Postgres()
        self.server.start()
        self.standby = self.server.standby("standby")
        self.lender = PgBouncer(self.server)
        self.lender.start()

    def url(self, pooled: bool, more: str = "") -> str:
        url = url_of(self.server, more=more).replace("unsafe=1&", "")
        return self.lender.url(url) if pooled else url

    def remove(self) -> None:
        self.lender.remove()
        self.standby.remove()
        self.server.remove()


@pytest.fixture(scope="module")
def followed() -> Iterator[Followed]:
    need("postgresql")
    need("pgbouncer")
    pair = Followed()
    yield pair
    pair.remove()


@pytest.mark.parametrize("pooled", [False, True], ids=["direct", "pooled"])
def test_what_the_server_asks_of_a_commit_is_raised_and_never_lowered(followed: Followed, pooled: bool) -> None:
    for server, ours in (("off", "on"), ("local", "on"), ("on", "on"), ("remote_apply", "remote_apply")):
        followed.server.set(synchronous_commit=server, synchronous_standby_names="standby")
        until(lambda wanted=server: _set_to(followed, "synchronous_commit", wanted))  # type: ignore[misc]
        with open_store(followed.url(pooled)) as store:
            assert waits_for(store) == ours, server
            followed.server.set(synchronous_commit="off")
            assert waits_for(store) == ours, server
    followed.server.set(synchronous_commit="on")


def _set_to(followed: Followed, name: str, value: str) -> bool:
    with psycopg.connect(followed.server.url(), autocommit=True) as db:
        return db.execute(f"show {name}").fetchall() == [(value,)]


# A standby that is required


@pytest.mark.parametrize("pooled", [False, True], ids=["direct", "pooled"])
def test_a_server_that_stops_waiting_for_a_standby_acknowledges_nothing_where_one_is_required(
    followed: Followed, pooled: bool
) -> None:
    server, key = followed.server, f"{pooled}"
    server.set(synchronous_standby_names="standby")
    with open_store(followed.url(pooled, "&require=sync")) as store:
        until(lambda: _acknowledged(store, f"first {key}"))
        server.set(synchronous_standby_names="")
        for _ in range(2):
            with pytest.raises(CustodyError) as refused:
                until(lambda: submit(store, key=f"k {key}") and None, seconds=20)
            assert refused.value.code in ("postgres.alone", "store.unknown")
        server.set(synchronous_standby_names="standby")
        until(lambda: _acknowledged(store, f"k {key}"))
        followed.standby.program.freeze()  # and taken away while somebody waits
        timer = threading.Timer(1.5, lambda: server.set(synchronous_standby_names=""))
        timer.start()
        try:
            with pytest.raises(CustodyError) as refused:
                submit(store, key=f"waits {key}")
        finally:
            timer.join()
            followed.standby.program.resume()
        assert refused.value.code == "store.unknown"
        server.set(synchronous_standby_names="standby")
        until(lambda: _acknowledged(store, f"waits {key}"))


def _acknowledged(store: Store, key: str) -> bool:
    try:
        return bool(submit(store, key=key))
    except CustodyError:
        return False


# A pooler with one session


def test_a_worker_refuses_a_pooler_that_lends_one_session_in_words(quick_postgres: Postgres, database: str) -> None:
    need("pgbouncer")
    lender = PgBouncer(quick_postgres, "session", size=1)
    lender.start()
    try:
        with open_store(database) as store:
            submit(store)
        command = [sys.executable, "-m", "custody", "worker", "run", "--exec", "parcel=true", "--store"]
        ended = subprocess.run([*command, lender.url(database)], capture_output=True, text=True, timeout=120)
    finally:
        lender.remove()
    assert ended.returncode == 2
    assert "one session" in ended.stderr
    assert "pool_mode = transaction" in ended.stderr


def test_a_worker_whose_pooler_has_no_session_left_ends_within_its_grace(
    quick_postgres: Postgres, database: str
) -> None:
    need("pgbouncer")
    lender = PgBouncer(quick_postgres, "session", size=2)
    lender.start()
    command = [sys.executable, "-m", "custody", "worker", "run", "--exec", "parcel=sleep 2", "--grace", "3"]
    try:
        with open_store(database) as store:
            submit(store)
            with subprocess.Popen(
                [*command, "--store", lender.url(database)], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
            ) as worker:
                until(lambda: store.queue.list()[0].attempts)
                began = time.monotonic()
                worker.send_signal(signal.SIGTERM)
                worker.wait(60)
                assert time.monotonic() - began < 40
        assert worker.returncode == 0
    finally:
        lender.remove()


@pytest.mark.parametrize("drops", ["", "options"])
def test_nothing_of_ours_is_said_of_a_session_that_is_lent_not_even_our_name(
    quick_postgres: Postgres, database: str, drops: str
) -> None:
    need("pgbouncer")
    lender = PgBouncer(quick_postgres, size=1, drops=drops)
    lender.start()
    try:
        with open_store(lender.url(database)) as store:
            submit(store)
        with psycopg.connect(lender.url(database).partition("?")[0], autocommit=True) as stranger:
            assert "custody:" not in str(stranger.execute("show application_name").fetchall()[0][0])
        with open_store(lender.url(database) + "&application_name=mine") as store:
            submit(store)
    finally:
        lender.remove()
    with open_store(database + "&application_name=my shop") as store:
        named = store.db.write(lambda tx: tx.db.execute("show application_name").fetchall())  # type: ignore[attr-defined]
        assert re.fullmatch(r"my shop:[0-9a-f]{12}", named[0][0])


# What is said


def test_who_is_not_let_in_is_told_so(primary: Postgres) -> None:
    for wrong, code in (
        (url_of(primary).replace(primary.password, SECRET), "postgres.login"),
        (url_of(primary).replace("/postgres?", "/nowhere?"), "postgres.database"),
        (url_of(primary) + "&sslmode=require", "postgres.tls"),
    ):
        with pytest.raises(Unavailable) as refused:
            open_store(wrong + "&patience=600")
        assert refused.value.code == code
        assert "does not answer" not in str(refused.value)
        assert "answers" in str(refused.value)
        assert SECRET not in str(refused.value)


def test_a_server_without_a_free_connection_is_told_as_full_and_waited_for(primary: Postgres) -> None:
    with psycopg.connect(primary.url(), autocommit=True) as db:
        db.execute("create role few login password 'few' connection limit 0")
    with pytest.raises(Unavailable) as refused:
        open_store(url_of(primary, more="&patience=0").replace(f"custody:{primary.password}", "few:few"))
    assert refused.value.code == "postgres.full"
    assert causes.passes(refused.value)


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ('connection to server at "tls.example" (1.2.3.4), port 5432 failed: Connection refused', "store.down"),
        ("connection timeout expired", "store.down"),
        ('connection to server at "h", port 1 failed: FATAL:  the database system is starting up', "store.down"),
        ('connection to server at "h", port 1 failed: FATAL:  sorry, too many clients already', "postgres.full"),
        ('connection to server at "h", port 1 failed: SSL error: certificate verify failed', "postgres.tls"),
        ('connection to server at "h", port 1 failed: FATAL:  role "x" does not exist', "postgres.login"),
        ('connection to server at "h", port 1 failed: FATAL:  something new', "postgres.refused"),
        ('connection to server at "h", port 1 failed: FATAL:  no more connections allowed', "postgres.full"),
        ('could not translate host name "h" to address: Name or service not known', "store.host"),
    ],
)
def test_the_true_cause_is_told(said: str, code: str) -> None:
    assert causes.refused_to_open(psycopg.OperationalError(said)).code == code


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that takes the call and says nothing."""
    with socket.create_server((LOOPBACK, 0)) as ear:
        yield f"postgresql://custody:{SECRET}@{LOOPBACK}:{ear.getsockname()[1]}/custody"


def test_whoever_has_no_patience_is_soon_told_of_a_silent_server(silent: str) -> None:
    began = time.monotonic()
    with pytest.raises(Unavailable, match="does not answer"):
        open_store(f"{silent}?patience=0")
    assert time.monotonic() - began < 8  # two seconds, on a machine that has other things to do


# Passwords

ODD = (
    f"postgresql://u:{SECRET}@h:port/d",
    f"postgresql://u:{SECRET}@h:1,2:3:4/d",
    f"postgresql://u:p@{SECRET}@h/d",
    f"postgresql://u:a/{SECRET}@h/d",
    f"postgresql://u:a?{SECRET}@h/d",
    f"postgresql://u:a#{SECRET}@h/d",
    f"postgresql://u:a%{SECRET}@h/d",
    f'postgresql://u:a"{SECRET}@[h/d',
    f"postgresql://u:{SECRET}@[h/d",
    f"postgresql://u:{SECRET}\u2100@h/d",
    f"postgresql://u@h/d?password={SECRET}&colour=blue",
    f"postgresql://u@h/d?pass%word={SECRET}",
    f"postgresql://h/d?listen=postgresql://u:{SECRET}@h:port/d&pooler=perhaps",
    f"postgresql:host=h password={SECRET} x",
    f"host=h user=u password={SECRET}",
    f"postgres+psycopg://u:{SECRET}@h/d",
    f"mysql://u:{SECRET}@h/d",
    f"{SECRET}",
)


@pytest.mark.parametrize("url", ODD)
def test_no_password_is_shown_of_an_address_that_cannot_be_read(url: str) -> None:
    with pytest.raises(CustodyError) as refused:
        open_store(url + ("&" if "?" in url else "?") + "patience=0" if url.startswith("postgresql://") else url)
    error: BaseException | None = refused.value
    while error is not None:  # whatever a traceback would show
        assert SECRET not in str(error) + repr(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    assert SECRET not in str(refused.value.hint)


def test_nor_of_one_of_a_tree() -> None:
    for read in (read_address, ZooKeeperLeases.open):
        with pytest.raises(BadInput) as refused:
            read(f"zookeeper:/x?with=postgresql://u:{SECRET}@h/d&more=1")
        assert SECRET not in str(refused.value)


def test_what_holds_an_address_does_not_show_it(quick_postgres: Postgres, database: str) -> None:
    with open_store(database) as store:
        shown = repr(store) + repr(store.db.address) + repr(Way(Address.of(database)))  # type: ignore[attr-defined]
    assert quick_postgres.password not in shown
    tree = read_address(f"zookeeper://h:1/r?with=postgresql://u:{SECRET}@h/d")
    assert SECRET not in repr(tree)


def test_a_command_shows_no_password_either() -> None:
    for url in (f"postgresql://u:{SECRET}@h:port/d", f"mysql://u:{SECRET}@h/d"):
        for words in (["job", "list"], ["doctor"], ["worker", "run", "--exec", "a=true"]):
            told = subprocess.run(
                [sys.executable, "-m", "custody", *words, "--store", url], capture_output=True, text=True, timeout=60
            )
            assert told.returncode != 0
            assert SECRET not in told.stdout + told.stderr

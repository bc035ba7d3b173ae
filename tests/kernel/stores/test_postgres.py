"""What only concerns PostgreSQL: its schema, its settings, its time, its wake-ups."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib import resources

import psycopg
import pytest

from custody.errors import BadInput, Unavailable, Unsafe
from custody.kernel.applications import installed
from custody.kernel.model.authority.acting import system
from custody.kernel.model.job import NewJob
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.postgres.dialect import texts
from custody.kernel.stores.postgres.notify import QUIET_SECONDS
from custody.kernel.stores.sql.migrations import migrations, statements_of
from kernel.stores.acts import PARCEL, submit, take
from rig.need import need
from rig.postgres import Postgres
from rig.program import LOOPBACK, free_port
from rig.proxy import Proxy

SHAPE = {
    "columns": """
        select c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, a.attgenerated,
            coalesce(pg_get_expr(d.adbin, d.adrelid), ''), coalesce(l.collname, '')
        from pg_attribute a join pg_class c on c.oid = a.attrelid
            left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
            left join pg_collation l on l.oid = a.attcollation
        where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and a.attnum > 0 order by 1, a.attnum""",
    "indexes": "select indexdef from pg_indexes where schemaname = 'public' order by 1",
    "constraints": """
        select conrelid::regclass::text, conname, pg_get_constraintdef(oid) from pg_constraint
        where connamespace = 'public'::regnamespace order by 1, 2""",
    "settings": """
        select relname, reloptions from pg_class
        where relnamespace = 'public'::regnamespace and relkind in ('r', 'i') order by 1""",
    "ends": "select wants, ended from satisfies order by 1, 2",
}


@pytest.fixture
def database(quick_postgres: Postgres) -> Iterator[str]:
    """The address of an empty database, without a schema."""
    url = quick_postgres.fresh_database()
    yield url + "?unsafe=1"
    quick_postgres.give_back(url)


@pytest.fixture
def here(database: str) -> Iterator[Store]:
    """A store that is told the time by its server."""
    with open_store(database) as store:
        yield store


def bare(url: str) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(url.partition("?")[0], autocommit=True)


def ask(url: str, question: str) -> list[tuple[object, ...]]:
    with bare(url) as db:
        return db.execute(question).fetchall()


def until(happened: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.002)


# The schema


def test_the_migrations_build_what_the_schema_says(database: str, quick_postgres: Postgres) -> None:
    open_store(database).close()
    built = {what: ask(database, question) for what, question in SHAPE.items()}

    written = quick_postgres.fresh_database()
    with bare(written) as db:
        folders = [resources.files("custody.kernel.stores.postgres")]
        folders += [resources.files(part.schema.package) / part.schema.folder / "postgres" for part in installed()]
        for file in (folder / "schema.sql" for folder in folders):
            for statement in statements_of(file.read_text()) if file.is_file() else ():
                db.execute(statement)
    assert {what: ask(written, question) for what, question in SHAPE.items()} == built
    quick_postgres.give_back(written)


def test_a_renewal_touches_no_index(here: Store) -> None:
    defined = ask(here.url, "select indexdef from pg_indexes where tablename = 'job'")
    assert not [index for (index,) in defined if "until" in str(index)]


def test_processes_that_start_together_migrate_once(database: str) -> None:
    """All of them are made to wait at the door, then let in at once."""
    program = f"from custody.kernel.stores import open_store; open_store({database!r}).close()"
    with bare(database) as door:
        door.execute("select pg_advisory_lock(%s)", (0x637573746F6479,))
        starting = [subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE) for _ in range(3)]
        ours = "datname = current_database() and application_name like 'custody:%'"
        waiting = f"select count(*) from pg_stat_activity where {ours}"
        until(lambda: door.execute(waiting).fetchone() == (3,))
        door.execute("select pg_advisory_unlock_all()")
        for process in starting:
            _, said = process.communicate(timeout=120)
            assert process.returncode == 0, said.decode()
    applied = [script.place for script in migrations("postgres") if script.place]
    assert ask(database, "select version from schema_version order by 1") == [(number,) for number in applied]


def test_a_migration_cut_off_at_any_statement_leaves_nothing_behind(database: str, quick_postgres: Postgres) -> None:
    first = migrations("postgres")[0]
    with Proxy(quick_postgres.port) as proxy:
        detour = database.replace(f":{quick_postgres.port}/", f":{proxy.port}/")
        for statement in statements_of(first.text):
            cut = proxy.cut_request(statement.encode())
            with pytest.raises(Unavailable) as refused:
                open_store(detour)
            assert cut.is_set()
            assert refused.value.code == "store.down"
            until(lambda: not ask(database, "select 1 from pg_locks where locktype = 'advisory'"))
            assert ask(database, "select relname from pg_class where relnamespace = 'public'::regnamespace") == []
    open_store(database).close()
    assert ask(database, "select min(version) from schema_version") == [(first.number,)]


def test_a_store_from_the_future_is_refused(database: str) -> None:
    open_store(database).close()
    ask(database, "insert into schema_version values (9999, 0) returning 1")
    with pytest.raises(Unsafe) as refused:
        open_store(database)
    assert refused.value.code == "store.newer"


# The statements


def prepared(text: str) -> str:
    """With $1, $2 … for the driver's parameters."""
    names = list(dict.fromkeys(re.findall(r"%\(([a-z0-9_]+)\)s", text)))
    return re.sub(r"%\(([a-z0-9_]+)\)s", lambda match: f"${names.index(match[1]) + 1}", text.replace("%%", "%"))


def test_the_server_understands_every_statement(here: Store) -> None:
    puzzled = {}
    with bare(here.url) as db:
        for name, text in texts(own_clock=False, locking=True).items():
            try:
                db.execute("prepare it as " + prepared(text))
                db.execute("deallocate it")
            except psycopg.Error as error:
                puzzled[name] = str(error)
    savepoints = {"mark", "back_to_mark", "drop_mark"}  # these cannot be prepared, and need not be
    assert {name: why for name, why in puzzled.items() if name not in savepoints} == {}


def test_a_look_neither_locks_nor_writes(here: Store) -> None:
    job = submit(here)
    with bare(here.url) as other:
        other.execute("begin")
        other.execute("select 1 from job where id = %s for update", (job,))
        assert here.db.read(lambda tx: len(tx.run("lock_job", id=job))) == 1
        other.execute("rollback")
    with pytest.raises(Unsafe):
        here.db.read(lambda tx: tx.run("bump", name="n", by=1))
    assert ask(here.url, "select count(*) from counter") == [(0,)]


# The server


def test_a_server_that_forgets_is_refused_unless_told_otherwise(quick_postgres: Postgres) -> None:
    url = quick_postgres.fresh_database()
    with pytest.raises(Unsafe) as refused:
        open_store(url)
    assert refused.value.code == "postgres.unsafe"
    assert "fsync" in str(refused.value)
    open_store(url + "?unsafe=1").close()
    quick_postgres.give_back(url)


@pytest.mark.parametrize("weaker", ["synchronous_commit = off", "synchronous_commit = local"])
def test_whatever_is_set_on_the_server_a_commit_waits_for_the_disk_and_warnings_are_heard(
    postgres_url: str, weaker: str
) -> None:
    name = postgres_url.rpartition("/")[2]
    with open_store(postgres_url) as before, bare(postgres_url) as db:
        db.execute(f"alter database {name} set {weaker}")
        db.execute(f"alter database {name} set client_min_messages = error")
        with open_store(postgres_url) as after:
            for store in (before, after):

                def said(tx: object) -> object:
                    shown = "select current_setting('synchronous_commit'), current_setting('client_min_messages')"
                    return tx.db.execute(shown).fetchall()[0]  # type: ignore[attr-defined]

                assert store.db.write(said) == ("on", "warning")  # type: ignore[attr-defined]


def test_an_address_that_asks_for_less_is_refused(postgres_url: str) -> None:
    with pytest.raises(Unsafe) as refused:
        open_store(postgres_url + "?options=-c%20synchronous_commit%3Doff")
    assert refused.value.code == "postgres.unsafe"
    assert "synchronous_commit" in str(refused.value)


def test_a_schema_that_ends_with_its_session_is_refused(postgres_url: str) -> None:
    with pytest.raises(BadInput, match="pg_temp"):
        open_store(postgres_url + "?schema=pg_temp")


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_cannot_hold_every_name_is_refused(postgres: Postgres, encoding: str) -> None:
    name = f"in_{encoding.lower()}"
    with bare(postgres.url()) as db:
        db.execute(f"create database {name} encoding '{encoding}' template template0 lc_collate 'C' lc_ctype 'C'")
    with pytest.raises(Unsafe) as refused:
        open_store(postgres.url(name))
    with bare(postgres.url()) as db:
        db.execute(f"drop database {name}")
    assert refused.value.code == "postgres.encoding"


def test_a_standby_is_refused_whatever_one_says() -> None:
    need("postgresql")
    server = Postgres(fast=True)
    server.start()
    url = server.url() + "?unsafe=1"
    open_store(url).close()
    server.stop()
    (server.data / "standby.signal").touch()
    server.start()
    with pytest.raises(Unsafe) as refused:
        open_store(url)
    server.remove()
    assert refused.value.code == "postgres.standby"


def test_a_server_that_is_not_there_is_said_to_be_down() -> None:
    with pytest.raises(Unavailable) as refused:
        open_store(f"postgresql://custody@{LOOPBACK}:{free_port()}/custody")
    assert refused.value.code == "store.down"


@pytest.mark.parametrize(
    "address", ["postgresql://h/d?unsafe=perhaps", "postgresql://h/d?notify=", "postgresql://127.0.0.1/d?colour=blue"]
)
def test_an_address_that_cannot_be_read_is_said_to_be_so(address: str) -> None:
    with pytest.raises(BadInput) as refused:
        open_store(address)
    assert refused.value.code == "store.url"


# Its time


def test_one_transaction_has_one_time_and_it_is_the_servers(here: Store) -> None:
    job = here.queue.get(submit(here))
    (claim,) = take(here, seconds=30)
    ((passed,),) = ask(here.url, "select extract(epoch from clock_timestamp()) * 1000000")
    assert job.created == job.changed == here.records.events(job.subject)[0].at
    assert 0 <= int(str(passed).partition(".")[0]) - job.created < 60_000_000
    assert job.created + 30_000_000 <= claim.job.until <= here.now() + 30_000_000
    first, second = here.db.write(lambda tx: (tx.now, tx.now))
    assert first == second


# Wake-ups


def test_what_one_process_submits_rings_in_another(database: str) -> None:
    with open_store(database) as one, open_store(database) as other:
        other.db.listen()
        until(lambda: other.db.bell.heard())  # it listens now
        heard = other.db.bell.heard()
        submit(one)
        assert other.db.bell.wait(heard, 60)


def test_a_process_that_submits_and_ends_at_once_is_heard(database: str) -> None:
    with open_store(database) as listener:
        listener.db.listen()
        until(lambda: listener.db.bell.heard())
        heard = listener.db.bell.heard()
        with open_store(database) as brief:
            submit(brief)
        assert listener.db.bell.wait(heard, 60)


def test_many_rings_become_few_notifications(database: str) -> None:
    with open_store(database) as store, bare(database) as ear:
        ear.execute("listen custody")
        start = time.monotonic()
        for _ in range(2000):
            store.db.bell.ring()
        heard = list(ear.notifies(timeout=60, stop_after=1))
        heard += ear.notifies(timeout=0.3)
        seconds = time.monotonic() - start
    assert 1 <= len(heard) <= 1 + seconds / QUIET_SECONDS
    assert len(heard) < 1000


def messengers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name in ("custody-listen", "custody-notify")}


def test_all_works_with_wake_ups_off(database: str) -> None:
    with open_store(database + "&notify=0") as one, open_store(database + "&notify=0") as other:
        before = messengers()
        other.db.listen()
        submit(one)
        assert messengers() <= before
        assert len(take(other)) == 1


def test_a_listener_whose_connection_is_lost_listens_again(database: str, quick_postgres: Postgres) -> None:
    with Proxy(quick_postgres.port) as proxy:
        detour = database.replace(f":{quick_postgres.port}/", f":{proxy.port}/")
        with open_store(database) as one, open_store(detour) as other:
            other.db.listen()
            until(lambda: other.db.bell.heard())
            before = other.db.bell.heard()
            proxy.cut_all()
            until(lambda: other.db.bell.heard() > before)  # it rings once whenever it begins to listen
            heard = other.db.bell.heard()
            submit(one)
            assert other.db.bell.wait(heard, 60)


def test_a_thousand_jobs_go_in_together_and_in_their_order(here: Store) -> None:
    jobs = [NewJob(PARCEL, {"n": n}, key=f"k{n}" if n % 3 else None, lane=f"l{n % 7}") for n in range(1000)]
    answers = here.queue.submit(jobs, system("ann"))
    assert [answer.id for answer in answers] == sorted({answer.id for answer in answers})
    assert all(answer.new for answer in answers)
    for n in (0, 1, 500, 999):
        job = here.queue.get(answers[n].id)
        assert (job.payload, job.key, job.lane) == ({"n": n}, jobs[n].key, jobs[n].lane)
    again = here.queue.submit([*jobs[1:3], NewJob(PARCEL, {"n": 0}, key="new")], system("ann"))
    assert [answer.new for answer in again] == [False, False, True]
    assert [answer.id for answer in again[:2]] == [answers[1].id, answers[2].id]

"""A database that does not keep or show what it is given: refused in words, when it is opened and while it is open."""

from __future__ import annotations

from contextlib import suppress

import psycopg
import pytest

from custody.cli.doctor.server import server_findings
from custody.errors import CustodyError, Unavailable, Unsafe
from custody.kernel.engine.kinds import Serving
from custody.kernel.engine.settings import Settings
from custody.kernel.engine.worker import Worker
from custody.kernel.model.authority.acting import system
from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import NewItem
from custody.kernel.model.job import NewJob
from custody.kernel.model.schedule import Schedule
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.postgres import pool
from kernel.stores.acts import submit, take_one, worked
from kernel.stores.test_postgres_failover import primary
from rig.postgres import Postgres
from rig.program import LOOPBACK

__all__ = ["primary"]
SWALLOW = """
    create function swallow() returns trigger language plpgsql as 'begin return null;end';
    create trigger swallows before {verb} on {table} for each row execute function swallow()"""


@pytest.fixture
def server(primary: Postgres) -> Postgres:
    return primary


@pytest.fixture
def plain(server: Postgres) -> str:
    """The address of a store that belongs to a role without any power over it."""
    tell(server, "create role app login password 'secret'; create database archive owner app template template0")
    return f"postgresql://app:secret@{LOOPBACK}:{server.port}/archive?unsafe=1&notify=0&patience=0"


def tell(server: Postgres, statements: str, database: str = "postgres") -> None:
    with psycopg.connect(server.url(database), autocommit=True) as db:
        for statement in statements.split("; "):
            db.execute(statement)


def archive(server: Postgres, statements: str) -> None:
    tell(server, statements, "archive")


def refused(url: str) -> CustodyError:
    with pytest.raises(CustodyError) as error:
        open_store(url).close()
    return error.value


# What is refused when it is opened, and when it becomes so later


@pytest.mark.parametrize(
    ("statements", "code", "word"),
    [
        (
            "alter table job enable row level security; alter table job force row level security",
            "postgres.row_security",
            "row security of table job",
        ),
        ("alter table hold set unlogged", "postgres.unlogged", "table hold"),
        ("drop table lease", "store.incomplete", "table lease"),
        ("alter table event owner to custody", "store.rights", "event"),
    ],
)
def test_tables_that_hide_forget_or_lack_rows_are_refused(
    server: Postgres, plain: str, monkeypatch: pytest.MonkeyPatch, statements: str, code: str, word: str
) -> None:
    with open_store(plain) as store:
        submit(store)
        archive(server, statements)
        monkeypatch.setattr(pool, "LOOK_SECONDS", 0.0)
        with pytest.raises(CustodyError) as later:
            submit(store)
    for error in (later.value, refused(plain)):
        assert error.code == code
        assert word in error.message
        assert error.hint


def test_an_owner_to_whom_row_security_does_not_apply_is_not_refused(server: Postgres, plain: str) -> None:
    open_store(plain).close()
    archive(server, "alter table job enable row level security")
    with open_store(plain) as store:
        submit(store)


def test_unlogged_tables_that_a_crash_has_emptied_are_told_in_words(server: Postgres, plain: str) -> None:
    open_store(plain).close()
    with psycopg.connect(server.url("archive"), autocommit=True) as db:
        for (name,) in db.execute("select tablename from pg_tables where schemaname = 'public'").fetchall():
            db.execute(f"alter table {name} set unlogged")
    server.stop("immediate")
    server.start()
    assert refused(plain).code == "store.incomplete"


def test_a_table_of_somebody_else_is_told_in_words(server: Postgres, plain: str) -> None:
    archive(server, "create table job (id int); alter table job owner to app")
    assert refused(plain).code == "store.incomplete"


def test_a_role_that_may_only_read_reads_and_is_refused_to_write(server: Postgres, plain: str) -> None:
    with open_store(plain) as store:
        submit(store)
    tell(server, "create role reader login password 'secret'")
    archive(server, "grant select on all tables in schema public to reader")
    reader = plain.replace("app:", "reader:")
    with open_store(reader) as store:
        assert len(store.queue.list()) == 1
        for write in (lambda: submit(store), lambda: take_one(store)):
            with pytest.raises(Unavailable) as error:
                write()
            assert error.value.code == "store.rights"
            assert "reader" in error.value.message
        (finding,) = [one for one in server_findings(store) if one.grade == "unsafe"]
        assert "reader" in finding.what
        unknown = [one for one in server_findings(store) if "not known" in one.what]
        assert {one.grade for one in unknown} == {"warning"}
        assert any("job_id_seq" in (one.do or "") for one in unknown)
        archive(server, "grant insert, update, delete on all tables in schema public to reader")
        with pytest.raises(Unavailable, match="job_id_seq"):
            submit(store)
        archive(server, "grant usage on all sequences in schema public to reader")
        submit(store)
        assert not [one for one in server_findings(store) if one.grade == "unsafe" or "not known" in one.what]


@pytest.mark.parametrize("name", ["fsync", "full_page_writes"])
def test_a_setting_that_is_turned_off_while_a_process_runs_is_noticed(
    postgres: Postgres, postgres_url: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(pool, "LOOK_SECONDS", 0.2)
    with open_store(f"{postgres_url}?notify=0") as store:
        submit(store)
        try:
            postgres.set(**{name: "off"})
            with pytest.raises(Unsafe, match=f"{name}=off") as error:
                _go_on(store)
            assert error.value.code == "postgres.unsafe"
            with pytest.raises(Unsafe):
                submit(store)
        finally:
            postgres.set(**{name: "on"})
        with suppress(Unsafe):
            submit(store)  # the word may not have gone round yet
        submit(store)


def _go_on(store: Store) -> None:
    for _ in range(100_000):
        submit(store)


# What the database takes and does not keep


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("table", ["job", "event"])
def test_a_job_that_the_database_swallows_is_not_acknowledged(
    server: Postgres, plain: str, key: str | None, count: int, table: str
) -> None:
    with open_store(plain) as store:
        archive(server, SWALLOW.format(verb="insert", table=table))
        jobs = [NewJob("parcel", key=key and f"{key}{n}") for n in range(count)]
        with pytest.raises(Unsafe) as error:
            store.queue.submit(jobs) if count > 1 else store.queue.submit_one(jobs[0])
        assert error.value.code == "store.swallowed"
        archive(server, f"drop trigger swallows on {table}")
        assert store.queue.list() == [], "nothing is left half done"


def test_what_is_taken_away_from_other_verbs_is_not_acknowledged_either(server: Postgres, plain: str) -> None:
    with open_store(plain) as store:
        submit(store)
        claim = take_one(store)
        store.records.put([NewItem("a", frozenset({"page"}))])
        needed = store.queue.submit_one(NewJob("parcel"))
        archive(server, SWALLOW.format(verb="insert", table="event"))
        acts = {
            "settle": lambda: store.queue.settle([worked(claim, "pass")]),
            "append": lambda: store.records.append(NewEvent("a", "seen", "success")),
            "record": lambda: store.records.put([], [NewEvent("a", "seen", "success")] * 2, "ann"),
            "new item": lambda: store.records.put(
                [NewItem("b", frozenset({"page"}))], [NewEvent("b", "seen", "success")], "ann"
            ),
            "cancel": lambda: store.queue.delete(needed.id, "ann", "no"),
        }
        for name, act in acts.items():
            with pytest.raises(CustodyError) as error:
                act()
            assert error.value.code == "store.swallowed", name
        archive(server, "drop trigger swallows on event; drop function swallow")
        for table in ("edge", "schedule", "worker", "latest"):
            archive(server, SWALLOW.format(verb="insert", table=table))
            with pytest.raises(CustodyError) as error:
                _written_to(store, table, needed.id)
            assert error.value.code == "store.swallowed", table
            archive(server, f"drop trigger swallows on {table}; drop function swallow")
        assert store.queue.settle([worked(claim, "pass")])[0].done


def _written_to(store: Store, table: str, needed: int) -> None:
    from custody.kernel.model.graph import Edge

    if table == "edge":
        store.queue.submit([NewJob("parcel", needs=(Edge(needed, "success", "wait"),))])
    elif table == "latest":
        store.records.append(NewEvent("a", "seen", "success"))
    elif table == "schedule":
        store.schedules.put(Schedule("nightly", "every 1h", "sweep"), system("ann"))
    else:
        store.db.write(lambda tx: tx.run("beat_worker", id="w", host="h", pid=1, place="", serves=""))


@pytest.mark.parametrize("key", [None, "k"])
def test_a_rule_on_a_table_is_refused_in_words(server: Postgres, plain: str, key: str | None) -> None:
    with open_store(plain) as store:
        archive(server, "create rule nothing as on insert to job do instead nothing")
        with pytest.raises(CustodyError) as error:
            store.queue.submit_one(NewJob("parcel", key=key))
        assert error.value.code in ("store.refused", "store.swallowed")
        assert "standby" not in str(error.value)
        assert [one.what for one in server_findings(store) if one.grade == "unsafe"] == [
            "there is a rule nothing on table job, which is not ours"
        ]


def test_doctor_names_triggers(server: Postgres, plain: str) -> None:
    with open_store(plain) as store:
        archive(server, SWALLOW.format(verb="update", table="job"))
        archive(
            server,
            "create trigger audits after insert on event for each row execute function swallow()",
        )
        archive(
            server,
            "create constraint trigger late after insert on job deferrable initially deferred for each row"
            " execute function swallow()",
        )
        archive(server, "create trigger whole after insert on job for each statement execute function swallow()")
        told = {one.what: one for one in server_findings(store) if "trigger" in one.what}
        words = {
            "swallows on table job": "keep rows from being written",
            "audits on table event": "take rows away after",
            "late on table job": "take rows away after",
            "whole on table job": "take rows away after",
        }
        assert set(told) == {f"there is a trigger {name}, which is not ours" for name in words}
        for name, said in words.items():
            found = told[f"there is a trigger {name}, which is not ours"]
            assert (found.grade, said in found.do) == ("unsafe", True), name


def test_the_limit_of_a_role_is_named(server: Postgres, plain: str) -> None:
    open_store(plain).close()
    tell(server, "alter role app connection limit 0")
    with pytest.raises(Unavailable) as error:
        open_store(f"{plain}{'&' if '?' in plain else '?'}patience=0")
    assert error.value.code == "postgres.full"
    assert "connection limit" in error.value.hint
    assert "max_connections" not in error.value.hint


# The true words


@pytest.mark.parametrize(
    ("setting", "code", "word"),
    [
        ("default_transaction_read_only = on", "postgres.read_only", "default_transaction_read_only"),
        ("statement_timeout = 1", "store.busy", "statement_timeout"),
    ],
)
def test_what_an_administrator_has_set_is_named(
    server: Postgres, plain: str, setting: str, code: str, word: str
) -> None:
    open_store(plain).close()
    tell(server, f"alter role app set {setting}")

    def store_many() -> None:
        with open_store(plain) as store:
            for _ in range(50):
                store.queue.submit([NewJob("parcel", {"n": n}) for n in range(900)])

    with pytest.raises(CustodyError) as error:
        store_many()
    assert error.value.code == code
    assert word in error.value.hint


def test_a_worker_that_may_not_write_says_so(server: Postgres, plain: str) -> None:
    open_store(plain).close()
    tell(server, "create role reader login password 'secret'")
    archive(server, "grant select on all tables in schema public to reader")
    with open_store(plain.replace("app:", "reader:")) as store, pytest.raises(Unavailable) as error:
        Worker(store, Serving(()), Settings(wake=False)).run_until_quiet()
    assert error.value.code == "store.rights"

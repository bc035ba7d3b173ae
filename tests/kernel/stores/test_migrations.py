"""Migrations: the schema as it is described, reached from anywhere, or not touched at all."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

import custody
from custody.errors import Unsafe
from custody.kernel.model.graph import SATISFIES
from custody.kernel.model.item import NewItem
from custody.kernel.model.job import NewJob
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.fsck import recount
from custody.kernel.stores.registers import places
from custody.kernel.stores.registers.places import settle_places, unplaced
from custody.kernel.stores.rows import event_text
from custody.kernel.stores.rules.submit import first_detail
from custody.kernel.stores.sql import migrations as migrating
from custody.kernel.stores.sql.migrations import migrations, statements_of
from kernel.stores.acts import execute, submit
from kernel.stores.clock import HandClock
from prove.plugin import Scaled, Tell
from rig.postgres import Postgres

SOURCE = Path(custody.__file__).parents[2]
STORES = Path(str(resources.files("custody.kernel.stores")))
TESTS = Path(__file__).parents[2]


def described(dialect: str) -> list[str]:
    return list(statements_of((STORES / dialect / "schema.sql").read_text()))


def migrated(dialect: str) -> list[str]:
    return [statement for _, _, script in migrations(dialect) for statement in statements_of(script)]


# The description is what the migrations build


def sqlite_schema(statements: list[str]) -> set[tuple[Any, ...]]:
    db = apsw.Connection(":memory:")
    for statement in statements:
        db.execute(statement)
    tables = [name for (name,) in db.execute("select name from sqlite_master where type = 'table'")]
    found: set[tuple[Any, ...]] = set(db.execute("select type, name, tbl_name from sqlite_master"))
    for name, sql in db.execute("select name, sql from sqlite_master where type = 'index' and sql is not null"):
        found.add(("index", name, re.sub(r"\s+", " ", sql)))
    for table in tables:
        found |= {("column", table, *row[1:]) for row in db.execute(f"pragma table_xinfo({table})")}
    found |= {("satisfies", *row) for row in db.execute("select * from satisfies")}
    return found


def test_the_schema_file_is_what_the_migrations_build_on_sqlite() -> None:
    assert sqlite_schema(described("sqlite")) == sqlite_schema(migrated("sqlite"))


POSTGRES_SCHEMA = """
select 'column', table_name, column_name, data_type, is_nullable, column_default, collation_name, is_generated,
    generation_expression
from information_schema.columns where table_schema = 'public'
union all select 'index', tablename, indexname, indexdef, '', '', '', '', '' from pg_indexes where schemaname = 'public'
union all select 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid), '', '', '', '', ''
from pg_constraint where connamespace = 'public'::regnamespace
union all select 'setting', relname, coalesce(array_to_string(reloptions, ','), ''), '', '', '', '', '', ''
from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'
union all select 'satisfies', wants, ended, '', '', '', '', '', '' from satisfies
"""


def postgres_schema(server: Postgres, statements: list[str]) -> set[tuple[Any, ...]]:
    url = server.fresh_database()
    with psycopg.connect(url, autocommit=True) as db:
        for statement in statements:
            db.execute(statement)  # type: ignore[arg-type]
        found = set(db.execute(POSTGRES_SCHEMA).fetchall())
    server.give_back(url)
    return found


def test_the_schema_file_is_what_the_migrations_build_on_postgresql(quick_postgres: Postgres) -> None:
    built = postgres_schema(quick_postgres, migrated("postgres"))
    assert postgres_schema(quick_postgres, described("postgres")) == built
    assert len(built) > 100


def test_the_table_of_what_satisfies_whom_is_the_models(store: Store) -> None:
    rows = store.db.write(lambda tx: execute(tx, "select wants, ended from satisfies"))
    assert {tuple(row) for row in rows} == {(wants, end) for wants, ends in SATISFIES.items() for end in ends}


def test_both_databases_have_the_same_tables_and_columns(quick_postgres: Postgres) -> None:
    lite = {(row[1], row[2]) for row in sqlite_schema(described("sqlite")) if row[0] == "column"}
    lite -= {("sqlite_sequence", "name"), ("sqlite_sequence", "seq")}
    post = {(row[1], row[2]) for row in postgres_schema(quick_postgres, described("postgres")) if row[0] == "column"}
    assert lite == post


# Killed anywhere


@pytest.mark.proves("G15")
def test_a_start_killed_at_any_statement_of_a_migration_is_completed_by_the_next(
    quick_folder: Path, tell: Tell
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kernel.stores.dies_migrating", str(quick_folder)],
        cwd=TESTS,
        env={"PYTHONPATH": f"{SOURCE}:{TESTS}", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert "all recovered" in done.stdout, done.stderr
    assert int(done.stdout.split()[0]) > len(migrated("sqlite"))
    tell("", kills=int(done.stdout.split()[0]))


class Killed(BaseException):
    """Nobody catches it: the connection is dropped as it is."""


@pytest.mark.proves("G15")
def test_a_start_that_dies_at_any_statement_of_a_migration_leaves_nothing_on_postgresql(
    quick_postgres: Postgres, monkeypatch: pytest.MonkeyPatch, scaled: Scaled[int], tell: Tell
) -> None:
    """In the test run at some of them; in a proof at every one."""
    from custody.kernel.stores.postgres import migrate as module

    count = len(migrated("postgres"))
    points = sorted({*range(0, count, scaled(8, 1, 1)), count - 1})
    tell("", kills=len(points))
    for deaths in points:
        url = quick_postgres.fresh_database()
        left = iter(range(deaths))

        def dying(script: str, left: Iterator[int] = left) -> Iterator[str]:
            for statement in statements_of(script):
                if next(left, None) is None:
                    raise Killed
                yield statement

        with monkeypatch.context() as patched:
            patched.setattr(module, "statements_of", dying)
            with pytest.raises(Killed):
                open_store(url + "?unsafe=1")
        with open_store(url + "?unsafe=1") as store:
            submit(store)
            assert recount(store) == []
        quick_postgres.give_back(url)


# From anywhere


def as_it_was(tx: Any, state: str, ended: str | None) -> int:
    """A job in the columns that the first schema had: what wrote it then is not what writes now."""
    told = event_text(first_detail(NewJob("parcel")) | {"state": state, "ended": ended})
    end = "null" if ended is None else f"'{ended}'"
    named = bool(execute(tx, "select 1 from schema_version where version >= 18"))  # from then on a name must be said
    column, value = (", by", ", ''") if named else ("", "")
    rows = execute(
        tx,
        "insert into job (kind, state, runnable, ended, lane, place, collection, priority, unmet, payload, facts, token,"
        f" seq, move, created, changed{column}) values ('parcel', '{state}', {int(ended is None)}, {end}, '', '',"
        f" '', 50, 0, '{{}}', '{{}}', 1, 1, 'old', {tx.now}, {tx.now}{value}) returning id",
    )
    (job,) = rows[0]
    execute(
        tx,
        "insert into event (subject, seq, type, outcome, agent, at, detail, token, move) "
        f"values ('job/{job}', 1, 'submitted', 'none', 'ada', {tx.now}, '{told}', 1, 'old')",
    )
    return int(job)


@pytest.fixture(params=["file", "postgres"])
def old_url(request: pytest.FixtureRequest, quick_folder: Path) -> Iterator[str]:
    """Where a store may be made at an older schema."""
    if request.param == "file":
        yield f"sqlite:///{quick_folder / 'old.db'}"
        return
    server: Postgres = request.getfixturevalue("quick_postgres")
    url = server.fresh_database()
    yield url + "?unsafe=1"
    server.give_back(url)


@pytest.mark.proves("G15")
@pytest.mark.parametrize("schema", [number for number, *_ in migrations("sqlite")][:-1])
def test_a_store_of_every_older_schema_is_brought_up_to_date_with_what_it_holds(
    old_url: str, schema: int, clock: HandClock, monkeypatch: pytest.MonkeyPatch, tell: Tell
) -> None:
    known = migrations("sqlite")
    tell("", schemas=1)
    with monkeypatch.context() as older:
        older.setattr(migrating, "migrations", lambda dialect: migrations(dialect)[:schema])
        with open_store(old_url, clock) as store:
            done, waiting = store.db.write(lambda tx: (as_it_was(tx, "done", "passed"), as_it_was(tx, "queued", None)))

    with open_store(old_url, clock) as store:
        rows = store.db.write(lambda tx: execute(tx, "select version from schema_version order by version"))
        assert [version for (version,) in rows] == [number for number, *_ in known]
        assert [store.queue.get(job).state for job in (done, waiting)] == ["done", "queued"]
        assert recount(store) == []


def test_every_name_in_use_is_taken_from_the_beginning(
    old_url: str, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what is recorded, what a job under way was given or has brought along, and what is reserved for a local id."""
    number = next(number for number, name, _ in migrations("sqlite") if name == "names")
    given = {"minted": {"primary": "ark:/1/minted"}, "brought": {"primary": "ark:/1/brought"}, "neither": {}}
    with monkeypatch.context() as older:
        older.setattr(migrating, "migrations", lambda dialect: migrations(dialect)[: number - 1])
        with open_store(old_url, clock) as store:
            for title, facts in given.items():
                payload = {"primary_id": "ark:/1/brought"} if title == "brought" else {}
                new = NewJob("ingest/job", payload, collection="maps")
                job = store.queue.submit_one(new).id
                text = json.dumps(facts)
                store.db.write(
                    lambda tx, job=job, text=text: execute(tx, f"update job set facts = '{text}' where id = {job}")
                )
            store.db.write(
                lambda tx: execute(
                    tx,
                    "insert into inv_object (ark, owner, collection, node, title, creator, date, version, created, changed)"
                    " values ('ark:/1/stored', 'o', 'letters', 'main', '', '', '', 1, 1, 1)",
                )
            )
            for name in ("stored", "reserved"):
                words = f"insert into inv_local (owner, local_id, ark) values ('o', '{name}', 'ark:/1/{name}')"
                store.db.write(lambda tx, words=words: execute(tx, words))
    with open_store(old_url, clock) as store:
        rows = store.db.write(lambda tx: execute(tx, "select ark, collection, minted from inv_name order by ark"))
    assert [tuple(row) for row in rows] == [
        ("ark:/1/brought", "maps", 0),
        ("ark:/1/minted", "maps", 1),
        ("ark:/1/reserved", "", 1),
        ("ark:/1/stored", "letters", 1),
    ]


def test_names_that_were_kept_as_they_were_spelled_are_found_by_equal_ones(
    old_url: str, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by those who only look, before any worker has started; what was in its one form anyway is not listed."""
    number = next(number for number, name, _ in migrations("sqlite") if name == "spellings")
    ids = [
        "ark:/12345/a-b",
        "ark:/12345/plain9",
        "ark:12345/Cd",
        "ark:/12345/e.b.a",
        "DOI:10.5072/X",
        "channel/1-2",
        "doi:10.5072/plain",
        "ark:/B5072/f",
        "ark:/12345/%67",
    ]
    with monkeypatch.context() as older:
        older.setattr(migrating, "migrations", lambda dialect: migrations(dialect)[: number - 1])
        with open_store(old_url, clock) as store:
            store.records.put([NewItem(name) for name in ids], [], "ada")
            for name, value in (
                ("inv_name", "'ark:/12345/h//i', 'maps', '', 0, '', 1"),
                ("inv_local", "'o', 'URN:NBN:1-A', 'x'"),
            ):
                words = f"insert into {name} values ({value})"
                store.db.write(lambda tx, words=words: execute(tx, words))
    equal = {
        "ark:/12345/ab": "ark:/12345/a-b",
        "ark:12345/plain-9": "ark:/12345/plain9",
        "ark:/12345/Cd": "ark:12345/Cd",
        "ark:/12345/e.a.b": "ark:/12345/e.b.a",
        "https://doi.org/10.5072/x": "DOI:10.5072/X",
        "channel/1-2": "channel/1-2",
        "ark:/b5072/f": "ark:/B5072/f",
        "ark:/12345/g": "ark:/12345/%67",
        "ark:/12345/h/i": "ark:/12345/h//i",
        "ark:/12345/n-ew": "ark:/12345/new",
    }
    with open_store(old_url, clock) as store:
        assert {name: store.records.kept(name) for name in equal} == equal
        assert {store.records.kept(each) for each in ids} == set(ids), "and each by its own spelling"
        rows = store.db.write(
            lambda tx: execute(tx, "select owner, spelled, normal from former_spelling order by spelled")
        )
    listed = {spelled: normal for owner, spelled, normal in rows if not owner}
    assert listed == {
        spelled: name
        for name, spelled in equal.items()
        if spelled not in ("ark:/12345/plain9", "channel/1-2", "ark:/12345/new")
    } | {"DOI:10.5072/X": "doi:10.5072/x"}
    assert [tuple(row) for row in rows if row[0]] == [("o", "URN:NBN:1-A", "urn:nbn:1-A")]


def test_tokens_of_roles_that_were_split_keep_no_more_than_they_need_and_are_named(
    old_url: str, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker becomes a submitter and is remembered; whoever saw all batches of a collection goes on seeing them."""
    before = {
        "worker": ("submitter", "worker"),
        "reader worker@maps": ("reader submitter@maps", "worker"),
        "depositor depositor@maps": ("depositor+ depositor+@maps", ""),
        "worker depositor admin": ("submitter depositor+ admin", "worker"),
        "reader operator@worker": ("reader operator@worker", ""),
    }
    number = next(number for number, name, _ in migrations("sqlite") if name == "roles")
    with monkeypatch.context() as older:
        older.setattr(migrating, "migrations", lambda dialect: migrations(dialect)[: number - 1])
        with open_store(old_url, clock) as store:
            for at, roles in enumerate(before):
                sql = f"values ('{at}', 'ada', '{roles}', '*', 1, 9)"
                columns = "insert into token (hash, name, roles, collections, created, expires) "
                store.db.write(lambda tx, sql=columns + sql: execute(tx, sql))  # type: ignore[misc]
    with open_store(old_url, clock) as store:
        rows = store.db.write(lambda tx: execute(tx, "select roles, was from token order by id"))
        assert [tuple(row) for row in rows] == list(before.values())


def test_folders_become_places_below_a_root_and_are_told_elsewhere(
    old_url: str, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = next(number for number, name, _ in migrations("sqlite") if name == "places") - 1
    details: dict[str, dict[str, Any]] = {
        "below": {"folder": "/srv/store/a/b", "title": "Ø", "n": 1.50, "odd": "\x00"},
        "outside": {"folder": "/etc"},
        "none": {"folder": "", "title": "x"},
        "other": {"title": 'a "folder": in a title', "in": {"folder": "/x"}},
        "number": {"folder": 7},
        "last": {"folder": "/srv/store/c"},
    }
    with monkeypatch.context() as older:
        older.setattr(migrating, "migrations", lambda dialect: migrations(dialect)[:before])
        with open_store(old_url, clock) as store:
            for name, detail in details.items():
                told = json.dumps(detail).replace("'", "''")
                insert = (
                    "insert into item (id, types, collection, seq, changed, fingerprint, detail, created) "
                    f"values ('{name}', ' ', '', 1, 1, '', '{told}', 1)"
                )
                store.db.write(lambda tx, insert=insert: execute(tx, insert))  # type: ignore[misc]
    with open_store(old_url, clock) as store:
        kept = {item.id: dict(item.detail) for item in store.records.items("", 10, "", "")}
        if store.db.dialect == "postgres":
            details["below"]["odd"] = "\ufffd"
        assert kept == {
            name: {key: value for key, value in detail.items() if key != "folder"} for name, detail in details.items()
        }
        assert unplaced(store) == [
            ("below", "/srv/store/a/b"),
            ("last", "/srv/store/c"),
            ("outside", "/etc"),
        ]
        monkeypatch.setattr(places, "PAGE", 1)
        for settled in (2, 0):
            assert (
                settle_places(store, lambda folder: f"main:{folder[11:]}" if "/store/" in folder else None) == settled
            )
        found = {item.id: item.place for item in store.records.items("", 10, "", "") if item.place}
        assert found == {"below": "main:a/b", "last": "main:c"}
        assert unplaced(store) == [("outside", "/etc")]
        assert [item.seq for item in store.records.items("", 10, "", "")] == [1] * 6, "it is no change of theirs"


def test_a_store_from_the_future_is_refused_and_not_touched(old_url: str, clock: HandClock) -> None:
    with open_store(old_url, clock) as store:
        store.db.write(lambda tx: execute(tx, "insert into schema_version values (9999, 0)"))

    with pytest.raises(Unsafe) as refusal:
        open_store(old_url, clock)
    assert refusal.value.code == "store.newer"
    assert "9999" in str(refusal.value)


@pytest.mark.proves("G15")
def test_processes_that_start_together_on_a_new_store_all_start(old_url: str, clock: HandClock) -> None:
    gate = threading.Barrier(6)
    opened: list[Store] = []
    failed: list[BaseException] = []

    def start() -> None:
        gate.wait()
        try:
            opened.append(open_store(old_url, clock))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=start) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert len({submit(store) for store in opened}) == 6
    for store in opened:
        store.close()


def test_migrations_are_numbered_without_holes() -> None:
    for dialect in ("sqlite", "postgres"):
        assert [number for number, *_ in migrations(dialect)] == list(range(1, len(migrations(dialect)) + 1))


def test_the_same_store_opened_again_is_migrated_once(another: Callable[[], Store], store: Store) -> None:
    before = store.db.write(lambda tx: execute(tx, "select * from schema_version"))
    assert another().db.write(lambda tx: execute(tx, "select * from schema_version")) == before

"""Lines of migrations: the kernel's and one for each application, out of the one that there was for all."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

import custody
from custody.cli.doctor.ownership import whose_findings
from custody.errors import Unavailable, Unsafe
from custody.kernel import applications
from custody.kernel.applications import Part, Schema, install, installed
from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import NewItem
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.fsck import recount
from custody.kernel.stores.postgres import migrate as postgres_migrate
from custody.kernel.stores.sql.migrations import KERNEL, LINES, MOVED, migrations, statements_of
from custody.kernel.stores.sqlite import database as sqlite_database
from kernel.stores.acts import execute, submit
from kernel.stores.clock import HandClock
from kernel.stores.older import ONE_LINE, older
from kernel.stores.test_migrations import POSTGRES_SCHEMA, Killed, postgres_schema, sqlite_schema
from rig.postgres import Postgres

PROGRAM = Path(custody.__file__).parent
NAMES = sorted(part.name for part in installed())
FROZEN = {
    "sqlite": "bf63d1baa2eba711 99ecb52d1916fd9c 2434a395c7785293 50cc508bf6534a6b 91f38206227d7d89 d6da187996dcd91a 61958f3ac6f2aa84 f072d25341e85b36 8a495c9841b80ef0 784845cc0509749f 8b99b09e90e5e881 f311db945a52bcc8 e2ebb8eb8da887ac 66cf18e79c1fb8c5 59f326c9f113fa3c 005e5eb47ea4cff0 382702134fe1cf4a 46d8b8887f3fe0ea b3d763edb9675c0a 1090f59585040769",
    "postgres": "c7422bd0f1133f25 0f8cb3260ba45eee db981dea88c27256 c4cd68f225fc21b2 9b06030c763e8073 2a5db4a698fe3453 905f90574b958ff0 f072d25341e85b36 8a495c9841b80ef0 0d8e07c1997bda83 8b99b09e90e5e881 b34838d2698a3ab1 3e1b71d9ca25f090 dd0596f28320e4f3 e11ea3ed3adb98b1 64fd02c139608d6d 382702134fe1cf4a aba6830c1acd71ed 5e442d2d54104a0c c268afe40eae5e55",
}
"""What the texts of the one line were, to the byte."""


@pytest.fixture(autouse=True)
def _as_it_comes() -> Iterator[None]:
    yield
    install(None)


def only(*names: str) -> None:
    """A process that has these applications alone."""
    install(None)
    install([part for part in installed() if part.name in names])


# The texts


@pytest.mark.parametrize("dialect", FROZEN)
def test_no_text_of_the_one_line_has_changed_wherever_it_stands_now(dialect: str) -> None:
    scripts = {script.place: script for script in migrations(dialect) if script.place}
    assert {place for place, script in scripts.items() if script.line} == MOVED
    for place, digest in enumerate(FROZEN[dialect].split(), 1):
        text = scripts[place].text.removeprefix(f"-- was: {place:04}\n")
        assert (text == scripts[place].text) == (place not in MOVED), "only what was moved says so"
        assert hashlib.sha256(text.encode()).hexdigest()[:16] == digest, f"{place:04} has changed"


def described(dialect: str, *names: str) -> list[str]:
    files = [PROGRAM / "kernel" / "stores" / dialect / "schema.sql"]
    files += [PROGRAM / name / "schema" / dialect / "schema.sql" for name in names]
    return [statement for file in files if file.exists() for statement in statements_of(file.read_text())]


def built(dialect: str) -> list[str]:
    return [statement for script in migrations(dialect) for statement in statements_of(script.text)]


@pytest.mark.parametrize("names", [(), *((name,) for name in NAMES), tuple(NAMES)], ids=lambda names: "+".join(names))
def test_each_line_builds_what_its_schema_file_says(names: tuple[str, ...], quick_postgres: Postgres) -> None:
    """But for the one table that the first text of all makes for robots, and that only they take away."""
    only(*names)
    left = [] if "robots" in names else ["drop table subscription"]
    assert sqlite_schema(described("sqlite", *names)) == sqlite_schema([*built("sqlite"), *left])
    assert postgres_schema(quick_postgres, described("postgres", *names)) == postgres_schema(
        quick_postgres, [*built("postgres"), *left]
    )


@pytest.mark.parametrize("name", NAMES)
def test_an_application_that_has_migrations_says_what_they_come_to(name: str) -> None:
    (part,) = [part for part in installed() if part.name == name]
    for dialect in FROZEN:
        assert (PROGRAM / name / "schema" / dialect / "schema.sql").exists() == bool(part.schema.migrations)


# From every store that there was, killed after every step


def seen_in(path: str) -> tuple[set[tuple[Any, ...]], dict[str, list[Any]]]:
    db = apsw.Connection(path)
    try:
        found: set[tuple[Any, ...]] = {
            (*row[:3], re.sub(r"\s+", " ", row[3] or ""))
            for row in db.execute("select type, name, tbl_name, sql from sqlite_master")
        }
        for (table,) in db.execute("select name from sqlite_master where type = 'table'").fetchall():
            found |= {("column", table, *row[1:]) for row in db.execute(f"pragma table_xinfo({table})")}
        versions = {
            "numbers": db.execute("select version from schema_version order by 1").fetchall(),
            "lines": db.execute("select application, version from application_version order by 1, 2").fetchall(),
        }
    finally:
        db.close()
    return found, versions


def dying_after(steps: int, module: Any) -> pytest.MonkeyPatch:
    """A start that is killed when it has taken so many steps: each is asked for twice, before its transaction and in it."""
    patched, left, real = pytest.MonkeyPatch(), iter(range(2 * steps)), module.next_step

    def next_step(dialect: str, reached: Any) -> Any:
        if next(left, None) is None:
            raise Killed
        return real(dialect, reached)

    patched.setattr(module, "next_step", next_step)
    return patched


def killed_after(steps: int, module: Any, start: Callable[[], Store]) -> bool:
    """Whether there was so much to do."""
    patched = dying_after(steps, module)
    try:
        start().close()
    except Killed:
        return True
    finally:
        patched.undo()
    return False


@pytest.mark.parametrize("schema", range(ONE_LINE + 1))
def test_a_store_of_every_schema_killed_after_every_step_becomes_what_a_new_one_is(
    quick_folder: Path, schema: int
) -> None:
    def start(name: str) -> Store:
        return open_store(f"sqlite:///{quick_folder / name}.db", HandClock())

    start("new").close()
    new = seen_in(str(quick_folder / "new.db"))
    steps = 0
    is_cut = True
    while is_cut:
        name = f"{schema}-{steps}"
        if schema:
            with older(schema):
                start(name).close()
        is_cut = killed_after(steps, sqlite_database, lambda name=name: start(name))
        with start(name) as store:
            submit(store)
            store.records.put([NewItem("x")], [], "ada")
            assert recount(store) == []
        assert seen_in(str(quick_folder / f"{name}.db")) == new
        steps += 1
    assert steps > ONE_LINE - schema + len([script for script in migrations("sqlite") if script.line])


@pytest.mark.parametrize("schema", [0, 1, 10, 18, 19, ONE_LINE])
def test_the_same_on_postgresql_where_it_matters_most(quick_postgres: Postgres, schema: int) -> None:
    """Before the lines part, while they do, and in each of them."""

    def seen(url: str) -> Any:
        with psycopg.connect(url) as db:
            return (
                set(db.execute(POSTGRES_SCHEMA).fetchall()),
                db.execute("select version from schema_version order by 1").fetchall(),
                db.execute("select application, version from application_version order by 1, 2").fetchall(),
            )

    fresh = quick_postgres.fresh_database()
    open_store(fresh + "?unsafe=1").close()
    new = seen(fresh)
    quick_postgres.give_back(fresh)
    end = KERNEL - schema
    for steps in (max(end - 2, 0), end - 1, end, end + 1, end + 5):
        url = quick_postgres.fresh_database()
        if schema:
            with older(schema):
                open_store(url + "?unsafe=1").close()
        assert killed_after(steps, postgres_migrate, lambda url=url: open_store(url + "?unsafe=1"))
        with open_store(url + "?unsafe=1") as store:
            submit(store)
        assert seen(url) == new
        quick_postgres.give_back(url)


# Who is there, and who is not


@pytest.fixture(params=["file", "postgres"])
def new_url(request: pytest.FixtureRequest, quick_folder: Path) -> Iterator[str]:
    if request.param == "file":
        yield f"sqlite:///{quick_folder / 'custody.db'}"
        return
    server: Postgres = request.getfixturevalue("quick_postgres")
    url = server.fresh_database()
    yield url + "?unsafe=1"
    server.give_back(url)


def lines(store: Store) -> dict[str, int]:
    return {name: int(version) for name, version in store.db.read(lambda tx: tx.run("application_versions"))}


def test_the_kernel_alone_works_and_applications_that_come_later_add_their_own(new_url: str, clock: HandClock) -> None:
    only()
    with open_store(new_url, clock) as store:
        assert lines(store) == {}
        submit(store)
        store.records.put([NewItem("x", types=frozenset({"object"}))], [], "ada")
        assert store.records.kept("x") == "x"
        assert recount(store) == []
        numbers = store.db.write(lambda tx: execute(tx, "select version from schema_version order by 1"))
        assert [number for (number,) in numbers] == [at for at in range(1, KERNEL + 1) if at not in MOVED]
    for at in range(1, len(NAMES) + 1):
        only(*NAMES[:at])
        with open_store(new_url, clock) as store:
            wanted = {part.name: part.schema.migrations for part in installed() if part.schema.migrations}
            assert lines(store) == wanted
            assert recount(store) == []
    with open_store(new_url, clock) as store:
        assert len(store.queue.list()) == 1
        assert store.db.read(lambda tx: [*tx.run("wf_archives"), *tx.run("inv_name", ark="x")]) == []


def test_a_half_made_store_of_the_kernel_alone_goes_on_with_an_application(
    quick_folder: Path, clock: HandClock
) -> None:
    """What would have had its place before what is there comes after it, and in its own order."""
    url = f"sqlite:///{quick_folder / 'custody.db'}"
    only()
    assert killed_after(9, sqlite_database, lambda: open_store(url, clock))
    only(*NAMES)
    with open_store(url, clock) as store:
        assert lines(store) == {part.name: part.schema.migrations for part in installed() if part.schema.migrations}


def test_an_application_that_is_gone_leaves_its_tables_and_the_store_opens(new_url: str, clock: HandClock) -> None:
    with open_store(new_url, clock) as store:
        every = lines(store)
    only()
    with open_store(new_url, clock) as store:
        assert lines(store) == every
        submit(store)
        assert recount(store) == []


def test_an_application_that_is_older_than_its_tables_is_refused_by_name(new_url: str, clock: HandClock) -> None:
    with open_store(new_url, clock) as store:
        store.db.write(lambda tx: execute(tx, "insert into application_version values ('workflows', 99, 0)"))
        store.db.write(lambda tx: execute(tx, "insert into application_version values ('parcels', 7, 0)"))
    with pytest.raises(Unsafe, match="schema 99 of workflows, newer than the installed one knows") as refused:
        open_store(new_url, clock)
    assert refused.value.code == "store.newer"
    only("ingest")
    open_store(new_url, clock).close()


def test_a_program_of_the_one_line_refuses_a_store_that_has_gone_on(new_url: str, clock: HandClock) -> None:
    open_store(new_url, clock).close()
    with older(ONE_LINE), pytest.raises(Unsafe) as refused:
        open_store(new_url, clock)
    assert refused.value.code == "store.newer"
    assert LINES > ONE_LINE


def test_the_doctor_tells_of_tables_whose_application_is_not_there(store: Store) -> None:
    assert [each for each in whose_findings(store) if "tables of" in each.what] == []
    store.db.write(lambda tx: execute(tx, "insert into application_version values ('parcels', 7, 0)"))
    (told,) = whose_findings(store)
    assert (told.grade, told.what) == ("warning", "tables of parcels are here (schema 7), and parcels is not")
    store.db.write(lambda tx: execute(tx, "delete from application_version where application = 'parcels'"))


# Robots become subscribers


def test_robots_of_before_are_subscribers_and_none_of_them_is_filled_again(new_url: str, clock: HandClock) -> None:
    """To the byte: a text that differs would have every item looked at anew. And what was ready stays one job per robot
    and item, wherever the item is moved."""
    trigger = '{"past": ["Stored"],  "absent":[]}'  # as an earlier program wrote it
    words = [
        f"insert into subscription (robot, trigger, facts, filled) values ('pages', '{trigger}', '{{\"priority\":7}}', 'm')",
        "insert into item (id, types, collection, seq, changed, fingerprint, detail, created)"
        " values ('x', ' ', 'maps', 1, 1, '', '{\"robot_priority\":3}', 1)",
        "insert into job (kind, key, state, runnable, lane, place, collection, priority, unmet, payload, facts, token, seq,"
        " move, created, changed, by) values ('robot/pages', 'x', 'queued', 1, 'letters', '', 'letters', 50, 0,"
        " '{\"item\":\"x\"}', '{}', 1, 1, 'old', 1, 1, '')",
        "insert into job (kind, key, state, runnable, lane, place, collection, priority, unmet, payload, facts, token, seq,"
        " move, created, changed, by) values ('robotics', 'x', 'queued', 1, '', '', 'letters', 50, 0, '{}', '{}', 1, 1,"
        " 'old', 1, 1, '')",
    ]
    with older(ONE_LINE), open_store(new_url, clock) as store:
        store.db.write(lambda tx: [execute(tx, each) for each in words])
    with open_store(new_url, clock) as store:
        rows = store.db.read(lambda tx: tx.run("subscriptions"))
        assert [tuple(row) for row in rows] == [("robot/pages", trigger, '{"priority":7}', "m", "robot_priority")]
        store.records.append(NewEvent("x", "Stored"))
        jobs = store.db.write(lambda tx: execute(tx, "select kind, key, collection, everywhere from job order by kind"))
        assert [tuple(job) for job in jobs] == [("robot/pages", "x", "letters", 1), ("robotics", "x", "letters", 0)]
        store.queue.delete(store.queue.by_key("robot/pages", "x").id, "ada", "done")  # type: ignore[union-attr]
        store.records.append(NewEvent("x", "Stored"))
        made = store.queue.by_key("robot/pages", "x")
        assert made is not None
        assert (made.collection, made.priority) == ("maps", 3), "its own word goes before the robot's"


# What is missing


@pytest.mark.parametrize("dialect", FROZEN)
def test_a_migration_that_is_missing_is_told_before_anything_is_opened(
    dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "parcels" / "schema" / dialect).mkdir(parents=True)
    (tmp_path / "parcels" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "parcels" / "schema" / dialect / "0002_more.sql").write_text(
        "create table parcel (id text primary key)"
    )
    install([Part(name="parcels", schema=Schema("parcels", "schema", migrations=2))])
    with pytest.raises(Unavailable, match="look at 0001") as refused:
        migrations(dialect)
    assert refused.value.code == "store.migrations"


def test_a_statement_that_is_anothers_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "thieves" / "schema").mkdir(parents=True)
    (tmp_path / "thieves" / "__init__.py").touch()
    (tmp_path / "thieves" / "schema" / "statements.sql").write_text("-- name: job\nselect 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    install([Part(name="thieves", schema=Schema("thieves", "schema"))])
    with pytest.raises(Unsafe, match="thieves gives the statement job anew"):
        open_store("sqlite://:memory:")


def test_what_is_given_stays_until_another_is_and_what_the_program_comes_with_is_asked_for_once() -> None:
    every = installed()
    assert installed() is every
    assert [part.name for part in every] == NAMES
    assert install(reversed(every)) == every
    only("ingest")
    assert [part.name for part in installed()] == ["ingest"]
    assert applications.gathered(lambda part: part.deposits) == ("ingest/batch",)

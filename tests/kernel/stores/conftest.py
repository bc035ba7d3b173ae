"""One store fixture, four stores: the same tests run on SQLite in memory, SQLite in a file, PostgreSQL, and PostgreSQL
behind a pooler that gives every transaction another session.

Whatever a test did, at its end every derived value is counted again and every job's history is folded: the
strongest single check there is, and it costs milliseconds.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from custody.kernel.stores import Store, open_store
from custody.kernel.stores.fsck import recount
from kernel.stores.clock import HandClock
from rig.need import need
from rig.pgbouncer import PgBouncer
from rig.postgres import Postgres

STORES = ("memory", "file", "postgres", "pooled")

EMPTY = """
do $$
declare
    name text;
    n integer;
begin
    for name in select tablename from pg_tables
        where schemaname = 'public' and tablename not in ('schema_version', 'application_version', 'satisfies')
    loop
        execute format('select count(*) from (select 1 from %I limit 1000) as first', name) into n;
        if n = 1000 then execute format('truncate %I', name);
        elsif n > 0 then execute format('delete from %I', name); end if;
    end loop;
end $$;
"""


class Emptied:
    """One migrated database, emptied between tests: much cheaper than a new one, and to a test the same."""

    def __init__(self, server: Postgres) -> None:
        self.url = server.fresh_database() + "?unsafe=1"  # the quick server forgets on a power cut; no test cuts it
        self._db = psycopg.connect(self.url.partition("?")[0], autocommit=True)

    def empty(self) -> None:
        self._db.execute(EMPTY)

    def close(self) -> None:
        self._db.close()


@pytest.fixture(scope="session")
def quick_postgres() -> Iterator[Postgres]:
    """A private PostgreSQL without fsync: this suite kills no machine."""
    need("postgresql")
    server = Postgres(fast=True)
    server.start()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def emptied(quick_postgres: Postgres) -> Iterator[Emptied]:
    database = Emptied(quick_postgres)
    yield database
    database.close()


@pytest.fixture(scope="session")
def pooler(quick_postgres: Postgres) -> Iterator[PgBouncer]:
    """A private PgBouncer in transaction mode before it."""
    need("pgbouncer")
    server = PgBouncer(quick_postgres, round_robin=True)
    server.start()
    yield server
    server.remove()


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def quick_folder() -> Iterator[Path]:
    """A folder where fsync costs nothing, if the machine has one: no test here cuts the power."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, quick_folder: Path) -> Iterator[str]:
    """The address of an empty store of each sort."""
    if request.param == "memory":
        yield "sqlite://:memory:"
    elif request.param == "file":
        yield f"sqlite:///{quick_folder / 'custody.db'}"
    else:
        database: Emptied = request.getfixturevalue("emptied")
        pooled = request.param == "pooled"
        yield request.getfixturevalue("pooler").url(database.url) if pooled else database.url
        database.empty()


@pytest.fixture
def store(url: str, clock: HandClock) -> Iterator[Store]:
    with open_store(url, clock) as opened:
        yield opened
        assert recount(opened) == []


@pytest.fixture
def another(store: Store, clock: HandClock) -> Iterator[Callable[[], Store]]:
    """Another process's way into the same store. (A store in memory has only one way in.)"""
    opened: list[Store] = []

    def open_again() -> Store:
        if store.url.endswith(":memory:"):
            return store
        opened.append(open_store(store.url, clock))
        return opened[-1]

    yield open_again
    for each in opened:
        each.close()

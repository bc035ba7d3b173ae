"""What the machine allows: the same work as bare SQL, without a worker, a handler, a token or a history."""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import apsw
import psycopg

from bench.rounds import skipped

BATCH = 100
TABLE = """
    create table job (id bigint generated always as identity primary key, state text not null, payload text not null)
        with (fillfactor = 80);
    create index ready on job (id) where state = 'queued';
    insert into job (state, payload) select 'queued', '{}' from generate_series(1, %s);
"""
CLAIM = f"""
    update job set state = 'running' where id = any (array (
        select id from job where state = 'queued' order by id limit {BATCH} for update skip locked)) returning id
"""


def bare_postgres_drain(url: str, count: int) -> float:
    """Claim and complete in batches of a hundred, one connection, two commits a batch."""
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(TABLE.replace("%s", str(count)))
        db.execute("vacuum analyze job")
        began = time.monotonic()
        while rows := db.execute(CLAIM).fetchall():
            db.execute("update job set state = 'done' where id = any(%s)", ([row[0] for row in rows],))
        return count / (time.monotonic() - began)


def pgbench_drain(url: str, count: int) -> float:
    """The same as one statement from a C client: how fast the server can be asked at all."""
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(TABLE.replace("%s", str(count)))
        db.execute("vacuum analyze job")
    script = f"with taken as ({CLAIM.strip()}) select count(*) from taken;\n"
    running = f"select id from job where state = 'running' limit {BATCH}"
    script += f"update job set state = 'done' where id = any (array ({running}));\n"
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(script)
        file.flush()
        turns = count // BATCH
        began = time.monotonic()
        try:
            done = subprocess.run(
                ["pgbench", "-n", "-t", str(turns), "-f", file.name, "-d", url], capture_output=True, text=True
            )
        except FileNotFoundError:
            skipped("pgbench", "it is not installed")
            return 0.0
    if done.returncode:
        skipped("pgbench", done.stderr.strip()[-300:])
        return 0.0
    return count / (time.monotonic() - began)


def bare_sqlite_drain(folder: Path, count: int) -> float:
    """Claim and complete in batches of a hundred, fsynced, two commits a batch."""
    db = apsw.Connection(str(folder / "bare.db"))
    db.execute("pragma journal_mode = wal")
    db.execute("pragma synchronous = full")
    db.execute(
        "create table job (id integer primary key, state text, payload text); create index ready on job (state, id)"
    )
    with db:
        db.executemany("insert into job (state, payload) values ('queued', '{}')", ((),) * count)
    began = time.monotonic()
    while True:
        with db:
            rows = db.execute(
                "update job set state = 'running' where id in "
                f"(select id from job where state = 'queued' order by id limit {BATCH}) returning id"
            ).fetchall()
        if not rows:
            break
        with db:
            db.executemany("update job set state = 'done' where id = ?", rows)
    rate = count / (time.monotonic() - began)
    db.close()
    return rate


def bare_sqlite_commit(folder: Path, count: int = 200) -> float:
    """Milliseconds, as a median, for one row and one fsynced commit."""
    db = apsw.Connection(str(folder / "commits.db"))
    db.execute("pragma journal_mode = wal")
    db.execute("pragma synchronous = full")
    db.execute("create table job (id integer primary key, payload text)")
    took = []
    for _ in range(count):
        began = time.monotonic()
        db.execute("insert into job (payload) values ('{}')")
        took.append(time.monotonic() - began)
    db.close()
    return statistics.median(took) * 1000


def insert_rate(url: str, count: int) -> float:
    """One row, one commit, one connection."""
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("create table job (id bigint generated always as identity primary key, state text, payload text)")
        began = time.monotonic()
        for n in range(count):
            db.execute("insert into job (state, payload) values ('queued', %s)", (f'{{"n":{n}}}',), prepare=True)
        return count / (time.monotonic() - began)


def copy_rate(url: str, count: int) -> float:
    """One COPY, one commit: no key, no history, no index but the primary key's."""
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("create table job (id bigint generated always as identity primary key, state text, payload text)")
        began = time.monotonic()
        with db.cursor().copy("copy job (state, payload) from stdin") as copy:
            for n in range(count):
                copy.write_row(("queued", f'{{"n":{n}}}'))
        return count / (time.monotonic() - began)

"""Bringing a database to the schema this program knows: one migration, one transaction, one at a time."""

from __future__ import annotations

import time

import psycopg

from custody.kernel.stores.postgres.connection import Connection, translate
from custody.kernel.stores.postgres.dialect import SERVER_TIME
from custody.kernel.stores.postgres.prepared import say
from custody.kernel.stores.postgres.server.condition import incomplete
from custody.kernel.stores.sql.migrations import missing, pending, statements_of

LOCK = 0x637573746F6479  # "custody": whoever migrates holds it, whoever starts meanwhile waits
PAUSE_SECONDS = 0.1


def migrate(db: Connection) -> None:
    """Processes that start together take turns; whoever comes second finds nothing left to do."""
    try:
        while _is_behind(db):
            if not _next_one(db):
                time.sleep(PAUSE_SECONDS)
    except psycopg.Error as error:
        raise translate(error) from error


def must_exist(db: Connection) -> None:
    """Refuse a database that is no store yet, without making it one."""
    try:
        say(db, db.words.look)
        version = version_of(db)
        say(db, b"rollback")
    except psycopg.Error as error:
        raise translate(error) from error
    if not version:
        raise missing("there is no store in this database")


def _is_behind(db: Connection) -> bool:
    say(db, db.words.look)
    behind = any(pending("postgres", version_of(db)))
    say(db, b"rollback")
    return behind


def _next_one(db: Connection) -> bool:
    """Apply the next migration; False while somebody else is at it.

    The lock belongs to the transaction: a session may be another's after it. And it is asked for, not waited for: a
    transaction that began before its turn came would go on believing what it knew of the tables then."""
    try:
        say(db, db.words.begin)
        if not db.execute("select pg_try_advisory_xact_lock(%s)", (LOCK,)).fetchall()[0][0]:
            say(db, b"rollback")
            return False
        for number, _, script in list(pending("postgres", version_of(db)))[:1]:
            for statement in statements_of(script):
                db.execute(statement)
            db.execute(f"insert into schema_version values (%s, {SERVER_TIME})", (number,))
        say(db, b"commit")
    except BaseException:
        db.close()  # and with it the lock, and all that was done
        raise
    return True


def version_of(db: Connection) -> int:
    # Not to_regclass: it may answer from a cache that has not heard of a table made while we waited for the lock.
    known = "select 1 from pg_tables where schemaname = any (current_schemas(false)) and tablename = 'schema_version'"
    if not db.execute(known).fetchall():
        return 0
    version: int | None = db.execute("select max(version) from schema_version").fetchall()[0][0]
    if not version:  # it is made with its first row
        raise incomplete("its table schema_version is empty (was it UNLOGGED when PostgreSQL crashed?)")
    return version

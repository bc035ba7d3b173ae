"""Bringing a database to the schema this program knows: one migration, one transaction, one at a time."""

from __future__ import annotations

import psycopg

from custody.stores.migrate import pending, statements_of
from custody.stores.postgres.connection import Connection, translate
from custody.stores.postgres.texts import SERVER_TIME

LOCK = 0x637573746F6479  # "custody": whoever migrates holds it, whoever starts meanwhile waits


def migrate(db: Connection) -> None:
    """Processes that start together take turns; whoever comes second finds nothing left to do."""
    try:
        _migrate(db)
    except psycopg.Error as error:
        raise translate(error) from error


def _migrate(db: Connection) -> None:
    if not any(pending("postgres", version_of(db))):
        return
    # Held by the session, not by a transaction: one that began before its turn came would go on believing what
    # it knew of the tables then.
    db.execute("select pg_advisory_lock(%s)", (LOCK,))
    try:
        for number, _, script in pending("postgres", version_of(db)):
            with db.transaction():
                for statement in statements_of(script):
                    db.execute(statement)
                db.execute(f"insert into schema_version values (%s, {SERVER_TIME})", (number,))
        db.execute("select pg_advisory_unlock(%s)", (LOCK,))
    except BaseException:
        db.close()  # and with it the lock
        raise


def version_of(db: Connection) -> int:
    # Not to_regclass: it may answer from a cache that has not heard of a table made while we waited for the lock.
    known = "select 1 from pg_tables where schemaname = any (current_schemas(false)) and tablename = 'schema_version'"
    if not db.execute(known).fetchall():
        return 0
    version: int | None = db.execute("select max(version) from schema_version").fetchall()[0][0]
    return version or 0

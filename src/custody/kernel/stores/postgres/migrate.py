"""Bringing a database to the schema this program knows: one migration, one transaction, one at a time."""

from __future__ import annotations

import time

import psycopg

from custody.kernel.stores.postgres.connection import Connection, translate
from custody.kernel.stores.postgres.dialect import SERVER_TIME
from custody.kernel.stores.postgres.prepared import say
from custody.kernel.stores.postgres.server.condition import incomplete
from custody.kernel.stores.sql.migrations import Reached, missing, next_step, statements_of

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
        reached = reached_by(db)
        say(db, b"rollback")
    except psycopg.Error as error:
        raise translate(error) from error
    if not reached.numbers:
        raise missing("there is no store in this database")


def _is_behind(db: Connection) -> bool:
    say(db, db.words.look)
    step = next_step("postgres", reached_by(db))
    say(db, b"rollback")
    return step is not None


def _next_one(db: Connection) -> bool:
    """Apply the next migration; False while somebody else is at it.

    The lock belongs to the transaction: a session may be another's after it. And it is asked for, not waited for: a
    transaction that began before its turn came would go on believing what it knew of the tables then."""
    try:
        say(db, db.words.begin)
        if not db.execute("select pg_try_advisory_xact_lock(%s)", (LOCK,)).fetchall()[0][0]:
            say(db, b"rollback")
            return False
        if step := next_step("postgres", reached_by(db)):
            for statement in statements_of(step.script.text) if step.is_run else ():
                db.execute(statement)
            table, values = step.record
            db.execute(f"insert into {table} values ({'%s, ' * len(values)}{SERVER_TIME})", values)
        say(db, b"commit")
    except BaseException:
        db.close()  # and with it the lock, and all that was done
        raise
    return True


def reached_by(db: Connection) -> Reached:
    # Not to_regclass: it may answer from a cache that has not heard of a table made while we waited for the lock.
    known = "select tablename from pg_tables where schemaname = any (current_schemas(false)) and tablename = any (%s)"
    tables = {name for (name,) in db.execute(known, (["schema_version", "application_version"],)).fetchall()}
    if "schema_version" not in tables:
        return Reached()
    numbers = frozenset(number for (number,) in db.execute("select version from schema_version").fetchall())
    if not numbers:  # it is made with its first row
        raise incomplete("its table schema_version is empty (was it UNLOGGED when PostgreSQL crashed?)")
    if "application_version" not in tables:
        return Reached(numbers)
    lines = db.execute("select application, version from application_version").fetchall()
    return Reached(numbers, frozenset((line, number) for line, number in lines))

"""Whether a database still is the one that was opened, and whether its tables keep and show what they are given.

What is asked when a store is opened may change while it is open: `fsync` by a reload of the settings, a table by an
administrator, all of it by a restore. So the same few questions are asked again, in one statement, on every new
connection and at most every few seconds on those that are there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from custody.errors import CustodyError, Unavailable, Unsafe
from custody.kernel.stores.postgres.connection import FORGETFUL, Connection, forgetful
from custody.kernel.stores.postgres.prepared import say
from custody.kernel.stores.recovery.losses import RESTORED, STORE
from custody.kernel.stores.sql import migrations
from custody.kernel.stores.sql.statements import load

TABLES = re.compile(r"\b(create|drop|alter) table (?:if exists )?(\w+)(?: rename to (\w+))?")
WRITES = re.compile(r"\b(insert) into (\w+)|\b(update) (\w+)(?: as \w+)?\s+set\b|\b(delete) from (\w+)")

_LOOK = """
    select current_setting('fsync'), current_setting('full_page_writes'), to_regclass('job')::oid::text,
        current_user::text,
        (select json_agg(json_build_array(name, persists, hidden, complete, readable, lacking)) from (
            select one.name, c.relpersistence as persists, row_security_active(c.oid) as hidden,
                c.relhasindex as complete, has_table_privilege(c.oid, 'select') as readable,
                (select string_agg(verb, ', ') from unnest(string_to_array(one.verbs, ' ')) as verb
                 where not has_table_privilege(c.oid, verb)) as lacking
            from unnest(%(names)s::text[], %(verbs)s::text[]) as one (name, verbs)
            left join pg_class as c on c.oid = to_regclass(one.name)) as seen
         where persists is null or persists <> 'p' or hidden or not complete or not readable or lacking is not null)"""
_GENERATION = """
    select move, has_sequence_privilege('job_id_seq', 'usage') from (select 1) as one
    left join lateral (
        select move from event where subject = %(subject)s and type = %(type)s order by seq desc limit 1
    ) as last on true"""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a database looks like at a moment."""

    tables: str = ""  # what the server calls them inside: others, when they were dropped and made again
    generation: str = ""  # the move of the last time that an administrator said that it was restored
    lacks: CustodyError | None = None  # why nothing can be written
    wanted: Mapping[str, list[str]] = field(
        default_factory=dict
    )  # the tables that must be there, and what is done to them


def look(db: Connection, unsafe: bool, wanted: Mapping[str, list[str]]) -> Seen:
    """Refuses a database that does not keep or show what it is given."""
    say(db, db.words.look)
    try:
        ((fsync, full_pages, tables, role, faults),) = db.execute(_LOOK, wanted).fetchall()
        if not unsafe:
            _must_remember(fsync=fsync, full_page_writes=full_pages)
        lacks = _judged(role, faults or [])
        ((generation, draws),) = db.execute(_GENERATION, {"subject": STORE, "type": RESTORED}).fetchall()
        if lacks is None and not draws:
            lacks = _may_not(role, "draw numbers from job_id_seq")
        return Seen(tables, generation or "", lacks, wanted)
    finally:
        if not db.closed:
            say(db, b"rollback")


def _must_remember(**settings: str) -> None:
    for name in FORGETFUL:
        if settings.get(name) == "off":
            raise forgetful(name)


def _judged(role: str, faults: Sequence[Sequence[Any]]) -> CustodyError | None:
    """Refuse what makes every answer doubtful; say what only keeps this role from writing."""
    lacks: CustodyError | None = None
    for name, persists, hidden, complete, readable, lacking in faults:
        if persists is None or not complete:
            raise incomplete(f"there is no table {name}" if persists is None else f"table {name} has no index yet")
        if persists != "p":
            raise Unsafe(
                f"table {name} is UNLOGGED: after a crash PostgreSQL empties it, whatever was acknowledged",
                code="postgres.unlogged",
                hint=f"alter table {name} set logged, for each of the store's tables",
            )
        if hidden:
            raise Unsafe(
                f"row security of table {name} applies to role {role}: jobs and events could be hidden from it",
                code="postgres.row_security",
                hint=f"alter table {name} disable row level security, or alter role {role} bypassrls",
            )
        if not readable:
            raise _may_not(role, f"read table {name}")
        lacks = lacks or (_may_not(role, f"{lacking} on table {name}") if lacking else None)
    return lacks


def _may_not(role: str, what: str) -> Unavailable:
    return Unavailable(
        f"PostgreSQL does not let role {role} {what}",
        code="store.rights",
        hint="grant select, insert, update, delete on all tables in schema …, and usage on all sequences in schema …"
        f" to {role}",
    )


def incomplete(what: str) -> Unavailable:
    return Unavailable(
        f"this database holds a part of a store: {what}",
        code="store.incomplete",
        hint="is it being restored? Wait for the end of that; otherwise restore it from a backup that is whole",
    )


def restored_meanwhile() -> Unavailable:
    return Unavailable(
        "this store was restored from a backup after this process had opened it: what it knows may be lost history",
        code="store.restored",
        hint="end this process and start it again",
    )


def table_names() -> Sequence[str]:
    """Those that this program's migrations leave behind."""
    names: dict[str, None] = {}
    for _, _, script in migrations.migrations("postgres"):
        for verb, name, new in TABLES.findall("; ".join(migrations.statements_of(script))):
            if verb == "drop" or new:
                names.pop(name, None)
            if verb != "drop":
                names[new or name] = None
    return list(names)


def asked() -> Mapping[str, list[str]]:
    """Every table, and what our statements do to it."""
    verbs: dict[str, set[str]] = {name: set() for name in table_names()}
    for text in load("postgres").values():
        for found in WRITES.finditer(text):
            verb, table = [group for group in found.groups() if group]
            if table in verbs:
                verbs[table].add(verb)
    return {"names": list(verbs), "verbs": [" ".join(sorted(each)) for each in verbs.values()]}

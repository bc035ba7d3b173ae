"""Compares the numbers that tables have with those that their sequences give out next.

A copy may come without its sequences (logical replication copies none; a dump can leave them out). Then numbers are
given out that the tables have already, and every write is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from psycopg import sql

from custody.kernel.stores.postgres.connection import Connection
from custody.kernel.stores.postgres.server.condition import table_names

AT_ONCE = 100_000
"""Numbers that are drawn in one statement."""

_COUNTED = """
    select c.relname::text, a.attname::text, pg_get_serial_sequence(a.attrelid::regclass::text, a.attname)
    from pg_attribute as a join pg_class as c on c.oid = a.attrelid
    where a.attidentity <> '' and c.oid in (select to_regclass(one) from unnest(%s::text[]) as one)"""

# Of a sequence that the role may not look at, some servers give no number and others an error.
_READABLE = "select has_sequence_privilege(%s, 'select') or has_sequence_privilege(%s, 'usage')"


@dataclass(frozen=True, slots=True)
class Lagging:
    """A sequence that is about to give out numbers which its table has already, or (`reached` is None) of which that is
    not known, because the role may not look at it."""

    table: str
    sequence: str
    reached: int | None
    highest: int


def lagging(db: Connection) -> Iterator[Lagging]:
    for table, column, sequence in db.execute(_COUNTED, (list(table_names()),)).fetchall():
        ((readable,),) = db.execute(_READABLE, (sequence, sequence)).fetchall()
        if not readable:
            yield Lagging(table, sequence, None, 0)
            continue
        text = sql.SQL(
            "select coalesce(pg_sequence_last_value(%s::regclass), 0), (select coalesce(max({}), 0) from {})"
        )
        looked = db.execute(text.format(sql.Identifier(column), sql.Identifier(table)), (sequence,))
        ((reached, highest),) = looked.fetchall()
        if highest > reached:
            yield Lagging(table, sequence, reached, highest)


def pass_over(db: Connection, highest: int, sequence: str = "job_id_seq") -> int:
    """Draw the numbers up to this one, so that none of them is given out again; answers the last one drawn. (To set the
    sequence would be quicker, and could set it back below what others draw meanwhile.)"""
    ((drawn,),) = db.execute("select nextval(%s::regclass)", (sequence,)).fetchall()
    while drawn < highest:
        some = (sequence, min(highest - drawn, AT_ONCE))
        ((drawn,),) = db.execute("select max(nextval(%s::regclass)) from generate_series(1, %s)", some).fetchall()
    return int(drawn)

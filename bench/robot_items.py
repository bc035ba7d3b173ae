"""Items with all their events, made in bulk by the database itself: what bench.robots measures upon.

In the order of the primary key, and with the other index made afterwards, so that every page is written once: ten
million items with twenty events each are two hundred million rows. (The history behind them is left out: no robot
reads it.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import apsw
import psycopg

ITEM = "(id, types, collection, seq, changed, fingerprint, detail, created)"
LATEST = "(item, type, seq, outcome, seen)"
TYPE_INDEX = "create index latest_type on latest (type, outcome, item)"


def name_of(number: int) -> str:
    return f"item-{number:08}"


def fill_sqlite(url: str, items: int, types: Sequence[str]) -> None:
    """Without a journal: nobody else has it open, and what breaks is thrown away."""
    db = apsw.Connection(url.removeprefix("sqlite:///"))
    for pragma in ("locking_mode = exclusive", "journal_mode = off", "synchronous = off", "cache_size = -500000"):
        db.execute(f"pragma {pragma}").fetchall()
    numbers = f"with recursive one (n) as (select 1 union all select n + 1 from one where n < {items})"
    name, kinds = "printf('item-%08d', n)", ", ".join(f"('{kind}', {seq})" for kind, seq in numbered(types))
    with db:
        db.execute(f"insert into item {ITEM} {numbers} select {name}, ' object ', '', 1, 1, '', '{{}}', 0 from one")
        db.execute("drop index latest_type")
        db.execute(
            f"insert into latest {LATEST} {numbers}, kind (type, seq) as (values {kinds}) "
            f"select {name}, type, seq, 'success', seq from one cross join kind"
        )
        db.execute(TYPE_INDEX)
    db.execute("pragma journal_mode = wal").fetchall()
    db.close()


def fill_postgres(url: str, items: int, types: Sequence[str]) -> None:
    series = f"from generate_series(1, {items}) as one (n)"
    name, kinds = "'item-' || lpad(n::text, 8, '0')", ", ".join(f"('{kind}', {seq})" for kind, seq in numbered(types))
    with psycopg.connect(url, autocommit=True) as db:
        for setting in ("synchronous_commit = off", "maintenance_work_mem = '1GB'"):
            db.execute(f"set {setting}")
        with (
            db.transaction()
        ):  # a table that is new to its transaction needs no log, where the server keeps none for others
            db.execute("truncate item, latest")
            db.execute("alter table latest drop constraint latest_pkey")
            db.execute("drop index latest_type")
            db.execute(f"insert into item {ITEM} select {name}, ' object ', '', 1, 1, '', '{{}}', 0 {series}")
            db.execute(
                f"insert into latest {LATEST} select {name}, kind.type, kind.seq, 'success', kind.seq {series} "
                f"cross join lateral (values {kinds}) as kind (type, seq)"
            )
            db.execute("alter table latest add primary key (item, type)")
            db.execute(TYPE_INDEX)
        db.execute("vacuum analyze")
        db.execute("checkpoint")


def numbered(types: Sequence[str]) -> list[tuple[str, int]]:
    """With the place each has in an item's history, in the order of their names."""
    return sorted((kind, seq) for seq, kind in enumerate(types, 2))


FILL: dict[str, Callable[[str, int, Sequence[str]], None]] = {"sqlite": fill_sqlite, "postgres": fill_postgres}

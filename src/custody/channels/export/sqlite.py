"""SQLite, with every version and a full-text index.

    select message.* from text join message on message.id = text.rowid where text match 'carbon NEAR date';

Ids are the service's own, so a message's id is its row's.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import apsw

from custody.border import modes
from custody.channels.export.fields import attachments, author, number, reactions, text
from custody.channels.messages.copies import written
from custody.channels.messages.reader import Shown
from custody.channels.snowflake import time_of

BATCH = 1_000

SCHEMA = """
create table channel(id integer primary key, name text not null, about text not null);
create table message(
    id integer primary key,          -- a snowflake: sorts by time
    channel integer not null references channel(id),
    at text not null,                -- when it was made, UTC
    author_id integer, author text not null,
    type integer not null,
    content text not null,
    edited_at text, deleted_at text,
    gone_at text,                    -- deleted there since then, and kept here
    damaged integer not null,        -- 1: there is one, but its bytes here are not what was written
    pinned integer not null,
    versions integer not null,
    seen_at text,                    -- when something of it was last seen to change without an edit
    raw text                         -- as it was last seen, every field of it
);
create index message_author on message(author_id);
create table version(
    message integer not null references message(id),
    number integer not null,
    raw text not null,
    primary key(message, number)
) without rowid;
create table attachment(
    message integer not null references message(id),
    number integer not null,
    id integer, filename text not null, size integer,
    raw text not null,
    primary key(message, number)
) without rowid;
create table reaction(
    message integer not null references message(id),
    emoji text not null, count integer,
    primary key(message, emoji)
) without rowid;
create table lost(                   -- parts that cannot be read: nobody knows which messages were in them
    low integer primary key, high integer not null
);
create virtual table text using fts5(content, author, content='message', content_rowid='id');
"""

MESSAGE = "insert into message values(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
VERSION = "insert into version values(?, ?, ?)"
REACTION = "insert or ignore into reaction values(?, ?, ?)"
ATTACHMENT = "insert into attachment values(?, ?, ?, ?, ?, ?)"


def write_sqlite(found: Iterable[Shown], path: Path, channel: int, name: str, about: str = "{}") -> int:
    """Write a channel into a new database file; answers how many messages, deleted ones included."""
    beside, count = path.with_name(path.name + ".part"), 0
    beside.unlink(missing_ok=True)
    modes.make_file(beside)
    database = apsw.Connection(str(beside))
    try:
        # No journal: a file that is not whole is never swung into place.
        database.execute("pragma journal_mode=off; pragma synchronous=off; begin").fetchall()
        database.execute(SCHEMA)
        database.execute("insert into channel values(?, ?, ?)", (channel, name, about))
        messages = iter(found)
        while batch := list(islice(messages, BATCH)):
            database.executemany("insert or ignore into lost values(?, ?)", ((o.id, o.upto) for o in batch if o.upto))
            known = [one for one in batch if not one.upto]
            _write(database, channel, known)
            count += len(known)
        database.execute("insert into text(text) values('rebuild'); insert into text(text) values('optimize')")
        database.execute("commit")
    finally:
        database.close()
    with open(beside, "rb") as file:
        os.fsync(file.fileno())
    os.replace(beside, path)
    return count


def _write(database: apsw.Connection, channel: int, batch: list[Shown]) -> None:
    database.executemany(MESSAGE, (_message(channel, one) for one in batch))
    database.executemany(VERSION, (row for one in batch if len(one.versions) > 1 or one.row for row in _versions(one)))
    database.executemany(REACTION, (row for one in batch if one.versions for row in _reactions(one)))
    database.executemany(ATTACHMENT, (row for one in batch for row in _attachments(one)))


def _message(channel: int, one: Shown) -> tuple[Any, ...]:
    raw: Mapping[str, Any] = one.message if one.versions else {}
    author_id, name = author(raw)
    return (
        one.id,
        channel,
        time_of(one.id).isoformat(timespec="milliseconds"),
        author_id,
        name,
        number(raw.get("type")) or 0,
        text(raw.get("content")),
        text(raw.get("edited_timestamp")) or None,
        one.deleted_at or None,
        one.gone or None,
        bool(one.damaged),
        raw.get("pinned") is True,
        len(one.versions),
        one.besides.get("seen"),
        (written(raw).decode() if one.row else one.versions[-1].decode()) if one.versions else None,
    )


def _reactions(one: Shown) -> Iterator[tuple[Any, ...]]:
    return ((one.id, emoji, count) for emoji, count in reactions(one.message))


def _versions(one: Shown) -> Iterator[tuple[Any, ...]]:
    for place, line in enumerate(one.versions, 1):
        yield one.id, place, line.decode()


def _attachments(one: Shown) -> Iterator[tuple[Any, ...]]:
    """Of every version, each once: an edit may have removed one."""
    seen: dict[object, Mapping[str, Any]] = {}
    for line in one.versions:
        seen |= {attachment.get("id"): attachment for attachment in attachments(json.loads(line))}
    for place, attachment in enumerate(seen.values(), 1):
        name, size = text(attachment.get("filename")), number(attachment.get("size"))
        yield one.id, place, number(attachment.get("id")), name, size, json.dumps(attachment)

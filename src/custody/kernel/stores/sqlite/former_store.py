"""The store that a copy takes the place of: held so that nobody opens it, read, and made whole by itself.

What it acknowledged last is in its log, and a log belongs to a name. So before it gets another name SQLite folds the
log into the file: from then on the file alone is all of it, wherever the restore is interrupted.
"""

from __future__ import annotations

import fcntl
import json
import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import apsw

from custody.errors import Refused, Unsafe
from custody.kernel.stores.recovery.losses import RESTORED, STORE, WENT_BACK, first_said, known_by, made_good
from custody.kernel.stores.sqlite.file_guard import is_guarded
from custody.kernel.stores.sqlite.foreign_wal import must_belong

WHOLE = (0x40000000, 512)
"""All bytes that SQLite locks in a file."""
SHOWN = 20


@dataclass(frozen=True, slots=True)
class Missing:
    """What the old store knew and the copy does not."""

    events: int
    jobs: int
    subjects: tuple[str, ...]
    last_job: int
    moves: tuple[str, ...] = ()  # that made the jobs which are named
    newest: tuple[str, str] = ("", "")  # subject and move of the last event: where that is, all before it is


@dataclass(frozen=True, slots=True)
class Note:
    """What the old store's history tells of an earlier restore, or that somebody has taken note of it."""

    type: str
    at: int
    agent: str
    outcome: str
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Knowledge:
    missing: Missing
    notes: tuple[Note, ...]  # that the copy has not, as they are to be written there
    is_other: bool  # neither history has the other's first event
    anew: tuple[int, ...]  # earlier losses that were there again: what is missing of them now is among what is missing


class Former:
    """The old store, held open by nobody else; `db` is None where SQLite cannot make sense of it."""

    def __init__(self, path: Path, db: apsw.Connection | None) -> None:
        self.path, self._db = path, db

    def compare(self, copy: Path) -> Knowledge | None:
        """What only the old store knows; None if it cannot be read."""
        if self._db is None:
            return None
        try:
            self._db.execute("attach ? as copy", (str(copy),))
            try:
                return _compared(self._db)
            finally:
                self._db.execute("detach copy")
        except apsw.Error:
            return None

    def fold(self) -> None:
        """Bring all that is in the log into the file, and on disk; the log is empty afterwards. Where that fails (a
        full disk) file and log stay what they are, together."""
        if self._db is not None:
            with suppress(apsw.Error):
                self._db.execute("pragma main.wal_checkpoint(truncate)").fetchall()


@contextmanager
def held(path: Path) -> Iterator[Former]:
    """Let nobody open it meanwhile; refuse if somebody has."""
    if not path.exists():
        yield Former(path, None)
        return
    if is_guarded(str(path)):
        raise in_use(path)
    if (db := _opened(path)) is None:
        with _locked(path):
            yield Former(path, None)
        return
    try:
        yield Former(path, db)
    finally:
        db.close()


def in_use(path: Path) -> Refused:
    return Refused(f"{path} is in use", code="restore.open", hint="end every process that has it open, and look again")


def _opened(path: Path) -> apsw.Connection | None:
    """A connection beside which there is no other. It deletes nothing when it is closed: by then another file may have
    the name, and a log of its own."""
    if not path.stat().st_size:
        return None
    try:
        must_belong(str(path))
    except Unsafe:
        return None
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        db.execute("pragma main.synchronous = full").fetchall()
        db.execute("pragma main.locking_mode = exclusive").fetchall()
        db.execute("begin exclusive")
        db.execute("select count(*) from main.event where id < 0").fetchall()
        db.execute("commit")
    except apsw.BusyError as error:
        db.close()
        raise in_use(path) from error
    except apsw.Error:
        db.close()
        return None
    return db


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        wish = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, *WHOLE, 0)
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, wish)
        except BlockingIOError as error:
            raise in_use(path) from error
        yield
    finally:
        os.close(descriptor)


def _compared(db: apsw.Connection) -> Knowledge:
    events = db.execute(f"select count(*) from main.event as event where {_UNKNOWN}").get
    jobs = list(db.execute(f"select subject, move from main.event as event where {_UNKNOWN} and {_NEW_JOBS}"))
    newest = db.execute(f"select subject, move from main.event as event where not {_RESTORE} and {_LAST}").fetchone()
    last = db.execute("select coalesce(max(seq), 0) from main.sqlite_sequence where name = 'job'").get
    missing = Missing(
        events=events,
        jobs=len(jobs),
        subjects=tuple(job for job, _ in jobs[:SHOWN]),
        last_job=last,
        moves=tuple(move for _, move in jobs[:SHOWN]),
        newest=tuple(newest or ("", "")),
    )

    def has(subject: str, move: str) -> bool:
        return bool(db.execute(_HAS, {"subject": subject, "move": move}).get)

    notes, there = _notes(db, "main"), {_said(note) for note in _notes(db, "copy")}
    carried = [_carried(notes, index) for index, note in enumerate(notes) if _said(note) not in there]
    return Knowledge(missing, tuple(carried), bool(db.execute(_OTHER).get), tuple(made_good(notes, has)))


def _notes(db: apsw.Connection, where: str) -> list[Note]:
    rows = db.execute(_NOTES.format(where))
    return [
        Note(type=type_, at=at, agent=agent, outcome=outcome, detail=json.loads(detail))
        for type_, at, agent, outcome, detail in rows
    ]


def _said(note: Note) -> tuple[str, int, str]:
    """What tells it from all others, also where it was carried over."""
    return note.type, first_said(note), note.agent


def _carried(notes: list[Note], index: int) -> Note:
    note = notes[index]
    detail = {"noted": first_said(note), **note.detail}
    if note.type == RESTORED:
        detail["knows"] = known_by(notes, index)
    return replace(note, detail=detail)


_LAST = "event.move != '' order by event.id desc limit 1"
_HAS = "select exists (select 1 from main.event where subject = :subject and (:move = '' or move = :move))"
_SAME = "same.subject = event.subject and same.seq = event.seq and same.at = event.at and same.move = event.move"
_RESTORE = f"(event.subject = '{STORE}' and event.type in ('{WENT_BACK}', '{RESTORED}'))"  # carried over
_UNKNOWN = f"not {_RESTORE} and not exists (select 1 from copy.event as same where {_SAME})"
_NEW_JOBS = "event.seq = 1 and event.subject > 'job/' and event.subject < 'job0' order by event.id"
_NOTES = f"select type, at, agent, outcome, detail from {{0}}.event as event where {_RESTORE} order by id"
_FIRST = f"(select * from {{0}}.event as event where not {_RESTORE} order by id limit 1)"
_OTHER = f"""select exists (select 1 from {_FIRST.format("main")}) and exists (select 1 from {_FIRST.format("copy")})
    and not exists (select 1 from {_FIRST.format("main")} as event, copy.event as same where {_SAME})
    and not exists (select 1 from {_FIRST.format("copy")} as event, main.event as same where {_SAME})"""

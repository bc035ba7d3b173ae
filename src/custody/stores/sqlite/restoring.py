"""Puts a copy in the place of a store: whole or not at all, whenever it is interrupted, with the old files beside it.

While files are put in place the old one has a second name, under which it is kept: so nobody opens it (`store.linked`)
with half of what belongs to it, and whoever was interrupted says it again.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import apsw

from custody.model.errors import NotFound, Refused, Unavailable
from custody.stores.history import write_note
from custody.stores.rows import Tx
from custody.stores.sqlite.copying import checked, copy_into, sync

WHOLE = (0x40000000, 512)
"""All bytes that SQLite locks in a file."""
SHOWN = 20
WENT_BACK = "went-back"


@dataclass(frozen=True, slots=True)
class Restored:
    jobs: int  # in the copy
    aside: Path | None  # what was there before
    missing: Missing | None  # None: what was there could not be read


@dataclass(frozen=True, slots=True)
class Missing:
    """What the old store knew and the copy does not."""

    events: int
    jobs: int
    subjects: tuple[str, ...]
    last_job: int


def restore(copy: Path, target: Path, agent: str) -> Restored:
    """Put `copy` in the place of `target`, which nobody may have open."""
    if not copy.is_file():
        raise NotFound(f"there is no copy {copy}", code="restore.unknown")
    if target.exists() and os.path.samefile(copy, target):
        raise Refused(f"{copy} is the store itself", code="restore.same")
    half = target.with_name(f"{target.name}.restoring")
    _clear(half)
    try:
        with _alone(target):
            pass  # before anything is read: it may be large
        copy_into(copy, half)
        jobs = checked(half)
        missing = _missing(half, target)
        _note(half, missing, copy, agent)
        sync(half)
        with _alone(target):
            aside = _set_aside(target)
            os.replace(half, target)
            sync(target.parent)
        return Restored(jobs, aside, missing)
    except (apsw.Error, OSError) as error:
        raise Unavailable(f"the copy could not be put in place: {error}", code="restore.failed") from error
    finally:
        _clear(half)


@contextmanager
def _alone(target: Path) -> Iterator[None]:
    """Let nobody open it meanwhile; refuse if somebody has."""
    if not target.exists():
        yield
        return
    descriptor = os.open(target, os.O_RDWR | os.O_CLOEXEC)
    try:
        wish = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, *WHOLE, 0)
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, wish)
        except BlockingIOError as error:
            raise Refused(
                f"{target} is in use", code="restore.open", hint="end every process that has it open, and look again"
            ) from error
        yield
    finally:
        os.close(descriptor)


def _set_aside(target: Path) -> Path | None:
    """Give the old file and its log another name, then take the log away: in this order nothing is ever lost."""
    log, index = Path(f"{target}-wal"), Path(f"{target}-shm")
    aside = None
    if target.exists():
        aside = _name_beside(target)
        for old, new in ((target, aside), (log, Path(f"{aside}-wal"))):
            if old.exists() and not new.exists():
                os.link(old, new)
    elif log.exists():
        aside = _name_beside(target)
        os.link(log, f"{aside}-wal")
    sync(target.parent)
    for old in (log, index):
        old.unlink(missing_ok=True)
    sync(target.parent)
    return aside


def _name_beside(target: Path) -> Path:
    """The one that an interrupted attempt has given it, or the next that is free."""
    number = 1
    while True:
        name = target.with_name(f"{target.name}.before-restore-{number}")
        if not name.exists() and not Path(f"{name}-wal").exists():
            return name
        if name.exists() and target.exists() and os.path.samefile(name, target):
            return name
        number += 1


def _missing(copy: Path, target: Path) -> Missing | None:
    """What only the old store knows; its files are left as they are."""
    if not target.exists() or not target.stat().st_size:
        return None
    old = apsw.Connection(str(target), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        old.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        old.execute("attach ? as copy", (str(copy),))
        events = old.execute(f"select count(*) from event where {_UNKNOWN}").get
        jobs = [
            row[0] for row in old.execute(f"select distinct subject from event where {_UNKNOWN} and seq = 1 {_JOBS}")
        ]
        last = old.execute("select coalesce(max(seq), 0) from sqlite_sequence where name = 'job'").get
        return Missing(events, len(jobs), tuple(jobs[:SHOWN]), last)
    except apsw.Error:
        return None
    finally:
        old.close()


_UNKNOWN = """not exists (select 1 from copy.event as same
    where same.subject = event.subject and same.seq = event.seq and same.at = event.at and same.move = event.move)"""
_JOBS = "and subject > 'job/' and subject < 'job0' order by id"


def _note(half: Path, missing: Missing | None, copy: Path, agent: str) -> None:
    """Tell it in the history, and give out no number again that the old store has given out."""
    from custody.stores import open_store

    detail = {
        "missing": missing.events if missing else None,
        "jobs": missing.jobs if missing else None,
        "subjects": list(missing.subjects) if missing else [],
        "restored": str(copy),
    }

    def work(tx: Tx) -> None:
        write_note(tx, "store", WENT_BACK, agent, detail, "failure" if missing is None or missing.events else "none")

    with open_store(f"sqlite:///{half.absolute()}", existing=True) as store:
        store.db.write(work)
    if missing is not None:
        db = apsw.Connection(str(half), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            values = (missing.last_job,)
            db.execute("update sqlite_sequence set seq = max(seq, ?) where name = 'job'", values)
            db.execute("insert into sqlite_sequence select 'job', ? where not exists (select 1 from sqlite_sequence "
                       "where name = 'job')", values)  # fmt: skip
        finally:
            db.close()


def _clear(half: Path) -> None:
    for name in (half, Path(f"{half}-wal"), Path(f"{half}-shm")):
        with suppress(FileNotFoundError):
            name.unlink()

"""Puts a copy in the place of a store: whole or not at all, whenever it is interrupted, with the old files beside it.

While files are put in place the old one has a second name, under which it is kept: so nobody opens it (`store.linked`)
with half of what belongs to it, and whoever was interrupted says it again. The old store's log is folded into it first;
where that cannot be done the log is kept beside the second name, and what is missing is not known.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import apsw

from custody.errors import BadInput, NotFound, Refused, Unavailable
from custody.kernel.stores.recovery.losses import STORE, WENT_BACK, Loss, losses
from custody.kernel.stores.rows import Tx
from custody.kernel.stores.rules.events import write_note
from custody.kernel.stores.sqlite.backup import BESIDE, checked, read_into, sync
from custody.kernel.stores.sqlite.file_guard import ASIDE, RESTORING
from custody.kernel.stores.sqlite.former_store import Former, Knowledge, Missing, Note, held


@dataclass(frozen=True, slots=True)
class Restored:
    jobs: int  # in the copy
    aside: Path | None  # what was there before
    missing: Missing | None  # None: what was there could not be read, or not all of it, or nothing was there
    earlier: tuple[Note, ...] = ()  # earlier losses that the copy does not make good and nobody has taken note of

    @property
    def is_whole(self) -> bool:
        """Is it known that nothing is missing which was acknowledged?"""
        return self.missing is not None and not self.missing.events and not self.earlier


def restore(copy: Path, target: Path, agent: str, other: bool = False) -> Restored:
    """Put `copy` in the place of `target`, which nobody may have open; `other`: also one of another store."""
    if target.is_symlink():
        target = Path(os.path.realpath(target))  # the link stays, and leads to the new one
    _must_be_another_file(copy, target)
    half = target.with_name(f"{target.name}{RESTORING}")
    _clear(half)
    try:
        with held(target) as old:
            read_into(copy, half)
            _must_be_a_store(half, copy)
            jobs = checked(half)
            known = old.compare(half)
            if known is not None and known.is_other and not other:
                raise Refused(
                    f"{copy} is the copy of another store: neither history has the other's beginning",
                    code="restore.other",
                    hint=f"look at both; if it shall take the place of {target} nevertheless: "
                    "custody store restore COPY --other",
                )
            missing = known.missing if known and not _has_a_log_aside(target) else None
            earlier = _note(half, known, missing, copy, agent=agent)
            _give_to_the_same(half, target)
            sync(half)
            aside = _set_aside(old, known is not None)
            os.replace(half, target)
            sync(target.parent)
        return Restored(jobs, aside, missing, earlier)
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise no_copy(copy) from error
    except (apsw.Error, OSError) as error:
        raise Unavailable(f"the copy could not be put in place: {error}", code="restore.failed") from error
    finally:
        _clear(half)


def _must_be_another_file(copy: Path, target: Path) -> None:
    if not copy.exists():
        raise NotFound(f"there is no copy {copy}", code="restore.unknown")
    if not copy.is_file():
        raise BadInput(f"{copy} is no plain file", code="restore.unknown", hint="a copy is one file")
    if target.exists() and os.path.samefile(copy, target):
        raise Refused(f"{copy} is the store itself", code="restore.same")


def _must_be_a_store(half: Path, copy: Path) -> None:
    db = apsw.Connection(str(half), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        found = db.execute("select count(*) from sqlite_master where name in ('job', 'event', 'schema_version')").get
    finally:
        db.close()
    if found != 3:
        raise no_copy(copy)


def no_copy(copy: Path) -> BadInput:
    return BadInput(
        f"{copy} is no copy of a store",
        code="restore.unknown",
        hint="a copy is a file that `custody store backup FILE` has made; the store is left as it was",
    )


def _set_aside(old: Former, can_be_read: bool) -> Path | None:
    """Give the old file another name, and its log too if that could not be folded into it; then take the log away: in
    this order nothing is ever lost."""
    target = old.path
    log, index = Path(f"{target}-wal"), Path(f"{target}-shm")
    if can_be_read:
        old.fold()
    is_logged = log.exists() and log.stat().st_size > 0
    aside = _name_beside(target) if target.exists() or is_logged else None
    for name, new in ((target, aside), (log, Path(f"{aside}-wal"))) if aside else ():
        if name.exists() and not new.exists() and (name != log or is_logged):
            os.link(name, new)
    sync(target.parent)
    for name in (log, index):
        if name.exists():
            os.unlink(name)
    sync(target.parent)
    return aside


def _names_aside(target: Path) -> list[Path]:
    """Those that an interrupted attempt has given the same file."""
    names = target.parent.glob(f"{target.name}{ASIDE}*") if target.exists() else ()
    return [name for name in names if not name.name.endswith(BESIDE) and os.path.samefile(name, target)]


def _has_a_log_aside(target: Path) -> bool:
    """Was it interrupted when the log had been taken from the file, which is less than the whole since then?"""
    logs = [Path(f"{name}-wal") for name in _names_aside(target)]
    return any(log.exists() and log.stat().st_size for log in logs)


def _name_beside(target: Path) -> Path:
    """The one that an interrupted attempt has given it, or the next that is free."""
    if given := _names_aside(target):
        return min(given)
    number = 1
    while True:
        name = target.with_name(f"{target.name}{ASIDE}{number}")
        if not any(os.path.lexists(f"{name}{end}") for end in ("", *BESIDE)):
            return name
        number += 1


def _note(half: Path, known: Knowledge | None, missing: Missing | None, copy: Path, agent: str) -> tuple[Note, ...]:
    """Tell it in the history, with what the old store's told of earlier restores, and give out no number again that the
    old store has given out. Answers the earlier losses that are still to be told."""
    from custody.kernel.stores import open_store

    detail = {
        "missing": missing.events if missing else None,
        "jobs": missing.jobs if missing else None,
        "subjects": list(missing.subjects) if missing else [],
        "moves": list(missing.moves) if missing else [],
        "newest": list(missing.newest) if missing else [],
        "restored": str(copy),
        "anew": list(known.anew) if known and missing else [],
    }

    def work(tx: Tx) -> int:
        for note in known.notes if known else ():
            write_note(tx, STORE, note.type, note.agent, detail=note.detail, outcome=note.outcome)
        outcome = "failure" if missing is None or missing.events else "none"
        return write_note(tx, STORE, WENT_BACK, agent, detail=detail, outcome=outcome)

    with open_store(f"sqlite:///{half.absolute()}", existing=True) as store:
        own = store.db.write(work)
        told = [loss for loss in losses(store) if loss.event.id != own and not loss.is_known]
    if known is not None:
        db = apsw.Connection(str(half), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            values = (known.missing.last_job,)
            db.execute("update sqlite_sequence set seq = max(seq, ?) where name = 'job'", values)
            db.execute(
                "insert into sqlite_sequence select 'job', ? where not exists (select 1 from sqlite_sequence "
                "where name = 'job')",
                values,
            )
        finally:
            db.close()
    return tuple(_as_told(loss) for loss in told)


def _as_told(loss: Loss) -> Note:
    event = loss.event
    return Note(
        type=event.type,
        at=loss.at,
        agent=event.agent,
        outcome=event.outcome,
        detail={**event.detail, "subjects": list(loss.subjects)},
    )


def _give_to_the_same(half: Path, target: Path) -> None:
    """Whose the old file is, his is the new one: a service must be able to open what root has put in place."""
    if not target.exists():
        return
    was, now = target.stat(), half.stat()
    with suppress(PermissionError):  # then it stays closed to others
        if (was.st_uid, was.st_gid) != (now.st_uid, now.st_gid):
            os.chown(half, was.st_uid, was.st_gid)
        os.chmod(half, stat.S_IMODE(was.st_mode))


def _clear(half: Path) -> None:
    for name in (half, Path(f"{half}-from")):
        for end in ("", *BESIDE):
            with suppress(FileNotFoundError):
                os.unlink(f"{name}{end}")

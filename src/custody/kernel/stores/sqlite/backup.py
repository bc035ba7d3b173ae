"""A copy of a store that is in use: one moment of it, whole, checked, and on disk."""

from __future__ import annotations

import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import apsw

from custody.border import modes
from custody.errors import NotFound, Refused, Unavailable, Unsafe
from custody.kernel.stores.sqlite.file_guard import is_guarded, must_have_one_name
from custody.kernel.stores.sqlite.foreign_wal import must_belong

BESIDE = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside a file, and takes for that file's own."""


def copy_to(source: Path, target: Path) -> int:
    """Copy; answers how many jobs the copy has. Nothing is left behind if it fails, and writers are not held up."""
    must_have_one_name(str(source))
    must_belong(str(source))
    if not source.is_file():
        raise NotFound(f"there is no store {source}", code="store.unknown")
    if target.name.endswith(BESIDE):
        raise Refused(
            f"{target.name} is a name of what SQLite keeps beside a file: the copy would be taken for that",
            code="backup.name",
            hint="choose another name for the copy, such as custody-copy.db",
        )
    for left in (f"{target}{end}" for end in BESIDE):
        if os.path.lexists(left):
            raise Refused(
                f"{left} exists: it is another file's, and would be taken for the copy's own",
                code="backup.exists",
                hint="choose another name for the copy, or move it to another folder first; it is left as it is",
            )
    half = target.with_name(f"{target.name}.part")
    half.unlink(missing_ok=True)
    try:
        copy_into(source, half)
        jobs = checked(half)
        sync(half)
        os.replace(half, target)
        sync(target.parent)
        return jobs
    except apsw.Error as error:
        raise Unavailable(f"the copy could not be made: {error}", code="backup.failed", where=str(target)) from error
    finally:
        half.unlink(missing_ok=True)


def copy_into(source: Path, target: Path) -> None:
    """Write the copy of a store that may be in use."""
    _vacuum(str(source), apsw.SQLITE_OPEN_READWRITE, target)


def read_into(copy: Path, target: Path) -> None:
    """Write the copy of a file that is only read, and that nobody may change meanwhile. One with a log of its own is
    read through a duplicate of both (`target` with `-from` after its name): SQLite folds a log into its file."""
    copy = Path(os.path.realpath(copy))
    if is_guarded(str(copy)):
        raise _in_use(copy)
    must_belong(str(copy))
    log, journal = Path(f"{copy}-wal"), Path(f"{copy}-journal")
    if journal.exists() and journal.stat().st_size:
        raise Unsafe(
            f"{journal} lies beside {copy}: what wrote to it was interrupted, and it was no store of ours",
            code="store.log",
            hint="if it is another file's, move it to another folder first; neither is touched",
        )
    before = _state(copy, log)
    if before[1] and before[1][2]:
        duplicate = Path(f"{target}-from")
        for old, new in ((copy, duplicate), (log, Path(f"{duplicate}-wal"))):
            modes.make_file(new)
            shutil.copyfile(old, new)
        _vacuum(str(duplicate), apsw.SQLITE_OPEN_READWRITE, target)
    else:
        only_read = f"file:{quote(str(copy))}?immutable=1"
        _vacuum(only_read, apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI, target)
    if _state(copy, log) != before:
        raise _in_use(copy)


def _in_use(copy: Path) -> Refused:
    return Refused(
        f"{copy} is in use", code="restore.open", hint="end every process that has it open, and say it again"
    )


def _state(*files: Path) -> list[tuple[int, ...] | None]:
    """What changes when one of them is written to."""
    found: list[tuple[int, ...] | None] = []
    for each in files:
        try:
            stat = each.stat()
        except FileNotFoundError:
            found.append(None)
        else:
            found.append((stat.st_ino, stat.st_mtime_ns, stat.st_size))
    return found


def _vacuum(source: str, flags: int, target: Path) -> None:
    """Write the copy, and give it a number of its own: the log of another can be told from its own by it."""
    with suppress(OSError):  # the copy itself says what is wrong
        modes.make_file(target)
    opened = apsw.Connection(source, flags=flags)
    try:
        opened.set_busy_timeout(60_000)
        opened.execute("vacuum into ?", (str(target.absolute()),))
    finally:
        opened.close()
    made = apsw.Connection(str(target), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        made.execute(f"pragma application_id = {secrets.randbelow((1 << 31) - 1) + 1}")
    finally:
        made.close()


def checked(copy: Path) -> int:
    opened = apsw.Connection(str(copy), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        told = opened.execute("pragma integrity_check").fetchall()
        if told != [("ok",)]:
            raise Unavailable(f"the copy is not sound: {told[0][0]}", code="backup.unsound", where=str(copy))
        jobs: int = opened.execute("select count(*) from job").get
        return jobs
    finally:
        opened.close()


def sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

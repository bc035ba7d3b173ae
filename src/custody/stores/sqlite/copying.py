"""A copy of a store that is in use: one moment of it, whole, checked, and on disk."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

import apsw

from custody import modes
from custody.model.errors import NotFound, Unavailable
from custody.stores.sqlite.beside import must_belong
from custody.stores.sqlite.guard import must_have_one_name


def copy_to(source: Path, target: Path) -> int:
    """Copy; answers how many jobs the copy has. Nothing is left behind if it fails, and writers are not held up."""
    must_have_one_name(str(source))
    must_belong(str(source))
    if not source.is_file():
        raise NotFound(f"there is no store {source}", code="store.unknown")
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
    """Write the copy, and give it a number of its own: the log of another can be told from its own by it."""
    with suppress(OSError):  # the copy itself says what is wrong
        modes.make_file(target)
    opened = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        opened.set_busy_timeout(60_000)
        opened.execute("vacuum into ?", (str(target),))
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

"""How SQLite is opened, and what is refused.

WAL with `synchronous=FULL`: a commit that was answered survives a power cut. Every write transaction begins
with `BEGIN IMMEDIATE`, because a read that turns into a write half-way is refused at once, whatever the busy
time-out. The library is the one that apsw carries; versions with the WAL-reset bug are refused.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw

from custody.border import modes
from custody.errors import BadInput, CustodyError, Refused, Unavailable, Unsafe
from custody.kernel.stores.rows import Row
from custody.kernel.stores.sql.statements import load
from custody.kernel.stores.sqlite.file_address import MEMORY
from custody.kernel.stores.sqlite.file_guard import identity, must_have_one_name

FIRST_SAFE = (3, 51, 3)
IN_MEMORY = {"tmpfs", "ramfs", "devtmpfs"}
"""File systems that forget when the machine is started anew."""
NETWORK_FILE_SYSTEMS = {
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "9p",
    "fuse.sshfs",
    "afs",
    "ceph",
    "glusterfs",
    "lustre",
}
BUSY_SECONDS = 30


class SqliteTx:
    """One transaction on one connection."""

    def __init__(self, db: apsw.Connection, now: int, new_move: Callable[[], str]) -> None:
        self._db, self.now, self.new_move = db, now, new_move

    def run(self, name: str, /, **values: Any) -> list[Row]:
        values["now"] = self.now
        rows: list[Row] = list(self._db.execute(_statements()[name], values))
        return rows


def _statements() -> Mapping[str, str]:
    return load("sqlite")


def check_version(version: str = apsw.sqlite_lib_version()) -> None:
    if tuple(int(part) for part in re.findall(r"\d+", version)) < FIRST_SAFE:
        raise Unsafe(
            f"SQLite {version or 'of an unknown version'} can corrupt a database in WAL mode",
            code="sqlite.version",
            hint="upgrade the apsw package: SQLite 3.51.3 or newer is needed",
        )


def file_system_of(path: Path, mounts: str = "/proc/self/mounts") -> str:
    """The type of the file system that holds `path`, as the kernel names it; empty where it does not say."""
    try:
        lines = Path(mounts).read_text().splitlines()
    except OSError:
        return ""
    where = str(path.resolve())
    best, kind = "", ""
    for line in lines:
        _, point, fs, *_ = line.split()
        point = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), point)  # a space is written \040
        inside = where == point or where.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, fs
    return kind


def check_file_system(path: Path, mounts: str = "/proc/self/mounts") -> None:
    kind = file_system_of(path, mounts)
    if kind in NETWORK_FILE_SYSTEMS:
        raise Unsafe(
            f"{path} is on a network file system ({kind}), where SQLite's locks cannot be trusted",
            code="sqlite.network",
            hint="put the file on a local disk, or use a postgresql:// store",
        )


def connect(path: str, *, read_only: bool = False, create: bool = True) -> apsw.Connection:
    """A connection with every setting that our promises rest on."""
    check_version()
    if path != MEMORY:
        check_file_system(Path(path).parent)
        if _LEFT_ALONE and (error := _LEFT_ALONE.get(os.path.realpath(path))):
            raise error
        must_have_one_name(path)
    named = identity(path)
    flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE
    flags |= apsw.SQLITE_OPEN_CREATE if create and not read_only else 0
    try:
        if flags & apsw.SQLITE_OPEN_CREATE and path != ":memory:":
            with suppress(OSError):  # SQLite says what is wrong
                modes.make_file(Path(path))
        db = apsw.Connection(path, flags=flags)
    except apsw.CantOpenError as error:
        raise Unavailable(
            f"cannot open {path}", code="store.open", hint="does the folder exist, and may we write there?"
        ) from error
    db.set_busy_timeout(BUSY_SECONDS * 1000)
    try:
        for pragma in PRAGMAS:
            if not (read_only and pragma.startswith("journal_mode")):
                db.execute(f"pragma {pragma}").fetchall()
    except apsw.Error as error:
        db.close()
        raise translate(error) from error
    if named not in (None, identity(path)):
        db.close()
        raise Unsafe(
            f"{path} was replaced while it was being opened",
            code="store.replaced",
            hint="open it again: it was restored?",
        )
    return db


PRAGMAS = (
    "journal_mode = wal",
    "synchronous = full",
    "foreign_keys = on",
    "temp_store = memory",
    "cache_size = -16384",  # KiB for each connection; the system keeps the rest at hand
)


def foreign(in_memory: bool) -> Refused:
    why = "it is in the memory of the process that opened it" if in_memory else "a verb was under way in it at the fork"
    return Refused(
        f"this store cannot be used after the fork: {why}",
        code="fork.foreign",
        hint="open it after the fork, or use a file" if in_memory else "open it after the fork, or fork outside of it",
    )


_LEFT_ALONE: dict[str, CustodyError] = {}


def leave_alone(path: str, holder: object, why: CustodyError) -> None:
    """For a file that is open in memory only, in a child (which was copied from its parent's) or where the program has
    closed our descriptors: SQLite would take locks for its own that it has not, whatever is opened now. Nor may what is
    open be closed, not even at the end: hence a reference for ever."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(holder))
    if path != MEMORY:
        _LEFT_ALONE[os.path.realpath(path)] = why


def closed() -> Unavailable:
    return Unavailable("the store is closed", code="store.closed")


def translate(error: Exception) -> Exception:
    """SQLite's errors in our words."""
    if isinstance(error, apsw.FullError | apsw.IOError):
        return Unavailable(f"the disk refused a write: {error}", code="store.disk", hint="is the disk full?")
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return Unavailable("another process holds the store's write lock", code="store.busy", hint="try again")
    if isinstance(error, apsw.ReadOnlyError | apsw.CantOpenError | apsw.PermissionsError):
        hint = "may we write to the file, and to its folder?"
        return Unavailable(f"the store cannot be written to: {error}", code="store.rights", hint=hint)
    if isinstance(error, apsw.ProtocolError):
        hint = "has the program closed descriptors that it did not open (os.closerange)? Then open the store after that"
        return Unavailable(f"the store's files cannot be locked: {error}", code="store.locks", hint=hint)
    if isinstance(error, apsw.NotADBError | apsw.CorruptError):
        return Unavailable(f"this is not a sound SQLite database: {error}", code="store.corrupt")
    if isinstance(error, VALUES):
        return BadInput(f"this cannot be kept: {error}", code="store.value", hint="half a character? beyond 64 bits?")
    return error


VALUES = (OverflowError, UnicodeEncodeError)
"""What the library says of values that it cannot take."""

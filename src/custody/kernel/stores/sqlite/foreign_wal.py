"""Looks whether the log that lies beside a file is that file's own, before SQLite plays it back into it.

SQLite does not ask: a copy that is put in the place of a store whose last process was killed gets the log of the other
one played over it, and is ruined; a log beside a file that is empty is deleted. Nothing in the two names the other. But
the log holds the file's first page whenever that changes, and with it what a file never changes (the number that every
copy of ours is given) and a count that only rises; and a copy is not in WAL mode until it is opened as a store.
What is asked of the log is asked first: whoever has the store open meanwhile only adds to the count in the file.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass

from custody.errors import Unsafe
from custody.kernel.stores.sqlite.file_guard import is_guarded
from custody.kernel.stores.sqlite.wal import FIRST, FRAME, HEADER

WAL_MODE = 2


@dataclass(frozen=True, slots=True)
class First:
    """What the first page says."""

    mode: int
    changes: int
    pages: int
    number: int

    @classmethod
    def of(cls, raw: bytes) -> First:
        changes, pages = struct.unpack_from(">II", raw, 24)
        return cls(raw[18], changes, pages, struct.unpack_from(">I", raw, 68)[0])


def must_belong(path: str) -> None:
    """Refuse a file beside which another one's log lies. (What this process has open is not opened again: to close it
    would end the locks that it has.)"""
    if is_guarded(path):
        return
    log = f"{os.path.realpath(path)}-wal"  # of a link, SQLite opens what it leads to
    try:
        with open(log, "rb") as opened:
            told = _first_in(opened.fileno())
    except OSError:
        return
    if told is None:
        return  # nothing in it counts
    try:
        with open(path, "rb") as file:
            raw = file.read(FIRST)
    except FileNotFoundError:
        raw = b""
    if len(raw) < FIRST:
        raise _foreign(path, "the file is gone or empty, and its log would be deleted", "if the file cannot be found")
    if why := _not_its_own(First.of(raw), *told):
        raise _foreign(path, why)


def _not_its_own(file: First, pages: int, log: First | None) -> str:
    if file.mode != WAL_MODE:
        return "the file is a copy, and the log is of what was there before"
    if log is None:
        same = pages == file.pages  # which is on the first page
        return "" if same else f"the log is of a file of {pages} pages, and this one has {file.pages}"
    if log.number != file.number:
        return "the log is another copy's"
    return "the log goes on from a later state than the file's" if log.changes > file.changes + 1 else ""


def _first_in(log: int) -> tuple[int, First | None] | None:
    """The size of the file after the last commit in the log, and the first page as it first comes in it."""
    header = os.pread(log, HEADER, 0)
    if len(header) < HEADER:
        return None
    page, salts = struct.unpack_from(">I", header, 8)[0], header[16:24]
    first, pages, at = None, 0, HEADER
    while len(frame := os.pread(log, FRAME, at)) == FRAME and frame[8:16] == salts:
        number, size = struct.unpack_from(">II", frame)
        if number == 1 and first is None:
            first = First.of(os.pread(log, FIRST, at + FRAME))
        pages = size or pages
        if first and pages:
            break
        at += FRAME + page
    return (pages, first) if pages else None


def _foreign(path: str, why: str, when: str = "to use the file as it is") -> Unsafe:
    path = os.path.realpath(path)
    return Unsafe(
        f"{path}-wal does not belong to {path}: {why}; neither is touched",
        code="store.log",
        hint=f"put a copy back with `custody store restore COPY`; {when}, move {os.path.basename(path)}-wal and "
        f"{os.path.basename(path)}-shm to another folder first",
    )

"""A file of receipts: what was acknowledged, kept outside of the store that acknowledged it."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from custody.errors import BadInput, Refused, Unavailable
from custody.kernel.stores import Store

PAGE = 500
LONGEST = 10_000
"""Characters of a line at most: what is longer is no receipt."""


class Kept:
    """A file of receipts that is open, so that what is submitted next can be written down."""

    def __init__(self, file: Path, opened: BinaryIO) -> None:
        self._file, self._opened = file, opened

    def append(self, job: int, move: str) -> None:
        """Write one down, on disk when this returns. Where that fails the job is there all the same, and is told."""
        receipt = json.dumps({"job": job, "move": move})
        try:
            begin = b"\n" if self._is_torn() else b""
            self._opened.write(begin + receipt.encode() + b"\n")
            self._opened.flush()
            os.fsync(self._opened.fileno())
        except OSError as error:
            raise Unavailable(
                f"job {job} was taken, but its receipt could not be written: {error.strerror}",
                code="receipts.unwritten",
                where=str(self._file),
                job=job,
                hint=f"do not submit it again; its receipt is {receipt}",
            ) from error

    def _is_torn(self) -> bool:
        """Does it end in the middle of a line, where whoever wrote it was interrupted?"""
        size = os.fstat(self._opened.fileno()).st_size
        if not size:
            return False
        with self._file.open("rb") as again:
            again.seek(size - 1)
            return again.read(1) != b"\n"


@contextmanager
def kept_in(file: Path | None, store: str) -> Iterator[Kept | None]:
    """Open the file of receipts before anything is asked for: what cannot be written down is not submitted."""
    if file is None:
        yield None
        return
    _must_be_no_store(file, store)
    if file.exists() and not stat.S_ISREG(file.stat().st_mode):
        raise BadInput("receipts are kept in a plain file", code="receipts.file", where=str(file))
    with file.open("ab", buffering=0) as opened:
        yield Kept(file, opened)


def _must_be_no_store(file: Path, store: str) -> None:
    from custody.kernel.stores.sqlite.file_address import MEMORY, file_of

    first = b""
    if file.is_file():
        with file.open("rb") as opened:
            first = opened.read(16)
    ours = file_of(store) if store.startswith("sqlite:") else MEMORY
    names = () if ours == MEMORY else [os.path.realpath(f"{ours}{end}") for end in ("", "-wal", "-shm", "-journal")]
    if os.path.realpath(file) in names or first == b"SQLite format 3\0":
        raise Refused(
            "this is a store, and no file of receipts",
            code="receipts.store",
            where=str(file),
            hint="name another file: receipts are kept outside of the store that gave them",
        )


def read(file: Path) -> Iterator[tuple[int, str]]:
    """Each receipt; refuses a line that is none, with its number, and a file without any: it proves nothing."""
    count = 0
    for number, line, receipt in _lines(file):
        if receipt is None:
            raise BadInput(
                f"this is no receipt: {line[:80]!r}",
                code="receipts.line",
                where=f"{file}, line {number}",
                hint="look at that line: one that was torn when its disk was full or its machine stopped can go",
            )
        count += 1
        yield receipt
    if not count:
        raise BadInput(
            "there are no receipts in it: nothing is known by it",
            code="receipts.none",
            where=str(file),
            hint="is it the right file? Who has no receipts says it without --receipts, with --beyond NUMBER as far as "
            "numbers of jobs are known that were given out",
        )


def _lines(file: Path) -> Iterator[tuple[int, str, tuple[int, str] | None]]:
    with file.open(encoding="utf-8", errors="replace") as lines:
        number = 0
        while line := lines.readline(LONGEST):
            number += 1
            if line.strip():
                yield number, line.strip(), _receipt(line)


def _receipt(line: str) -> tuple[int, str] | None:
    """Read it as strictly as it was written: what is nearly one names another job, or none."""
    try:
        one = json.loads(line)
        job, move = one["job"], one["move"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return (job, move) if type(job) is int and job > 0 and type(move) is str and move else None


def judged(store: Store, file: Path) -> tuple[int, list[tuple[int, str]], list[int]]:
    """How many receipts there are, those of which the store knows nothing, and the numbers of lines that are none."""
    count, lost, unread = 0, list[tuple[int, str]](), list[int]()
    lines = _lines(file)
    while page := list(islice(lines, PAGE)):
        receipts = [receipt for _, _, receipt in page if receipt is not None]
        unread += [number for number, _, receipt in page if receipt is None]
        count += len(receipts)
        lost += _asked(store, receipts) if receipts else []
    return count, lost, unread


def _asked(store: Store, page: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    from custody.kernel.stores.queue import SqlQueue

    queue = store.queue if isinstance(store.queue, SqlQueue) else SqlQueue(store.db)
    return queue.missing(page)

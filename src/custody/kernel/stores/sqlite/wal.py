"""Looks below SQLite whether the bytes of a file and its log are still those that everybody has agreed on.

In WAL mode what is committed is in the log, and which of it counts is in the log's index, shared by all processes: how
many frames, the salts of this log, the checksum of the last frame. Whoever overwrites or empties the log where it is
does not change the index, so the two do not agree any more. The file itself has a number that nothing changes; a copy
of `store backup` has another, and an emptied file none.
(https://sqlite.org/walformat.html; native numbers in the index, big ones first in the log.)
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass

from custody.kernel.stores.sqlite.system_calls import its_own_errors

_INDEX = struct.Struct(
    "=8xI2xHIIII8s"
)  # a count of commits, page size, last frame, pages, its checksum in two halves, salts
INDEX_BYTES = 136
COMMON = 48
"""Bytes that are the same until somebody commits."""
HEADER, FRAME = 32, 24
FIRST = 100
"""Bytes of the file's own header, in which its size and a count of changes are."""
NUMBER_AT = 68
"""Where the file's own header has `application_id`."""


@dataclass(slots=True)
class Index:
    """What the index of the log says."""

    commits: int
    page: int
    last: int
    pages: int
    checksum: bytes
    salts: bytes

    @classmethod
    def of(cls, raw: bytes) -> Index:
        commits, size, last, pages, one, two, salts = _INDEX.unpack_from(raw)
        page = (size & 0xFE00) + ((size & 1) << 16)  # 65536 does not fit
        return cls(
            commits=commits, page=page, last=last, pages=pages, checksum=struct.pack(">II", one, two), salts=salts
        )

    def at(self, frame: int) -> int:
        return HEADER + (frame - 1) * (FRAME + self.page)


class Log:
    """The log of an open store, read by descriptors of our own; those of the file and the index are the guard's."""

    def __init__(self, path: str, file: int, index: int) -> None:
        self._file, self._index = file, index
        self._log = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._identity = os.fstat(self._log)
        self._number = self._number_now()
        self._raw, self._parsed = b"", Index.of(bytes(INDEX_BYTES))  # the index as it was last read
        self._after, self._ours = b"", False

    def close(self) -> None:
        with its_own_errors:
            now = os.fstat(self._log)
            if (now.st_dev, now.st_ino) == (self._identity.st_dev, self._identity.st_ino):
                os.close(self._log)

    def overwritten(self) -> str:
        """What is wrong, in words; for whoever has the write lock, as nobody adds to the log then."""
        if (index := self._read()) is None:
            return "the index of its log was emptied"
        if not os.fstat(self._index).st_nlink:
            return "the index of its log was deleted"  # others would make one of their own, and not see our locks
        if not self._has_last(index):
            return "its log was overwritten or emptied"
        self._ours = self._raw[:COMMON] == self._after
        if self._number and self._number_now() != self._number:
            return "its bytes were overwritten"
        return ""

    def _number_now(self) -> bytes:
        """The number of this file, which every copy that `store backup` makes has otherwise. What is folded into the
        file never changes it, whoever is killed meanwhile: other bytes cannot be compared with the log as surely."""
        return os.pread(self._file, 4, NUMBER_AT)

    def is_ours(self) -> bool:
        """Was the last commit that `overwritten` has seen the last of our own?"""
        return self._ours

    def seems_overwritten(self, wrote: bool) -> bool:
        """The same of the log alone, after a commit, by whoever has no lock: true also if somebody was just writing.
        `wrote` is a commit that is known to have written something, and so to be counted."""
        before = self._parsed.commits
        if (index := self._read()) is None:
            return True
        self._after = self._raw[:COMMON] if wrote and (index.commits - before) % (1 << 32) == 1 else b""
        return not self._has_last(index)

    def _read(self) -> Index | None:
        raw = os.pread(self._index, INDEX_BYTES, 0)
        if raw != self._raw:
            if len(raw) < INDEX_BYTES:
                return None
            self._raw, self._parsed = raw, Index.of(raw)
        return self._parsed

    def _has_last(self, index: Index) -> bool:
        if not index.last:
            return True  # nothing in it counts
        frame = os.pread(self._log, FRAME, index.at(index.last))
        return frame[8:] == index.salts + index.checksum and os.pread(self._log, 8, 16) == index.salts

"""Counts the updates of a git repository's branches, in a file that only grows.

One line of JSON per update: number, branch, old and new commit. A line is on disk before anyone is told its
number, and half a line, left by a machine that went down, is cut off by the next writer. Deleted branches are
remembered with the number 0: they are no revision, but a branch made again is new.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO


@dataclass(frozen=True, slots=True)
class Update:
    number: int
    ref: str
    old: str
    new: str


class Journal:
    def __init__(self, file: Path) -> None:
        self.file = file
        self._seen = (0, list[Update]())

    def updates(self) -> list[Update]:
        """Read again only when the file has grown."""
        size = self.file.stat().st_size if self.file.exists() else 0
        if size != self._seen[0]:
            self._seen = (size, _parsed(self.file.read_bytes()))
        return self._seen[1]

    @contextmanager
    def writing(self) -> Iterator[Writer]:
        """Alone: numbers are given by one process at a time."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with open(self.file, "a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            _give_to_owner(file, self.file.parent)
            yield Writer(file)


class Writer:
    def __init__(self, file: BinaryIO) -> None:
        file.seek(0)
        whole = file.read()
        if not whole.endswith(b"\n"):
            file.truncate(whole.rfind(b"\n") + 1)
        self._file = file
        self.updates = _parsed(whole)

    def last(self, ref: str) -> Update | None:
        return next((update for update in reversed(self.updates) if update.ref == ref), None)

    def add(self, ref: str, old: str, new: str) -> Update:
        number = 0 if is_nothing(new) else self.youngest() + 1
        update = Update(number, ref, old, new)
        fields = {name: getattr(update, name) for name in update.__dataclass_fields__}
        self._file.write(json.dumps(fields).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.updates.append(update)
        return update

    def youngest(self) -> int:
        return max((update.number for update in self.updates), default=0)


def _give_to_owner(file: BinaryIO, folder: Path) -> None:
    """The hook runs as whoever owns the repository, and an administrator may have been here first."""
    owner, about = folder.stat(), os.fstat(file.fileno())
    if os.geteuid() == 0 == about.st_uid != owner.st_uid:
        os.fchown(file.fileno(), owner.st_uid, owner.st_gid)


def is_nothing(commit: str) -> bool:
    """git writes zeros for "no commit"."""
    return not commit.strip("0")


def _parsed(whole: bytes) -> list[Update]:
    complete = whole[: whole.rfind(b"\n") + 1]
    return [Update(**json.loads(line)) for line in complete.splitlines()]

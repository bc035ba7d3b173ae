"""Power cuts: what SQLite asks of the disk is recorded, and every moment of it is replayed as a cut.

Between two syncs of a file the disk may have done all, none, or any part of what it was asked to, in any order. So
for each prefix of the record there are several images: everything written, nothing since the last sync, a random
half, and one in which the last write was torn.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import apsw

SECTOR = 512
DATABASE = "custody.db"


@dataclass(frozen=True, slots=True)
class Write:
    file: str
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Truncate:
    file: str
    size: int


@dataclass(frozen=True, slots=True)
class Delete:
    file: str


@dataclass(frozen=True, slots=True)
class Sync:
    file: str


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """From here on this job must be there, in this state or a later one."""

    job: int
    ended: bool


Change: TypeAlias = Write | Truncate | Delete
Record: TypeAlias = Change | Sync | Acknowledged
How = Literal["all", "none", "half", "torn"]


class Recorder(apsw.VFS):
    """A disk that writes down what it is asked to do, and does it."""

    def __init__(self, name: str = "recorder") -> None:
        self.record: list[Record] = []
        super().__init__(name, "unix", makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return _File(self.record, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        self.record.append(Delete(Path(filename).name))


class _File(apsw.VFSFile):
    def __init__(self, record: list[Record], name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("unix", name, flags)
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._record, self._name = record, Path(path or "temporary").name

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        self._record.append(Write(self._name, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:
        super().xTruncate(newsize)
        self._record.append(Truncate(self._name, newsize))

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        self._record.append(Sync(self._name))


class Disk:
    """Files as they are on the platter, and what has been asked for since."""

    def __init__(self) -> None:
        self.files: dict[str, bytearray] = {}
        self.pending: dict[str, list[Change]] = {}

    def take(self, entry: Record) -> None:
        match entry:
            case Sync(file):
                if file not in self.files and file != DATABASE:
                    self._sync_folder()  # SQLite does so when it first syncs a new log or journal
                self._settle(self.pending.pop(file, []))
            case Write(file) | Truncate(file) | Delete(file):
                self.pending.setdefault(file, []).append(entry)
            case Acknowledged():
                pass

    def _sync_folder(self) -> None:
        for file, changes in self.pending.items():
            gone = max((place for place, change in enumerate(changes, 1) if isinstance(change, Delete)), default=0)
            self._settle(changes[:gone])
            self.pending[file] = changes[gone:]

    def _settle(self, changes: Sequence[Change]) -> None:
        for change in changes:
            _apply(self.files, change)

    def after_a_cut(self, how: How, rng: random.Random) -> dict[str, bytearray]:
        files = {name: bytearray(content) for name, content in self.files.items()}
        for changes in self.pending.values():
            for change in _survivors(changes, how, rng):
                _apply(files, change)
        return files


def _survivors(changes: Sequence[Change], how: How, rng: random.Random) -> Sequence[Change]:
    if how == "none":
        return []
    if how == "half":
        return [change for change in changes if rng.random() < 0.5]
    if how == "torn" and changes and isinstance(last := changes[-1], Write):
        cut = rng.randrange(0, len(last.data) + 1, SECTOR)
        return [*changes[:-1], Write(last.file, last.offset, last.data[:cut])]
    return changes


def _apply(files: dict[str, bytearray], change: Change) -> None:
    if isinstance(change, Delete):
        files.pop(change.file, None)
        return
    content = files.setdefault(change.file, bytearray())
    if isinstance(change, Truncate):
        del content[change.size :]
    else:
        end = change.offset + len(change.data)
        if len(content) < end:
            content.extend(bytes(end - len(content)))
        content[change.offset : end] = change.data


@dataclass(frozen=True, slots=True)
class Cut:
    """An image, and what had been acknowledged when the power went."""

    moment: int
    how: How
    files: dict[str, bytearray]
    acknowledged: dict[int, bool]


def cuts(record: Sequence[Record], rng: random.Random, start: int = 0) -> Iterator[Cut]:
    """Every moment after `start`, every way in which it can end."""
    disk, acknowledged = Disk(), dict[int, bool]()
    for moment, entry in enumerate(record):
        disk.take(entry)
        if isinstance(entry, Acknowledged):
            acknowledged[entry.job] = entry.ended or acknowledged.get(entry.job, False)
        if moment >= start:
            for how in _ways(entry):
                yield Cut(moment, how, disk.after_a_cut(how, rng), dict(acknowledged))


def _ways(entry: Record) -> Sequence[How]:
    """The ways in which this moment can end that no other moment has shown already."""
    if isinstance(entry, Acknowledged):
        return ("none",)  # what the disk need not have done yet must not be needed for what was just said
    if isinstance(entry, Write) and len(entry.data) < SECTOR:
        return ("all",)  # the head of a page that follows at once
    return ("all", "half", "torn") if isinstance(entry, Write) else ("all", "half", "none")


def faults(cut: Cut, folder: Path) -> list[str]:
    """What a restart after this cut finds broken or missing."""
    for left in folder.iterdir():
        left.unlink()
    for name, content in cut.files.items():
        (folder / name).write_bytes(content)
    db = apsw.Connection(str(folder / DATABASE))
    try:
        sound = db.execute("pragma integrity_check").get
        ended = dict(db.execute("select id, ended is not null from job"))
        told = dict(db.execute("select subject, max(seq) from event group by subject"))
        numbers = dict(db.execute("select 'job/' || id, seq from job"))
    except apsw.Error as error:
        return [f"it cannot be read: {error}"]
    finally:
        db.close()
    return [
        *([f"integrity: {sound}"] if sound != "ok" else []),
        *(f"job {job} was acknowledged and is lost" for job in cut.acknowledged if job not in ended),
        *(f"job {job} was settled and is not" for job, end in cut.acknowledged.items() if end and not ended.get(job)),
        *(f"{job} has {seq} moves and {told.get(job)} events" for job, seq in numbers.items() if told.get(job) != seq),
    ]

"""The working disk: one folder per job, and how much room there is.

`room` is what the file system says is free, less what was promised to admitted jobs and is not yet on the disk.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from custody.border import below, modes
from custody.kernel.model.job import Job
from custody.kernel.model.outcome import Failed, Outcome, Passed

RESERVE_AFTER = 600_000_000
"""Microseconds after which a job that was passed over keeps its room: then smaller ones no longer pass it."""


class WorkingDisk:
    def __init__(self, root: Path, place: str, threshold: float = 0.2, make: bool = True) -> None:
        self.root, self.place, self.threshold = root, place, threshold
        self._must_be_fit = below.must_be_ours if make else below.must_be_plain
        if make:
            modes.make_folder(root)

    def folder(self, job: Job) -> Path:
        """`Refused` if a link is on the way there; `Unsafe` if somebody else may put one there and we are to write."""
        folder = self.root / f"batch-{job.parent or 0}" / f"job-{job.id}"
        self._must_be_fit(self.root, folder)
        return folder

    def free(self) -> tuple[int, int]:
        """Free and total bytes, as the file system says."""
        found = os.statvfs(self.root)
        return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize

    def used_by(self, job: Job) -> int:
        return sum(path.lstat().st_size for path in self.folder(job).rglob("*") if path.is_file())

    def remove(self, job: Job) -> None:
        self.remove_folder(self.folder(job))

    def remove_folder(self, folder: Path) -> None:
        """A job's folder, and its batch's when it was the last."""
        below.must_be_plain(self.root, folder)
        shutil.rmtree(folder, ignore_errors=True)
        try:
            folder.parent.rmdir()
        except OSError:
            pass  # others are still there

    def folders(self) -> Iterator[tuple[int, Path]]:
        """Every job's folder that there is: for `doctor`, which finds orphans."""
        for path in self.root.glob("batch-*/job-*"):
            number = path.name.removeprefix("job-")
            if number.isdigit() and not path.is_symlink() and not path.parent.is_symlink():
                yield int(number), path


def find_disk(root: Path, place: str, threshold: float) -> WorkingDisk | None:
    """The working disk, for someone who only looks; None where nothing has been worked on yet."""
    return WorkingDisk(root, place, threshold, make=False) if root.is_dir() else None


@dataclass(frozen=True, slots=True)
class Room:
    """What may be given away now."""

    free: int
    total: int
    threshold: float

    def has(self, needed: int) -> bool:
        return self.free - needed >= self.total * self.threshold

    def could_ever_have(self, needed: int) -> bool:
        """On an empty disk, that is."""
        return self.total - needed >= self.total * self.threshold


def promised(admitted: Iterable[tuple[Job, int]]) -> int:
    """Bytes that admitted jobs were promised and have not yet written."""
    return sum(max(0, (space_needed(job) or 0) - on_disk) for job, on_disk in admitted)


def space_needed(job: Job) -> int | None:
    value = job.facts.get("space_needed")
    return value if isinstance(value, int) else None


def admit(waiting: Sequence[Job], room: Room, place: str, now: int) -> Mapping[int, Outcome]:
    """Which of the waiting jobs may have room, in order of need; the others stay where they are.

    A small job passes a stuck big one. One that has waited too long has its room set aside, so that it is not
    passed for ever. A job whose size nobody knows waits while there is less free than the threshold. One that not
    even the empty disk could hold fails, unless other machines have disks of their own.
    """
    chosen: dict[int, Outcome] = {}
    free = room.free
    for job in sorted(waiting, key=lambda job: (job.priority, job.id)):
        needed = space_needed(job)
        left = Room(free, room.total, room.threshold)
        if left.has(needed or 0):
            chosen[job.id] = Passed(detail={"free": free, "needed": needed}, place=place)
            free -= needed or 0
        elif needed is not None and not place and not room.could_ever_have(needed):
            chosen[job.id] = Failed("space.never", f"it needs {needed} bytes; the whole working disk has {room.total}")
        elif needed is not None and now - job.changed > RESERVE_AFTER:
            free -= needed
    return chosen

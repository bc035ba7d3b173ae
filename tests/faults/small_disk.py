"""Runs by itself, on a disk so small that it is full at any page one likes: deposits, and a worker's log.

    bwrap --dev-bind / / --size 8388608 --tmpfs FOLDER python -m faults.small_disk FOLDER STEP

The disk is filled until so many pages are left; the work begins, is refused, waits, and then there is room again. What
must be true of a deposit at its end is true whatever page it was. The last line says how often the disk was full.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from custody.cli.process.log import Logging
from custody.kernel.engine import Kind, Serving, Settings, Worker
from custody.kernel.model.job import NewJob
from custody.kernel.model.outcome import Passed
from faults.audit import audit
from faults.crash import Memory, Stage, play
from faults.deposits import Archive, deposit

PAGE = 4096


class Balloon:
    """Takes all the room but a few pages, until it is let go."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "balloon"

    def blow(self, leaving: int) -> None:
        with self._file.open("wb") as file:
            free = os.statvfs(self._file.parent).f_bavail * os.statvfs(self._file.parent).f_frsize
            os.posix_fallocate(file.fileno(), 0, max(1, free - leaving * PAGE))

    def let_go(self) -> bool:
        """Was it still there?"""
        there = self._file.exists()
        self._file.unlink(missing_ok=True)
        return there


def until_there_is_room(stage: Stage, balloon: Balloon) -> Callable[[], int]:
    """Whoever has to wait finds room afterwards; answers how often somebody had to."""
    waits, advance = [0], stage.clock.advance

    def later(seconds: float) -> int:
        waits[0] += balloon.let_go()
        return advance(seconds)

    stage.clock.advance = later  # type: ignore[method-assign]
    return lambda: waits[0]


def on_a_full_disk(archive: Archive, balloon: Balloon, memory: Memory, left: int) -> bool:
    """A whole deposit; False if there was room for all of it."""
    archive.begin_anew()
    stage = memory.stage()
    waited = until_there_is_room(stage, balloon)
    archive.world(stage)  # the folders of an archive are there before it is full
    balloon.blow(left)
    play(archive.play, stage)
    balloon.let_go()
    assert archive.wrong(stage) == [], f"with {left} pages left"
    del stage.clock.advance  # type: ignore[attr-defined]
    return waited() > 0


def deposits(folder: Path, step: int) -> int:
    balloon, memory, full = Balloon(folder), Memory(), 0
    with deposit(folder / "home") as archive:
        for left in itertools.count(0, step):
            if not on_a_full_disk(archive, balloon, memory, left):
                return full
            full += 1
    raise AssertionError("it never ends")


def logs(folder: Path) -> int:
    """A log that cannot be written keeps nobody from working."""
    balloon, full = Balloon(folder), 0
    for left in range(12):
        stage = Memory().stage()
        stage.store.queue.submit([NewJob("parcel", {"n": number}) for number in range(200)])
        balloon.blow(left)
        plain, sys.stderr = sys.stderr, (folder / "log").open("w", buffering=1)
        serving = Serving((Kind("parcel", lambda work: Passed()),))
        Worker(stage.store, serving, Settings(threads=2, schedules=False), Logging()).run_until_idle()
        sys.stderr = plain
        full += len((folder / "log").read_text().splitlines()) < 200
        balloon.let_go()
        (folder / "log").unlink()
        assert {job.state for job in stage.store.queue.every()} == {"done"}
        assert audit(stage.store) == []
    return full


def main(folder: Path, step: int) -> None:
    (folder / "home").mkdir()
    print(json.dumps({"deposits": deposits(folder, step), "logs": logs(folder)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

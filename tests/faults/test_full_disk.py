"""A disk that is full, or broken, at any write: a typed error, nothing lost, and the work goes on when there is room."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from custody.errors import Unavailable
from custody.kernel.engine import Kind, Serving, Settings, Work, Worker
from custody.kernel.engine.pipe import settler
from custody.kernel.model.graph import Edge
from custody.kernel.model.job import NewJob
from custody.kernel.model.outcome import Outcome, Passed
from custody.kernel.stores import Store, open_store
from faults.audit import audit
from faults.processes import TESTS
from kernel.stores.clock import HandClock
from prove.plugin import Scaled, Tell
from rig.need import need
from rig.program import tool

ENDLESS, REFUSALS = 1 << 60, 3
TROUBLES: dict[str, type[Exception]] = {"write": apsw.FullError, "torn": apsw.IOError, "sync": apsw.IOError}


class SmallDisk(apsw.VFS):
    """Does as it is told until its `room` is used up, then refuses a few times, until somebody has made room."""

    def __init__(self) -> None:
        self.room, self.how, self.refused = ENDLESS, "write", 0
        super().__init__("small", "unix", makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return _File(self, name, flags)

    def use(self, how: str) -> bool:
        """Is there room for one more?"""
        if how != self.how and not (how == "write" and self.how == "torn"):
            return True
        self.room -= 1
        if self.room >= 0:
            return True
        self.refused += 1
        self.room = ENDLESS if self.refused == REFUSALS else 0
        return False


class _File(apsw.VFSFile):
    def __init__(self, disk: SmallDisk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("unix", name, flags)
        self._disk = disk

    def xWrite(self, data: bytes, offset: int) -> None:
        if self._disk.use("write"):
            super().xWrite(data, offset)
            return
        if self._disk.how == "torn":
            super().xWrite(bytes(data)[: len(data) // 2], offset)
        raise TROUBLES[self._disk.how]

    def xSync(self, flags: int) -> None:
        if not self._disk.use("sync"):
            raise TROUBLES["sync"]
        super().xSync(flags)


@pytest.fixture
def disk() -> Iterator[SmallDisk]:
    disk = SmallDisk()
    yield disk
    disk.unregister()


def insist(act: Callable[[], object]) -> list[str]:
    """Until it is done; what was said when it could not be."""
    said: list[str] = []
    for _ in range(20):
        try:
            act()
        except Unavailable as error:
            said.append(error.code)
        else:
            return said
    raise AssertionError(f"it never gets done: {said}")


def story(store: Store, size: int) -> None:
    """Jobs with needs between them; the keys make it safe to say it again."""
    before = store.queue.submit_one(NewJob("parcel", {"text": "x" * 500}, key="first")).id
    for number in range(size):
        before = store.queue.submit_one(NewJob("parcel", key=f"next {number}", needs=[Edge(before)])).id
    store.queue.submit([NewJob("parcel", {"text": "y" * 300}, key=f"many {number}") for number in range(5)])


def handler(work: Work) -> Outcome:
    work.keep(seen=True)
    return Passed()


def work_on(store: Store, clock: HandClock) -> None:
    clock.advance(31)  # whoever could not say that he was done is given up
    Worker(store, Serving((Kind("parcel", handler),)), Settings(threads=1)).run_until_idle()


@pytest.mark.proves("G10")
@pytest.mark.parametrize("how", TROUBLES)
def test_a_disk_that_is_full_at_any_write_costs_nothing_but_time(
    how: str,
    disk: SmallDisk,
    quick_folder: Path,
    scaled: Scaled[tuple[range, int]],
    tell: Tell,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settler, "RETRY_SECONDS", 0.001)
    places, size = scaled((range(0, 42, 7), 12), (range(200), 45), (range(2_000), 450))
    for place in places:
        disk.room = ENDLESS
        clock, path = HandClock(), quick_folder / f"{how}{place}.db"
        with open_store(f"sqlite:///{path}", clock) as store:
            disk.how, disk.room, disk.refused = how, place, 0
            said = insist(lambda store=store: story(store, size))  # type: ignore[misc]
            while any(job.ended is None for job in store.queue.every()):
                said += insist(lambda store=store, clock=clock: work_on(store, clock))  # type: ignore[misc]
            disk.room = ENDLESS
            assert disk.refused, f"there are fewer than {place} of them"
            assert set(said) <= {"store.disk"}
            assert [job.state for job in store.queue.every()] == ["done"] * (size + 6)
            assert audit(store) == []
        path.unlink()
    tell("", full_disks=len(places))


@pytest.mark.proves("G10")
def test_a_deposit_goes_on_when_there_is_room_again_and_a_log_that_is_full_keeps_nobody_from_working(
    tmp_path: Path, scaled: Scaled[int], tell: Tell
) -> None:
    """On a small disk of its own, full at any page of what a deposit writes (working folder, staging, storage, mail)."""
    need("bubblewrap")
    words = [tool("bwrap"), "--dev-bind", "/", "/", "--size", str(8 << 20), "--tmpfs", str(tmp_path)]
    words += [sys.executable, "-m", "faults.small_disk", str(tmp_path), str(scaled(7, 1, 1))]
    paths = [str(path) for path in (TESTS, TESTS.parent / "src")]
    done = subprocess.run(
        words, env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    full = json.loads(done.stdout.splitlines()[-1])
    tell(f"{full['deposits']} deposits on a full disk, {full['logs']} full logs", **full)
    assert full["deposits"] > 1
    assert full["logs"] > 1

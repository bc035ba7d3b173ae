"""The power may go at any moment: what was acknowledged is there afterwards, and the store is sound."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from custody.kernel.engine import Kind, Serving, Settings, Work, Worker
from custody.kernel.model.graph import Edge
from custody.kernel.model.job import Answer, Change, Job, NewJob
from custody.kernel.model.outcome import Failed, Outcome, Passed
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.sqlite.database import SqliteDatabase
from custody.kernel.stores.sqlite.writer import Writer
from faults.audit import audit
from faults.power import Acknowledged, Disk, Recorder, Sync, Truncate, Write, cuts, faults
from kernel.stores.clock import HandClock
from prove.plugin import Scaled, Tell

PAGES = 30
"""So small that the log is moved into the database many times during the workload."""


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    """The disk under every SQLite file that is opened meanwhile."""
    recorder = Recorder()
    assert apsw.vfs_names()[0] == "recorder"
    yield recorder
    recorder.unregister()


class Watch:
    """Notes a settle in the record at the moment at which the worker hears that it is done."""

    def __init__(self, recorder: Recorder) -> None:
        self._record = recorder.record

    def started(self, job: Job) -> None: ...

    def settled(self, job: Job, change: Change, answer: Answer) -> None:
        assert answer.done
        self._record.append(Acknowledged(job.id, change.ended is not None))

    def lost(self, job: Job, reason: str) -> None: ...

    def trouble(self, error: Exception) -> None: ...


def handler(work: Work) -> Outcome:
    if work.job.key == "keeps":
        work.spawn([NewJob("parcel", {"child": True})], ark="ark:/1/x")
    return Failed("torn") if work.job.key == "fails" else Passed(keep={"done": True})


def workload(folder: Path, recorder: Recorder, synchronous: str) -> int:
    """Jobs of several sorts through a real worker, over two openings of the file; the record's length before them."""
    start = 0
    for round_ in range(2):
        with open_store(f"sqlite:///{folder}/custody.db", HandClock()) as store:
            writer = connection(store)
            writer.execute(f"pragma synchronous = {synchronous}")
            writer.execute(f"pragma wal_autocheckpoint = {PAGES}")
            start = start or len(recorder.record)
            for number in range(4):
                fields = {"keeps": 0, "fails": 1}
                key = next((name for name, at in fields.items() if at == number and not round_), f"{round_} {number}")
                made = store.queue.submit_one(NewJob("parcel", {"text": "x" * 300}, key=key)).id
                recorder.record.append(Acknowledged(made, False))
                needing = store.queue.submit_one(NewJob("parcel", needs=[Edge(made, "finished")])).id
                recorder.record.append(Acknowledged(needing, False))
            kinds = Serving((Kind("parcel", handler),))
            Worker(store, kinds, Settings(threads=2), Watch(recorder)).run_until_idle()
    return start


def connection(store: Store) -> apsw.Connection:
    assert isinstance(store.db, SqliteDatabase)
    assert isinstance(store.db._writer, Writer)
    return store.db._writer._db


@pytest.mark.proves("G7")
def test_what_was_acknowledged_survives_a_power_cut_at_any_moment(
    recorder: Recorder, quick_folder: Path, tell: Tell, scaled: Scaled[int], seed: int
) -> None:
    (quick_folder / "live").mkdir()
    (quick_folder / "image").mkdir()
    start = workload(quick_folder / "live", recorder, "full")
    recorder.unregister()
    files = {entry.file for entry in recorder.record[start:] if isinstance(entry, Write)}
    assert files == {"custody.db", "custody.db-wal"}, "the log was moved into the database meanwhile"
    began, count, wanted = time.monotonic(), 0, scaled(1_000, 50_000, 1_000_000)
    for chance in itertools.count(seed):  # how much of the rest was written is chance
        if count >= wanted:
            break
        for cut in cuts(recorder.record, random.Random(5 + chance), start):
            count += 1
            assert faults(cut, quick_folder / "image") == [], f"cut at {cut.moment}, {cut.how} of the rest written"
    speed = count / (time.monotonic() - began)
    tell(f"{count} power cuts ({speed:.0f} a second), none of them fatal", images=count)
    settled = {entry.job for entry in recorder.record if isinstance(entry, Acknowledged) and entry.ended}
    assert len(settled) == 17


def test_without_a_sync_at_every_commit_the_same_cuts_lose_what_was_acknowledged(
    recorder: Recorder, quick_folder: Path
) -> None:
    (quick_folder / "live").mkdir()
    (quick_folder / "image").mkdir()
    start = workload(quick_folder / "live", recorder, "normal")
    recorder.unregister()
    image = quick_folder / "image"
    found = (problem for cut in cuts(recorder.record, random.Random(5), start) for problem in faults(cut, image))
    assert "acknowledged and is lost" in next(found, ""), "or the test above proves nothing"


def test_after_a_cut_the_store_opens_and_its_work_goes_on_to_the_end(recorder: Recorder, quick_folder: Path) -> None:
    (quick_folder / "live").mkdir()
    (quick_folder / "image").mkdir()
    start = workload(quick_folder / "live", recorder, "full")
    recorder.unregister()
    for cut in random.Random(6).sample(list(cuts(recorder.record, random.Random(5), start)), 25):
        assert faults(cut, quick_folder / "image") == []
        clock = HandClock()
        clock.advance(31)
        with open_store(f"sqlite:///{quick_folder}/image/custody.db", clock) as store:
            Worker(store, Serving((Kind("parcel", handler),))).run_until_idle()
            assert [job.id for job in store.queue.every() if job.ended is None] == []
            assert audit(store) == []


def test_a_commit_is_one_sync_and_nothing_is_answered_before_it(recorder: Recorder, quick_folder: Path) -> None:
    with open_store(f"sqlite:///{quick_folder}/custody.db", HandClock()) as store:
        before = len(recorder.record)
        store.queue.submit_one(NewJob("parcel"))
        asked = recorder.record[before:]
    assert isinstance(asked[-1], Sync)
    assert asked[-1].file == "custody.db-wal"
    assert [entry for entry in asked[:-1] if not isinstance(entry, Write)] == []


@pytest.mark.parametrize(
    ("how", "expected"),
    [("all", b"newest!!"), ("none", b"oldest"), ("half", None), ("torn", None)],
)
def test_a_disk_keeps_what_was_synced_and_some_of_the_rest(how: str, expected: bytes | None) -> None:
    disk = Disk()
    for entry in (
        Write("f", 0, b"oldest"),
        Sync("f"),
        Truncate("f", 0),
        Write("f", 0, b"newest"),
        Write("f", 6, b"!!"),
    ):
        disk.take(entry)
    content = disk.after_a_cut(how, random.Random(3))["f"]  # type: ignore[arg-type]
    assert expected is None or bytes(content) == expected
    assert bytes(disk.files["f"]) == b"oldest", "the image does not change the disk"

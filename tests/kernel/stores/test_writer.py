"""Group commit: many moves in one commit, each by itself, and nothing is answered before it is on disk."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import apsw
import pytest

from custody.errors import Unavailable
from custody.kernel.model.authority.acting import system
from custody.kernel.model.job import NewJob
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.fsck import recount
from custody.kernel.stores.sqlite import writer
from custody.kernel.stores.sqlite.writer import MOST_SECONDS
from kernel.stores.acts import settle, state, submit, take, take_one
from kernel.stores.clock import HandClock

SOON = 60.0


class Disk:
    """The disk under SQLite, which a test may fill up, make fail, or hold up."""

    def __init__(self) -> None:
        self.full = False
        self.failing_syncs = False
        self.open = threading.Event()
        self.open.set()
        self.syncs = 0
        self.syncing = threading.Event()

    def written(self, name: str) -> None:
        if self.full and name.endswith("-wal"):
            raise apsw.FullError("database or disk is full")

    def synced(self, name: str) -> None:
        if name.endswith("-wal"):
            self.syncs += 1
            self.syncing.set()
            assert self.open.wait(SOON)
            if self.failing_syncs:
                raise apsw.IOError("disk I/O error")


class File(apsw.VFSFile):
    def __init__(self, disk: Disk, base: str, name: Any, flags: list[int]) -> None:
        super().__init__(base, name, flags)
        self._disk = disk
        self._name = name.filename() if isinstance(name, apsw.URIFilename) else str(name)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._disk.written(self._name)
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self._disk.synced(self._name)
        super().xSync(flags)


class Underneath(apsw.VFS):
    def __init__(self, disk: Disk) -> None:
        self._disk, self._base = disk, apsw.vfs_names()[0]
        super().__init__("underneath", self._base, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> File:
        return File(self._disk, self._base, name, flags)


@pytest.fixture
def disk() -> Iterator[Disk]:
    disk = Disk()
    layer = Underneath(disk)
    yield disk
    disk.open.set()
    layer.unregister()


@pytest.fixture
def store(disk: Disk, quick_folder: Path, clock: HandClock) -> Iterator[Store]:
    with open_store(f"sqlite:///{quick_folder / 'custody.db'}", clock) as opened:
        yield opened
        disk.full = disk.failing_syncs = False
        assert recount(opened) == []


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(40) as pool:
        yield pool


@pytest.fixture(autouse=True)
def own_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a test makes of the limits of a group, the next one finds them as they are."""
    for name in ("MOST_SECONDS", "MOST_MOVES"):
        monkeypatch.setattr(writer, name, getattr(writer, name))


def together(store: Store, threads: ThreadPoolExecutor, *works: Callable[[Any], Any]) -> list[Future[Any]]:
    """Hand these to the writer while it is busy, so that it finds them waiting together, and has the time to take them
    all along, however slow the machine is."""
    busy, go = threading.Event(), threading.Event()

    def hold_up(tx: Any) -> None:
        busy.set()
        assert go.wait(SOON)

    first = threads.submit(store.db.write, hold_up)
    assert busy.wait(SOON)
    line = store.db._writer._line  # type: ignore[attr-defined]
    waiting = []
    for count, work in enumerate(works, start=1):
        waiting.append(threads.submit(store.db.write, work))
        while len(line) < count:
            pass
    time.sleep(2 * MOST_SECONDS)  # the time for its group is up: what waits goes into the next
    writer.MOST_SECONDS = SOON
    go.set()
    first.result(SOON)
    return waiting


def making(key: str, seen: list[Any] | None = None) -> Callable[[Any], int]:
    from custody.kernel.stores.rules.submit import submit_one

    def work(tx: Any) -> int:
        if seen is not None:
            seen.append(tx)
        return submit_one(tx, NewJob("parcel", key=key), tx.new_move(), system("")).id

    return work


def breaking(key: str) -> Callable[[Any], int]:
    """A move that writes something and then fails."""

    def work(tx: Any) -> int:
        making(key)(tx)
        raise ValueError("a surprise half-way")

    return work


def keys(store: Store) -> list[str | None]:
    return [job.key for job in store.queue.list()]


def test_moves_that_wait_together_are_committed_together(store: Store, disk: Disk, threads: ThreadPoolExecutor) -> None:
    seen: list[Any] = []
    before = disk.syncs
    futures = together(store, threads, *(making(f"k{number}", seen) for number in range(30)))
    assert len({future.result(SOON) for future in futures}) == 30
    assert len({id(tx) for tx in seen}) < 30, "they shared transactions"
    assert disk.syncs - before < 15


def test_one_that_is_alone_is_committed_at_once(store: Store, disk: Disk) -> None:
    before = disk.syncs
    for _ in range(5):
        submit(store)
    assert disk.syncs - before >= 5


def test_a_move_that_fails_takes_nothing_of_its_neighbours_with_it(store: Store, threads: ThreadPoolExecutor) -> None:
    one, bad, two, worse, three = together(
        store, threads, making("a"), breaking("b"), making("c"), breaking("d"), making("e")
    )
    for failed in (bad, worse):
        with pytest.raises(ValueError, match="half-way"):
            failed.result(SOON)
    assert len({one.result(SOON), two.result(SOON), three.result(SOON)}) == 3
    assert keys(store) == ["a", "c", "e"]


def test_nothing_is_answered_before_it_is_on_disk(store: Store, disk: Disk, threads: ThreadPoolExecutor) -> None:
    submit(store)
    claim = take_one(store)
    disk.syncing.clear()
    disk.open.clear()

    answer = threads.submit(settle, store, claim)
    assert disk.syncing.wait(SOON)
    assert not wait([answer], timeout=0.05).done, "the commit is not on disk yet"
    disk.open.set()
    assert answer.result(SOON).done


def test_what_is_not_on_disk_yet_is_seen_by_nobody(store: Store, disk: Disk, threads: ThreadPoolExecutor) -> None:
    job = submit(store)
    claim = take_one(store)
    disk.syncing.clear()
    disk.open.clear()

    answer = threads.submit(settle, store, claim)
    assert disk.syncing.wait(SOON)
    assert state(store, job) == "queued"
    disk.open.set()
    answer.result(SOON)
    assert state(store, job) == "done"


@pytest.mark.parametrize("trouble", ["full", "failing_syncs"])
def test_a_disk_that_refuses_a_commit_refuses_all_in_it_and_the_writer_lives(
    store: Store, disk: Disk, threads: ThreadPoolExecutor, trouble: str
) -> None:
    submit(store, key="before")
    seen: list[Any] = []

    def now_in_trouble(tx: Any) -> int:
        setattr(disk, trouble, True)
        return making("first", seen)(tx)

    futures = together(store, threads, now_in_trouble, making("second", seen), making("third", seen))
    for future in futures:
        with pytest.raises(Unavailable) as refusal:
            future.result(SOON)
        assert refusal.value.code == "store.disk"
    assert keys(store) == ["before"]

    setattr(disk, trouble, False)
    submit(store, key="after")
    assert keys(store) == ["before", "after"]


def test_a_job_is_not_failed_by_a_full_disk_and_goes_on_when_there_is_room(store: Store, disk: Disk) -> None:
    job = submit(store)
    claim = take_one(store)
    disk.full = True
    with pytest.raises(Unavailable):
        settle(store, claim)
    disk.full = False

    assert state(store, job) == "queued"
    assert settle(store, claim).done


def test_a_refused_write_can_be_sent_again_and_happens_once(store: Store, disk: Disk) -> None:
    disk.full = True
    with pytest.raises(Unavailable):
        submit(store, key="k")
    disk.full = False
    made = store.queue.submit_one(NewJob("parcel", key="k"))
    assert made.new
    assert keys(store) == ["k"]


def test_a_group_has_an_end_so_that_other_processes_get_in(store: Store, threads: ThreadPoolExecutor) -> None:
    writer.MOST_MOVES = 7
    seen: list[Any] = []
    futures = together(store, threads, *(making(f"k{number}", seen) for number in range(30)))
    for future in futures:
        future.result(SOON)
    per_group = [sum(tx is other for other in seen) for tx in seen]
    assert max(per_group) == 7


def test_every_move_in_a_group_has_the_same_time(store: Store, clock: HandClock, threads: ThreadPoolExecutor) -> None:
    times: list[tuple[int, int]] = []

    def look(tx: Any) -> None:
        times.append((id(tx), tx.now))
        clock.advance(seconds=1)

    for future in together(store, threads, *[look] * 10):
        future.result(SOON)
    assert len(set(times)) == len({group for group, _ in times})


def test_closing_finishes_what_was_accepted(store: Store, threads: ThreadPoolExecutor) -> None:
    leaving = open_store(store.url, HandClock())
    futures = together(leaving, threads, *(making(f"k{number}") for number in range(20)))
    leaving.close()
    assert len({future.result(SOON) for future in futures}) == 20
    assert len(keys(store)) == 20


def test_a_write_lock_held_for_too_long_is_said_to_be_that(
    store: Store, quick_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = apsw.Connection(str(quick_folder / "custody.db"))
    other.execute("begin immediate")
    store.db._writer._db.set_busy_timeout(10)  # type: ignore[attr-defined]
    with pytest.raises(Unavailable) as refusal:
        submit(store)
    assert refusal.value.code == "store.busy"
    other.execute("rollback")
    other.close()
    submit(store)


def test_however_long_a_group_waits_for_another_process_it_goes_in_together(
    store: Store, quick_folder: Path, threads: ThreadPoolExecutor
) -> None:
    """Else, where several processes write, each would write one move at a time, when its turn has come at last."""
    writer.MOST_SECONDS = 0.5
    other = apsw.Connection(str(quick_folder / "custody.db"))
    other.execute("begin immediate")
    seen: list[Any] = []
    futures = [threads.submit(store.db.write, making(f"k{number}", seen)) for number in range(10)]
    line = store.db._writer._line  # type: ignore[attr-defined]
    while len(line) < 9:
        pass
    time.sleep(0.6)
    other.execute("rollback")
    other.close()
    assert len({future.result(SOON) for future in futures}) == 10
    assert seen[1] is seen[0], "the first took along at least the second"


def test_claims_of_many_threads_share_commits_and_no_job(store: Store, threads: ThreadPoolExecutor) -> None:
    store.queue.submit([NewJob("parcel") for _ in range(200)])
    claims = [threads.submit(take, store, limit=5, holder=f"w{number}") for number in range(40)]
    taken = [claim.id for future in claims for claim in future.result(SOON)]
    assert len(taken) == len(set(taken)) == 200


def test_whoever_is_interrupted_while_writing_for_others_leaves_their_work_to_the_next(
    store: Store, threads: ThreadPoolExecutor
) -> None:
    interrupts = iter([KeyboardInterrupt])

    def once_interrupted(tx: Any) -> int:
        for interrupt in interrupts:
            raise interrupt
        return making("c")(tx)

    leader, one, two, three = together(store, threads, making("a"), making("b"), once_interrupted, making("d"))
    with pytest.raises(KeyboardInterrupt):
        leader.result(SOON)
    assert len({future.result(SOON) for future in (one, two, three)}) == 3
    assert keys(store) == ["b", "c", "d"]
    submit(store, key="later")


def test_an_interrupt_after_the_commit_does_nothing_twice(
    store: Store, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    give, interrupts = writer._give, iter([KeyboardInterrupt])

    def interrupted(*told: Any) -> None:
        for interrupt in interrupts if len(told[1]) > 1 else ():
            raise interrupt
        give(*told)

    monkeypatch.setattr(writer, "_give", interrupted)
    leader, one, two = together(store, threads, making("a"), making("b"), making("c"))
    with pytest.raises(KeyboardInterrupt):
        leader.result(SOON)
    assert one.result(SOON) != two.result(SOON)
    assert keys(store) == ["a", "b", "c"]

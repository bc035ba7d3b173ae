"""Blobs on a disk: crashes at every step, loss of power, writers side by side, and what lies on the disk."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from channels.conftest import Clock
from channels.power import Power, PowerLost
from custody.channels.blobs import durable
from custody.channels.blobs.local import Files
from custody.channels.blobs.port import BlocksMissing, Changed, Facts, Leased, NoBlob
from custody.errors import BadInput

NAME = "ch/7/leaf/a.jsonl"


def put(files: Files, *blocks: tuple[str, bytes], keep: tuple[str, ...] = ()) -> str:
    files.stage(NAME, blocks)
    return files.commit(NAME, [*keep, *(one for one, _ in blocks)], Facts({"n": str(len(blocks))}))


def content(files: Files) -> bytes | None:
    try:
        found = files.blocks(NAME)
    except NoBlob:
        return None
    data = files.read(NAME).data
    assert len(data) == sum(found.sizes)
    return data


Step = Callable[[Files], object]
STEPS: dict[str, tuple[list[Step], Step, bytes | None, bytes | None]] = {
    "a new blob": ([], lambda files: put(files, ("a", b"one\n"), ("b", b"two\n")), None, b"one\ntwo\n"),
    "an append": (
        [lambda files: put(files, ("a", b"one\n"))],
        lambda files: put(files, ("b", b"two\n"), keep=("a",)),
        b"one\n",
        b"one\ntwo\n",
    ),
    "an edit": (
        [lambda files: put(files, ("a", b"one\n"), ("b", b"two\n"))],
        lambda files: put(files, ("a", b"ONE and more\n"), ("b", b"two\n")),
        b"one\ntwo\n",
        b"ONE and more\ntwo\n",
    ),
    "a second edit": (
        [lambda files: put(files, ("a", b"one\n")), lambda files: put(files, ("a", b"ONE\n"))],
        lambda files: put(files, ("a", b"One\n")),
        b"ONE\n",
        b"One\n",
    ),
    "a deletion": (
        [lambda files: put(files, ("a", b"one\n"))],
        lambda files: files.delete(NAME),
        b"one\n",
        None,
    ),
    "a change of tier": (
        [lambda files: put(files, ("a", b"one\n"))],
        lambda files: files.set_tier(NAME, "Cool"),
        b"one\n",
        b"one\n",
    ),
}


@pytest.mark.parametrize("what", STEPS)
def test_whenever_the_power_fails_the_blob_is_the_old_or_the_new_one(
    what: str, memory_folder: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, step, old, new = STEPS[what]
    for moment in count():
        root = memory_folder / f"{moment}"
        files = Files(root, clock)
        for earlier in before:
            earlier(files)
        power = Power(root)
        power.stop_after = moment
        with monkeypatch.context() as patch:
            patch.setattr(durable, "os", power)
            try:
                step(files)
                acknowledged = True
            except PowerLost:
                acknowledged = False
        for image in power.images(memory_folder / f"{moment}-after"):
            found = content(Files(image, clock))
            assert found == new if acknowledged else found in (old, new), (moment, image.name)
            redo(Files(image, clock), step, new)
        if acknowledged:
            assert moment > 5
            return


def redo(files: Files, step: Step, new: bytes | None) -> None:
    """What a worker does after a crash: look, and do it again. Nothing is left behind."""
    try:
        step(files)
    except NoBlob:
        assert new is None
    except BlocksMissing:  # half a staging file was in the way; now it is gone
        step(files)
    assert content(files) == new
    list(files.list(""))
    left = {path.name for path in (files.root / "ch").rglob("*") if path.is_file()} - {"a.jsonl@read"}
    contents = {name for name in left if name.startswith("a@")}
    assert [(files.root / "ch/7/leaf" / name).read_bytes() for name in contents] == ([] if new is None else [new])
    assert left - contents <= {"a.jsonl@state", "a.jsonl@state~"}


def append_some(root: Path, who: int, times: int) -> None:
    files = Files(root)
    for turn in range(times):
        while True:
            found = files.blocks(NAME)
            one = f"{who:02d}-{turn:04d}"
            try:
                files.stage(NAME, [(one, f"{one}\n".encode())])
                files.commit(NAME, [*found.ids, one], if_match=found.etag)
                break
            except (Changed, BlocksMissing):
                continue


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_writers_in_several_processes_and_threads_lose_nothing(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.stage(NAME, [("00-start", b"")])
    files.commit(NAME, ["00-start"][:0])
    fork = multiprocessing.get_context("fork")
    processes = [fork.Process(target=append_some, args=(tmp_path, who, 15)) for who in (1, 2)]
    threads = [threading.Thread(target=append_some, args=(tmp_path, who, 15)) for who in (3, 4)]
    for worker in (*processes, *threads):
        worker.start()
    for worker in (*processes, *threads):
        worker.join()
    lines = files.read(NAME).data.decode().split()
    assert sorted(lines) == sorted(f"{who:02d}-{turn:04d}" for who in (1, 2, 3, 4) for turn in range(15))
    assert list(files.blocks(NAME).ids) == lines


def test_a_reader_sees_whole_versions_while_they_are_replaced(tmp_path: Path) -> None:
    writer, reader = Files(tmp_path), Files(tmp_path)
    put(writer, ("a", b"0" * 100), ("b", b"0" * 5000))
    done = threading.Event()

    def write() -> None:
        for turn in range(60):
            digit = b"%d" % (turn % 10)
            put(writer, ("a", digit * (100 + turn)), ("b", digit * 5000))
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    seen: set[bytes] = set()
    while not done.is_set():
        data = reader.read(NAME).data
        assert data.count(data[:1]) == len(data) >= 5100
        seen.add(data[:1])
    thread.join()
    assert len(seen) > 1


def test_the_content_lies_on_the_disk_as_a_file_of_its_own(files: Files) -> None:
    put(files, ("a", b'{"id":"1"}\n'))
    put(files, ("b", b'{"id":"2"}\n'), keep=("a",))
    [found] = files.root.glob("ch/7/leaf/*.jsonl")
    assert found.read_bytes() == b'{"id":"1"}\n{"id":"2"}\n'


def test_appending_does_not_write_the_old_content_again(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    put(files, ("a", b"x" * 100_000))
    written: list[int] = []
    real = os.pwrite
    monkeypatch.setattr(durable.os, "pwrite", lambda fd, data, at: written.append(len(data)) or real(fd, data, at))
    put(files, ("b", b"y" * 1000), keep=("a",))
    assert sum(written) < 4000


def test_what_a_crash_left_behind_the_end_is_overwritten(files: Files) -> None:
    put(files, ("a", b"one\n"))
    [found] = files.root.glob("ch/7/leaf/*.jsonl")
    with found.open("ab") as file:
        file.write(b"half of a page that was never committed")
    put(files, ("b", b"two\n"), keep=("a",))
    assert found.read_bytes() == b"one\ntwo\n"


def test_a_lease_ends_with_its_time(files: Files, clock: Clock) -> None:
    put(files, ("a", b"one"))
    lease = files.acquire(NAME, 15)
    clock.advance(seconds=15)
    with pytest.raises(Leased):
        files.commit(NAME, ["a"], lease=lease)
    files.renew(NAME, lease)  # nobody wrote in between
    files.commit(NAME, ["a"], lease=lease)
    clock.advance(seconds=15)
    files.commit(NAME, ["a"])
    with pytest.raises(Leased):
        files.renew(NAME, lease)
    assert files.acquire(NAME, 15) != lease


def test_a_read_is_noted_once_a_day(files: Files, clock: Clock) -> None:
    put(files, ("a", b"one"))
    noted = []
    for hours in (1, 23, 2):
        clock.advance(hours=hours)
        Files(files.root, clock).read(NAME)
        found = files.head(NAME)
        assert found is not None
        assert found.accessed is not None
        noted.append(clock.now - found.accessed)
    assert [int(age.total_seconds() // 3600) for age in noted] == [0, 23, 0]


def test_a_tier_keeps_its_date_through_commits_that_do_not_change_it(files: Files, clock: Clock) -> None:
    put(files, ("a", b"one"))
    clock.advance(days=1)
    files.set_tier(NAME, "Cool")
    moved = clock.now
    clock.advance(days=1)
    files.set_tier(NAME, "Cool")
    files.commit(NAME, ["a"], Facts(tier="Cool"))
    found = files.head(NAME)
    assert found is not None
    assert (found.tier_changed, found.modified) == (moved, clock.now)


def test_staged_blocks_die_after_a_week(files: Files, clock: Clock) -> None:
    files.stage(NAME, [("a", b"one")])
    path = files.root / f"{NAME}@staged"
    os.utime(path, (clock.now.timestamp(), clock.now.timestamp()))
    clock.advance(days=6)
    list(files.list(""))
    assert path.exists()
    clock.advance(days=2)
    list(files.list(""))
    assert not path.exists()


def test_block_ids_keep_the_length_of_the_committed_ones(files: Files) -> None:
    put(files, ("aa", b"one"))
    with pytest.raises(BadInput):
        files.stage(NAME, [("a", b"two")])


def test_another_process_is_noticed_though_the_state_was_known(tmp_path: Path, clock: Clock) -> None:
    ours, theirs = Files(tmp_path, clock), Files(tmp_path, clock)
    put(ours, ("a", b"one"))
    assert content(theirs) == b"one"
    ours.delete(NAME)
    put(ours, ("a", b"two"))
    assert content(theirs) == b"two"


def test_the_disk_tells_the_time_when_no_clock_is_given(tmp_path: Path) -> None:
    files = Files(tmp_path)
    put(files, ("a", b"one"))
    found = files.head(NAME)
    assert found is not None
    assert abs(found.modified.timestamp() - (tmp_path / f"{NAME}@state").stat().st_mtime) < 5

"""A crash at any call to the store, in every order of writing: nothing is lost, nothing is there twice."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import random
import shutil
import signal
import time
from itertools import count
from pathlib import Path

import pytest

from channels.conftest import Clock
from channels.faults import CHANGES, Crash, Faulty, Interrupted
from channels.memory import Memory
from channels.orders import ORDERS, Raw, message_id, pages
from custody.channels.blobs.local import Files
from custody.channels.blobs.port import Blobs
from custody.channels.table import Settings, Table
from rig.azurite import Azurite

CHANNEL = 7
SEARCHED = 100  # of a look, one by one; the range has them all
EXPECTED = {"orphan", "split.unfinished"}  # what a crash may leave behind for others to clean up


def ids(batch: list[Raw]) -> list[int]:
    return [int(raw["id"]) for raw in batch]


def look(blobs: Blobs, settings: Settings, sure: list[int], unsure: list[int] = ()) -> None:  # type: ignore[assignment]
    """What is sure is found by search and by range, in order; what is unsure may be found; nothing twice."""
    table = Table(blobs, CHANNEL, settings)
    found = [one.id for one in table.between()]
    assert found == sorted(set(found))
    assert set(sure) <= set(found) <= set(sure) | set(unsure)
    for one in random.Random(len(sure)).sample(sure, min(len(sure), SEARCHED)):
        hit = table.search(one)
        assert hit is not None
        assert hit.message["id"] == str(one)
    assert {finding.code for finding in table.check()} <= EXPECTED


@pytest.mark.proves("G19")
@pytest.mark.parametrize(
    ("how", "settings", "number", "size", "per_ms", "whole"),
    [
        ("crash-before", Settings(capacity=4, fanout=4), 25, 5, 1, 0),
        ("crash-after", Settings(capacity=4, fanout=4), 25, 5, 3, 0),
        ("crash-before", Settings(capacity=4, fanout=4, packing=3), 50, 10, 3, 0),
        ("crash-before", Settings(capacity=16, fanout=4), 80, 20, 4, 0),
        ("crash-before", Settings(capacity=2, fanout=2), 14, 3, 2, 0),
        ("crash-before", Settings(capacity=1000), 1_100, 100, 4, 9),  # crashes around the first split
    ],
    ids=["4", "4, three in a millisecond", "4 packed", "16", "2", "1000"],
)
@pytest.mark.parametrize("order", ORDERS)
def test_a_crash_at_any_call_loses_nothing(
    order: str, how: str, settings: Settings, number: int, size: int, per_ms: int, whole: int, clock: Clock
) -> None:
    store, before = Memory(clock), list[int]()
    batches = pages(order, number, size, per_ms)
    for page in batches[:whole]:
        Table(store, CHANNEL, settings).upsert(page)
        before += ids(page)
    for turn, page in enumerate(batches[whole:]):
        mark = f"page {turn}"
        for at in count():
            copy = store.copy()
            faulty = Faulty(copy, at, how, CHANGES)
            try:
                Table(faulty, CHANNEL, settings).upsert(page, mark)  # type: ignore[arg-type]
            except Crash:
                pass
            if not faulty.failed:
                assert at > 0
                store = copy
                break
            after = Table(copy, CHANNEL, settings)
            look(copy, settings, before + (ids(page) if after.mark == mark else []), ids(page))
            after.upsert(page, mark)
            assert after.mark == mark
            look(copy, settings, before + ids(page))
        before += ids(page)
    look(store, settings, before)
    assert len(list(store.list(f"ch/{CHANNEL}/leaf/"))) > 1, "it has split"
    assert Table(store, CHANNEL, settings).check() == []


@pytest.mark.proves("G19")
@pytest.mark.parametrize("order", ORDERS)
def test_a_second_crash_while_mending_the_first_loses_nothing(order: str, clock: Clock) -> None:
    settings = Settings(capacity=4, fanout=4)
    store, before = Memory(clock), list[int]()
    for turn, page in enumerate(pages(order, 18, 6)):
        mark, points = f"page {turn}", 0
        for first in count():
            broken = store.copy()
            faulty = Faulty(broken, first, "crash-before", CHANGES)
            try:
                Table(faulty, CHANNEL, settings).upsert(page, mark)  # type: ignore[arg-type]
            except Crash:
                pass
            if not faulty.failed:
                store = broken
                break
            for second in count():
                copy = broken.copy()
                again = Faulty(copy, second, "crash-before", CHANGES)
                try:
                    Table(again, CHANNEL, settings).upsert(page, mark)  # type: ignore[arg-type]
                except Crash:
                    pass
                after = Table(copy, CHANNEL, settings)
                look(copy, settings, before + (ids(page) if after.mark == mark else []), ids(page))
                if not again.failed:
                    break
                points += 1
        assert points > 10
        before += ids(page)


@pytest.mark.parametrize("packing", [1, 3])
@pytest.mark.parametrize("order", ORDERS)
def test_a_writer_that_is_overtaken_at_any_call_loses_nothing_and_takes_nothing(
    order: str, packing: int, clock: Clock
) -> None:
    """Two writers, one interrupted at every call by all that the other does: a zombie's worst case."""
    settings = Settings(capacity=4, fanout=4, packing=packing)
    batches = pages(order, 40, 5)
    for first in (0, 2, 3, 5):
        store = Memory(clock)
        for page in batches[:first]:
            Table(store, CHANNEL, settings).upsert(page)
        sure = [one for page in batches[: first + 3] for one in ids(page)]
        for at in count():
            copy = store.copy()
            other = Table(copy, CHANNEL, settings)
            list(other.between())  # so that it remembers how things were

            def overtake(other: Table = other, first: int = first) -> None:
                for page in batches[first + 1 : first + 3]:
                    other.upsert(page)

            interrupted = Interrupted(copy, at, overtake)
            writer = Table(interrupted, CHANNEL, settings)  # type: ignore[arg-type]
            writer.upsert(batches[first])
            if not interrupted.done:
                break
            look(copy, settings, sure)
            if at % 5 == 0:  # and what the overtaken one remembers is not believed
                assert [one.id for one in writer.between()] == sorted(sure)


@pytest.mark.parametrize("what", ["insert", "edit", "delete"])
@pytest.mark.parametrize("order", ORDERS)
def test_a_small_change_at_any_call_of_a_large_one_is_not_undone(order: str, what: str, clock: Clock) -> None:
    settings = Settings(capacity=4, fanout=4)
    batches = pages(order, 40, 5)
    for first in (1, 2, 5):
        store = Memory(clock)
        for page in batches[:first]:
            Table(store, CHANNEL, settings).upsert(page)
        written = sorted(one for page in batches[:first] for one in ids(page))
        for at in count():
            copy = store.copy()
            other = Table(copy, CHANNEL, settings)
            near = min(written, key=lambda one: abs(one - ids(batches[first])[0]))
            small = {
                "insert": lambda other=other, near=near: other.upsert([{"id": str(near + 1)}]),
                "edit": lambda other=other, near=near: other.upsert([{"id": str(near), "content": "edited"}]),
                "delete": lambda other=other, near=near: other.delete([near]),
            }
            interrupted = Interrupted(copy, at, small[what])
            Table(interrupted, CHANNEL, settings).upsert(batches[first])  # type: ignore[arg-type]
            if not interrupted.done:
                break
            sure = {*written, *ids(batches[first])}
            sure = sure | {near + 1} if what == "insert" else sure - {near} if what == "delete" else sure
            found = {one.id: one for one in Table(copy, CHANNEL, settings).between()}
            assert set(found) == sure
            assert what != "edit" or found[near].message["content"] == "edited"


def test_an_entry_squeezed_into_an_index_that_is_being_copied_is_not_lost(clock: Clock) -> None:
    """The other writer splits a leaf nearby, which fits into the index that we are about to replace."""
    settings = Settings(capacity=4, fanout=4)
    batches = pages("newest first", 60, 5)
    squeezed = 0
    for first in range(4, 10):
        store = Memory(clock)
        for page in batches[:first]:
            Table(store, CHANNEL, settings).upsert(page)
        written = [one for page in batches[:first] for one in ids(page)]
        nearby = sorted(written, key=lambda one: abs(one - ids(batches[first])[0]))[2:20:7]
        for near in nearby:
            for at in count():
                copy = store.copy()
                other = Table(copy, CHANNEL, settings)
                extra = [near + 1, near + 2, near + 3]
                interrupted = Interrupted(
                    copy,
                    at,
                    lambda other=other, extra=extra: other.upsert([{"id": str(one)} for one in extra]),
                )
                Table(interrupted, CHANNEL, settings).upsert(batches[first])  # type: ignore[arg-type]
                if not interrupted.done:
                    break
                squeezed += 1
                found = [one.id for one in Table(copy, CHANNEL, settings).between()]
                assert found == sorted([*written, *ids(batches[first]), *extra])
    assert squeezed > 100


@pytest.mark.parametrize("how", ["lost-answer", "refused"])
@pytest.mark.parametrize("order", ORDERS)
def test_a_call_without_an_answer_is_resolved_by_looking(order: str, how: str, clock: Clock) -> None:
    settings = Settings(capacity=4, fanout=4)
    store, before = Memory(clock), list[int]()
    for page in pages(order, 25, 5, 3):
        for at in count():
            copy = store.copy()
            faulty = Faulty(copy, at, how)
            Table(faulty, CHANNEL, settings).upsert(page)  # type: ignore[arg-type]
            look(copy, settings, before + ids(page))
            if not faulty.failed:
                store = copy
                break
        before += ids(page)


@pytest.mark.parametrize("how", ["crash-before", "crash-after"])
def test_a_crash_in_a_deletion_or_an_edit_leaves_the_old_or_the_new(how: str, clock: Clock) -> None:
    settings = Settings(capacity=4, fanout=4)
    store = Memory(clock)
    for page in pages("random", 40, 10):
        Table(store, CHANNEL, settings).upsert(page)
    victims = [message_id(number) for number in (0, 3, 4, 17, 39)]
    rest = [message_id(number) for number in range(40) if message_id(number) not in victims]
    edits = [{"id": str(message_id(number)), "content": "edited"} for number in (1, 2, 20)]
    for at in count():
        copy = store.copy()
        faulty = Faulty(copy, at, how)
        table = Table(faulty, CHANNEL, settings)  # type: ignore[arg-type]
        try:
            table.delete(victims)
            table.upsert(edits)
        except Crash:
            pass
        look(copy, settings, rest, victims)
        if not faulty.failed:
            break
        again = Table(copy, CHANNEL, settings)
        again.delete(victims)
        again.upsert(edits)
        look(copy, settings, rest)
        for number in (1, 2, 20):
            found = again.search(message_id(number))
            assert found is not None
            assert (found.message["content"], len(found.versions)) == ("edited", 2)


def crawl(root: Path, batches: list[list[Raw]], allowed: ctypes.c_int) -> None:
    """What a worker does: go on behind the mark, as far as it is allowed by now."""
    table = Table(Files(root), CHANNEL, Settings(capacity=8, fanout=4))
    for turn in range(int(table.mark or "0"), len(batches)):
        while turn >= allowed.value:
            time.sleep(0.001)
        table.upsert(batches[turn], str(turn + 1))


@pytest.mark.proves("G19")
@pytest.mark.kills
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.parametrize("order", ["oldest first", "watch cycles"])
def test_workers_that_are_killed_and_overtake_each_other_lose_nothing(order: str, memory_folder: Path) -> None:
    batches, dice = pages(order, 400, 10, per_ms=3), random.Random(3)
    fork, killed = multiprocessing.get_context("fork"), 0
    allowed: ctypes.c_int = fork.RawValue("i", 0)
    workers: list[multiprocessing.process.BaseProcess] = []
    while int(Table(Files(memory_folder), CHANNEL).mark or "0") < len(batches):
        allowed.value += 4  # a quick worker on a busy machine must not be done before it is killed
        workers = [worker for worker in workers if worker.is_alive()]
        while len(workers) < 2:
            workers.append(fork.Process(target=crawl, args=(memory_folder, batches, allowed)))
            workers[-1].start()
        time.sleep(dice.uniform(0.02, 0.06) * (1 + killed / 20))  # a slow machine must get somewhere at last
        os.kill(workers[0].pid or 0, signal.SIGKILL)
        workers.pop(0).join()
        killed += 1
    for worker in workers:
        worker.join(60)  # a thread that some other test left behind may have held a lock when this one was forked
        worker.kill()
        worker.join()
    assert killed > 1
    look(Files(memory_folder), Settings(), [one for page in batches for one in ids(page)])


@pytest.mark.proves("G19")
@pytest.mark.parametrize(
    ("settings", "number", "size", "whole"),
    [
        (Settings(capacity=4, fanout=4), 15, 5, 0),
        (Settings(capacity=16, fanout=4), 40, 10, 1),
        (Settings(capacity=1000), 1_100, 100, 9),
    ],
    ids=["4", "16", "1000"],
)
@pytest.mark.parametrize("order", ORDERS)
def test_a_crash_at_any_call_loses_nothing_on_a_disk(
    order: str, settings: Settings, number: int, size: int, whole: int, memory_folder: Path
) -> None:
    root, before, batches = memory_folder / "store", list[int](), pages(order, number, size, 3)
    Files(root)
    for page in batches[:whole]:
        Table(Files(root), CHANNEL, settings).upsert(page)
        before += ids(page)
    for page in batches[whole:]:
        for at in count():
            copy = memory_folder / "copy"
            shutil.copytree(root, copy)
            faulty = Faulty(Files(copy), at, "crash-before", CHANGES)
            try:
                Table(faulty, CHANNEL, settings).upsert(page)  # type: ignore[arg-type]
            except Crash:
                pass
            look(Files(copy), settings, before, ids(page))
            Table(Files(copy), CHANNEL, settings).upsert(page)
            look(Files(copy), settings, before + ids(page))
            if not faulty.failed:
                shutil.rmtree(root)
                copy.rename(root)
                break
            shutil.rmtree(copy)
        before += ids(page)


@pytest.mark.parametrize("order", ["oldest first", "newest first"])
def test_a_crash_at_a_call_loses_nothing_in_azure(order: str, azurite: Azurite) -> None:
    """Some of the calls: a server cannot be copied, so each crash is made in a container of its own."""
    pytest.importorskip("azure.storage.blob")
    from custody.channels.blobs.azure import Azure

    settings, batches = Settings(capacity=4, fanout=4), pages(order, 12, 6, 3)
    for at in (0, 2, 3, 5, 8):
        blobs = Azure.connect(azurite.connection_string, f"crash-{at}-{os.urandom(6).hex()}")
        faulty, done = Faulty(blobs, at, "crash-before" if at % 2 else "crash-after", CHANGES), list[int]()
        for page in batches:
            try:
                Table(faulty, CHANNEL, settings).upsert(page)  # type: ignore[arg-type]
            except Crash:
                look(blobs, settings, done, ids(page))
                Table(blobs, CHANNEL, settings).upsert(page)
            done += ids(page)
        assert faulty.failed
        look(blobs, settings, done)
        blobs.close()


@pytest.mark.parametrize("how", ["crash-before", "crash-after"])
def test_a_crash_at_any_call_of_a_removal_is_finished_by_the_next(how: str, clock: Clock) -> None:
    """Nothing of a half-removed channel can be read, and in the end nothing is left."""
    store, settings = Memory(clock), Settings(capacity=4, fanout=4)
    for page in pages("oldest first", 30, 5, 3):
        Table(store, CHANNEL, settings).upsert(page)
    for at in count():
        copy = store.copy()
        faulty = Faulty(copy, at, how, CHANGES)
        try:
            while Table(faulty, CHANNEL, settings).remove_some(3):  # type: ignore[arg-type]
                pass
        except Crash:
            gone = at > 0 or how == "crash-after"
            assert (list(Table(copy, CHANNEL, settings).between()) == []) == gone
            while Table(copy, CHANNEL, settings).remove_some(3):
                pass
        assert list(copy.list("")) == []
        if not faulty.failed:
            break

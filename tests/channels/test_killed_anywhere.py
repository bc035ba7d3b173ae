"""A process that is killed at any write, also in the middle of one: nothing is lost, and nothing is there twice.

A real process with `kill -9`: it works on a copy of the folder, and kills itself at its n-th step on the disk, for
every n until it comes to its end. What it leaves is what the next one finds.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from channels.conftest import Clock
from channels.orders import message, message_id
from custody.channels.blobs import durable
from custody.channels.blobs.local import Files
from custody.channels.context import files_of
from custody.channels.crawl.coverage import Coverage
from custody.channels.files import wanted
from custody.channels.kinds import table_settings
from custody.channels.messages import last_seen
from custody.channels.table import Table

CHANNEL = 7
STEPS = ("pwrite", "ftruncate", "fdatasync", "fsync", "replace", "unlink", "mkdir", "open")
HARMLESS = {"orphan", "split.unfinished"}


class Killing:
    """Stands in for `os` where blobs are written: at one step the process is killed, after half of a write."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        return self._step(name, real) if name in STEPS else real

    def _step(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any) -> Any:
            writes = name != "open" or bool(args[1] & (os.O_CREAT | os.O_TRUNC))
            if writes and self.left == 0:
                if name == "pwrite":
                    real(args[0], args[1][: len(args[1]) // 2], args[2])
                os.kill(os.getpid(), signal.SIGKILL)
            self.left -= writes
            return real(*args)

        return step


def page(first: int, end: int) -> list[dict[str, Any]]:
    return [message(n) for n in range(first, end)]


def written(folder: Path, clock: Clock) -> None:
    """A page as a sync writes it: rows of files, messages with their mark, an edit, what was last seen, a removal."""
    blobs = Files(folder, clock)
    rows = [
        {
            "id": str(message_id(n) + 1),
            "message": str(message_id(n)),
            "name": "x",
            "url": "u",
            "state": "wanted",
            "at": "1",
        }
        for n in range(8, 14)
    ]
    files_of(blobs, CHANNEL).upsert(rows, json.dumps({"want": message_id(8) + 1}))
    mark = Coverage().grown((0, message_id(13))).mark()
    table = Table(blobs, CHANNEL, table_settings(4))
    table.upsert([*page(8, 14), message(3) | {"content": "edited", "edited_timestamp": "2026-03-01"}], mark)
    last_seen.of(blobs, CHANNEL, 4).upsert(
        [{"id": str(message_id(n)), "seen": "2", "pinned": True} for n in (3, 5, 12)]
    )
    table.delete([message_id(1)], "2026-03-02")


def look(folder: Path, clock: Clock, whole: bool) -> None:
    """What was kept before is kept; what the mark speaks for is there; nothing is there twice."""
    blobs = Files(folder, clock)
    table = Table(blobs, CHANNEL, table_settings(4))
    found = [one.id for one in table.between()]
    assert found == sorted(set(found))
    assert set(found) >= {message_id(n) for n in range(8)}
    assert not [one.id for one in table.between() if one.damaged]
    covered = Coverage.read(table.mark).upto
    assert {message_id(n) for n in range(14) if message_id(n) <= covered} <= set(found)
    for one in table.between():
        assert len({*one.versions}) == len(one.versions) <= 2
    if covered >= message_id(13):  # files are written down before the messages that name them
        assert len([row for row in files_of(blobs, CHANNEL).between() if row.versions]) == 6
        assert wanted.Wanted.read(files_of(blobs, CHANNEL).mark).low == message_id(8) + 1
    for kept in (table, last_seen.of(blobs, CHANNEL, 4), files_of(blobs, CHANNEL)):
        codes = {one.code for one in kept.check()}
        assert codes <= (set() if whole else HARMLESS), codes
    if whole:
        assert found == [message_id(n) for n in range(14)]
        edited = table.search(message_id(3))
        assert edited
        assert len(edited.versions) == 2
        assert [row.id for row in last_seen.of(blobs, CHANNEL, 4).between()] == [message_id(n) for n in (3, 5, 12)]


def killed_at(step: int, folder: Path, clock: Clock) -> bool:
    """Was it killed, or did it come to its end before?"""
    child = os.fork()
    if child == 0:
        try:
            durable.os = Killing(step)  # type: ignore[assignment]
            written(folder, clock)
            os._exit(0)
        except BaseException:
            traceback.print_exc(file=sys.stderr)
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "it neither ended well nor was killed"
    return os.WIFSIGNALED(status)


@pytest.mark.kills
def test_a_kill_at_any_step_of_any_write_loses_nothing_and_doubles_nothing(memory_folder: Path, clock: Clock) -> None:
    before = memory_folder / "before"
    clock.now = datetime.fromtimestamp(memory_folder.stat().st_mtime, UTC)  # what was never committed has the disk's
    blobs = Files(before, clock)
    Table(blobs, CHANNEL, table_settings(4)).upsert(page(0, 8), Coverage().grown((0, message_id(7))).mark())
    for step in count():
        folder = memory_folder / "now"
        shutil.copytree(before, folder)
        killed = killed_at(step, folder, clock)
        look(folder, clock, whole=False)
        if not killed:
            break
        assert step < 5_000
        if step % 3 == 0:  # and once more, while the next one mends it
            killed_at(step // 2, folder, clock)
            look(folder, clock, whole=False)
        written(folder, clock)
        clock.advance(days=2)
        again = Files(folder, clock)
        messages = Table(again, CHANNEL, table_settings(4))
        for table in (messages, last_seen.of(again, CHANNEL, 4), files_of(again, CHANNEL)):
            table.repair()
            table.sweep(clock())
        look(folder, clock, whole=True)
        shutil.rmtree(folder)
    assert step > 60, "there were many places to be killed at"

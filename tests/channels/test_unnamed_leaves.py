"""A leaf that no index names is deleted only when all that is in it is in the table: whoever mends may be killed."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from channels.desk import Desk, opened
from channels.faults import Crash, Faulty
from channels.orders import message, message_id
from channels.test_older_leaves import CHANNEL, SMALL, Copy, leaves, planted
from custody.channels.blobs.port import Blobs
from custody.channels.integrity import damage
from custody.channels.removal import removal
from custody.channels.table import Table

LATER = datetime(2100, 1, 1, tzinfo=UTC)
ROOT = f"ch/{CHANNEL}/index.jsonl"
ERASED = message_id(9)


def kept(blobs: Blobs) -> set[str]:
    return {json.loads(line)["content"] for one in Table(blobs, CHANNEL, SMALL).between() for line in one.versions}


def full(blobs: Blobs) -> tuple[Copy, set[str]]:
    """A table with earlier versions and an erased message; answers its root as it once was, and what is in it."""
    table = planted(blobs, 20)
    old = Copy.of(blobs, ROOT)
    table.upsert([message(n) for n in range(20, 40)], "mark")
    for n in (3, 18, 21, 33):
        table.upsert([{**message(n), "content": f"edited {n}"}])
    table.delete([ERASED], "2026-01-01")
    return old, kept(blobs)


HARMS: dict[str, Callable[[Blobs, Copy], object]] = {
    "missing": lambda blobs, old: blobs.delete(ROOT),
    "older": lambda blobs, old: old.put_back(blobs),
}


@pytest.mark.parametrize("at", [0, 2, 9, 16])
@pytest.mark.parametrize("harm", HARMS)
def test_mending_that_was_killed_is_continued_and_the_sweep_takes_nothing_that_is_needed(
    blobs: Blobs, harm: str, at: int
) -> None:
    old, whole = full(blobs)
    HARMS[harm](blobs, old)
    with suppress(Crash):
        Table(Faulty(blobs, at, "crash-before", {"commit"}), CHANNEL, SMALL).repair()  # type: ignore[arg-type]
    table = Table(blobs, CHANNEL, SMALL)
    table.sweep(LATER)
    table.repair()
    assert kept(blobs) == whole
    table.sweep(LATER)
    assert kept(blobs) == whole
    assert table.unnamed() == []
    erased = table.search(ERASED)
    assert erased is not None
    assert erased.deleted_at


@pytest.mark.parametrize("harm", HARMS)
def test_the_sweep_by_itself_takes_in_what_only_an_unnamed_leaf_has(blobs: Blobs, harm: str) -> None:
    old, whole = full(blobs)
    HARMS[harm](blobs, old)
    with suppress(Crash):
        Table(Faulty(blobs, 4, "crash-before", {"commit"}), CHANNEL, SMALL).repair()  # type: ignore[arg-type]
    table = Table(blobs, CHANNEL, SMALL)
    table.take_in(LATER)
    table.sweep(LATER)
    assert kept(blobs) == whole


def test_an_unnamed_leaf_that_cannot_be_read_is_set_aside_and_not_deleted(blobs: Blobs) -> None:
    table = planted(blobs)
    copy = Copy.of(blobs, leaves(blobs)[1])
    name = f"ch/{CHANNEL}/leaf/00000000000000000001-unnamed.jsonl"
    Copy(name, copy.blocks, copy.facts).put_back(blobs)
    assert table.sweep(LATER) == []
    assert list(table.take_in(LATER)) == [name]
    assert any(one.name.endswith("unnamed.jsonl") for one in blobs.list(f"ch/{CHANNEL}/damaged/"))
    assert table.check() == []


@pytest.mark.parametrize("at", [1, 3, 6, 12, 20])
def test_a_channel_whose_mending_was_killed_loses_nothing_that_is_gone_there(memory_folder: Path, at: int) -> None:
    with opened(memory_folder, count=60) as desk:
        _killed(desk, at)


def _killed(desk: Desk, at: int) -> None:
    desk.mirror_all()
    number, blobs, ids = desk.channel.id, desk.mirror.blobs, desk.theirs()
    for gone in ids[::10]:
        desk.standin.world.delete(desk.channel, gone)
    blobs.delete(f"ch/{number}/index.jsonl")
    faulty = Faulty(blobs, at, "crash-before", {"commit"})
    with suppress(Crash):
        damage.mend(replace(desk.mirror, blobs=faulty), number)  # type: ignore[arg-type]
    desk.clock.ahead += timedelta(days=3).total_seconds()
    removal.sweep(desk.mirror, number)
    damage.mend(desk.mirror, number)
    removal.sweep(desk.mirror, number)
    assert set(desk.ids()) == set(ids), "also what only this archive still has"

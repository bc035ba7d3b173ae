"""Verifying: whatever is done to an archive behind its back, or missing from it, is found and named."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from channels.desk import Desk, opened
from custody.channels.blobs import Facts
from custody.channels.table import Settings, Table
from custody.channels.verify import CODES, Verified, verify
from custody.channels.work import add_job


@pytest.fixture
def desk(memory_folder: Path) -> Iterator[Desk]:
    with opened(memory_folder, count=400) as desk:
        desk.mirror_all()
        yield desk


def look(desk: Desk, live: bool = True, pages: int = 8) -> Verified:
    table = desk.mirror.table(desk.channel.id)
    return verify(desk.mirror.blobs, desk.channel.id, table, desk.mirror.discord if live else None, pages, seed=1)


def test_a_sound_archive_is_sound_and_was_compared(desk: Desk) -> None:
    found = look(desk)
    assert (found.sound, found.findings, found.messages) == (True, (), 400)
    assert found.files > 1
    assert found.sampled > 150


def spoil_a_message(desk: Desk) -> None:
    blobs = desk.mirror.blobs
    leaf = next(blob for blob in blobs.list(f"ch/{desk.channel.id}/leaf/"))
    ids = blobs.blocks(leaf.name).ids
    line = json.loads(blobs.read(leaf.name, 0, blobs.blocks(leaf.name).sizes[0]).data.splitlines()[0])
    blobs.stage(leaf.name, [(ids[0], json.dumps(line | {"content": "never said"}).encode() + b"\n")])
    blobs.commit(leaf.name, ids, leaf.facts)


def lose_a_leaf(desk: Desk) -> None:
    leaf = next(blob for blob in desk.mirror.blobs.list(f"ch/{desk.channel.id}/leaf/"))
    desk.mirror.blobs.delete(leaf.name)


def lose_a_message(desk: Desk) -> None:
    desk.mirror.table(desk.channel.id).delete([desk.theirs()[5]])


def claim_too_little(desk: Desk) -> None:
    mark = json.dumps({"upto": str(desk.theirs()[200]), "gaps": []}, separators=(",", ":"))
    Table(desk.mirror.blobs, desk.channel.id, Settings(capacity=16)).upsert([], mark)  # which joins no marks


def spoil_a_file(desk: Desk) -> None:
    blob = next(desk.mirror.blobs.list("media/"))
    ids = desk.mirror.blobs.blocks(blob.name).ids
    desk.mirror.blobs.stage(blob.name, [(ids[0], b"something else")])
    desk.mirror.blobs.commit(blob.name, ids, Facts())


def lose_a_file(desk: Desk) -> None:
    desk.mirror.blobs.delete(next(desk.mirror.blobs.list("media/")).name)


SPOILERS: list[tuple[Callable[[Desk], None], str]] = [
    (spoil_a_message, "block.damaged"),
    (lose_a_leaf, "child.missing"),
    (lose_a_message, "live.missing"),
    (claim_too_little, "coverage.beyond"),
    (spoil_a_file, "file.damaged"),
    (lose_a_file, "file.missing"),
]


@pytest.mark.parametrize(("spoil", "code"), SPOILERS, ids=[code for _, code in SPOILERS])
def test_what_was_done_behind_its_back_is_found(desk: Desk, spoil: Callable[[Desk], None], code: str) -> None:
    spoil(desk)
    found = look(desk, live=code.startswith("live"))
    assert not found.sound
    assert code in {finding.code for finding in found.findings}


def test_a_channel_that_moved_on_is_no_fault_of_the_archive(desk: Desk) -> None:
    world, first = desk.standin.world, desk.theirs()[:3]
    world.edit(desk.channel, first[0], datetime(2026, 5, 1, tzinfo=UTC), "other words")
    world.delete(desk.channel, first[1])
    world.post(desk.channel, 5)
    found = look(desk)
    assert found.sound
    assert {(one.code, one.where) for one in found.findings} == {
        ("live.edited", str(first[0])),
        ("live.deleted", str(first[1])),
    }


def test_a_gap_is_told_and_is_no_fault(memory_folder: Path) -> None:
    with opened(memory_folder / "other", count=400) as desk:
        desk.standin.switches.between_pages = lambda _, page: setattr(desk.channel, "unreadable", page >= 2)
        desk.store.queue.submit_one(add_job(desk.channel.id, newest_first=True))
        desk.run()
        desk.channel.unreadable, desk.standin.switches.between_pages = False, None
        found = look(desk)
        assert found.sound
        assert [one.code for one in found.findings] == ["gap"]


def test_every_code_has_a_sentence() -> None:
    assert {code for _, code in SPOILERS} - {"block.damaged", "child.missing"} <= set(CODES)

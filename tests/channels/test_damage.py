"""A block that no longer is what it was written as: seen by every reader, handed out by none, mended by whoever can."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from channels.conftest import Clock
from channels.memory import Memory
from channels.orders import message, message_id
from custody.channels.table import Settings, Table
from custody.channels.table.node import key_in

CHANNEL = 7


def spoiled(blobs: Memory, number: int) -> str:
    """One letter of a message's text becomes another; answers the block's name."""
    for name, blob in blobs.kept.items():
        for one, data in blob.blocks.items():
            if f'"message {number}"'.encode() in data:
                changed = data.replace(f'"message {number}"'.encode(), f'"lessage {number}"'.encode())
                blobs.kept[name] = replace(blob, blocks={**blob.blocks, one: changed})
                return one
    raise AssertionError


@pytest.mark.parametrize("packing", [1, 3])
def test_no_reader_is_given_what_does_not_match_its_name(clock: Clock, packing: int) -> None:
    blobs = Memory(clock)
    table = Table(blobs, CHANNEL, Settings(capacity=4, packing=packing))
    table.upsert([message(n) for n in range(12)])
    block = spoiled(blobs, 6)
    found = {one.id: one for one in table.between()}
    damaged = [one for one in found.values() if one.damaged]
    assert [one.damaged for one in damaged] == [block]
    assert damaged[0].id == int(key_in(block))
    assert damaged[0].versions == ()
    assert damaged[0].message == {"id": str(damaged[0].id), "damaged": True}
    assert len(found) == 12 - (packing - 1)  # the others are there
    alone = table.search(message_id(6))
    assert alone is not None
    assert alone.damaged == block


def test_what_the_service_still_has_takes_the_place_of_what_is_damaged_which_is_kept_aside(clock: Clock) -> None:
    blobs = Memory(clock)
    table = Table(blobs, CHANNEL, Settings(capacity=4))
    table.upsert([message(n) for n in range(12)])
    block = spoiled(blobs, 6)
    table.upsert([message(6)])  # the name is right, so nobody looks
    assert [finding.code for finding in table.check()] == ["block.damaged"]
    table.mend([message(6)])
    assert [one.message["content"] for one in table.between()] == [f"message {n}" for n in range(12)]
    assert table.check() == []
    aside = blobs.read(f"ch/{CHANNEL}/damaged/{block}").data
    assert b"lessage 6" in aside
    clock.advance(days=9)
    assert table.sweep(clock() - timedelta(days=1)) == []  # no litter
    table.mend([message(6)])  # nothing to do
    assert not table.remove_some(1000)
    assert list(blobs.list(f"ch/{CHANNEL}/")) == []


def test_an_edit_of_a_damaged_message_begins_its_versions_anew(clock: Clock) -> None:
    blobs = Memory(clock)
    table = Table(blobs, CHANNEL, Settings(capacity=4))
    table.upsert([message(n) for n in range(12)])
    block = spoiled(blobs, 6)
    table.upsert([message(6) | {"content": "edited"}])
    found = table.search(message_id(6))
    assert found
    assert [found.message["content"], len(found.versions)] == ["edited", 1]
    assert b"lessage 6" in blobs.read(f"ch/{CHANNEL}/damaged/{block}").data
    assert table.check() == []


def test_a_damaged_message_can_be_taken_out(clock: Clock) -> None:
    blobs = Memory(clock)
    table = Table(blobs, CHANNEL, Settings(capacity=4))
    table.upsert([message(n) for n in range(12)])
    spoiled(blobs, 6)
    spoiled(blobs, 7)
    assert table.delete([message_id(6)], deleted_at="2026-03-01") == 1
    assert table.delete([message_id(7)]) == 1
    found = table.search(message_id(6))
    assert found
    assert found.deleted_at == "2026-03-01"
    assert table.search(message_id(7)) is None
    assert table.check() == []


def test_a_damaged_block_stays_damaged_when_its_leaf_is_divided(clock: Clock) -> None:
    blobs = Memory(clock)
    table = Table(blobs, CHANNEL, Settings(capacity=4))
    table.upsert([message(n) for n in range(0, 24, 2)])
    block = spoiled(blobs, 4)
    table.upsert([message(n) for n in range(1, 24, 2)])
    assert [one.damaged for one in table.between() if one.damaged] == [block]
    assert len(list(table.between())) == 24

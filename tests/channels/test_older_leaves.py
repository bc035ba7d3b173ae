"""A leaf that is not the one that was written last is damage, on every blob store: emptied, cut, or an earlier copy of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from channels.desk import Desk, ids_of, opened
from channels.office import QUICK, Office, office
from channels.orders import message, message_id
from custody.channels.blobs.local import Files
from custody.channels.blobs.port import Blobs, Facts
from custody.channels.integrity import damage, expected
from custody.channels.integrity.verify import verify
from custody.channels.table import Settings, Table
from custody.channels.table.node import Entry, is_tombstone
from custody.demo.standins.discord_guild import Channel, World
from rig.azurite import Azurite

SMALL = Settings(capacity=4, fanout=4)
CHANNEL = 7


@dataclass(frozen=True)
class Copy:
    """A blob as it was, as somebody who copies files or blobs would have it."""

    name: str
    blocks: tuple[tuple[str, bytes], ...]
    facts: Facts

    @classmethod
    def of(cls, blobs: Blobs, name: str) -> Copy:
        listed, data, head, start = blobs.blocks(name), blobs.read(name).data, blobs.head(name), 0
        blocks = list[tuple[str, bytes]]()
        for one, size in zip(listed.ids, listed.sizes, strict=True):
            blocks.append((one, data[start : start + size]))
            start += size
        assert head is not None
        return cls(name, tuple(blocks), head.facts)

    def put_back(self, blobs: Blobs, most: int | None = None) -> None:
        blocks = self.blocks[:most]
        if blocks:
            blobs.stage(self.name, blocks)
        blobs.commit(self.name, [one for one, _ in blocks], self.facts)


def leaves(blobs: Blobs, channel: int = CHANNEL, folder: str = "ch") -> list[str]:
    return [blob.name for blob in blobs.list(f"{folder}/{channel}/leaf/")]


def planted(blobs: Blobs, number: int = 30) -> Table:
    table = Table(blobs, CHANNEL, SMALL)
    for start in range(0, number, 10):
        table.upsert([message(n) for n in range(start, start + 10)], "mark")
    assert table.check() == []
    return table


def codes(blobs: Blobs) -> set[str]:
    return {one.code for one in Table(blobs, CHANNEL, SMALL).check()}


# --- The list of blocks is another, and the metadata are as they were ---


@pytest.mark.parametrize("most", [0, 1, 3])
@pytest.mark.parametrize("which", [0, 2, -1], ids=["first", "inner", "last"])
def test_a_leaf_whose_list_was_emptied_or_cut_is_damage_on_every_store(blobs: Blobs, most: int, which: int) -> None:
    planted(blobs)
    name = leaves(blobs)[which]
    whole = Copy.of(blobs, name)
    if len(whole.blocks) <= most:
        most = len(whole.blocks) - 1
    whole.put_back(blobs, most)
    table = Table(blobs, CHANNEL, SMALL)
    assert [one.where for one in table.check() if one.code == "child.missing"] == [name]
    found = list(table.between())
    assert any(one.damaged and one.upto for one in found), "a reader is told of the part"
    table.repair()
    assert codes(blobs) <= {"orphan"}
    kept = {json.loads(line)["content"] for one in table.between() for line in one.versions}
    lost = {json.loads(data)["content"] for _, data in whole.blocks[most:]}
    assert kept == {f"message {n}" for n in range(30)} - lost, "what its list still had is not lost with the rest"


def test_a_list_in_another_order_or_with_a_block_twice_is_damage_on_every_store(blobs: Blobs) -> None:
    planted(blobs)
    whole = Copy.of(blobs, leaves(blobs)[1])
    replace(whole, blocks=whole.blocks[::-1]).put_back(blobs)
    assert "child.missing" in codes(blobs)


# --- An earlier copy of one leaf ---

CHANGES: dict[str, Callable[[Table], object]] = {
    "an edit": lambda table: table.upsert([{**message(5), "content": "edited"}]),
    "a deletion": lambda table: table.delete([message_id(5)]),
    "an erasure": lambda table: table.delete([message_id(5)], "2026-01-01"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_an_earlier_copy_of_one_leaf_is_damage_on_every_store(blobs: Blobs, change: Callable[[Table], object]) -> None:
    table = planted(blobs)
    before = {name: Copy.of(blobs, name) for name in leaves(blobs)}
    change(table)
    assert codes(blobs) == set()
    (changed,) = [name for name in leaves(blobs) if Copy.of(blobs, name) != before[name]]
    before[changed].put_back(blobs)
    assert [one.where for one in Table(blobs, CHANNEL, SMALL).check() if one.code == "leaf.older"] == [changed]
    assert any(one.damaged for one in Table(blobs, CHANNEL, SMALL).between())
    table.repair()
    assert codes(blobs) <= {"orphan"}


def test_an_earlier_copy_is_noticed_by_whoever_remembers_the_later_one(blobs: Blobs) -> None:
    table = planted(blobs)
    old = Copy.of(blobs, leaves(blobs)[1])
    table.upsert([{**message(5), "content": "edited"}])
    assert table.search(message_id(5)) is not None
    old.put_back(blobs)
    assert any(one.damaged for one in table.between())


def test_who_reads_an_index_that_knows_more_than_he_remembers_looks_again(blobs: Blobs) -> None:
    """The other way round nothing is damaged: what one process remembers is older than what another wrote."""
    mine, theirs = planted(blobs), Table(blobs, CHANNEL, SMALL)
    assert len(list(mine.between())) == 30
    theirs.upsert([{**message(5), "content": "edited"}])
    theirs.upsert([message(n) for n in range(30, 50)])  # and the index is read anew
    mine.upsert([message(n) for n in range(50, 60)])
    assert [one.damaged for one in mine.between() if one.damaged] == []
    found = mine.search(message_id(5))
    assert found is not None
    assert found.message["content"] == "edited"


def test_a_writer_that_was_killed_before_it_told_the_index_has_damaged_nothing(blobs: Blobs) -> None:
    from channels.faults import Crash, Faulty

    planted(blobs)
    edited = {**message(5), "content": "edited"}
    faulty = Faulty(blobs, 1, "crash-before", {"commit"})  # type: ignore[arg-type]
    with pytest.raises(Crash):
        Table(faulty, CHANNEL, SMALL).upsert([edited])  # type: ignore[arg-type]
    assert codes(blobs) == set()
    stale = Copy.of(blobs, leaves(blobs)[1])
    Table(blobs, CHANNEL, SMALL).upsert([edited])  # again, and the index is told
    replace(stale, facts=replace(stale.facts, metadata={**stale.facts.metadata, "turn": "1"})).put_back(blobs)
    assert codes(blobs) == {"leaf.older"}


# --- Tables of earlier versions ---


def of_before(blobs: Blobs) -> None:
    """Make a table one of a version that did not count."""
    for name in leaves(blobs):
        copy = Copy.of(blobs, name)
        told = {key: value for key, value in copy.facts.metadata.items() if key not in ("turn", "blocks")}
        replace(copy, facts=replace(copy.facts, metadata=told)).put_back(blobs)
    for blob in [*blobs.list(f"ch/{CHANNEL}/node/"), *blobs.list(f"ch/{CHANNEL}/index")]:
        copy = Copy.of(blobs, blob.name)
        entries = [json.loads(data) for _, data in copy.blocks]
        plain = tuple(Entry(each["fence"], each["blob"]).block() for each in entries)
        told = {key: value for key, value in copy.facts.metadata.items() if key != "sum"}
        replace(copy, blocks=plain, facts=replace(copy.facts, metadata=told)).put_back(blobs)


def test_a_table_of_before_is_read_and_never_called_known(blobs: Blobs) -> None:
    planted(blobs)
    of_before(blobs)
    table = Table(blobs, CHANNEL, SMALL)
    assert len(list(table.between())) == 30
    (found,) = table.check()
    assert (found.code, found.detail.split()[0]) == ("leaf.unknown", str(len(leaves(blobs))))
    table.upsert([{**message(5), "content": "edited"}])
    (found,) = table.check()
    assert found.detail.split()[0] == str(len(leaves(blobs)) - 1), "what is written now is counted"
    table.vouch()
    assert table.check() == []
    old = Copy.of(blobs, leaves(blobs)[1])
    table.upsert([{**message(6), "content": "edited"}])
    old.put_back(blobs)
    assert codes(blobs) == {"leaf.older"}


def test_a_leaf_of_before_in_the_place_of_one_that_was_counted_is_older(blobs: Blobs) -> None:
    table = planted(blobs)
    copy = Copy.of(blobs, leaves(blobs)[1])
    told = {key: value for key, value in copy.facts.metadata.items() if key not in ("turn", "blocks")}
    table.upsert([{**message(5), "content": "edited"}])
    replace(copy, facts=replace(copy.facts, metadata=told)).put_back(blobs)
    assert codes(blobs) == {"leaf.older"}


# --- A mirrored channel: told by every command, and mended where the channel still has it ---


@pytest.fixture(params=["files", "azure"])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Office, Channel]:
    world = World(seed=3)
    channel = world.add(0, "general", 130)
    more: dict[str, object] = {"capacity": 30, "look_hours": 0}
    if request.param == "azure":
        azurite: Azurite = request.getfixturevalue("azurite")
        import os

        more["container"] = "t" + os.urandom(8).hex()
    here = request.getfixturevalue("offices")(tmp_path, world, more)
    if request.param == "azure":
        (here.folder / "azure.connection").write_text(azurite.connection_string)
    here.run("channel", "add", str(channel.id))
    here.run("channel", "run", "--until-idle")
    return here, channel


@pytest.fixture
def offices() -> object:
    from contextlib import ExitStack

    with ExitStack() as stack:
        yield lambda folder, world, more: stack.enter_context(office(folder, world, QUICK, **more))


def edited(here: Office, channel: Channel, which: int) -> tuple[Copy, int]:
    """A message was edited there, and the sync has brought it here; answers its leaf as it was before."""
    from datetime import UTC, datetime

    one = ids_of(here.world, channel)[which]
    blobs = here.blobs()
    copies = {name: Copy.of(blobs, name) for name in leaves(blobs, channel.id)}
    here.world.edit(channel, one, datetime(2026, 5, 1, tzinfo=UTC), "mended")
    here.run("channel", "review", str(channel.id), str(one))
    here.run("channel", "run", "--until-idle")
    (changed,) = [name for name in copies if Copy.of(here.blobs(), name) != copies[name]]
    return copies[changed], one


@pytest.mark.parametrize("which", [40, -1], ids=["inner", "last"])
def test_an_earlier_copy_of_one_leaf_is_told_by_every_command_and_mended(
    archive: tuple[Office, Channel], which: int, tmp_path: Path
) -> None:
    here, channel = archive
    old, one = edited(here, channel, which)
    number = str(channel.id)
    old.put_back(here.blobs())
    assert "WRONG" in here.run("channel", "verify", number, "--pages", "0", code=1)
    here.run("channel", "export", number, str(tmp_path / "out.jsonl"), "--jsonl", code=1)
    assert "damaged" in here.run("channel", "list")
    here.run("channel", "verify", number, "--mend", code=(0, 1))
    found = here.table(channel.id).search(one)
    assert found is not None
    assert found.message["content"] == "mended"
    here.run("channel", "accept-loss", number, "--why", "test", code=(0, 1, 3))
    here.run("channel", "run", "--until-idle")
    assert "nothing is wrong" in here.run("channel", "verify", number)


@pytest.mark.parametrize("most", [0, 5])
def test_a_leaf_whose_list_was_cut_is_told_by_every_command_and_mended(
    archive: tuple[Office, Channel], most: int, tmp_path: Path
) -> None:
    here, channel = archive
    number = str(channel.id)
    Copy.of(here.blobs(), leaves(here.blobs(), channel.id)[1]).put_back(here.blobs(), most)
    assert "WRONG" in here.run("channel", "verify", number, "--pages", "0", code=1)
    here.run("channel", "export", number, str(tmp_path / "out.jsonl"), "--jsonl", code=1)
    here.run("channel", "run", "--until-idle", code=1)
    here.run("channel", "accept-loss", number, "--why", "test")
    here.run("channel", "run", "--until-idle")
    assert not here.differs(channel)
    assert "nothing is wrong" in here.run("channel", "verify", number)


def test_what_was_erased_does_not_come_back_with_an_earlier_copy(memory_folder: Path) -> None:
    with opened(memory_folder, count=60) as desk:
        _erased_and_put_back(desk)


def _erased_and_put_back(desk: Desk) -> None:
    desk.mirror_all()
    blobs, number, gone = desk.mirror.blobs, desk.channel.id, desk.theirs()[5]
    assert isinstance(blobs, Files)
    copies = {name: Copy.of(blobs, name) for name in leaves(blobs, number)}
    desk.standin.world.delete(desk.channel, gone)
    desk.mirror.seen(number).upsert([{"id": str(gone), "seen": "2026-01-01"}])
    desk.mirror.table(number).delete([gone], "2026-02-01T00:00:00+00:00")
    desk.mirror.seen(number).delete([gone], "2026-02-01T00:00:00+00:00")
    expected.note(desk.store, blobs, number)
    (changed,) = [name for name in copies if Copy.of(blobs, name) != copies[name]]
    copies[changed].put_back(blobs)
    assert not verify(blobs, number, desk.mirror.table(number)).sound
    assert damage.mend(desk.mirror, number)
    found = desk.mirror.table(number).search(gone)
    assert found is not None
    assert found.deleted_at
    assert not found.versions
    assert not any(is_tombstone(line) for one in desk.mirror.table(number).between() for line in one.versions)
    assert set(desk.ids()) == set(desk.theirs()), "the others were in the earlier copy, and are kept"

"""Another channel's table in a channel's place is damage for every way in, and is never mixed in."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from channels.conftest import Clock
from channels.desk import ids_of
from channels.office import QUICK, Office, office
from custody.channels.blobs.port import Blobs, Facts
from custody.channels.context import assets_of
from custody.channels.messages.last_seen import of as seen_of
from custody.channels.table import Settings, Table, Torn
from custody.demo.standins.discord_guild import Channel, World

CH, OTHER = 3001, 3002


@pytest.fixture
def here(tmp_path: Path) -> Iterator[tuple[Office, Channel, Channel]]:
    world = World(seed=8)
    one, other = world.add(0, "one", 240), world.add(0, "other", 40)
    with office(tmp_path / "o", world, QUICK) as place:
        for channel in (one, other):
            place.run("channel", "add", str(channel.id))
        place.run("channel", "run", "--until-idle")
        for channel in (one, other):  # something that is kept in `seen`
            for message in ids_of(world, channel)[-3:]:
                seen_of(place.blobs(), channel.id).upsert([{"id": str(message), "pinned": True}])
                picture = {"id": str(message + 1), "message": str(message), "name": "p", "state": "lost"}
                assets_of(place.blobs(), channel.id).upsert([picture])
        yield place, one, other


def put(here: Office, folder: str, theirs: Channel, place: Channel) -> None:
    root = here.folder / "channels" / folder
    shutil.rmtree(root / str(place.id), ignore_errors=True)
    shutil.copytree(root / str(theirs.id), root / str(place.id))


def swap(here: Office, folder: str, one: Channel, other: Channel) -> None:
    root = here.folder / "channels" / folder
    (root / str(one.id)).rename(root / "aside")
    (root / str(other.id)).rename(root / str(one.id))
    (root / "aside").rename(root / str(other.id))


def unsigned(here: Office) -> None:
    """As an earlier version has left it: nothing says whose it is, and the store knows of no signature."""
    blobs = here.blobs()
    for folder in ("ch", "seen", "files", "assets"):
        for about in list(blobs.list(f"{folder}/")):
            told = {name: value for name, value in about.facts.metadata.items() if name != "of"}
            if told != dict(about.facts.metadata):
                facts = Facts(told, about.facts.tags, about.facts.tier)
                blobs.commit(about.name, blobs.blocks(about.name).ids, facts)
    from custody.channels.notes import SIGNED, Notes
    from custody.config import read
    from custody.kernel.stores import open_store

    with open_store(read(here.folder / "custody.toml").store) as store:
        for channel in Notes(store).every():
            Notes(store).put(channel, **{SIGNED: 0})


def exported(here: Office, channel: Channel, code: int) -> set[str]:
    target = here.folder / "x.jsonl"
    here.run("channel", "export", str(channel.id), str(target), "--jsonl", code=code)
    told = [json.loads(line) for line in target.read_text().splitlines()]
    return {str(one["channel_id"]) for one in told if "channel_id" in one}


@pytest.mark.parametrize("signed", [True, False], ids=["signed", "of-before"])
@pytest.mark.parametrize("way", ["copy", "older", "swap"])
def test_another_channels_messages_are_damage_for_every_command(
    here: tuple[Office, Channel, Channel], way: str, signed: bool
) -> None:
    place, one, other = here
    if not signed:
        unsigned(place)
    {
        "copy": lambda: put(place, "ch", one, other),
        "older": lambda: put(place, "ch", other, one),
        "swap": lambda: swap(place, "ch", one, other),
    }[way]()
    wrong = [channel for channel, ways in ((other, ("copy", "swap")), (one, ("older", "swap"))) if way in ways]
    for channel in wrong:
        number = str(channel.id)
        assert "cannot be read here" in place.run("channel", "why", number)
        assert "WRONG" in place.run("channel", "verify", number, "--pages", "0", code=1)
        assert "table.foreign" in place.run("channel", "fsck", number, code=1)
        assert exported(place, channel, code=1) <= {number}
        assert "cannot be read" in place.run("channel", "gaps", number, code=1)
    assert place.run("channel", "list").count("damaged") == len(wrong)
    for channel in wrong:
        place.run("channel", "verify", str(channel.id), "--mend", code=1)
        place.run("channel", "accept-loss", str(channel.id), "--why", "a test")
        assert "nothing is wrong" in place.run("channel", "verify", str(channel.id))
        aside = list((place.folder / "channels" / "ch" / str(channel.id) / "damaged").iterdir())
        assert aside, "what was there is set aside"
    place.run("channel", "run", "--until-idle")
    for channel in (one, other):
        assert place.same(channel), place.differs(channel)
        assert exported(place, channel, code=0) == {str(channel.id)}


@pytest.mark.parametrize("signed", [True, False], ids=["signed", "of-before"])
@pytest.mark.parametrize("folder", ["seen", "files", "assets"])
def test_and_so_is_what_is_kept_besides(here: tuple[Office, Channel, Channel], folder: str, signed: bool) -> None:
    place, one, other = here
    if not signed:
        unsigned(place)
    put(place, folder, one, other)
    number = str(other.id)
    assert "cannot be read here" in place.run("channel", "why", number)
    assert "table.foreign" in place.run("channel", "verify", number, "--pages", "0", code=1)
    assert "table.foreign" in place.run("channel", "fsck", number, code=1)
    place.run("channel", "verify", number, "--mend", code=(0, 1))
    place.run("channel", "accept-loss", number, "--why", "a test", code=(0, 1, 2))
    place.run("channel", "run", "--until-idle")
    assert "nothing is wrong" in place.run("channel", "verify", number)


def test_messages_of_another_that_were_mixed_in_are_taken_out(here: tuple[Office, Channel, Channel]) -> None:
    """As an earlier version did when it mended."""
    place, one, other = here
    rows = [found.message for found in place.table(one.id).between()]
    place.table(other.id).upsert(rows)
    number = str(other.id)
    assert exported(place, other, code=1) == {number}
    assert "block.foreign" in place.run("channel", "verify", number, "--pages", "0", code=1)
    assert "damaged" in place.run("channel", "list")
    place.run("channel", "verify", number, "--mend", code=1)
    place.run("channel", "accept-loss", number, "--why", "a test")
    assert exported(place, other, code=0) == {number}
    assert place.same(other)


@pytest.mark.parametrize("signed", [True, False], ids=["signed", "of-before"])
def test_on_every_store_the_reader_asks_whose_it_is(blobs: Blobs, clock: Clock, signed: bool) -> None:
    settings = Settings(capacity=4, fanout=3)
    Table(blobs, CH, settings).upsert([{"id": str(n << 30), "channel_id": str(CH)} for n in range(1, 30)], "m")
    for about in list(blobs.list(f"ch/{CH}/")):
        name = about.name.replace(f"ch/{CH}/", f"ch/{OTHER}/")
        listed, data = blobs.blocks(about.name), blobs.read(about.name).data
        start = 0
        for block, size in zip(listed.ids, listed.sizes, strict=True):
            blobs.stage(name, [(block, data[start : start + size])])
            start += size
        told = {key: value for key, value in about.facts.metadata.items() if signed or key != "of"}
        blobs.commit(name, listed.ids, Facts(told, about.facts.tags, about.facts.tier))
    table = Table(blobs, OTHER, settings)
    with pytest.raises(Torn, match="another channel"):
        table.mark  # noqa: B018
    assert not [found for found in table.between() if found.versions]
    assert "table.foreign" in {one.code for one in table.check()}
    there = {about.name for about in blobs.list(f"ch/{OTHER}/")}
    table.repair()
    assert table.check() == []
    assert [found for found in table.between()] == []
    assert table.mark == ""
    aside = [about.name for about in blobs.list(f"ch/{OTHER}/damaged/")]
    assert len(aside) >= len([name for name in there if "/leaf/" in name]), "all of it is set aside"

"""Whatever is done to whichever blob of a channel: every command says so, gives what is whole, and mends what it can.

One table of sorts of damage, one of blobs, and for each pair the commands that a person would give. The other channel
goes on all the while, and nothing that the live channel shows is missing afterwards.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest
from azure.storage.blob import ContainerClient

from channels.desk import ids_of
from channels.office import FULL, QUICK, Office, office
from custody.channels.blobs.azure import Azure
from custody.channels.blobs.port import Blobs
from custody.channels.context import HELD
from custody.channels.integrity import expected as held
from custody.channels.messages import last_seen
from custody.channels.notes import Notes
from custody.channels.table import Table
from custody.demo.standins.discord_guild import Channel, World
from custody.kernel.stores import open_store

CAPACITY = 30
ERASED = 7  # the place of a message that was erased here, and is gone there


@dataclass
class Town:
    """Two mirrored channels, kept as they are to be copied for each sort of damage."""

    here: Office
    channel: Channel
    other: Channel
    erased: int
    whole: set[int]

    @property
    def world(self) -> World:
        return self.here.world


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    world = World(seed=2)  # with files in both
    channel, other = world.add(0, "general", 130), world.add(0, "other", 40)
    with office(tmp_path_factory.mktemp("town"), world, QUICK, capacity=CAPACITY, look_hours=0) as here:
        for one in (channel, other):
            here.run("channel", "add", str(one.id))
        here.run("channel", "run", "--until-idle")
        ids, blobs = ids_of(world, channel), here.blobs()
        erased = ids[ERASED]
        overlay = last_seen.of(blobs, channel.id, CAPACITY)
        overlay.upsert([{"id": str(one), "seen": "2026-01-01", "pinned": True} for one in ids[::10]])
        beside = last_seen.of(blobs, other.id, CAPACITY)
        beside.upsert([{"id": str(one), "seen": "2026-01-01", "pinned": True} for one in ids_of(world, other)[::10]])
        overlay.upsert([{"id": str(erased), "seen": "2026-01-01"}])
        world.delete(channel, erased)
        here.table(channel.id).delete([erased], "2026-02-01T00:00:00+00:00")
        overlay.delete([erased], "2026-02-01T00:00:00+00:00")
        for one in (channel, other):
            here.run("channel", "sync", str(one.id))
        here.run("channel", "run", "--until-idle")
        yield Town(here, channel, other, erased, set(ids) - {erased})


def blob(blobs: Blobs, channel: Channel, what: str) -> str:
    """The name of one of a channel's blobs."""
    folder, _, kind = what.partition(" ")
    if kind == "root":
        return f"{folder}/{channel.id}/index.jsonl"
    place = f"media/{channel.id}/" if folder == "media" else f"{folder}/{channel.id}/leaf/"
    names = [one.name for one in blobs.list(place) if one.size]
    return names[-1] if kind == "last" else names[int(kind == "second") and len(names) > 1]


BLOBS = ("ch second", "ch last", "ch root", "seen last", "seen root", "files last", "files root", "media first")

# --- Sorts of damage on a disk: of the state (blocks, ETag, mark) and of the content ---


@dataclass
class Place:
    state: Path
    content: Path
    same: tuple[Path, Path]  # state and content of a blob of the same sort, of the other channel


def bare(place: Place) -> None:
    place.state.unlink()


def absent(place: Place) -> None:
    place.state.unlink()
    place.content.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "something").write_text("of somebody")


def as_link(path: Path) -> None:
    away = path.with_name("away")
    path.rename(away)
    path.symlink_to(away)


def foreign(place: Place) -> None:
    place.content.write_bytes(place.same[1].read_bytes())
    place.state.write_bytes(place.same[0].read_bytes())
    number = place.same[1].name.rpartition("@")[2]
    there = place.content.with_name(place.content.name.rpartition("@")[0] + "@" + number)
    place.content.rename(there)


def _a_digit(state: bytes) -> int:
    """Of how far the channel was shown, where that is said; else of the size."""
    told = b'upto\\":\\"'
    return state.index(told) + len(told) + 5 if told in state else state.index(b'"size":') + 7


SORTS: dict[str, Callable[[Place], None]] = {
    "missing": absent,
    "content missing": lambda place: place.content.unlink(),
    "content truncated": lambda place: cut(place.content),
    "content empty": lambda place: place.content.write_bytes(b""),
    "content flipped": lambda place: flip(place.content, place.content.stat().st_size // 3),
    "content a folder": lambda place: as_folder(place.content),
    "content a link": lambda place: as_link(place.content),
    "state missing": bare,
    "state truncated": lambda place: cut(place.state),
    "state empty": lambda place: place.state.write_bytes(b""),
    "state garbage": lambda place: place.state.write_bytes(os.urandom(200)),
    "state flipped": lambda place: flip(place.state, _a_digit(place.state.read_bytes())),
    "state a folder": lambda place: as_folder(place.state),
    "state a link": lambda place: as_link(place.state),
    "of another channel": foreign,
}
OFTEN = ("missing",)
SELDOM = {
    "content a folder",
    "content a link",
    "content empty",
    "state a folder",
    "state empty",
}  # of the ordinary scale
ALSO = {
    ("state garbage", "ch root"),
    ("state garbage", "seen last"),
    ("state garbage", "files root"),
    ("content truncated", "ch root"),
    ("content truncated", "seen last"),
    ("content flipped", "ch root"),
    ("content flipped", "files last"),
    ("content flipped", "media first"),
    ("state flipped", "ch last"),
    ("of another channel", "ch root"),
    ("of another channel", "media first"),
}
PAIRS = [
    (sort, what)
    for sort in SORTS
    for what in BLOBS
    if FULL or (what == "ch second" and sort not in SELDOM) or sort in OFTEN or (sort, what) in ALSO
]


def place_of(root: Path, blobs: Blobs, town: Town, what: str) -> Place:
    def files(channel: Channel) -> tuple[Path, Path]:
        name = blob(blobs, channel, what)
        folder, stem = root / name.rpartition("/")[0], name.rpartition("/")[2].removesuffix(".jsonl")
        [content] = [one for one in folder.glob(f"{stem}@*") if one.name.removeprefix(f"{stem}@")[0].isdigit()]
        return root / f"{name}@state", content

    return Place(*files(town.channel), files(town.other))


@pytest.fixture
def copied(town: Town, memory_folder: Path) -> Office:
    """The same office with files of its own."""
    shutil.copytree(town.here.folder, memory_folder / "copy", symlinks=True)
    return Office(memory_folder / "copy", town.here.standin, capacity=CAPACITY, look_hours=0)


def exported(here: Office, channel: Channel, code: int | tuple[int, ...] = (0, 1)) -> tuple[set[int], list[str]]:
    """The messages of an export, and the lines that tell of damage."""
    target = here.folder / "out.jsonl"
    here.run("channel", "export", str(channel.id), str(target), "--jsonl", code=code)
    rows = [json.loads(line) for line in target.read_text().splitlines()]
    return {int(row["id"]) for row in rows if not row.get("damaged")}, [str(row) for row in rows if row.get("damaged")]


def state(here: Office, channel: Channel) -> str:
    rows = json.loads(here.run("channel", "list", "--json"))
    return str(next(row["state"] for row in rows if row["channel"] == f"channel/{channel.id}"))


def every_command(here: Office, town: Town, what: str) -> None:
    """What a person may ask: each answers, none calls well what is not."""
    number, folder = str(town.channel.id), here.folder
    kept, told = exported(here, town.channel)
    of_messages = what.startswith("ch")
    if of_messages:
        leaf = 0 if what == "ch root" else len(town.whole) - CAPACITY
        assert len(kept) >= leaf, "the other leaves' messages are in it"
        assert told or kept == town.whole
        assert len(kept) == len(town.whole) or told
    else:
        assert kept == town.whole
    code = 1 if what.startswith(("ch", "seen")) else (0, 1)
    here.run("channel", "export", number, str(folder / "out.db"), "--sqlite", code=code)
    database = apsw.Connection(str(folder / "out.db"))
    assert list(database.execute("select count(*) from message where damaged = 0 and deleted_at is null")) == [
        (len(kept),)
    ]
    spans = list(database.execute("select count(*) from lost"))
    database.close()
    assert spans == [(sum("from" in line for line in told),)]
    here.run("channel", "export", number, str(folder / "pages"), "--html", code=1)
    assert len(list((folder / "pages").glob("page-*.html"))) == 1
    lines = here.run("channel", "search", number, "--since", "2016-01-01", code=code).splitlines()
    assert len([line for line in lines if line.startswith('{"id":"')]) >= len(kept)
    one = min(kept, default=0)
    here.run("channel", "search", number, str(one), code=(0, 1, 2))
    assert "WRONG" in here.run("channel", "verify", number, "--pages", "0", code=1)
    if not what.startswith("media"):
        assert "WRONG" in here.run("channel", "fsck", number, code=1)
    assert "damaged here" in (first := here.run("channel", "why", number).splitlines()[0]) or "cannot be read" in first
    assert state(here, town.channel) == "damaged"
    here.run("channel", "gaps", number, code=(0, 1))
    here.run("channel", "tiers")
    assert state(here, town.other) == "whole"
    assert len(exported(here, town.other, 0)[0]) == 40


def all_is_back(here: Office, town: Town) -> None:
    """Whatever the channel shows is whole; what was erased is not back; loss is told until somebody knows."""
    number = str(town.channel.id)
    kept, told = exported(here, town.channel)
    assert kept == town.whole
    assert not told
    found = here.table(town.channel.id).search(town.erased)
    assert found is None or found.deleted_at
    assert found or state(here, town.channel) == "damaged"
    here.run("channel", "accept-loss", number, "--why", "a test")
    said = here.run("channel", "verify", number, code=0)
    assert "WRONG" not in said
    here.run("channel", "run", "--until-idle")
    assert state(here, town.channel) == "whole"
    here.run("channel", "export", number, str(here.folder / "pages"), "--html", code=0)


@pytest.mark.parametrize(("sort", "what"), PAIRS, ids=[f"{what} {sort}" for sort, what in PAIRS])
def test_damage_is_told_by_every_command_and_mended(town: Town, copied: Office, sort: str, what: str) -> None:
    blobs = copied.blobs()
    place = place_of(copied.folder / "channels", blobs, town, what)
    SORTS[sort](place)
    every_command(copied, town, what)
    said = copied.run("channel", "verify", str(town.channel.id), "--mend", code=(0, 1))
    assert "not mended" not in said
    all_is_back(copied, town)


@pytest.mark.parametrize("what", ["ch second", "ch last", "ch root", "seen last", "files last"])
def test_a_sync_mends_by_itself_what_somebody_has_noticed(town: Town, copied: Office, what: str) -> None:
    place = place_of(copied.folder / "channels", copied.blobs(), town, what)
    SORTS["state garbage"](place)
    copied.run("channel", "fsck", str(town.channel.id), code=1)
    copied.run("channel", "run", "--until-idle", code=(0, 1))
    all_is_back(copied, town)


def test_what_is_left_of_a_damaged_blob_is_kept_aside_and_goes_with_the_channel(town: Town, copied: Office) -> None:
    root, number = copied.folder / "channels", str(town.channel.id)
    place = place_of(root, copied.blobs(), town, "ch second")
    bytes_left = place.content.read_bytes()
    SORTS["state garbage"](place)
    copied.run("channel", "fsck", number, "--repair", code=1)
    kept = [one for one in (root / "ch" / number / "damaged").iterdir() if one.is_file()]
    assert bytes_left in [one.read_bytes() for one in kept]
    copied.run("channel", "remove", number, "--why", "a test", "--yes")
    copied.run("channel", "run", "--until-idle")
    assert not [one for one in root.rglob(f"*/{number}/**/*") if one.is_file() and "@" in one.name]


def test_a_later_version_s_blob_and_one_that_is_not_given_are_left_alone(
    town: Town, copied: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    number, root = str(town.channel.id), copied.folder / "channels"
    place = place_of(root, copied.blobs(), town, "ch second")
    before = place.state.read_bytes()
    later = json.loads(before) | {"dialect": 2}
    later.pop("sum", None)
    place.state.write_text(json.dumps(later))
    said = copied.run("channel", "verify", number, "--mend", code=1)
    assert "a later version" in said
    assert json.loads(place.state.read_text())["dialect"] == 2
    kept, told = exported(copied, town.channel, 1)
    assert len(kept) >= len(town.whole) - CAPACITY
    assert told
    assert state(copied, town.channel) == "damaged"
    place.state.write_bytes(before)
    shut = os.open

    def refuse(path: object, *args: object, **named: object) -> int:
        if str(path).startswith(str(place.content.with_name(place.content.name[:20]))):
            raise PermissionError(13, "Permission denied", str(path))
        return shut(path, *args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refuse)
    said = copied.run("channel", "verify", number, "--mend", code=1)
    assert "Permission denied" in said
    assert len(exported(copied, town.channel, 1)[0]) >= len(town.whole) - CAPACITY
    copied.run("channel", "run", "--until-idle", code=1)
    monkeypatch.undo()
    copied.run("channel", "verify", number)
    assert exported(copied, town.channel, 0)[0] == town.whole
    assert state(copied, town.channel) == "whole"


def test_what_was_erased_is_known_to_be_so_when_its_leaf_is_lost(town: Town, copied: Office) -> None:
    """Else a page from a cache would bring it back."""
    SORTS["missing"](place_of(copied.folder / "channels", copied.blobs(), town, "ch first"))
    copied.run("channel", "verify", str(town.channel.id), "--mend", code=1)
    found = copied.table(town.channel.id).search(town.erased)
    assert found
    assert found.deleted_at == "2026-02-01T00:00:00+00:00"
    all_is_back(copied, town)


def test_a_table_of_which_a_part_is_lost_is_not_swept(town: Town, copied: Office) -> None:
    blobs = copied.blobs()
    blobs.commit(orphan := f"ch/{town.channel.id}/leaf/old.jsonl", [])
    SORTS["missing"](place_of(copied.folder / "channels", blobs, town, "ch second"))
    assert Table(copied.blobs(), town.channel.id).sweep(datetime(2100, 1, 1, tzinfo=UTC)) == []
    assert copied.blobs().head(orphan)


# --- Whole tables, all of them, or the store: what is gone says nothing of itself ---


def told_everywhere(here: Office, channel: Channel, word: str) -> None:
    number = str(channel.id)
    assert word in here.run("channel", "export", number, str(here.folder / "o.jsonl"), "--jsonl", code=1)
    assert word in here.run("channel", "search", number, "--since", "2016-01-01", code=1)
    assert word in here.run("channel", "gaps", number, code=1)
    assert word in here.run("channel", "why", number).splitlines()[0]
    assert state(here, channel) == "damaged"
    assert "WRONG" in here.run("channel", "fsck", number, code=1)
    assert "WRONG" in here.run("channel", "verify", number, "--pages", "0", code=1)


@pytest.mark.parametrize("folder", ["ch", "seen", "files"])
def test_a_table_that_is_gone_whole_is_damage_and_not_an_empty_one(town: Town, copied: Office, folder: str) -> None:
    number = str(town.channel.id)
    shutil.rmtree(copied.folder / "channels" / folder / number)
    told_everywhere(copied, town.channel, "nothing of it is there")
    assert state(copied, town.other) == "whole"
    said = copied.run("channel", "run", "--until-idle", code=(0, 1) if folder == "files" else 1)
    assert folder == "files" or "accept-loss" in said
    all_is_back(copied, town)


def test_a_sync_tells_of_a_table_that_is_gone_though_nobody_has_noticed(town: Town, copied: Office) -> None:
    number = str(town.channel.id)
    shutil.rmtree(copied.folder / "channels" / "ch" / number)
    copied.run("channel", "sync", number)
    assert "may be lost" in copied.run("channel", "run", "--until-idle", code=1)
    assert "lost" in copied.run("channel", "gaps", number)
    all_is_back(copied, town)


@pytest.mark.parametrize("mount_point", [True, False] if FULL else [True])
def test_nothing_is_made_where_all_channels_were_until_somebody_says_so(
    town: Town, copied: Office, mount_point: bool
) -> None:
    number, root = str(town.channel.id), copied.folder / "channels"
    shutil.rmtree(root)
    if mount_point:
        root.mkdir()
    words = [["run", "--until-idle"], ["verify", number], ["verify", number, "--pages", "0"], ["fsck", number]]
    words += [["export", number, str(copied.folder / "o"), "--jsonl"], ["gaps", number], ["why", number], ["list"]]
    words += [["search", number, "--since", "2016-01-01"], ["tiers"], ["accept-loss", number, "--why", "a test"]]
    for some in words:
        assert "2 channels were kept in it" in copied.run("channel", *some, code=2), some
    assert not root.exists() or not list(root.iterdir())
    copied.run("channel", "verify", number, "--mend", code=1)
    assert state(copied, town.other) == "damaged"
    copied.run("channel", "run", "--until-idle", code=1)
    assert state(copied, town.other) == "damaged", "what of it is lost is told until somebody knows"
    copied.run("channel", "accept-loss", str(town.other.id), "--why", "a test")
    all_is_back(copied, town)


@pytest.mark.parametrize("since", ["more", "edited"])
def test_an_older_copy_in_the_place_of_the_blobs_is_told(town: Town, copied: Office, since: str) -> None:
    root, older = copied.folder / "channels", copied.folder / "older"
    third = town.world.add(0, f"third-{since}", 40)
    number = str(third.id)
    copied.run("channel", "add", number)
    copied.run("channel", "run", "--until-idle")
    ids = ids_of(town.world, third)
    town.world.edit(third, ids[-3], datetime(2026, 6, 2, tzinfo=UTC), "edited")
    copied.run("channel", "sync", number)
    copied.run("channel", "run", "--until-idle")
    shutil.copytree(root, older, symlinks=True)
    if since == "more":
        town.world.post(third, 10)
    else:
        town.world.edit(third, ids[-3], datetime(2026, 6, 3, tzinfo=UTC), "edited since")
    copied.run("channel", "sync", number)
    copied.run("channel", "run", "--until-idle")
    assert state(copied, third) == "whole"
    shutil.rmtree(root)
    older.rename(root)
    told_everywhere(copied, third, "older here than the store knows")
    assert state(copied, town.channel) == "whole"
    copied.run("channel", "run", "--until-idle", code=1)
    assert state(copied, third) == "damaged"
    assert copied.same(third)


def test_blobs_that_the_store_does_not_know_are_told(town: Town, copied: Office) -> None:
    for file in copied.folder.glob("custody.db*"):
        file.unlink()
    said = copied.run("channel", "run", "--until-idle", code=1)
    assert "2 channels that this store does not know" in said
    assert str(town.channel.id) in said
    assert "does not know" in copied.run("channel", "list")
    for one in (town.channel, town.other):
        copied.run("channel", "add", str(one.id))
    copied.run("channel", "run", "--until-idle")
    assert exported(copied, town.channel, 0)[0] == town.whole


def test_what_an_installation_of_before_has_is_noted_by_its_next_sync(town: Town, copied: Office) -> None:
    number = town.channel.id
    with open_store(f"sqlite:///{copied.folder}/custody.db") as store:
        Notes(store).forget(number)
        assert not held.lacking(store, copied.blobs(), number)
    copied.run("channel", "sync", str(number))
    copied.run("channel", "run", "--until-idle")
    with open_store(f"sqlite:///{copied.folder}/custody.db") as store:
        assert {name for name, value in Notes(store).of(number).items() if value} >= {"held_ch", "held_seen"}


# --- The same on Azure: a blob there is missing, or was put there whole by somebody else ---


def gone(container: Any, name: str, _: str) -> None:
    container.delete_blob(name)


def shorter(container: Any, name: str, _: str) -> None:
    data = container.download_blob(name).readall()
    container.upload_blob(name, data[: len(data) // 2], overwrite=True)


def nonsense(container: Any, name: str, _: str) -> None:
    container.upload_blob(name, os.urandom(300), overwrite=True)


def hollow(container: Any, name: str, _: str) -> None:
    container.upload_blob(name, b"", overwrite=True)


def exchanged(container: Any, name: str, other: str) -> None:
    blobs = Azure(container)
    ids, head = blobs.blocks(other), blobs.head(other)
    data, start = blobs.read(other).data, 0
    assert head is not None
    container.delete_blob(name)
    for one, size in zip(ids.ids, ids.sizes, strict=True):
        blobs.stage(name, [(one, data[start : start + size])])
        start += size
    blobs.commit(name, ids.ids, head.facts)


AZURE: list[Callable[[Any, str, str], None]] = [gone, shorter, nonsense, hollow, exchanged]
ON_AZURE = [
    (spoil, what)
    for spoil in AZURE
    for what in BLOBS
    if FULL or (spoil, what) == (shorter, "ch second")  # Azurite is slow
]


@pytest.mark.parametrize(("spoil", "what"), ON_AZURE, ids=[f"{what} {spoil.__name__}" for spoil, what in ON_AZURE])
def test_the_same_holds_on_azure(
    town: Town, memory_folder: Path, azurite: Any, spoil: Callable[[Any, str, str], None], what: str
) -> None:
    folder, container = memory_folder / "copy", "t" + os.urandom(8).hex()
    shutil.copytree(town.here.folder, folder, ignore=shutil.ignore_patterns("channels"))
    (folder / "azure.connection").write_text(azurite.connection_string)
    here = Office(folder, town.here.standin, capacity=CAPACITY, look_hours=0, container=container)
    blobs = here.blobs()
    _copy(town.here.blobs(), blobs)
    names = blob(blobs, town.channel, what), blob(blobs, town.other, what)
    spoil(blobs._container, *names)  # type: ignore[attr-defined]
    if FULL:
        every_command(here, town, what)
    kept, told = exported(here, town.channel)
    assert len(kept) >= len(town.whole) - CAPACITY or what == "ch root"
    assert told or not what.startswith("ch")
    assert state(here, town.other) == "whole"
    said = here.run("channel", "verify", str(town.channel.id), "--mend", "--pages", "1", code=(0, 1))
    assert "not mended" not in said
    all_is_back(here, town)


def test_a_container_that_is_gone_is_not_made_anew(town: Town, memory_folder: Path, azurite: Any) -> None:
    folder, container = memory_folder / "copy", "t" + os.urandom(8).hex()
    shutil.copytree(town.here.folder, folder, ignore=shutil.ignore_patterns("channels"))
    (folder / "azure.connection").write_text(azurite.connection_string)
    here = Office(folder, town.here.standin, capacity=CAPACITY, look_hours=0, container=container)
    for words in (["run", "--until-idle"], ["verify", str(town.channel.id), "--pages", "0"]):
        assert "2 channels were kept in it" in here.run("channel", *words, code=2)
    assert not ContainerClient.from_connection_string(azurite.connection_string, container).exists()
    blobs = here.blobs()
    _copy(town.here.blobs(), blobs)
    assert {int(one) for one in blobs.folders("ch/")} == {town.channel.id, town.other.id}
    here.run("channel", "run", "--until-idle")


def _copy(blobs: Blobs, there: Blobs) -> None:
    for folder in HELD:
        for about in blobs.list(f"{folder}/"):
            found, data, start = blobs.blocks(about.name), blobs.read(about.name).data if about.size else b"", 0
            for one, size in zip(found.ids, found.sizes, strict=True):
                there.stage(about.name, [(one, data[start : start + size])])
                start += size
            there.commit(about.name, found.ids, about.facts)


# --- A disk that is full ---


@dataclass
class Full:
    """Takes so many bytes, and then no more; may be made larger."""

    left: int
    write: Callable[..., int] = os.pwrite

    def __call__(self, handle: int, data: Any, offset: int) -> int:
        if self.left <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = self.write(handle, data[: self.left], offset)
        self.left -= taken
        return taken


def versions(here: Office, channel: Channel) -> dict[int, tuple[bytes, ...]]:
    return {one.id: one.versions for one in here.table(channel.id).between() if one.versions}


@pytest.mark.parametrize("room", [0, 500, 5_000, 20_000])
def test_a_full_disk_loses_nothing_and_the_next_run_goes_on(
    town: Town, copied: Office, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    third = town.world.add(0, f"third-{room}", 60)
    number, before = str(third.id), versions(copied, town.channel)
    copied.run("channel", "add", number)
    disk = Full(room)
    monkeypatch.setattr(os, "pwrite", disk)
    copied.run("channel", "run", "--until-idle", "--max-minutes", "0.02", code=(1, 75))
    assert "the disk takes no more" in copied.run("channel", "why", number)
    held = versions(copied, third)
    disk.left = 1 << 40
    copied.run("channel", "sync", number)
    copied.run("channel", "run", "--until-idle", code=(0, 75))
    assert exported(copied, third, 0)[0] == set(ids_of(town.world, third))
    now = versions(copied, third)
    assert all(now[one] == lines for one, lines in held.items())
    assert versions(copied, town.channel) == before
    assert {one.code for one in copied.table(third.id).check()} <= {"orphan"}


@pytest.mark.parametrize("room", [0, 300, 3_000, 9_000])
def test_a_disk_that_is_full_while_it_is_mended_loses_nothing_more(
    town: Town, copied: Office, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    number = str(town.channel.id)
    SORTS["state garbage"](place_of(copied.folder / "channels", copied.blobs(), town, "ch second"))
    before = versions(copied, town.channel)
    disk = Full(room)
    monkeypatch.setattr(os, "pwrite", disk)
    said = copied.run("channel", "verify", number, "--mend", code=(1, 2))
    assert "the disk takes no more" in said
    held = versions(copied, town.channel)
    assert all(held[one] == lines for one, lines in before.items())
    assert state(copied, town.channel) == "damaged", "it is not forgotten that something was lost"
    disk.left = 1 << 40
    copied.run("channel", "verify", number, "--mend", code=1)
    all_is_back(copied, town)

"""What is damaged here, or lost, is told by every command from one record, until somebody says that he knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from channels.desk import ids_of
from channels.office import QUICK, Office, office
from custody.demo.standins.discord_guild import Channel, World

Archive = tuple[Office, Channel]


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    world = World(seed=3)
    channel = world.add(0, "general", 130)
    with office(tmp_path, world, QUICK, capacity=30, look_hours=0) as here:
        here.run("channel", "add", str(channel.id))
        here.run("channel", "run", "--until-idle")
        yield here, channel


def leaf(archive: Archive, kind: str) -> Path:
    """The second leaf's content or state on the disk."""
    here, channel = archive
    (folder,) = here.folder.rglob(f"ch/{channel.id}/leaf")
    state = sorted(folder.glob("*@state"))[1]
    return state if kind == "state" else next(folder.glob(state.name.removesuffix(".jsonl@state") + "@*.jsonl"))


def empty(archive: Archive) -> None:
    leaf(archive, "content").write_bytes(b"")


def cut(archive: Archive) -> None:
    path = leaf(archive, "content")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(archive: Archive) -> None:
    path = leaf(archive, "content")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def cut_state(archive: Archive) -> None:
    path = leaf(archive, "state")
    path.write_bytes(path.read_bytes()[:100])


HARMS = {"emptied": empty, "cut": cut, "flipped": flip}


@pytest.mark.parametrize("command", [("fsck",), ("verify", "--pages", "0")], ids=["fsck", "verify"])
@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
def test_what_a_look_finds_is_written_down_and_mended_by_the_next_sync(
    archive: Archive, harm: Callable[[Archive], None], command: tuple[str, ...]
) -> None:
    here, channel = archive
    number = str(channel.id)
    harm(archive)
    here.run("channel", command[0], number, *command[1:], code=1)
    assert "damaged here" in here.run("channel", "why", number, code=(0, 1))
    assert "damaged" in here.run("channel", "list")
    here.run("channel", "sync", number)
    here.run("channel", "run", "--until-idle", code=(0, 1))
    assert not here.differs(channel)


def test_a_lost_part_is_told_by_export_and_search_until_somebody_accepts_it(archive: Archive, tmp_path: Path) -> None:
    here, channel = archive
    number, ids = str(channel.id), ids_of(here.world, channel)
    here.world.delete(channel, ids[35])
    cut_state(archive)
    target = str(tmp_path / "out.jsonl")
    for step in (("fsck", number, "--repair"), ("run", "--until-idle")):
        here.run("channel", *step, code=1)
        here.run("channel", "export", number, target, "--jsonl", code=1)
        assert "may be lost" in here.run("channel", "search", number, str(ids[35]), code=1)
    here.run("channel", "accept-loss", number, "--why", "test")
    here.run("channel", "export", number, target, "--jsonl")
    assert "is not kept" in here.run("channel", "search", number, str(ids[35]), code=2)


def test_a_leaf_that_was_cut_is_mended_in_one_call(archive: Archive) -> None:
    here, channel = archive
    cut(archive)
    here.run("channel", "verify", str(channel.id), "--mend", code=(0, 1))
    assert not here.differs(channel)

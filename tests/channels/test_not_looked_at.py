"""What was not looked at, or never fetched, is not called whole: it is told, and the code says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from channels.desk import Desk, opened
from channels.office import QUICK, office
from custody.channels.condition.standing import lack_of
from custody.channels.context import Request
from custody.channels.jobs import add_job, remove_job
from custody.channels.requests import by_jobs
from custody.demo.standins.discord_guild import World
from custody.kernel.model.authority.acting import system


@pytest.mark.parametrize("trouble", ["", "unreadable"])
def test_a_channel_that_was_never_synced_is_not_exported_as_if_it_were(tmp_path: Path, trouble: str) -> None:
    world = World(seed=8)
    channel = world.add(0, "general", 30)
    with office(tmp_path, world, QUICK) as here:
        number = str(channel.id)
        here.run("channel", "add", number)
        desk_add(here.folder, number)
        if trouble:
            channel.unreadable = True
            here.run("channel", "run", "--until-idle", code=(0, 1, 75))
        code = 1 if trouble else 75
        for form in ("--jsonl", "--sqlite", "--html"):
            said = here.run("channel", "export", number, str(tmp_path / f"out{form}"), form, code=code)
            assert "never synced" in said
        said = here.run("channel", "verify", number, "--pages", "0", code=code)
        assert "never synced" in said


def desk_add(folder: Path, number: str) -> None:
    """The channel is known, and nobody has fetched anything of it yet."""
    from custody.channels.context import noted
    from custody.config import read
    from custody.kernel.stores import open_store

    with open_store(read(folder / "custody.toml").store) as store:
        facts = {"mirrored": "yes", "title": "general", "guild": "1", "kind": 0, "by_number": True}
        store.records.put((noted(int(number), **facts),))
        for job in list(store.queue.every()):
            store.queue.delete(job.id, "me", "not yet")


def test_a_channel_that_was_synced_and_is_empty_is_whole(memory_folder: Path) -> None:
    with opened(memory_folder, count=0) as desk:
        desk.mirror_all()
        assert lack_of(desk.store, desk.mirror.blobs, desk.channel.id) == ("", 0)


@pytest.mark.parametrize("command", [("verify",), ("verify", "--pages", "0"), ("fsck",), ("gaps",)])
def test_a_channel_that_was_removed_is_not_called_fine(tmp_path: Path, command: tuple[str, ...]) -> None:
    world = World(seed=8)
    channel = world.add(0, "general", 30)
    with office(tmp_path, world, QUICK) as here:
        number = str(channel.id)
        here.run("channel", "add", number)
        here.run("channel", "run", "--until-idle")
        kept = {path: path.read_bytes() for path in (here.folder / "channels").rglob("*") if path.is_file()}
        here.run("channel", "remove", number, "--yes", "--why", "test")
        here.run("channel", "run", "--until-idle")
        said = here.run("channel", command[0], number, *command[1:], code=3)
        assert "removed" in said
        assert "nothing is wrong" not in said
        if command[0] == "gaps":
            return
        for path, data in kept.items():  # somebody has put a copy back
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        assert "still here" in here.run("channel", command[0], number, *command[1:], code=3)


def test_a_removal_that_is_asked_for_twice_is_one(memory_folder: Path) -> None:
    with opened(memory_folder, count=30) as desk:
        _twice(desk)


def _twice(desk: Desk) -> None:
    desk.mirror_all()
    ask, me = by_jobs(desk.store).ask, system("me")
    ask(Request("remove", desk.channel.id, why="asked"), me)
    assert "asked for before" in ask(Request("remove", desk.channel.id, why="asked"), me)
    desk.run()
    assert desk.events().count("removed") == 1
    desk.store.queue.submit_one(add_job(desk.channel.id))
    desk.run()
    desk.store.queue.submit_one(remove_job(desk.channel.id, "a job of the store's own needs no order"))
    desk.run()
    assert desk.state() == "removed"

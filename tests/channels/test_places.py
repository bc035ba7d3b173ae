"""What a channel is said to be, its kind, server, parent and name, is one answer's word, and can be taken back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from channels.desk import Desk, opened
from channels.office import QUICK, add, office
from custody.channels import places
from custody.channels.crawl import look_around
from custody.channels.jobs import add_job, item_id, sync_job, watch
from custody.demo.standins.discord_guild import FORUM, Channel, World
from custody.demo.standins.discord_traffic import Reply

THREAD = {"archived": True, "archive_timestamp": "2026-01-01T00:00:00+00:00", "locked": False}


@pytest.fixture(params=["sqlite", "postgres"])
def desk(request: pytest.FixtureRequest, memory_folder: Path) -> Iterator[Desk]:
    url = "sqlite://:memory:" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    with opened(memory_folder, count=150, url=url) as desk:
        desk.mirror.discord.sleep = lambda _: None
        desk.mirror = replace(desk.mirror, look_hours=0.0, round_days=0.0)
        yield desk


def lie(desk: Desk, channel: Channel, times: int = 10_000, **facts: Any) -> None:
    """So many answers about the channel say something else."""
    left = [times]

    def odd(path: str, _: dict[str, str], reply: Reply) -> Reply:
        if path != f"/channels/{channel.id}" or not left[0]:
            return reply
        left[0] -= 1
        return Reply(200, {**reply.body, **facts})

    desk.standin.switches.odd = odd


def look(desk: Desk, minutes: float = 11) -> None:
    """As the watch does, some time later."""
    desk.clock.ahead += 60 * minutes
    watch(desk.mirror)
    desk.run()


def detail(desk: Desk, channel: int = 0) -> dict[str, Any]:
    return dict(desk.store.records.item(item_id(channel or desk.channel.id)).detail)


def pages(desk: Desk, channel: int) -> int:
    return sum(path.startswith(f"/api/v10/channels/{channel}/messages?") for path, _ in desk.standin.asked)


@pytest.mark.parametrize("kind", [15, 16, 4, 99, -1])
@pytest.mark.parametrize("times", [1, 2, 5])
def test_a_wrong_kind_does_not_keep_a_channel_from_being_read(desk: Desk, kind: int, times: int) -> None:
    lie(desk, desk.channel, times, type=kind)
    desk.mirror_all()
    assert desk.ids() == desk.theirs(), "one answer's word does not keep us from asking"
    desk.standin.world.post(desk.channel, 5)
    for _ in range(times + 1):
        look(desk)
    assert detail(desk)["kind"] == 0
    desk.standin.world.post(desk.channel, 5)
    look(desk)
    assert desk.ids() == desk.theirs()


def test_a_channel_whose_messages_are_kept_is_never_taken_for_a_forum(desk: Desk) -> None:
    desk.mirror_all()
    lie(desk, desk.channel, type=15)
    for _ in range(3):
        desk.standin.world.post(desk.channel, 5)
        look(desk)
        assert desk.ids() == desk.theirs(), "it says so again and again, and has messages all the same"


def test_an_empty_channel_that_was_called_a_forum_twice_is_read_when_it_is_called_otherwise(desk: Desk) -> None:
    channel = desk.standin.world.add(0, "new", 0)
    lie(desk, channel, type=15)
    desk.store.queue.submit_one(add_job(channel.id))
    desk.run()
    look(desk)
    look(desk)
    assert detail(desk, channel.id)[places.SURE]
    asked = pages(desk, channel.id)
    desk.standin.world.post(channel, 7)
    look(desk)
    assert pages(desk, channel.id) == asked, "two witnesses are enough not to be asked"
    desk.standin.switches.odd = None
    look(desk)
    assert desk.ids(channel.id) == desk.theirs(channel)
    assert "described otherwise" in desk.events(channel.id)


def test_a_forum_is_asked_for_messages_once_and_that_is_the_second_witness(desk: Desk) -> None:
    forum = desk.standin.world.add(FORUM, "questions", 4)
    desk.standin.world.add_thread(forum, 0, 3)
    desk.store.queue.submit_one(add_job(forum.id))
    desk.run()
    for _ in range(3):
        desk.store.queue.submit_one(sync_job(forum.id))
        look(desk)
    assert pages(desk, forum.id) == 1
    assert (detail(desk, forum.id)[places.SURE], "trouble" in detail(desk, forum.id)) == (
        ["channel", "messages"],
        False,
    )
    assert len(desk.ids(forum.id)) == 0


def test_a_channel_that_was_called_an_archived_thread_is_looked_at_by_itself(desk: Desk) -> None:
    lie(desk, desk.channel, times=3, type=11, thread_metadata=THREAD, parent_id="5")
    desk.mirror_all()
    for _ in range(4):
        desk.standin.world.post(desk.channel, 3)
        look(desk)
    assert (detail(desk)["kind"], detail(desk).get("parent")) == (0, "")
    assert desk.ids() == desk.theirs()


def test_a_thread_that_was_called_a_channel_comes_under_its_parent(desk: Desk) -> None:
    thread = desk.standin.world.add_thread(desk.channel, 3, 12)
    desk.standin.switches.odd = lambda path, _, reply: (
        Reply(200, {**reply.body, "thread_metadata": None, "type": 0, "parent_id": None})
        if path == f"/channels/{thread.id}"
        else reply
    )
    desk.store.queue.submit_one(add_job(thread.id))
    desk.run()
    assert not detail(desk, thread.id).get("parent")
    desk.standin.switches.odd = None
    look(desk)
    look(desk)
    assert detail(desk, thread.id)["parent"] == str(desk.channel.id)
    assert detail(desk, thread.id)[places.SURE] == ["channel", "channel"]


def test_name_and_server_are_the_last_ones_that_were_told(desk: Desk) -> None:
    lie(desk, desk.channel, times=2, name="gener\x1b[31mal?", guild_id="77")
    desk.mirror_all()
    assert detail(desk)["guild"] == "77"
    look(desk)
    assert (detail(desk)["title"], detail(desk)["guild"]) == ("general", "77"), "another server is to be said twice"
    look(desk)
    assert (detail(desk)["title"], detail(desk)["guild"]) == ("general", str(desk.standin.world.guild))
    lie(desk, desk.channel, name=None, guild_id=None)
    look(desk)
    assert (detail(desk)["title"], detail(desk)["guild"]) == ("general", str(desk.standin.world.guild))


def test_a_service_that_changes_its_word_with_each_answer_fills_no_history(desk: Desk) -> None:
    desk.mirror_all()
    said = [0]

    def odd(path: str, _: dict[str, str], reply: Reply) -> Reply:
        if path != f"/channels/{desk.channel.id}":
            return reply
        said[0] += 1
        return Reply(200, {**reply.body, "type": (0, 15)[said[0] % 2], "name": f"name {said[0]}"})

    desk.standin.switches.odd = odd
    for _ in range(60):
        look(desk, minutes=0.5)
    assert desk.events().count("described otherwise") <= 2 * 30 / 10 + 1
    desk.standin.world.post(desk.channel, 5)
    look(desk)
    assert desk.ids() == desk.theirs()


@pytest.mark.parametrize("odd", [["type"], {"a": 1}, None, "15", True, 1.5])
def test_a_kind_that_is_no_number_stops_nobody(desk: Desk, odd: Any) -> None:
    desk.mirror_all()
    thread = desk.standin.world.add_thread(desk.channel, 3, 4)
    change: Callable[[dict[str, Any]], dict[str, Any]] = lambda one: {**one, "type": odd}  # noqa: E731

    def lists(path: str, _: dict[str, str], reply: Reply) -> Reply:
        if "/threads/" not in path:
            return reply
        return Reply(200, {**reply.body, "threads": [change(one) for one in reply.body["threads"]]})

    desk.standin.switches.odd = lists
    assert look_around.around(desk.mirror)
    look(desk)
    assert desk.ids(thread.id) == desk.theirs(thread)


def test_an_unknown_kind_is_read_and_told(tmp_path: Path) -> None:
    world = World(seed=3)
    world.add(77, "of-tomorrow", 40)
    with office(tmp_path, world, QUICK) as here:
        channel = add(here)
        assert len(list(here.table(channel.id).between())) == 40
        assert "its type, 77, is not known here" in here.run("channel", "why", str(channel.id))

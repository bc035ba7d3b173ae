"""A removal deletes what its operator was shown when he said it: no later answer of the service makes that more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from channels.desk import Desk, opened
from channels.office import QUICK, add, office
from custody.channels.context import Request
from custody.channels.crawl import look_around
from custody.channels.jobs import add_job, item_id, job_of, sync_job, watch
from custody.channels.messages.deletions import policy_of
from custody.channels.removal import removal
from custody.demo.standins.discord_guild import Channel, World
from custody.demo.standins.discord_traffic import Reply

THREAD = {"archived": False, "archive_timestamp": "2026-05-01T00:00:00+00:00", "locked": False}


@pytest.fixture(params=["sqlite", "postgres"])
def desk(request: pytest.FixtureRequest, memory_folder: Path) -> Iterator[Desk]:
    url = "sqlite://:memory:" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    with opened(memory_folder, count=60, url=url) as desk:
        desk.mirror.discord.sleep = lambda _: None
        desk.mirror = replace(desk.mirror, look_hours=0.01, round_days=0.0)
        yield desk


def victim_of(desk: Desk) -> Channel:
    """A channel of its own, added by its number like the first one."""
    other = desk.standin.world.add(0, "victim", 50)
    desk.mirror_all()
    desk.store.queue.submit_one(add_job(other.id))
    desk.run()
    assert desk.ids(other.id) == desk.theirs(other)
    return other


def call_it_a_thread(desk: Desk, other: Channel, itself: int = 200) -> None:
    """The guild's list calls a channel a thread of the first; asked itself, it tells the truth or stumbles."""

    def odd(path: str, _: dict[str, str], reply: Reply) -> Reply:
        if path.endswith("/threads/active"):
            about = desk.standin.world.about(other) | {"type": 11, "parent_id": str(desk.channel.id)}
            return Reply(200, {"threads": [about | {"thread_metadata": THREAD}], "members": []})
        return Reply(itself, {}) if path.startswith(f"/channels/{other.id}") and itself != 200 else reply

    desk.standin.switches.odd = odd


def remove(desk: Desk, channel: int, **more: Any) -> None:
    desk.store.queue.submit_one(job_of(Request("remove", channel, why="test", **more)))


def detail(desk: Desk, channel: int) -> dict[str, Any]:
    return dict(desk.store.records.item(item_id(channel)).detail)


@pytest.mark.parametrize("itself", [200, 500])
@pytest.mark.parametrize("looks", [1, 3])
def test_a_list_that_lies_while_a_removal_waits_deletes_no_channel_that_was_added(
    desk: Desk, itself: int, looks: int
) -> None:
    other = victim_of(desk)
    mine = desk.ids(other.id)
    along = removal.goes_along(desk.store, desk.channel.id).along
    assert along == ()
    desk.store.queue.hold("kind", "channel/remove", "me", "it waits")
    remove(desk, desk.channel.id, along=along)
    call_it_a_thread(desk, other, itself)
    for _ in range(looks):
        desk.clock.ahead += 660
        look_around.around(desk.mirror)
    assert "described otherwise" in desk.events(other.id), "the lie was heard"
    desk.store.queue.lift("kind", "channel/remove", "me", "now")
    desk.run()
    assert desk.state() == "removed"
    assert (desk.ids(other.id), desk.state(other.id)) == (mine, "yes")
    assert not detail(desk, other.id).get("removed_with")


def test_a_channel_that_was_added_by_its_number_is_never_taken_along(desk: Desk) -> None:
    """Also one that is a thread, by all witnesses: who wants it gone names it."""
    one = desk.standin.world.add_thread(desk.channel, 3, 20)
    other = desk.standin.world.add_thread(desk.channel, 9, 20)
    desk.mirror_all()
    desk.store.queue.submit_one(add_job(other.id))
    desk.run()
    found = removal.goes_along(desk.store, desk.channel.id)
    assert (found.along, found.stays) == ((one.id,), (other.id,))
    remove(desk, desk.channel.id, along=(one.id, other.id))
    desk.run()
    assert (desk.state(one.id), desk.state(other.id)) == ("removed", "yes")
    assert desk.ids(other.id) == desk.theirs(other)
    desk.standin.world.post(other, 3)
    watch(desk.mirror)
    desk.run()
    assert desk.ids(other.id) == desk.theirs(other), "it is looked at by itself, since nobody lists it any more"
    remove(desk, other.id)
    desk.run()
    assert list(desk.mirror.blobs.list("")) == []


def test_a_thread_that_is_found_after_the_word_stays(desk: Desk) -> None:
    desk.mirror_all()
    along = removal.goes_along(desk.store, desk.channel.id).along
    late = desk.standin.world.add_thread(desk.channel, 9, 20)
    desk.store.queue.submit_one(sync_job(desk.channel.id))
    desk.run()
    remove(desk, desk.channel.id, along=along)
    desk.run()
    assert (desk.state(), desk.state(late.id)) == ("removed", "yes")
    told = [one for one in desk.store.records.events(f"item/{item_id(desk.channel.id)}") if one.type == "removed"]
    assert told[-1].detail["stays"] == [str(late.id)], "and the history says which"


def test_a_job_of_before_that_says_nothing_of_threads_takes_none(desk: Desk) -> None:
    one = desk.standin.world.add_thread(desk.channel, 3, 20)
    desk.mirror_all()
    remove(desk, desk.channel.id)
    desk.run()
    assert (desk.state(), desk.state(one.id)) == ("removed", "yes")


def test_lists_alone_never_make_sure_of_a_parent(desk: Desk) -> None:
    other = victim_of(desk)
    call_it_a_thread(desk, other, itself=500)
    for _ in range(4):
        desk.clock.ahead += 3_600
        look_around.around(desk.mirror)
    told = detail(desk, other.id)
    assert (told["parent"], told["kind_sure"]) == (str(desk.channel.id), False)
    desk.standin.switches.odd = lambda path, query, reply: reply
    desk.clock.ahead += 12 * 3_600
    watch(desk.mirror)
    desk.run()
    assert not detail(desk, other.id)["parent"], "asked itself, it says otherwise"


def test_another_server_that_one_answer_names_changes_no_policy(desk: Desk) -> None:
    """Neither to erase what was kept, nor to take it out of a server's `keep`."""
    desk.mirror_all()
    desk.clock.ahead += 660
    desk.store.queue.submit_one(sync_job(desk.channel.id))
    desk.run()
    mirror = replace(desk.mirror, policies={"99": "tombstone"})
    other = replace(desk.mirror, deleted="tombstone", policies={str(desk.standin.world.guild): "keep"})

    def keeps() -> list[str]:
        item = desk.store.records.item(item_id(desk.channel.id))
        return [str(policy_of(one, item)) for one in (mirror, other)]

    assert keeps() == ["keep", "keep"]

    def odd(path: str, _: dict[str, str], reply: Reply) -> Reply:
        return Reply(200, {**reply.body, "guild_id": "99"}) if path == f"/channels/{desk.channel.id}" else reply

    desk.standin.switches.odd = odd
    look_around.around(desk.mirror)
    assert keeps() == ["keep", "keep"]
    desk.clock.ahead += 660
    look_around.around(desk.mirror)
    assert keeps() == ["tombstone", "tombstone"], "what it says ten minutes later as well is believed"


def test_the_server_that_the_first_answer_names_erases_nothing_before_it_is_said_again(desk: Desk) -> None:
    guild = str(desk.standin.world.guild)
    desk.mirror = replace(desk.mirror, policies={guild: "tombstone"})
    desk.mirror_all()
    assert str(policy_of(desk.mirror, desk.store.records.item(item_id(desk.channel.id)))) == "keep"
    desk.clock.ahead += 660
    look_around.around(desk.mirror)
    assert str(policy_of(desk.mirror, desk.store.records.item(item_id(desk.channel.id)))) == "tombstone"


def test_a_list_that_calls_a_channel_archived_does_not_stop_its_looks(desk: Desk) -> None:
    other = victim_of(desk)

    def odd(path: str, _: dict[str, str], reply: Reply) -> Reply:
        if path.endswith("/threads/active"):
            about = desk.standin.world.about(other) | {"type": 11, "parent_id": str(desk.channel.id)}
            return Reply(200, {"threads": [about | {"thread_metadata": THREAD | {"archived": True}}], "members": []})
        return reply

    desk.standin.switches.odd = odd
    look_around.around(desk.mirror)
    desk.clock.ahead += 3_600
    assert other.id in [one.channel for one in look_around.around(desk.mirror)], "quiet, and looked at again"


def test_the_command_names_what_goes_along_and_what_stays(tmp_path: Path) -> None:
    world = World(seed=3)
    channel = world.add(0, "general", 20)
    one, other = world.add_thread(channel, 3, 5), world.add_thread(channel, 9, 5)
    with office(tmp_path / "o", world, QUICK) as here:
        add(here)
        here.run("channel", "run", "--until-idle")
        here.run("channel", "add", str(other.id))
        here.run("channel", "run", "--until-idle")
        said = here.run("channel", "remove", str(channel.id), "--why", "test", "--yes")
        assert f"removed with it: {one.id}" in said
        assert f"stays: {other.id}" in said
        here.run("channel", "run", "--until-idle")
        assert here.run("channel", "list").count("removed") == 2
        assert "5 messages" in here.run("channel", "export", str(other.id), str(tmp_path / "x.jsonl"), "--jsonl")

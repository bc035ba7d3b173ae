"""Azure Storage queues as transport: every queue has a consumer, and no letter is lost, done for nothing or in the way."""

from __future__ import annotations

import base64
import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from channels.desk import Desk, opened
from channels.office import office
from custody.channels.context import Request, What
from custody.channels.crawl.kept import Kept
from custody.channels.removal.orders import ordered
from custody.demo.standins.discord_guild import World
from custody.demo.standins.discord_traffic import Switches
from rig.azurite import Azurite

pytest.importorskip("azure.storage.queue")

from azure.storage.queue import QueueServiceClient

from custody.channels.coordinators import azure_queues as queues_module
from custody.channels.coordinators.azure_queues import (
    CONSUMERS,
    MOST_TRIES,
    Post,
    Queues,
)
from custody.channels.coordinators.letters import OF_REQUESTS, Letter, letter_of

QUICK = Switches(bucket_limit=10_000, global_limit=100_000)


@pytest.fixture
def prefix() -> str:
    return "t" + os.urandom(4).hex() + "-"


@pytest.fixture
def queues(azurite: Azurite, prefix: str) -> Queues:
    return Queues(QueueServiceClient.from_connection_string(azurite.connection_string), prefix)


@pytest.fixture
def desk(memory_folder: Path) -> Iterator[Desk]:
    with opened(memory_folder, count=330) as desk:
        yield desk


@pytest.fixture
def post(queues: Queues, desk: Desk) -> Post:
    return Post(queues, desk.mirror, "tester", visible=30, again=0)


def deliver(post: Post) -> int:
    end = time.monotonic() + 60
    return post.run(lambda: time.monotonic() > end, until_idle=True)


def ask(post: Post, what: What, message: int = 0, channel: int = 0) -> None:
    post.queues.send(ordered(post.mirror.store, Request(what, channel, message, why="test"), "me"))


def test_a_channel_comes_and_goes_by_letters_alone(post: Post, desk: Desk) -> None:
    thread = desk.standin.world.add_thread(desk.channel, 7, 12)
    number = desk.channel.id
    ask(post, "add", channel=number)
    assert deliver(post) >= 5, "one letter a page"
    assert (desk.ids(), desk.ids(thread.id)) == (desk.theirs(), desk.theirs(thread))
    assert desk.events() == ["changed", "added", "described", "synced"]
    ask(post, "add", channel=number)
    deliver(post)
    assert desk.events() == ["changed", "added", "described", "synced"], "adding it again is no news"
    gone = desk.theirs()[3]
    desk.standin.world.delete(desk.channel, gone)
    ask(post, "review", gone, number)
    deliver(post)
    assert gone in desk.ids(), "kept here, and marked"
    assert Kept(desk.mirror, desk.channel.id).doubt(gone).marks
    desk.channel.unreadable = thread.unreadable = True  # we were kicked
    post.queues.send(ordered(desk.store, Request("remove", number, why="test", along=(thread.id,)), "me"))
    deliver(post)
    assert list(desk.mirror.blobs.list("")) == []
    assert (desk.state(), desk.state(thread.id)) == ("removed", "removed")


def test_a_letter_of_a_consumer_that_died_is_seen_again_and_its_page_does_no_harm_twice(
    post: Post, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    calls = 0

    def dies(*_: object) -> None:
        nonlocal calls
        calls += 1
        if calls in (2, 4):
            raise Killed

    original = Queues.drop

    def drop(self: Queues, *args: object) -> None:
        dies()
        original(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Queues, "drop", drop)  # after the page and the next letter, before this one is done with
    ask(post, "add", channel=desk.channel.id)
    short = Post(post.queues, post.mirror, "short", visible=1, again=0)
    deaths, end = 0, time.monotonic() + 60
    while desk.ids() != desk.theirs() or any(post.queues.waiting()[queue] for queue in CONSUMERS):
        assert time.monotonic() < end
        try:
            deliver(short)
        except Killed:
            deaths += 1
    assert deaths == 2
    assert desk.ids() == desk.theirs()


def test_who_wakes_after_its_time_leaves_the_letter_to_whoever_has_it_now(post: Post, desk: Desk) -> None:
    queues = post.queues
    ask(post, "add", channel=desk.channel.id)
    mine = queues.take("add-channel", 1)
    assert mine is not None
    end = time.monotonic() + 60
    while (theirs := queues.take("add-channel", 30)) is None:
        assert time.monotonic() < end
        time.sleep(0.05)
    queues.put_off("add-channel", mine, 0)
    queues.drop("add-channel", mine)
    assert queues.waiting()["add-channel"] == 1
    assert queues.take("add-channel", 30) is None, "it is still theirs"
    queues.drop("add-channel", theirs)
    queues.put_off("add-channel", theirs, 0)
    assert queues.waiting()["add-channel"] == 0


def test_letters_on_their_way_hide_nothing_that_is_new_elsewhere(tmp_path: Path, azurite: Azurite) -> None:
    world = World(seed=44)
    here, there = world.add(0, "here", 130), world.add(0, "there", 130)
    with office(tmp_path, world, QUICK, queues="azure") as archive:
        (archive.folder / "azure.connection").write_text(azurite.connection_string)
        for channel in (here, there):
            archive.run("channel", "add", str(channel.id))
        archive.run("channel", "run", "--until-idle")
        world.post(there, 3)
        archive.run("channel", "sync", str(here.id))
        assert "everything is up to date" in archive.run("channel", "run", "--until-idle")
        assert not archive.differs(there)


NO_LETTERS = {
    "not Base64": "hello, archive",
    "not JSON": base64.b64encode(b"hello").decode(),
    "no object": base64.b64encode(b"[1]").decode(),
    "no channel": base64.b64encode(b'{"chanel": "7"}').decode(),
    "no number": base64.b64encode(b'{"channel": "general"}').decode(),
}


def test_what_is_no_letter_is_put_aside_at_once_and_is_not_in_the_way(
    azurite: Azurite, prefix: str, post: Post, desk: Desk
) -> None:
    service = QueueServiceClient.from_connection_string(azurite.connection_string)
    client = service.get_queue_client(prefix + "add-channel")
    for text in NO_LETTERS.values():
        client.send_message(text)
    ask(post, "add", channel=desk.channel.id)
    deliver(post)
    assert desk.ids() == desk.theirs()
    assert {one["letter"] for one in post.queues.poisoned("add-channel")} == set(NO_LETTERS.values())
    assert all("not a letter" in one["why"] for one in post.queues.poisoned("add-channel"))


def test_a_letter_that_fails_every_time_is_put_aside_after_five_and_the_others_go_on(post: Post, desk: Desk) -> None:
    post.queues.post(Letter("review-message", {"channel": str(desk.channel.id), "message": "the last one"}))
    ask(post, "add", channel=desk.channel.id)
    deliver(post)
    assert desk.ids() == desk.theirs()
    (found,) = post.queues.poisoned("review-message")
    assert (found["tries"], found["why"]) == (MOST_TRIES + 1, "tried 5 times")
    assert json.loads(base64.b64decode(found["letter"]))["message"] == "the last one"
    told = [event.type for event in desk.store.records.events("queue/review-message")]
    assert told == ["stumbled"] * MOST_TRIES + ["poisoned"]


def test_waiting_is_no_failure_however_long_it_takes(post: Post, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A channel that another consumer writes to: the letter waits, and is not poisoned by that."""
    held = desk.store.leases.claim(f"channel/{desk.channel.id}", "somebody", 60)
    assert held is not None
    monkeypatch.setattr(queues_module.Later, "__init__", lambda self, seconds: setattr(self, "seconds", 0))
    ask(post, "add", channel=desk.channel.id)
    assert sum(post.one("add-channel") for _ in range(MOST_TRIES + 3)) == MOST_TRIES + 3
    assert desk.ids() == []
    desk.store.leases.settle(held)
    deliver(post)
    assert (desk.ids(), post.queues.poisoned("add-channel")) == (desk.theirs(), [])


def test_every_queue_has_a_consumer_a_legal_name_and_a_row_in_the_documentation() -> None:
    assert {letter_of(Request(what, 7)).queue for what in OF_REQUESTS} < set(CONSUMERS)  # type: ignore[arg-type]
    assert all(re.fullmatch(r"[a-z0-9](-?[a-z0-9])+", name) for name in CONSUMERS)
    told = (Path(__file__).parents[2] / "docs" / "why" / "channels.md").read_text()
    rows = re.findall(r"^\| `([a-z-]+)` \| `(\{.*\})` \|", told, re.MULTILINE)
    assert {name for name, _ in rows} == set(CONSUMERS)

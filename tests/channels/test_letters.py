"""A letter or a signal is a reason to look into the store, and never a reason to delete: it may come twice, or from nobody."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from channels.desk import Desk, opened
from channels.office import QUICK, office
from custody.channels.context import Request, noted
from custody.channels.crawl.crawler import Progress
from custody.channels.removal.orders import ordered, removal_of
from custody.channels.requests import by_jobs
from custody.demo.standins.discord_guild import World
from custody.errors import BadInput
from custody.kernel.model.authority.acting import system
from rig.azurite import Azurite

pytest.importorskip("azure.storage.queue")
pytest.importorskip("temporalio")

from azure.storage.queue import QueueServiceClient

from custody.channels.coordinators import temporal as signals
from custody.channels.coordinators.azure_queues import CONSUMERS, Post, Queues
from custody.channels.coordinators.letters import Letter
from custody.channels.coordinators.temporal_workflows import Asked

PREFIX = "l" + os.urandom(4).hex() + "-"


@pytest.fixture
def desk(memory_folder: Path) -> Iterator[Desk]:
    with opened(memory_folder, count=60) as desk:
        desk.mirror_all()
        assert desk.ids() == desk.theirs()
        yield desk


@pytest.fixture
def post(azurite: Azurite, desk: Desk) -> Post:
    service = QueueServiceClient.from_connection_string(azurite.connection_string)
    return Post(Queues(service, PREFIX + os.urandom(3).hex() + "-"), desk.mirror, "tester", visible=30, again=0)


def deliver(post: Post) -> None:
    end = time.monotonic() + 60
    post.run(lambda: time.monotonic() > end, until_idle=True)


def remove(desk: Desk, post: Post) -> str:
    """Order a removal and have it done by letters; answers its id."""
    request = ordered(desk.store, Request("remove", desk.channel.id, why="asked"), "me")
    post.queues.send(request)
    deliver(post)
    assert (desk.state(), desk.ids()) == ("removed", [])
    return request.order


def add(desk: Desk, post: Post) -> None:
    post.queues.send(ordered(desk.store, Request("add", desk.channel.id), "me"))
    deliver(post)
    assert (desk.state(), desk.ids()) == ("yes", desk.theirs())


def ignored(desk: Desk, queue: str) -> list[str]:
    events = desk.store.records.events(f"queue/{queue}")
    return [str(one.detail["why"]) for one in events if one.type == "ignored"]


LETTERS: dict[str, Any] = {
    "without anything": {},
    "with a reason alone": {"why": "asked"},
    "with another id": {"order": "no-such-removal"},
    "with an id of another sort": {"order": ["x"]},
}


@pytest.mark.parametrize("queue", ["remove-channel", "delete-messages"])
@pytest.mark.parametrize("body", LETTERS.values(), ids=LETTERS)
@pytest.mark.parametrize("state", ["yes", "removing"])
def test_a_letter_that_belongs_to_no_removal_deletes_nothing(
    post: Post, desk: Desk, queue: str, body: dict[str, Any], state: str
) -> None:
    desk.store.records.put((noted(desk.channel.id, mirrored=state),))
    post.queues.post(Letter(queue, {"channel": str(desk.channel.id), **body}))
    deliver(post)
    assert (desk.ids(), desk.state()) == (desk.theirs(), state)
    assert len(ignored(desk, queue)) == 1, "it is told"


@pytest.mark.parametrize("queue", ["remove-channel", "delete-messages"])
def test_a_letter_that_comes_again_after_the_channel_was_added_again_deletes_nothing(
    post: Post, desk: Desk, queue: str
) -> None:
    order = remove(desk, post)
    add(desk, post)
    post.queues.post(Letter(queue, {"channel": str(desk.channel.id), "order": order}))
    deliver(post)
    assert (desk.ids(), desk.state()) == (desk.theirs(), "yes")
    assert len(ignored(desk, queue)) == 1


def test_a_removal_that_is_ordered_and_not_begun_is_not_carried_out_by_a_letter_about_its_pages(
    post: Post, desk: Desk
) -> None:
    request = ordered(desk.store, Request("remove", desk.channel.id, why="asked"), "me")
    post.queues.post(Letter("delete-messages", {"channel": str(desk.channel.id), "order": request.order}))
    deliver(post)
    assert desk.ids() == desk.theirs()
    post.queues.send(request)
    deliver(post)
    assert (desk.ids(), desk.state()) == ([], "removed")
    removed = [one for one in desk.store.records.events(f"item/channel/{desk.channel.id}") if one.type == "removed"]
    assert [one.detail["why"] for one in removed] == ["asked"], "why is the store's to say"


def test_letters_of_one_removal_that_come_twice_remove_it_once(post: Post, desk: Desk) -> None:
    request = ordered(desk.store, Request("remove", desk.channel.id, why="asked"), "me")
    for _ in range(2):
        post.queues.send(request)
    deliver(post)
    assert (desk.ids(), desk.events().count("removed")) == ([], 1)
    late = [*ignored(desk, "remove-channel"), *ignored(desk, "delete-messages")]
    assert late, "the second came too late"


def test_an_old_letter_brings_no_channel_back_that_was_removed(post: Post, desk: Desk) -> None:
    remove(desk, post)
    post.queues.post(Letter("add-channel", {"channel": str(desk.channel.id)}))
    for queue in ("add-messages", "fetch-files"):
        post.queues.post(Letter(queue, {"channel": str(desk.channel.id)}))
    post.queues.post(Letter("review-message", {"channel": str(desk.channel.id), "message": str(desk.theirs()[0])}))
    deliver(post)
    assert (desk.ids(), desk.state()) == ([], "removed")
    assert list(desk.mirror.blobs.list("")) == []
    assert len(ignored(desk, "add-channel")) == 1
    add(desk, post)


def test_who_removes_and_adds_again_at_once_has_both_by_letters(post: Post, desk: Desk) -> None:
    number = desk.channel.id
    post.queues.send(ordered(desk.store, Request("remove", number, why="asked"), "me"))
    post.queues.send(ordered(desk.store, Request("add", number), "me"))
    deliver(post)
    assert desk.events().count("removed") == 1
    assert (desk.ids(), desk.state()) == (desk.theirs(), "yes"), "it began anew"


def test_the_last_word_counts_also_if_its_letter_comes_first(post: Post, desk: Desk) -> None:
    add_first = ordered(desk.store, Request("add", desk.channel.id), "me")
    gone = ordered(desk.store, Request("remove", desk.channel.id, why="asked"), "me")
    post.queues.send(gone)
    post.queues.send(add_first)
    deliver(post)
    assert (desk.ids(), desk.state()) == ([], "removed")


# --- Signals of Temporal: the same ---


def signal(desk: Desk, asked: Asked) -> None:
    """What a workflow does with what it was asked."""
    progress: dict[str, int] = {}
    for _ in range(50):
        answer = signals.STEPS[asked.what](desk.mirror, desk.channel.id, asked, progress)
        for ask in answer.follows:
            signal(desk, ask.asked)
        if answer.done:
            return
        progress = answer.progress
    raise AssertionError("it does not end")


@pytest.mark.parametrize("order", ["", "no-such-removal"])
def test_a_signal_that_belongs_to_no_removal_deletes_nothing(desk: Desk, order: str) -> None:
    signal(desk, Asked("remove", why="asked", order=order))
    assert (desk.ids(), desk.state()) == (desk.theirs(), "yes")
    assert len(ignored(desk, "remove")) == 1


def test_a_signal_that_comes_again_after_the_channel_was_added_again_deletes_nothing(desk: Desk) -> None:
    request = ordered(desk.store, Request("remove", desk.channel.id, why="asked"), "me")
    asked = signals.ask_of(request).asked
    signal(desk, asked)
    assert (desk.ids(), desk.state()) == ([], "removed")
    signal(desk, Asked("add"))
    assert desk.state() == "removed", "nobody has asked for it"
    ordered(desk.store, Request("add", desk.channel.id), "me")
    signal(desk, Asked("add"))
    signal(desk, asked)
    assert (desk.ids(), desk.state()) == (desk.theirs(), "yes")


# --- Jobs of the engine ---


def test_who_removes_and_adds_again_at_once_has_both_by_jobs(desk: Desk) -> None:
    ask, me, number = by_jobs(desk.store).ask, system("me"), desk.channel.id
    ask(Request("remove", number, why="asked"), me)
    ask(Request("add", number), me)
    desk.run()
    assert desk.events().count("removed") == 1
    assert (desk.ids(), desk.state()) == (desk.theirs(), "yes"), "it began anew"
    ask(Request("remove", number, why="asked"), me)
    ask(Request("add", number), me)
    ask(Request("remove", number, why="after all"), me)
    desk.run()
    assert (desk.ids(), desk.state()) == ([], "removed"), "the last word counts"


def test_a_removal_whose_job_was_taken_back_does_not_swallow_what_is_asked_later(desk: Desk) -> None:
    ask, me, number = by_jobs(desk.store).ask, system("me"), desk.channel.id
    desk.store.queue.hold("kind", "channel/remove", "me", "it waits")
    ask(Request("remove", number, why="asked"), me)
    (job,) = [one for one in desk.store.queue.every() if one.kind == "channel/remove"]
    desk.store.queue.delete(job.id, "me", "not after all")
    ask(Request("add", number), me)
    desk.run()
    assert not removal_of(desk.mirror.item(number))
    desk.store.queue.lift("kind", "channel/remove", "me", "now")
    ask(Request("remove", number, why="now"), me)
    desk.run()
    assert (desk.ids(), desk.state()) == ([], "removed")


def test_the_command_removes_and_adds_again(tmp_path: Path) -> None:
    world = World(seed=44)
    channel = world.add(0, "here", 30)
    with office(tmp_path, world, QUICK) as archive:
        number = str(channel.id)
        archive.run("channel", "add", number)
        archive.run("channel", "run", "--until-idle")
        archive.run("channel", "remove", number, "--yes", "--why", "test")
        archive.run("channel", "add", number)
        archive.run("channel", "run", "--until-idle")
        assert not archive.differs(channel)


# --- What a letter may look like ---


def raw(azurite: Azurite, post: Post, queue: str, text: str) -> None:
    client = post.queues._clients[queue]
    client.send_message(text)


def test_a_letter_that_is_too_long_to_be_put_aside_whole_is_put_aside_cut_and_is_not_in_the_way(
    azurite: Azurite, post: Post, desk: Desk
) -> None:
    long = "x" * 60_000
    raw(azurite, post, "add-messages", long)
    desk.standin.world.post(desk.channel, 3)
    post.queues.send(Request("sync", desk.channel.id))
    deliver(post)
    assert desk.ids() == desk.theirs()
    (found,) = post.queues.poisoned("add-messages")
    assert (found["cut"], found["characters"]) == (True, 60_000)
    assert found["sha256"] == sha256(long.encode()).hexdigest()
    assert found["letter"] == "x" * len(found["letter"]) != ""


ODD_NUMBERS = ["1e300", "-1", "1.5", "NaN", "Infinity", "true", "null", "[]", '"x"', "9" * 400, str(2**70)]


@pytest.mark.parametrize("name", ["pages", "phase", "cursor", "below"])
@pytest.mark.parametrize("number", ODD_NUMBERS)
def test_a_number_that_nobody_counted_is_refused(name: str, number: str) -> None:
    with pytest.raises(BadInput):
        Progress.read({name: json.loads(number)}, False)


def test_letters_with_such_numbers_are_put_aside_and_the_run_goes_on(azurite: Azurite, post: Post, desk: Desk) -> None:
    for number in ODD_NUMBERS:
        body = f'{{"channel": "{desk.channel.id}", "pages": {number}, "why": "\\u0000\\ud800"}}'
        raw(azurite, post, "add-messages", base64.b64encode(body.encode()).decode())
    desk.standin.world.post(desk.channel, 3)
    post.queues.send(Request("sync", desk.channel.id))
    deliver(post)
    assert desk.ids() == desk.theirs()
    assert len(post.queues.poisoned("add-messages")) == len(ODD_NUMBERS)
    assert not any(post.queues.waiting()[queue] for queue in CONSUMERS)

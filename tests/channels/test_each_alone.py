"""Every channel stands for itself: what goes wrong with one is told of that one, and stops none of the others."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from channels.desk import Desk, opened
from channels.office import Office, office
from custody.channels.condition.standing import standing_of
from custody.channels.crawl import crawler, look_around
from custody.channels.discord import client as asking
from custody.channels.discord.rate_limits import LONGEST
from custody.channels.discord.shared_rate_limit import MOST, StoreSlots
from custody.channels.jobs import add_job, item_id, sync_job, watch
from custody.demo.standins.discord_guild import Channel, World
from custody.demo.standins.discord_traffic import Reply, Switches

Odd = Callable[[Reply], Reply | None]

HTML = "<html>one moment</html>"
ODD: dict[str, Odd] = {
    "500": lambda _: Reply(500, {"message": "500", "code": 0}),
    "502 in HTML": lambda _: Reply(502, HTML),
    "no body": lambda _: Reply(200, b""),
    "half of the JSON": lambda reply: Reply(200, json.dumps(reply.body).encode()[:-7]),
    "a list": lambda reply: Reply(200, [reply.body]),
    "a string": lambda _: Reply(200, '"later"'),
    "null": lambda _: Reply(200, b"null"),
    "fields of wrong types": lambda reply: Reply(200, {**reply.body, "type": "0", "guild_id": [], "name": 5}),
    "a last message that is none": lambda reply: Reply(200, {**reply.body, "last_message_id": 7}),
    "another channel": lambda reply: Reply(200, {**reply.body, "id": "1"}),
    "nothing in it": lambda _: Reply(200, {}),
    "a page of HTML": lambda _: Reply(200, HTML),
    "elsewhere": lambda _: Reply(302, "", {"Location": "https://example.org/"}),
    "no zip": lambda _: Reply(200, b"\x1f\x8b no", {"Content-Encoding": "gzip"}),
    "half of a zip": lambda reply: Reply(
        200, gzip.compress(json.dumps(reply.body).encode())[:-9], {"Content-Encoding": "gzip"}
    ),
    "no answer": lambda _: None,
    "404 in HTML": lambda _: Reply(404, HTML),
    "404": lambda _: Reply(404, {"message": "Unknown Channel", "code": 10003}),
    "403": lambda _: Reply(403, {"message": "Missing Access", "code": 50001}),
    "403 at the front door": lambda _: Reply(403, HTML),
    "400": lambda _: Reply(400, {"message": "Invalid Form Body", "code": 50035}),
    "429 for long": lambda _: Reply(429, {"message": "slow", "retry_after": 1e9}),
    "429 for ever": lambda _: Reply(429, b'{"message": "slow", "retry_after": Infinity}'),
    "429 in words": lambda _: Reply(429, {"message": "slow", "retry_after": "a while"}, {"Retry-After": "3000"}),
    "a limit of a million years": lambda reply: Reply(
        500, {}, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset-After": "1e300", "X-RateLimit-Limit": "9" * 5000}
    ),
    "headers that are none": lambda reply: Reply(
        500, {}, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "5", "Date": "yesterday"}
    ),
}


@pytest.fixture
def desk(memory_folder: Path) -> Iterator[Desk]:
    """Three channels that are mirrored, the second of which will be odd."""
    with opened(memory_folder, count=130) as desk:
        desk.mirror.discord.sleep = lambda _: None
        for name in ("odd", "last"):
            desk.standin.world.add(0, name, 120)
        for channel in desk.standin.world.channels.values():
            desk.store.queue.submit_one(add_job(channel.id))
        desk.run()
        yield desk


def three(desk: Desk) -> list[Channel]:
    return list(desk.standin.world.channels.values())


def word(desk: Desk, channel: Channel) -> str:
    jobs = [job for job in desk.store.queue.every() if job.lane == str(channel.id)]
    item = desk.store.records.item(item_id(channel.id))
    return standing_of(desk.store, desk.mirror.blobs, item, jobs).state.word


def odd_at(desk: Desk, path: str, odd: Odd) -> None:
    desk.standin.switches.odd = lambda asked, _, reply: odd(reply) if asked == path else reply


def news(desk: Desk) -> None:
    for channel in three(desk):
        desk.standin.world.post(channel, 3)


@pytest.mark.parametrize("sort", ODD)
def test_one_channel_that_answers_oddly_is_told_and_the_others_are_synced(desk: Desk, sort: str) -> None:
    first, odd, last = three(desk)
    odd_at(desk, f"/channels/{odd.id}", ODD[sort])
    news(desk)
    watch(desk.mirror)
    syncable(desk, [first, last])
    assert word(desk, odd) != "whole", "it is told"
    assert desk.ids(odd.id), "what was kept is kept"
    desk.standin.switches.odd = None
    desk.mirror.discord.buckets._windows.clear()  # as the next process finds it
    desk.clock.ahead += 2 * 3_600
    watch(desk.mirror)
    desk.run()
    assert all(desk.ids(one.id) == desk.theirs(one) for one in three(desk)), "and it heals by itself"
    assert {word(desk, one) for one in three(desk)} == {"whole"}


def syncable(desk: Desk, channels: list[Channel]) -> None:
    """Do what is asked of these alone: the odd one's job waits for its limit."""
    for channel in channels:
        desk.store.queue.submit_one(sync_job(channel.id))
    for _ in range(200):
        desk.worker().run_until_idle()
        if all(desk.ids(one.id) == desk.theirs(one) for one in channels):
            break
    for one in channels:
        assert desk.ids(one.id) == desk.theirs(one)
        assert word(desk, one) == "whole"


@pytest.mark.parametrize("sort", [sort for sort in ODD if sort not in ("403", "404", "a last message that is none")])
def test_a_list_of_threads_that_cannot_be_had_stops_no_channel_and_is_told(desk: Desk, sort: str) -> None:
    odd_at(desk, f"/guilds/{desk.standin.world.guild}/threads/active", ODD[sort])
    news(desk)
    assert watch(desk.mirror) >= 3, "each has something new"
    for channel in three(desk):
        table, progress = desk.mirror.table(channel.id), crawler.Progress()
        while not progress.done:
            progress = crawler.page(desk.mirror, channel.id, table, progress)
        assert desk.ids(channel.id) == desk.theirs(channel)
    if sort not in ("another channel", "fields of wrong types"):  # that has a list of threads all the same
        assert {word(desk, one) for one in three(desk)} == {"behind"}


def unknown_here(asked: Callable[..., Any]) -> Callable[..., Any]:
    """Names as a resolver that knows none but numbers."""

    def answer(host: Any, *more: Any, **named: Any) -> Any:
        if "invalid" in str(host):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return asked(host, *more, **named)

    return answer


def test_a_place_that_cannot_be_found_or_reached_is_told_and_not_insisted_on(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{nobody.getsockname()[1]}/api"
    monkeypatch.setattr(socket, "getaddrinfo", unknown_here(socket.getaddrinfo))
    for place in (closed, "http://nowhere.invalid/api"):
        with httpx2.Client(timeout=5) as http:
            slept = list[float]()
            there = replace(desk.mirror.discord, http=http, api=place, sleep=slept.append)
            watch(replace(desk.mirror, discord=there))
            assert {word(desk, one) for one in three(desk)} <= {"behind", "failing"}
            assert len(slept) <= asking.TRIES + 3 * asking.TRIES_WHEN_DOWN, "one silence is enough to expect others"
        desk.clock.ahead += 3_600
    watch(desk.mirror)
    desk.run()
    assert {word(desk, one) for one in three(desk)} == {"whole"}


def test_a_body_that_never_ends_is_no_answer(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "MOST_SECONDS", 0.0)
    desk.standin.switches.slow_seconds = 0.02
    watch(desk.mirror)
    assert {word(desk, one) for one in three(desk)} == {"behind"}


def test_a_channel_that_is_pausing_is_not_asked_by_the_watch_and_asked_by_a_run(desk: Desk) -> None:
    _, odd, _ = three(desk)
    odd_at(desk, f"/channels/{odd.id}", ODD["500"])
    watch(desk.mirror)
    desk.standin.switches.odd = None
    asked = len(desk.standin.asked)
    watch(desk.mirror)
    assert not [path for path, _ in desk.standin.asked[asked:] if f"/{odd.id}" in path]
    (again,) = look_around.around(desk.mirror, anew=True)
    assert (again.what, again.channel) == ("sync", odd.id), "it answers again, so it is looked at to its end"


# --- Clocks ---


@pytest.mark.parametrize("ahead", [400_000.0, 40_000_000.0])
def test_a_clock_that_was_ahead_stops_nobody(desk: Desk, ahead: float) -> None:
    """Every time that was written down then is further off than it could be, and is not believed."""
    first, odd, _ = three(desk)
    one = desk.theirs(first)[-9]
    desk.clock.ahead += ahead
    desk.standin.switches.file_trouble = lambda _: 500
    odd_at(desk, f"/channels/{odd.id}", ODD["500"])
    first.edited[one] = {"reactions": [{"emoji": {"name": "x"}, "count": 2}]}
    news(desk)
    watch(desk.mirror)
    desk.worker().run_until_idle()
    desk.mirror.discord.slots.pause(50)
    desk.clock.ahead -= ahead
    desk.standin.switches.odd = desk.standin.switches.file_trouble = None
    news(desk)
    first.edited[one] = {"reactions": [{"emoji": {"name": "x"}, "count": 7}]}
    for _ in range(2):
        watch(desk.mirror)
        desk.run()
    for channel in three(desk):
        assert desk.ids(channel.id) == desk.theirs(channel)
        assert word(desk, channel) == "whole"
    row = desk.mirror.seen(first.id).search(one)
    assert row
    assert row.message["reactions"][0]["count"] == 7, "what was seen last is what is kept"


def test_a_turn_that_is_further_off_than_anybody_waits_is_not_believed(desk: Desk) -> None:
    slots = StoreSlots(desk.store, "x", per_second=10)
    slots.pause(1e18)
    assert LONGEST - 1 < slots.take() <= LONGEST
    desk.clock.ahead += 100 + MOST / 1e6
    slots.take()
    desk.clock.ahead -= 100 + MOST / 1e6
    assert slots.take() == 0
    assert 0 < slots.take() <= 0.1


# --- Whole runs ---


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Office]:
    world = World(seed=3)
    listed = [str(world.add(0, name, 150).id) for name in ("first", "odd", "last")]
    with office(tmp_path, world, Switches(bucket_limit=10_000, global_limit=100_000), mirror=listed) as here:
        yield here


@pytest.mark.parametrize("more", [(), ("--shard", "1/1")])
def test_a_run_that_meets_one_odd_channel_ends_with_75_and_names_it(
    here: Office, more: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "TRIES", 1)
    here.run("channel", "run", "--until-idle", *more)
    _, odd, _ = here.world.channels.values()
    for channel in here.world.channels.values():
        here.world.post(channel, 2)
    here.standin.switches.odd = lambda path, _, reply: Reply(500, HTML) if path == f"/channels/{odd.id}" else reply
    said = here.run("channel", "run", "--until-idle", *more, code=75)
    assert f"odd ({odd.id}): the last try met with" in said
    assert "stopped; the next run goes on" in said
    others = [one for one in here.world.channels.values() if one is not odd]
    assert all(map(here.same, others))
    if not more:
        assert "the last try met with" in here.run("channel", "why", str(odd.id)).splitlines()[0]
    here.standin.switches.odd = None
    assert "everything is up to date" in here.run("channel", "run", "--until-idle", *more)
    assert all(map(here.same, here.world.channels.values()))

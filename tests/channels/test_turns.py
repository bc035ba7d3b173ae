"""Turns between channels: one that gives reason for hundreds of single questions does not keep others from theirs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from channels.desk import Desk, opened
from custody.channels.config import ChannelConfig
from custody.channels.context import noted
from custody.channels.coordinators import ephemeral
from custody.channels.crawl import trust
from custody.channels.crawl.kept import Kept
from custody.channels.jobs import add_job, sync_job
from custody.demo.standins.discord_guild import Channel
from custody.demo.standins.discord_traffic import Reply
from custody.kernel.engine import Settings
from prove.plugin import Tell

CHANNELS, ODD = 20, 3


@pytest.fixture
def desk(memory_folder: Path) -> Iterator[Desk]:
    with opened(memory_folder, count=400) as desk:
        desk.mirror.discord.sleep = lambda _: None
        for number in range(CHANNELS - 1):
            desk.standin.world.add(0, f"channel-{number}", 400 if number < ODD - 1 else 30)
        for channel in desk.standin.world.channels.values():
            desk.store.queue.submit_one(add_job(channel.id))
        desk.run()
        yield desk


def by_kind(desk: Desk) -> tuple[list[Channel], list[Channel]]:
    every = list(desk.standin.world.channels.values())
    return every[:ODD], every[ODD:]


def leave_out(desk: Desk, odd: list[Channel]) -> None:
    """Pages of these show every second message, and single questions have no answer of use."""
    numbers = {str(one.id) for one in odd}

    def answer(path: str, _: dict[str, str], reply: Reply) -> Reply:
        _, _, number, *rest = path.split("/")
        if number not in numbers or not rest or reply.status != 200:
            return reply
        return Reply(200, reply.body[::2]) if rest == ["messages"] else Reply(404, {"message": "?", "code": 0})

    desk.standin.switches.odd = answer


def news(desk: Desk) -> None:
    for channel in desk.standin.world.channels.values():
        desk.standin.world.post(channel, 3)


def asked_until_served(desk: Desk, good: list[Channel]) -> int:
    """How many questions were asked until every one of these had its new messages."""
    last = {f"/channels/{one.id}/messages": desk.theirs(one)[-1] for one in good}
    served: dict[str, int] = {}
    odd = desk.standin.switches.odd

    def watching(path: str, query: dict[str, str], reply: Reply) -> Reply | None:
        found = odd(path, query, reply) if odd else reply
        body: Any = found.body if found else None
        listed = body if path in last and path not in served and isinstance(body, list) else []
        if any(one["id"] == str(last[path]) for one in listed):
            served[path] = len(desk.standin.asked) + 1 - before
        return found

    before, desk.standin.switches.odd = len(desk.standin.asked), watching
    ephemeral.ask_for(desk.mirror, ChannelConfig())
    ephemeral.run_until_idle(desk.mirror, time.monotonic() + 300, Settings(threads=1))
    assert len(served) == len(good)
    return max(served.values())


def test_short_runs_serve_what_is_new_everywhere_before_single_questions_of_odd_channels(
    desk: Desk, tell: Tell
) -> None:
    odd, good = by_kind(desk)
    leave_out(desk, odd)
    news(desk)
    taken = asked_until_served(desk, good)
    for one in good:
        assert desk.ids(one.id) == desk.theirs(one)
    total = len(desk.standin.asked)
    look_around, turns = CHANNELS + 1 + CHANNELS, ODD * 40  # twenty questions, and a step
    assert taken <= look_around + turns + 10 * len(good), "bounded by turns, not by what is odd"
    tell(f"{taken} questions until {len(good)} channels had their new messages, of {total}")


def test_erasures_take_turns_as_well(desk: Desk) -> None:
    odd, good = by_kind(desk)
    desk.mirror = replace(desk.mirror, deleted="tombstone")
    now = desk.store.now() - 2 * trust.APART
    for channel in odd:
        ids = desk.theirs(channel)[100:130]
        for one in ids:
            desk.standin.world.delete(channel, one)
        for at in (now, now + trust.APART):
            Kept(desk.mirror, channel.id).mark(ids, (at, trust.NO_SUCH, trust.NO_SUCH))
        desk.store.records.put((noted(channel.id, erase_at=trust.stamp(desk.store.now())),), (), "test")
    news(desk)
    taken = asked_until_served(desk, good)
    assert taken <= 2 * CHANNELS + 1 + ODD * 40 + 10 * len(good)
    assert [len(desk.ids(one.id)) for one in odd] == [383] * ODD, "as many as a day has room for, and no turn lost one"


def test_a_sync_that_gave_its_turn_away_goes_on_where_it_was(desk: Desk) -> None:
    long = desk.standin.world.add(0, "long", 30 * 100)
    desk.store.queue.submit_one(add_job(long.id))
    for channel in by_kind(desk)[1]:
        desk.store.queue.submit_one(sync_job(channel.id))
    before = len(desk.standin.asked)
    desk.worker().run_until_idle()
    pages = sum(f"/channels/{long.id}/messages?" in path for path, _ in desk.standin.asked[before:])
    assert desk.ids(long.id) == desk.theirs(long)
    assert pages <= 30 + 8, "nothing is asked twice for having waited"
    assert desk.busy() == []

"""Odd answers over HTTP: each sort, given again and again to whatever is asked, takes nothing away and stops nothing."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from channels.desk import Desk, opened
from custody.channels.condition import refusals
from custody.channels.condition.standing import standing_of
from custody.channels.crawl import crawler
from custody.channels.crawl.crawler import Progress
from custody.channels.jobs import item_id, sync_job, watch
from custody.channels.removal import removal
from custody.demo.standins.discord_traffic import Reply
from custody.errors import CustodyError
from prove.plugin import Tell

COUNT = 230


@pytest.fixture
def desk(memory_folder: Path) -> Iterator[Desk]:
    with opened(memory_folder, count=COUNT) as desk:
        desk.mirror.discord.sleep = lambda _: None
        desk.mirror = replace(desk.mirror, deleted="tombstone")
        yield desk


def sync(desk: Desk, **how: Any) -> str:
    """As every way of running does it; answers what went wrong."""
    mirror, channel = desk.mirror, desk.channel.id
    table, progress = mirror.table(channel), Progress(**how)
    try:
        while not progress.done:
            progress = crawler.page(mirror, channel, table, progress)
        told = crawler.ended(mirror, channel, table, progress)
        trouble = ""
    except CustodyError as refusal:
        told, trouble = refusals.set_aside(mirror, channel, refusal), refusal.code
    mirror.store.records.put(told.items, told.events, "test")
    return trouble


def state(desk: Desk) -> str:
    item = desk.store.records.item(item_id(desk.channel.id))
    return standing_of(desk.store, desk.mirror.blobs, item).state.word


# --- Sorts ---

Odd = Callable[[list[Any]], Reply | None]


def page(change: Callable[[list[Any]], Any]) -> Odd:
    return lambda shown: Reply(200, change(shown))


def said(status: int, body: Any = "", **headers: str) -> Odd:
    return lambda _: Reply(status, body, dict(headers))


def raw(text: bytes) -> Odd:
    return lambda _: Reply(200, text)


def among(one: Any) -> Odd:
    return page(lambda shown: [*shown[:5], one, *shown[5:]][:100])


FORBIDDEN = {"message": "Missing Access", "code": 50001}
SORTS: dict[str, Odd] = {
    "an empty list": page(lambda _: []),
    "one less": page(lambda shown: shown[1:]),
    "one less in the middle": page(lambda shown: shown[:7] + shown[8:]),
    "half of it": page(lambda shown: shown[: len(shown) // 2]),
    "the newest alone": page(lambda shown: shown[:1]),
    "shuffled": page(lambda shown: random.Random(1).sample(shown, len(shown))),
    "twice the same": page(lambda shown: (shown + shown)[:100]),
    "another channel's": page(lambda shown: [one | {"channel_id": "5"} for one in shown]),
    "an id beyond all": among({"id": str(2**63)}),
    "an id of the future": among({"id": str(2**62), "content": "hello"}),
    "an id that is a number": among({"id": 5}),
    "an id of five thousand digits": among({"id": "7" * 5000}),
    "an element that is none": among(None),
    "an element that is a list": among([["id", "5"]]),
    "a line of our own": among({"id": "629145602314522624", "deleted_at": "2026-01-01"}),
    "an object": page(lambda _: {"message": "what?", "code": 0}),
    "a string": page(lambda _: "later"),
    "null": raw(b"null"),
    "half of the JSON": raw(b'[{"id": "629145'),
    "no UTF-8": raw(b'[{"id": "\xff\xfe"}]'),
    "depth without end": raw(b"[" * 100_000),
    "no body": said(204),
    "a page of HTML": said(200, "<html>one moment</html>"),
    "500": said(500, "<html>oops</html>"),
    "502": said(502),
    "503 with JSON": said(503, {"message": "no healthy upstream", "code": 0}),
    "no answer": lambda _: None,
    "302": said(302, "", Location="https://example.org/"),
    "400": said(400, {"message": "Invalid Form Body", "code": 50035}),
    "401": said(401, {"message": "401: Unauthorized", "code": 0}),
    "403": said(403, FORBIDDEN),
    "403 at the front door": said(403, "<html>error code: 1010</html>"),
    "404 of the channel": said(404, {"message": "Unknown Channel", "code": 10003}),
    "404 in HTML": said(404, "<html>not found</html>"),
    "418": said(418, {"message": "teapot"}),
    "451": said(451),
    "429 for all": said(429, {"message": "slow", "retry_after": 0.01, "global": True}),
}


@pytest.mark.proves("P3")
@pytest.mark.parametrize("sort", SORTS)
def test_an_odd_answer_takes_nothing_away_and_leaves_nothing_stopped(desk: Desk, sort: str, tell: Tell) -> None:
    desk.mirror_all()
    before, dice, odd = set(desk.ids()), random.Random(3), SORTS[sort]
    deleted = desk.theirs()[-30]
    desk.standin.world.delete(desk.channel, deleted)

    def lie(path: str, query: dict[str, str], reply: Reply) -> Reply | None:
        pages = path.endswith("/messages")
        if dice.random() < 0.6 and (pages or ("/messages/" in path and sort[0].isdigit())):
            return odd(reply.body if pages else [])
        return reply

    desk.standin.switches.odd = lie
    for _ in range(4):
        desk.clock.ahead += 1_200
        desk.standin.world.post(desk.channel, 2)
        sync(desk)
        assert before - set(desk.ids()) <= {deleted}, "what was kept is kept"
        desk.mirror.discord._dead = False
    desk.standin.switches.odd = None
    for _ in range(3):
        desk.clock.ahead += 1_200
        assert sync(desk) == ""
    assert set(desk.theirs()) <= set(desk.ids()), "whatever is shown is kept"
    assert set(desk.ids()) - set(desk.theirs()) <= {deleted}
    assert (desk.coverage().gaps, state(desk)) == ((), "whole")
    tell(f"{sort}: nothing lost, nothing stopped", sorts=1)


# --- What was found: each told as it was ---


def only_once(desk: Desk, which: str, change: Callable[[list[Any]], Any], at: int = 1) -> None:
    """The n-th answer to a question with this bound is another."""
    seen = 0

    def odd(path: str, query: dict[str, str], reply: Reply) -> Reply:
        nonlocal seen
        if path.endswith("/messages") and which in query:
            seen += 1
            return Reply(200, change(reply.body)) if seen == at else reply
        return reply

    desk.standin.switches.odd = odd


def test_one_short_page_while_looking_back_erases_nothing(desk: Desk) -> None:
    desk.mirror_all()
    desk.standin.world.post(desk.channel)
    only_once(desk, "before", lambda shown: shown[:99])
    sync(desk)
    assert desk.ids() == desk.theirs()


def test_a_page_that_is_repeated_every_third_time_erases_nothing(desk: Desk) -> None:
    last: list[Any] = []
    count = 0

    def odd(path: str, query: dict[str, str], reply: Reply) -> Reply:
        nonlocal count, last
        if not path.endswith("/messages"):
            return reply
        count += 1
        if count % 3 == 0:
            return Reply(200, last)
        last = reply.body
        return reply

    desk.standin.switches.odd = odd
    desk.mirror_all()
    for _ in range(3):
        sync(desk)
    assert desk.ids() == desk.theirs()


def test_a_channel_that_was_purged_and_raided_stays_whole_here(desk: Desk) -> None:
    """The very event for which communities archive. Also with the strictest policy, until somebody says so."""
    desk.mirror_all()
    mine = desk.ids()
    for one in mine:
        desk.standin.world.delete(desk.channel, one)
    (raid,) = desk.standin.world.post(desk.channel)
    for _ in range(6):
        desk.clock.ahead += 3_600
        sync(desk)
    assert desk.ids() == [*mine, raid]
    assert state(desk) == "brake"


@pytest.mark.parametrize("odd", [lambda _: [], lambda shown: shown[3:]], ids=["empty", "short"])
@pytest.mark.parametrize("at", [2, 3])
def test_newest_first_one_empty_or_short_page_closes_no_gap(desk: Desk, odd: Callable[[Any], Any], at: int) -> None:
    only_once(desk, "before", odd, at)
    item = crawler.add(desk.mirror, desk.channel.id)
    desk.store.records.put(item.items, item.events, "test")
    sync(desk, newest_first=True)
    assert (desk.ids(), desk.coverage().gaps) == (desk.theirs(), ())


def test_an_empty_page_in_the_middle_of_a_crawl_is_not_the_end(desk: Desk) -> None:
    only_once(desk, "after", lambda _: [], at=2)
    desk.mirror_all()
    assert (desk.ids(), desk.coverage().gaps, state(desk)) == (desk.theirs(), (), "whole")


def test_an_id_that_no_message_can_have_stops_no_page(desk: Desk) -> None:
    desk.standin.switches.odd = lambda path, query, reply: (
        Reply(200, [*reply.body[:3], {"id": str(2**63), "content": "far"}, *reply.body[3:99]])
        if path.endswith("/messages") and len(reply.body) < 100
        else reply
    )
    desk.mirror_all()
    for _ in range(3):
        sync(desk)
    assert set(desk.theirs()) <= set(desk.ids())
    assert "unreadable element" in desk.events()


# --- An archive of former days ---


def test_what_the_former_rules_erased_comes_back_in_one_round(desk: Desk) -> None:
    desk.mirror_all()
    table = desk.mirror.table(desk.channel.id)
    table.delete(desk.theirs()[:150], desk.mirror.stamp())
    truly = desk.theirs()[3]
    desk.standin.world.delete(desk.channel, truly)
    item = desk.store.records.item(item_id(desk.channel.id))
    old = {name: value for name, value in item.detail.items() if name != "round"} | {"round": ""}
    desk.store.records.put((crawler.noted(desk.channel.id, **old),), (), "test")
    assert sync(desk) == ""
    assert desk.ids() == desk.theirs(), "all that is shown, and not what was deleted there"
    assert desk.events().count("seen again") == 1
    asked = len(desk.standin.asked)
    sync(desk)
    assert len(desk.standin.asked) - asked < 8, "once"


def test_a_line_of_the_archive_that_is_a_doubt_is_json(desk: Desk) -> None:
    desk.mirror_all()
    gone = desk.theirs()[-3]
    desk.standin.world.delete(desk.channel, gone)
    desk.mirror = replace(desk.mirror, deleted="keep")
    for _ in range(2):
        sync(desk)
        desk.clock.ahead += 1_200
    row = desk.mirror.seen(desk.channel.id).search(gone)
    assert row is not None
    told = json.loads(row.versions[-1])
    assert told["gone"]["how"] == "404+page"
    assert gone in desk.ids()


def test_files_of_an_erased_message_that_a_crash_left_go_with_the_daily_sweep(memory_folder: Path) -> None:
    with opened(memory_folder, count=730) as desk:
        desk.mirror_all()
        rows = [row.message for row in desk.mirror.files(desk.channel.id).between()]
        erased = int(rows[0]["message"])
        desk.mirror.table(desk.channel.id).delete([erased], desk.mirror.stamp())  # and there the power went
        removal.sweep(desk.mirror, desk.channel.id)
        left = [row.message["message"] for row in desk.mirror.files(desk.channel.id).between()]
        assert sorted(left) == sorted(row["message"] for row in rows if int(row["message"]) != erased)
        assert len(list(desk.mirror.blobs.list("media/"))) == len({row["digest"] for row in rows}) - 1


def test_what_an_honest_deletion_costs_and_when_it_is_honoured(desk: Desk, tell: Tell) -> None:
    desk.mirror_all()
    deleted = desk.theirs()[-30]
    desk.standin.world.delete(desk.channel, deleted)
    began, asked = desk.clock.ahead, len(desk.standin.asked)
    desk.store.queue.submit_one(sync_job(desk.channel.id))  # somebody wrote something, or its look was due
    desk.run()
    minutes = list[int]()
    for minute in range(1, 60):
        desk.clock.ahead = began + 60 * minute
        if watch(desk.mirror):
            minutes.append(minute)
            desk.run()
        if deleted not in desk.ids():
            break
    singles = sum("/messages/" in path for path, _ in desk.standin.asked[asked:])
    assert (minutes, deleted in desk.ids()) == ([10, 20], False), "three sittings, ten minutes apart"
    round_it = [path for path, _ in desk.standin.asked[asked:] if f"before={deleted + 1}" in path]
    assert singles == 2 + 2 + 4, "two that confirm, with a witness each; three that erase, beside a witness"
    assert len(round_it) == 1, "and a page of its neighbours"
    tell(f"an honest deletion: {singles} single questions, erased {minutes[-1]} minutes after it was noticed")


def test_a_large_purge_is_confirmed_to_its_end_while_the_brake_holds(desk: Desk) -> None:
    """Only erasing is braked: what was deleted there is hidden, however much it is."""
    desk.mirror_all()
    gone = [one for number, one in enumerate(desk.theirs()) if number % 23]
    for one in gone:
        desk.standin.world.delete(desk.channel, one)
    for _ in range(8):
        sync(desk)
        desk.clock.ahead += 700
    assert desk.gone() == gone
    assert len(desk.ids()) == COUNT
    assert state(desk) == "brake"
    assert desk.store.records.item(item_id(desk.channel.id)).detail["brake"] == len(gone)


def test_what_is_left_of_a_purge_is_looked_at_soon(desk: Desk) -> None:
    desk.mirror_all()
    for one in desk.theirs()[:-10]:
        desk.standin.world.delete(desk.channel, one)
    for done in (0, 100, 100, 200, 200, COUNT - 10):
        sync(desk)
        desk.clock.ahead += 700
        assert len(desk.gone()) == done
        item = desk.store.records.item(item_id(desk.channel.id))
        assert bool(item.detail.get("look_again")) == (done < COUNT - 10), "until all is confirmed"

"""Answers without texts, without readable elements, without anything, and one message at a time. From outside, over HTTP.

Each is told, with a code that is not 0, and takes nothing away; after a healthy night everything is as it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from channels.desk import Desk, opened
from custody.channels import jobs
from custody.channels.condition.standing import Ending, all_standing, ending
from custody.channels.crawl.trust import Ask, judge
from custody.channels.integrity.verify import Verified, verify
from custody.channels.jobs import add_job, sync_job
from custody.channels.messages.versions import merged
from custody.demo.standins.discord_traffic import Reply

Change = Callable[[list[Any]], list[Any]]
DAY = 86_400


@pytest.fixture
def desk(memory_folder: Path) -> Iterator[Desk]:
    with opened(memory_folder, count=150) as desk:
        desk.mirror.discord.sleep = lambda _: None
        yield desk


def each(change: Callable[[int, dict[str, Any]], Any]) -> Change:
    return lambda page: [change(at, one) for at, one in enumerate(page)]


def without_content(_: int, one: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in one.items() if name != "content"}


def bare(at: int, one: dict[str, Any]) -> dict[str, Any]:
    return one if at % 7 else {"id": one["id"]}


NIGHTS: dict[str, Change] = {
    "content is missing": each(without_content),
    "content is empty": each(lambda _, one: one | {"content": ""}),
    "content is a number": each(lambda _, one: one | {"content": 5}),
    "content is null": each(lambda _, one: one | {"content": None}),
    "every seventh is only its id": each(bare),
    "one text is empty": each(lambda at, one: one | {"content": ""} if at == 5 else one),
}
NOTHING_READABLE: dict[str, Change] = {
    "ids are numbers": each(lambda _, one: one | {"id": int(one["id"])}),
    "every element is null": each(lambda _, __: None),
}


def answers(desk: Desk, change: Change | None) -> None:
    """From now on pages are changed so."""

    def odd(path: str, _: dict[str, str], reply: Reply) -> Reply:
        return Reply(200, change(reply.body)) if change and path.endswith("/messages") else reply

    desk.standin.switches.odd = odd if change else None


def night(desk: Desk) -> Ending:
    desk.clock.ahead += DAY
    desk.mirror = replace(desk.mirror, looked={}, known=set(), intent={})
    known = desk.mirror.item(desk.channel.id)
    desk.store.queue.submit_one(sync_job(desk.channel.id) if known else add_job(desk.channel.id))
    worker = desk.worker()
    worker.run_until_idle()
    return ending(all_standing(desk.store, desk.mirror.blobs), {}, finished=True)


def texts(desk: Desk) -> dict[int, Any]:
    return {one.id: one.message.get("content") for one in desk.mirror.table(desk.channel.id).between()}


def there(desk: Desk) -> dict[int, Any]:
    world, channel = desk.standin.world, desk.channel
    return {int(raw["id"]): raw["content"] for n in range(channel.count) if (raw := world.message(channel, n))}


def looked(desk: Desk) -> Verified:
    found = desk.mirror
    return verify(found.blobs, desk.channel.id, found.table(desk.channel.id), found.discord, pages=2, seed=1)


@pytest.mark.parametrize("sort", NIGHTS)
def test_a_night_without_texts_is_told_overwrites_nothing_and_is_over_with_it(desk: Desk, sort: str) -> None:
    assert night(desk).code == 0
    answers(desk, NIGHTS[sort])
    told = night(desk)
    assert told.code != 0, told
    assert texts(desk) == there(desk)
    answers(desk, None)
    assert night(desk).code == 0 or night(desk).code == 0
    assert texts(desk) == there(desk)
    assert {len(one.versions) for one in desk.mirror.table(desk.channel.id).between()} == {1}
    assert not looked(desk).findings


@pytest.mark.parametrize("sort", NIGHTS)
def test_a_channel_first_seen_without_texts_has_them_after_a_healthy_night(desk: Desk, sort: str) -> None:
    answers(desk, NIGHTS[sort])
    told = night(desk)
    assert told.code != 0 or "empty" in sort, told  # of texts that were never seen nobody knows
    answers(desk, None)
    night(desk)
    assert night(desk).code == 0
    assert texts(desk) == there(desk)


def test_texts_that_turn_empty_are_told_as_a_missing_intent(desk: Desk) -> None:
    night(desk)
    answers(desk, NIGHTS["content is empty"])
    told = night(desk)
    assert told.code == 1
    assert "without the text that is kept" in told.lines[0]
    assert "message content intent" in told.lines[0]
    assert not looked(desk).sound


def test_a_text_that_is_shown_again_is_the_newest_again() -> None:
    one, other, edited = (
        b'{"id":"1","content":"one"}',
        b'{"id":"1","content":"other"}',
        b'{"id":"1","content":"one","edited_timestamp":"2026"}',
    )
    assert merged(merged((one,), other), one) == (other, one)
    assert merged((one, edited), other) == (one, other, edited), "an edit mark is stronger than the order of sights"
    assert merged((other, one, edited), other) == (one, other, edited)
    assert merged((one, b'{"id":"1"}'), one) == (one,), "what was kept of an answer without texts gives way"
    assert merged((one,), b'{"id":"1","content":""}') == (one,)
    assert len(merged((one,), b'{"id":"1","content":"","edited_timestamp":"2026"}')) == 2, "somebody emptied it"


def test_an_archive_that_kept_blanks_has_its_texts_again_after_a_healthy_night(desk: Desk) -> None:
    night(desk)
    table = desk.mirror.table(desk.channel.id)
    for one in desk.theirs()[:20]:
        found = table.search(one)
        assert found
        table.delete([one])
        table.upsert([found.message | {"content": 5, "embeds": [{"title": "x"}]}])
    assert not looked(desk).sound
    night(desk)
    assert texts(desk) == there(desk)
    assert looked(desk).sound


def test_a_single_look_without_a_text_says_nothing(desk: Desk) -> None:
    night(desk)
    one = desk.theirs()[3]

    def odd(path: str, _: dict[str, str], reply: Reply) -> Reply:
        return Reply(200, without_content(0, reply.body)) if path.endswith(str(one)) else reply

    desk.standin.switches.odd = odd
    desk.store.queue.submit_one(jobs.review_job(desk.channel.id, one))
    desk.run()
    assert texts(desk) == there(desk)


# --- Nothing, or nothing that can be read ---


def test_a_channel_that_names_a_last_message_and_shows_none_is_hidden_from_its_first_sync_on(desk: Desk) -> None:
    answers(desk, lambda _: [])
    for _ in range(2):
        told = night(desk)
        assert told.code == 1
        assert "it shows no messages at all" in told.lines[0]
        assert "history" in told.lines[0]
    answers(desk, None)
    assert night(desk).code == 0
    assert texts(desk) == there(desk)


def test_a_channel_without_any_message_is_whole(memory_folder: Path) -> None:
    with opened(memory_folder, count=0) as desk:
        assert night(desk).code == 0


@pytest.mark.parametrize("sort", NOTHING_READABLE)
@pytest.mark.parametrize("before", [0, 1], ids=["at first", "later"])
def test_where_no_element_can_be_read_that_is_told_in_these_words(desk: Desk, sort: str, before: int) -> None:
    for _ in range(before):
        night(desk)
    answers(desk, NOTHING_READABLE[sort])
    told = night(desk)
    assert told.code != 0
    assert "none of its elements can be read" in told.lines[0], told
    assert "no messages at all" not in told.lines[0]
    answers(desk, None)
    night(desk)
    assert night(desk).code == 0
    assert texts(desk) == there(desk)


def test_what_cannot_be_read_at_the_end_of_a_channel_is_owed(desk: Desk) -> None:
    answers(desk, lambda page: [None, *page[1:]] if page and int(page[0]["id"]) == desk.theirs()[-1] else page)
    told = night(desk)
    assert told.code != 0, told
    answers(desk, None)
    night(desk)
    assert night(desk).code == 0
    assert texts(desk) == there(desk)


def test_a_last_message_that_cannot_be_read_any_more_stops_nothing_else(desk: Desk) -> None:
    night(desk)
    last = desk.theirs()[-1]
    answers(desk, each(lambda _, one: {"id": one["id"]} if int(one["id"]) == last else one))
    edited = desk.theirs()[-3]
    desk.standin.world.edit(desk.channel, edited, desk.clock(), "edited")
    told = night(desk)
    assert told.code == 75, told
    assert "to be fetched again" in told.lines[0]
    assert texts(desk) == there(desk), "the others were seen"


def test_beside_a_single_id_what_cannot_be_read_may_stand_on_either_side() -> None:
    seven = {"id": "7", "content": ""}
    assert judge(1, Ask(after=0), [None, seven]).loose == (True, True)
    assert judge(1, Ask(after=0), [{"id": "9", "content": ""}, seven, None]).loose == (True, False)


# --- One message at a time ---

CLAMPS: dict[str, Change] = {
    "the nearest": lambda page: page[:1],
    "the furthest": lambda page: page[-1:],
    "either two": lambda page: page[:2],
}


@pytest.mark.parametrize("sort", [*CLAMPS, "as asked"])
def test_a_service_that_gives_one_message_at_a_time_is_no_proof_of_an_end(memory_folder: Path, sort: str) -> None:
    with opened(memory_folder, count=40) as desk:

        def odd(path: str, asked: dict[str, str], reply: Reply) -> Reply:
            if not path.endswith("/messages"):
                return reply
            page = sorted(reply.body, key=lambda one: int(one["id"]), reverse="after" not in asked)
            return Reply(200, page[:1] if sort == "as asked" else CLAMPS[sort](reply.body))

        desk.standin.switches.odd = odd
        told = night(desk)
        kept = texts(desk)
        assert kept == there(desk) or told.code != 0, (len(kept), told)
        assert kept == there(desk) or desk.coverage().gaps, told

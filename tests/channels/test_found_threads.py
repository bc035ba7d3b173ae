"""Threads and forum posts that come and go between two looks, whatever the lists show. From outside, over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from channels.desk import Desk, opened
from channels.office import Office, office
from custody.channels import jobs
from custody.channels.condition.standing import all_standing, ending, standing_of, told_before
from custody.channels.context import threads_under
from custody.channels.discord import thread_lists
from custody.channels.discord.client import Discord
from custody.channels.discord.threads import CURSORS, begins
from custody.channels.jobs import add_job, item_id, sync_job
from custody.demo.standins.discord_guild import FORUM, PRIVATE_THREAD, Channel, World


@pytest.fixture
def desk(memory_folder: Path) -> Iterator[Desk]:
    with opened(memory_folder, count=150) as desk:
        yield desk


def next_run(desk: Desk) -> None:
    """Another night: a process that begins, looks around, works until nothing is left, and ends."""
    desk.clock.ahead += 86_400
    desk.mirror = replace(desk.mirror, looked={})
    jobs.watch(desk.mirror)
    desk.run()


def archived(desk: Desk, parent: Channel, number: int, **more: Any) -> Channel:
    return desk.standin.world.add_thread(parent, number, 4, archived_at=desk.clock(), **more)


def test_a_post_that_was_made_and_archived_between_two_runs_is_found_by_the_next(desk: Desk) -> None:
    forum = desk.standin.world.add(FORUM, "questions", 40)
    desk.store.queue.submit_one(add_job(forum.id))
    desk.run()
    desk.clock.ahead += 86_400
    post = archived(desk, forum, 3)
    next_run(desk)
    assert desk.ids(post.id) == desk.theirs(post) != []


def test_a_thread_of_a_silent_channel_is_found_by_the_next_run_also_when_it_was_revived(desk: Desk) -> None:
    desk.mirror_all()
    one = archived(desk, desk.channel, 7)
    next_run(desk)
    assert desk.ids(one.id) == desk.theirs(one) != []
    desk.standin.world.post(one, 3)
    one.archived_at = desk.clock()
    next_run(desk)
    assert desk.ids(one.id) == desk.theirs(one)


def test_a_watch_looks_at_forums_every_quarter_of_an_hour_and_at_others_every_six(desk: Desk) -> None:
    forum = desk.standin.world.add(FORUM, "questions", 40)
    desk.store.queue.submit_one(add_job(forum.id))
    desk.mirror_all()
    assert jobs.watch(desk.mirror) == 0
    post = archived(desk, forum, 3, unlisted=True)
    assert jobs.watch(desk.mirror) == 1  # its last message is a post that nobody knows
    desk.run()
    assert desk.ids(post.id) == desk.theirs(post) != []
    for hours, lists in ((0.1, 0), (0.2, 1), (6, 2)):
        desk.clock.ahead += hours * 3600
        asked = len(desk.standin.asked)
        assert jobs.watch(desk.mirror) == 0
        assert sum("/threads/archived/" in path for path, _ in desk.standin.asked[asked:]) == lists


def test_private_threads_are_found_although_they_are_asked_for_only_later(desk: Desk) -> None:
    public, private = archived(desk, desk.channel, 3), archived(desk, desk.channel, 9, kind=PRIVATE_THREAD)
    desk.mirror_all()
    assert (desk.ids(public.id) != [], desk.ids(private.id)) == (True, [])
    desk.mirror = replace(desk.mirror, private_threads=True)
    next_run(desk)
    assert desk.ids(private.id) == desk.theirs(private)


def test_a_refused_list_moves_no_cursor_and_does_not_hide_what_the_others_show(desk: Desk) -> None:
    desk.mirror = replace(desk.mirror, private_threads=True)
    desk.standin.switches.no_private_threads = True
    private = archived(desk, desk.channel, 9, kind=PRIVATE_THREAD)
    joined = archived(desk, desk.channel, 12, kind=PRIVATE_THREAD, joined=True)
    desk.mirror_all()
    assert desk.ids(private.id) == []
    assert desk.ids(joined.id) == desk.theirs(joined)
    desk.clock.ahead += 3 * 86_400
    archived(desk, desk.channel, 20)
    next_run(desk)
    cursors = desk.store.records.item(item_id(desk.channel.id)).detail[CURSORS]
    assert "private" not in cursors
    desk.standin.switches.no_private_threads = False
    next_run(desk)
    assert desk.ids(private.id) == desk.theirs(private)


@pytest.mark.parametrize("number", [130, 190])
def test_threads_of_one_moment_on_the_edge_of_a_page_are_all_found(desk: Desk, number: int) -> None:
    world, now = desk.standin.world, desk.clock()
    desk.channel.count = 300
    for n in range(number):
        world.add_thread(desk.channel, n, 1, archived_at=now - timedelta(hours=1 if 90 <= n < 180 else n / 100))
    found = thread_lists.walked(desk.mirror, desk.channel.id, {})
    assert len(found.threads) == number
    assert found.cursors["public"]
    assert not found.unlisted


def in_a_row(desk: Desk, count: int, apart: float = 60.0) -> None:
    """So many threads, archived one after the other."""
    desk.channel.count, now = 300, desk.clock()
    for n in range(count):
        at = now - timedelta(days=5, seconds=apart * n)
        desk.standin.world.add_thread(desk.channel, n, 1, archived_at=at)


def lists_of(desk: Desk, patch: pytest.MonkeyPatch, change: Callable[[dict[str, Any], str], dict[str, Any]]) -> None:
    def answer(_: Discord, channel: int, before: str = "", kind: str = "public") -> dict[str, Any]:
        query = {"limit": "100"} | ({"before": before} if before else {})
        body: Any = desk.standin.archived_threads(query, str(channel), kind).body
        return change(dict(body), before)

    patch.setattr(Discord, "archived_threads", answer)


def kept_threads(desk: Desk) -> int:
    return len(threads_under(desk.store, desk.channel.id))


def why(desk: Desk) -> str:
    item = desk.store.records.item(item_id(desk.channel.id))
    return standing_of(desk.store, desk.mirror.blobs, item).state.sentence


def test_a_list_that_says_too_early_that_it_is_over_is_asked_once_more(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_a_row(desk, 106)
    lists_of(desk, monkeypatch, lambda page, before: page | {"has_more": bool(before) and page["has_more"]})
    desk.mirror_all()
    assert kept_threads(desk) == 106


def test_what_a_list_left_out_is_found_when_all_is_seen_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    in_a_row(desk, 106, apart=3_600)
    lists_of(
        desk,
        monkeypatch,
        lambda page, before: (
            page | {"threads": page["threads"][:100], "has_more": False}
            if not before
            else {"threads": page["threads"][:1], "has_more": False}
        ),
    )
    desk.mirror_all()
    assert kept_threads(desk) == 100, "two answers have said that there are no others"
    lists_of(desk, monkeypatch, lambda page, before: page)
    next_run(desk)
    assert kept_threads(desk) == 100, "and nobody asks for what is older every night"
    desk.clock.ahead += 31 * 86_400
    next_run(desk)
    assert kept_threads(desk) == 106


@pytest.mark.parametrize("newer", [0, 50])
def test_threads_that_cannot_be_listed_by_date_are_told_once_and_for_as_long_as_it_is_so(
    desk: Desk, newer: int
) -> None:
    in_a_row(desk, 130, apart=0)
    for n in range(130, 130 + newer):
        at = desk.clock() - timedelta(days=4, seconds=60 * n)
        desk.standin.world.add_thread(desk.channel, n, 1, archived_at=at)
    before = told_before(desk.store, desk.mirror.blobs)
    desk.mirror_all()
    assert kept_threads(desk) == 100 + newer
    assert "more than a page were archived at" in why(desk)
    assert ended(desk, before) == 1, "this run has found it"
    before = told_before(desk.store, desk.mirror.blobs)
    next_run(desk)
    assert "more than a page were archived at" in why(desk), "as long as it is so"
    assert ended(desk, before) == 0, "to come again would not help"
    for number, thread in enumerate(desk.standin.world.threads(desk.channel.id)):
        assert thread.archived_at
        thread.archived_at -= timedelta(minutes=number)
    next_run(desk)
    assert kept_threads(desk) == 130 + newer
    assert why(desk) == "kept up to date"


def ended(desk: Desk, before: dict[str, str]) -> int:
    return ending(all_standing(desk.store, desk.mirror.blobs), before, finished=True).code


def test_threads_of_one_millisecond_are_all_found(desk: Desk) -> None:
    """As a service archives them that does it for many at once."""
    in_a_row(desk, 230, apart=0.000_001)
    desk.mirror_all()
    assert kept_threads(desk) == 230
    assert why(desk) == "kept up to date"


def test_the_same_page_again_and_again_is_told(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    in_a_row(desk, 20)
    first = dict[str, Any]()
    lists_of(desk, monkeypatch, lambda page, before: first.setdefault("page", page) | {"has_more": True})
    desk.mirror_all()
    assert "archived threads cannot be listed" in why(desk)
    assert CURSORS not in desk.store.records.item(item_id(desk.channel.id)).detail


def test_a_thread_that_a_list_shows_late_is_found_by_the_next_look(desk: Desk) -> None:
    late = archived(desk, desk.channel, 3, unlisted=True)
    desk.clock.ahead += 3600
    archived(desk, desk.channel, 9)
    desk.mirror_all()
    assert desk.ids(late.id) == []
    late.unlisted = False
    desk.clock.ahead += 60
    desk.store.queue.submit_one(sync_job(desk.channel.id))
    desk.run()
    assert desk.ids(late.id) == desk.theirs(late) != []


def test_a_thread_that_no_list_shows_is_found_by_its_message(desk: Desk) -> None:
    hidden = archived(desk, desk.channel, 3, unlisted=True)
    other = archived(desk, desk.channel, 8, unlisted=True)
    desk.channel.edited[hidden.id] = {"flags": 32}
    desk.channel.edited[other.id] = {"thread": {"id": str(other.id)}}
    desk.mirror_all()
    assert desk.ids(hidden.id) == desk.theirs(hidden) != []
    assert desk.ids(other.id) == desk.theirs(other) != []


@pytest.mark.parametrize(
    ("raw", "thread"),
    [
        ({"id": "5"}, 0),
        ({"id": "5", "flags": 32}, 5),
        ({"id": "5", "flags": 31}, 0),
        ({"id": "5", "flags": "32"}, 0),
        ({"id": "5", "thread": {"id": "5"}}, 5),
        ({"id": "5", "thread": {"id": "x"}}, 0),
        ({"id": "9", "type": 18, "message_reference": {"channel_id": "7"}}, 7),
        ({"id": "9", "type": 18, "message_reference": None}, 0),
    ],
)
def test_a_message_says_which_thread_begins_there(raw: dict[str, Any], thread: int) -> None:
    assert begins(raw) == thread


@pytest.mark.parametrize(
    "answer", [{}, {"threads": None}, {"threads": [1, {"id": "x"}, {"id": "5"}], "has_more": True}]
)
def test_a_list_that_makes_no_sense_moves_no_cursor(
    desk: Desk, answer: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Discord, "archived_threads", lambda self, channel, before="", kind="": answer)
    found = thread_lists.walked(desk.mirror, desk.channel.id, {"public": "2026-01-01T00:00:00.000000+00:00"})
    assert (found.threads, found.cursors) == ([], {"public": "2026-01-01T00:00:00.000000+00:00"})


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Office]:
    world = World(seed=4)
    world.add(FORUM, "questions", 40)
    with office(tmp_path / "office", world) as here:
        yield here


def test_a_nightly_run_finds_posts_that_were_archived_since_the_last(here: Office) -> None:
    (forum,) = here.world.channels.values()
    here.run("channel", "add", str(forum.id))
    here.run("channel", "run", "--until-idle")
    post = here.world.add_thread(forum, 3, 4, archived_at=here.standin.clock())
    here.run("channel", "run", "--until-idle")
    assert here.same(post)
    assert len(list(here.table(post.id).between())) == 4

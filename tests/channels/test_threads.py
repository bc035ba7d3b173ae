"""Threads, forum posts and attachments: each thread a channel of its own, each file kept while its link is good."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest

from channels.desk import Desk, opened
from custody.channels.discord.attachments import where_kept
from custody.channels.jobs import add_job, item_id, remove_job, review_job, sync_job, watch
from custody.channels.removal import removal
from custody.channels.removal.removal import left_of
from custody.demo.standins.discord_guild import FORUM, PRIVATE_THREAD, Channel

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def desk(memory_folder: Path) -> Iterator[Desk]:
    with opened(memory_folder, count=150) as desk:
        yield desk


def thread(desk: Desk, number: int, count: int = 5, archived: int | None = None, **more: int) -> Channel:
    """A thread at the n-th message; archived so many days after a date."""
    at = LONG_AGO + timedelta(days=archived) if archived is not None else None
    return desk.standin.world.add_thread(desk.channel, number, count, archived_at=at, **more)


def test_threads_active_and_archived_are_channels_of_their_own_under_their_parent(desk: Desk) -> None:
    threads = [thread(desk, 3), *(thread(desk, 10 + n, archived=n) for n in range(3))]
    desk.mirror_all()
    for one in threads:
        assert desk.ids(one.id) == desk.theirs(one)
        item = desk.store.records.item(item_id(one.id))
        assert (item.detail["parent"], item.detail["mirrored"]) == (str(desk.channel.id), "yes")
        assert item.detail["archived"] == (one.archived_at is not None)
        assert desk.events(one.id) == ["changed", "added", "described", "synced"]


def test_a_thread_and_the_message_it_begins_at_have_one_id_and_are_both_found(desk: Desk) -> None:
    one = thread(desk, 7)
    desk.mirror_all()
    assert one.id in desk.ids()
    assert desk.mirror.table(desk.channel.id).search(one.id) is not None
    assert desk.ids(one.id) == desk.theirs(one)


def test_a_forum_has_no_messages_but_posts(desk: Desk) -> None:
    forum = desk.standin.world.add(FORUM, "questions", 4)
    posts = [desk.standin.world.add_thread(forum, n, 6, archived_at=LONG_AGO if n % 2 else None) for n in range(4)]
    desk.store.queue.submit_one(add_job(forum.id))
    desk.run()
    assert desk.ids(forum.id) == []
    assert desk.state(forum.id) == "yes"
    for post in posts:
        assert desk.ids(post.id) == desk.theirs(post)
        assert post.id in desk.ids(post.id), "the post itself is its first message"


def test_the_watch_finds_new_threads_news_in_old_ones_and_those_that_were_archived(desk: Desk) -> None:
    old = thread(desk, 3)
    desk.mirror_all()
    assert watch(desk.mirror) == 0
    new = thread(desk, 5)
    desk.standin.world.post(old, 2)
    assert watch(desk.mirror) == 2
    desk.run()
    assert (desk.ids(old.id), desk.ids(new.id)) == (desk.theirs(old), desk.theirs(new))
    old.archived_at = desk.clock()
    desk.standin.world.post(old)
    assert watch(desk.mirror) == 1
    desk.run()
    assert desk.ids(old.id) == desk.theirs(old)
    assert watch(desk.mirror) == 0, "an archived thread is left in peace"


def test_a_thread_made_and_archived_between_two_looks_is_found_and_old_ones_are_not_read_again(desk: Desk) -> None:
    for n in range(105):
        thread(desk, n, 1, archived=n)
    desk.mirror_all()
    missed = thread(desk, 149, 3, archived=400)
    asked = len(desk.standin.asked)
    desk.store.queue.submit_one(sync_job(desk.channel.id))
    desk.run()
    assert desk.ids(missed.id) == desk.theirs(missed)
    lists = [path for path, _ in desk.standin.asked[asked:] if "/threads/archived/" in path]
    assert len(lists) == 1, "the list is read down to where it was read before"


def test_private_threads_are_asked_for_only_where_that_is_wanted(desk: Desk) -> None:
    one = thread(desk, 3, archived=1, kind=PRIVATE_THREAD)
    desk.mirror_all()
    assert desk.ids(one.id) == []
    assert not any("private" in path for path, _ in desk.standin.asked)


def test_removing_a_channel_removes_its_threads_and_files_and_adding_it_again_brings_them_back(desk: Desk) -> None:
    one = thread(desk, 3, 120)
    desk.mirror_all()
    along = removal.goes_along(desk.store, desk.channel.id).along
    desk.store.queue.submit_one(remove_job(desk.channel.id, along=along))
    desk.run()
    assert list(desk.mirror.blobs.list("")) == []
    assert desk.events(one.id)[-1] == "removed"
    desk.mirror_all()
    assert desk.ids(one.id) == desk.theirs(one)


# --- Attachments ---


def with_files(desk: Desk, channel: Channel | None = None) -> dict[int, bytes]:
    """Every attachment of a channel, by its id."""
    world, channel = desk.standin.world, channel or desk.channel
    found = {}
    for number in range(channel.count):
        for one in (world.message(channel, number) or {}).get("attachments", []):
            found[int(one["id"])] = world.file(int(one["id"]), one["size"])
    return found


@pytest.fixture
def large(memory_folder: Path) -> Iterator[Desk]:
    with opened(memory_folder, count=730) as desk:
        yield desk


def test_every_file_is_kept_and_survives_its_link(large: Desk) -> None:
    large.mirror_all()
    files = with_files(large)
    assert len(files) > 3
    large.clock.ahead += 30 * 86_400
    kept = where_kept(large.mirror.blobs, large.channel.id)
    assert {one: large.mirror.blobs.read(name).data for one, (name, *_) in kept.items()} == files
    assert all(name.endswith(sha256(files[one]).hexdigest()) for one, (name, *_) in kept.items())


def test_a_file_goes_with_its_message_unless_another_has_the_same(large: Desk) -> None:
    world = large.standin.world
    world.file = lambda attachment, size: b"one file for all"  # type: ignore[method-assign]
    made = world._attachment
    world._attachment = lambda *of: made(*of) | {"size": 16}  # type: ignore[method-assign]
    large.mirror = replace(large.mirror, deleted="tombstone")
    large.mirror_all()
    rows = [row.message for row in large.mirror.files(large.channel.id).between()]
    assert len(list(large.mirror.blobs.list("media/"))) == 1, "each content once"
    for row in rows:
        assert len(list(large.mirror.blobs.list("media/"))) == 1
        large.standin.world.delete(large.channel, int(row["message"]))
        for _ in range(3):
            large.clock.ahead += 660
            large.store.queue.submit_one(review_job(large.channel.id, int(row["message"])))
            large.run()
    assert list(large.mirror.blobs.list("media/")) == []
    assert left_of(large.mirror, large.channel.id) != [], "the messages stay"

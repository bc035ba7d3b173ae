"""Limits and lists that no honest service sends: nobody waits for ever, nothing ends a program, and what is good is taken."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from channels.desk import Desk, opened
from custody.channels.discord.client import RateLimited
from custody.channels.jobs import sync_job
from custody.demo.standins.discord_traffic import Reply
from custody.errors import Unavailable

PATIENCE = 3.0
SHARED = {"X-RateLimit-Scope": "shared"}
SORTS: dict[str, Reply] = {
    "now": Reply(429, {"retry_after": 0}, SHARED),
    "now, in the header": Reply(429, {}, {**SHARED, "Retry-After": "0"}),
    "before now": Reply(429, {"retry_after": -5}, SHARED),
    "soon, for ever": Reply(429, {"retry_after": 1e-300}, SHARED),
    "no number": Reply(429, {"retry_after": float("nan")}, SHARED),
    "true": Reply(429, {"retry_after": True}, SHARED),
    "a list": Reply(429, {"retry_after": [1]}, SHARED),
    "without a time": Reply(429, {}, SHARED),
    "as a list": Reply(429, [], SHARED),
    "now, for all": Reply(429, {"retry_after": 0, "global": True}, SHARED),
    "a date": Reply(429, {}, {**SHARED, "Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}),
    "a million years": Reply(429, {"retry_after": 1e300}, SHARED),
    "digits": Reply(429, {}, {**SHARED, "Retry-After": "9" * 400}),
}


@pytest.fixture
def desk(memory_folder: Path) -> Iterator[Desk]:
    with opened(memory_folder, count=60) as desk:
        desk.mirror.discord.sleep = lambda _: None
        desk.mirror_all()
        desk.mirror.discord.patience = PATIENCE
        yield desk


@pytest.mark.parametrize("sort", SORTS)
def test_whoever_is_told_to_wait_each_time_gives_up_for_now(desk: Desk, sort: str) -> None:
    asked, began = list[str](), time.monotonic()

    def odd(path: str, _: dict[str, str], reply: Reply) -> Reply:
        asked.append(path)
        return SORTS[sort]

    desk.standin.switches.odd = odd
    with pytest.raises((RateLimited, Unavailable)) as caught:
        desk.mirror.discord.messages(desk.channel.id, after=0)
    assert 0 <= float(caught.value.facts.get("retry_after", 0)) <= 3_600
    assert 1 <= len(asked) <= PATIENCE + 1
    assert time.monotonic() - began < 60


METADATA: dict[str, Any] = {"archived": True, "archive_timestamp": "2026-05-01T00:00:00+00:00", "locked": False}
LISTS: dict[str, Any] = {
    "a number": 5,
    "a word": "none",
    "an object": {"id": "1"},
    "a date without a zone": [{"thread_metadata": METADATA | {"archive_timestamp": "2026-05-01T00:00:00"}}],
    "the first year": [{"thread_metadata": METADATA | {"archive_timestamp": "0001-01-01T00:00:00+00:00"}}],
    "the last year": [{"thread_metadata": METADATA | {"archive_timestamp": "9999-12-31T23:59:59+00:00"}}],
    "a date that is a number": [{"thread_metadata": METADATA | {"archive_timestamp": 1e300}}],
    "no metadata": [{"thread_metadata": None}],
    "ids of other sorts": [{"last_message_id": 1e300, "parent_id": [], "guild_id": {}, "thread_metadata": METADATA}],
    "a kind of its own": [{"type": 1e300, "message_count": 1e300, "thread_metadata": METADATA}],
}


@pytest.mark.parametrize("has_more", [False, True, "yes", 1e300, None])
@pytest.mark.parametrize("sort", LISTS)
def test_an_odd_list_of_archived_threads_ends_no_sync(desk: Desk, sort: str, has_more: Any) -> None:
    told = LISTS[sort]
    about = {"id": "90000000000555", "type": 11, "name": "odd", "parent_id": str(desk.channel.id)}
    shown = [about | one for one in told] if isinstance(told, list) else told

    def odd(path: str, _: dict[str, str], reply: Reply) -> Reply:
        return Reply(200, {"threads": shown, "has_more": has_more}) if "/threads/archived/" in path else reply

    desk.standin.world.post(desk.channel, 3)
    desk.standin.switches.odd = odd
    desk.mirror.looked.clear()
    desk.store.queue.submit_one(sync_job(desk.channel.id))
    desk.worker().run_until_idle()
    assert desk.ids() == desk.theirs()
    failed = [job for job in desk.store.queue.every() if job.ended == "failed"]
    assert failed == []
    assert not [
        job for job in desk.store.queue.every() if job.kind == "channel/sync" and job.lane == str(desk.channel.id)
    ]

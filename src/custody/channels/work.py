"""The workers on the engine: add a channel, sync it, review a message, remove a channel, watch, move between tiers.

A sync is one job per channel, keyed by it, so there is one writer; a removal waits until nobody writes any more.
What is done is in `steps`, a page at a time; here it becomes jobs and their outcomes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from custody.channels import steps, threads, tiering
from custody.channels.crawl import Coverage
from custody.channels.discord import Gone, RateLimited, Unreadable
from custody.channels.makers import ADD, MAKER_OF, REMOVE, REVIEW, SYNC
from custody.channels.mirror import (
    CHANNEL,
    POSTS_ONLY,
    Mirror,
    Request,
    Told,
    checked,
    item_id,
    kept,
    mirrored,
    number_of,
    parent_of,
)
from custody.channels.snowflake import parse
from custody.channels.steps import REFUSALS, Progress
from custody.engine.work import Work
from custody.model.acting import system
from custody.model.job import Filter, NewJob
from custody.model.outcome import Failed, Outcome, Passed, Wait

__all__ = [
    "ADD", "CHANNEL", "REMOVE", "REVIEW", "SYNC", "Mirror", "add", "add_job", "checked", "daily", "item_id", "job_of",
    "kept", "mirrored", "number_of", "remove", "remove_job", "review", "review_job", "sweep", "sync", "sync_job",
    "tiers", "watch",
]  # fmt: skip

BUSY_SECONDS = 0.5  # before a removal looks again whether somebody still writes


# --- What is asked, as jobs ---


def add_job(channel: int, newest_first: bool = False) -> NewJob:
    return _job(ADD, channel, **_newest_first(newest_first))


def sync_job(channel: int, why: str = "", newest_first: bool = False) -> NewJob:
    return _job(SYNC, channel, **({"why": why} if why else {}), **_newest_first(newest_first))


def review_job(channel: int, message: int) -> NewJob:
    given = {"channel": str(channel), "message": str(message)}
    return MAKER_OF[REVIEW].checked(NewJob(REVIEW, given, key=f"{channel}/{message}", lane=str(channel)))


def remove_job(channel: int, why: str = "") -> NewJob:
    return _job(REMOVE, channel, **({"why": why} if why else {}))


def job_of(request: Request) -> NewJob:
    made: dict[str, Callable[[], NewJob]] = {
        "add": lambda: add_job(request.channel, request.newest_first),
        "sync": lambda: sync_job(request.channel, request.why, request.newest_first),
        "review": lambda: review_job(request.channel, request.message),
        "remove": lambda: remove_job(request.channel, request.why),
    }
    return made[request.what]()


def _job(kind: str, channel: int, **facts: Any) -> NewJob:
    given = {"channel": str(channel)}
    return MAKER_OF[kind].checked(NewJob(kind, given, key=str(channel), lane=str(channel), facts=facts))


def _newest_first(newest_first: bool) -> dict[str, Any]:
    return {"newest_first": True} if newest_first else {}


def channel_of(work: Work) -> int:
    return parse(str(work.payload["channel"]))


# --- Steps of the engine ---


def add(work: Work, mirror: Mirror) -> Outcome:
    return _passed(steps.add(mirror, channel_of(work), bool(work.facts.get("newest_first"))))


def sync(work: Work, mirror: Mirror) -> Outcome:
    """Fetch what is new, page by page, then look at the newest again for edits and deletions."""
    channel = channel_of(work)
    table, progress = mirror.table(channel), Progress(newest_first=bool(work.facts.get("newest_first")))
    try:
        while not progress.done:
            if work.stopped:
                return Wait(0, "stopped between two pages; the next worker goes on")
            progress = steps.page(mirror, channel, table, progress)
        return _passed(steps.ended(mirror, channel, table, progress))
    except REFUSALS as refusal:
        return _passed(steps.set_aside(mirror, channel, refusal))
    except RateLimited as limit:
        return _wait(limit)


def review(work: Work, mirror: Mirror) -> Outcome:
    channel, message = channel_of(work), parse(str(work.payload["message"]))
    try:
        return _passed(steps.review(mirror, channel, message))
    except REFUSALS as refusal:
        return _passed(steps.set_aside(mirror, channel, refusal))
    except RateLimited as limit:
        return _wait(limit)


def remove(work: Work, mirror: Mirror) -> Outcome:
    """Delete everything we keep of a channel, once nobody writes to it any more."""
    channel = channel_of(work)
    if mirror.item(channel) is None:
        return Failed("channel.unknown", f"channel {channel} was never mirrored here")
    begun = steps.begin_removal(mirror, channel)
    mirror.store.records.put(begun.items, agent=work.claim.holder)
    if _somebody_writes(mirror, channel):
        return Wait(BUSY_SECONDS, "a sync of this channel is just ending")
    while steps.remove_page(mirror, channel):
        if work.stopped:
            return Wait(0, "stopped between two pages; the next worker goes on")
    told = steps.removed(channel, str(work.facts.get("why", "")))
    then = [job_of(request) for request in begun.requests]
    return Passed(items=told.items, events=told.events, then=then, forget=True)


def _somebody_writes(mirror: Mirror, channel: int) -> bool:
    jobs = mirror.store.queue.every(Filter(kind="channel/*", lane=str(channel)))
    return any(job.holder and job.kind in (SYNC, REVIEW) for job in jobs)


def _passed(told: Told) -> Outcome:
    if told.failed:
        return Failed(told.failed, str(told.detail.get("reason", "")))
    then = [job_of(request) for request in told.requests]
    return Passed(told.detail, items=told.items, events=told.events, then=then, forget=True)


def _wait(limit: RateLimited) -> Wait:
    """Waiting for a limit is nobody's failure."""
    return Wait(float(limit.facts.get("retry_after", 1.0)), limit.message)


# --- Looking around ---


def watch(mirror: Mirror) -> int:
    """Where something may be new, a sync is due. What a channel says of its last message is only a hint."""
    requests = looked_around(mirror)
    if requests:
        mirror.store.queue.submit([job_of(request) for request in requests], system("watch"))
    return len(requests)


def looked_around(mirror: Mirror) -> list[Request]:
    """One question per channel; one per guild for all its threads."""
    due, guilds = list[Request](), dict[int, set[int]]()
    for item in mirrored(mirror.store):
        active = guilds.setdefault(parse(str(item.detail.get("guild") or 0)), set())
        if not parent_of(item):
            due += _looked_at(mirror, number_of(item))
        elif not item.detail.get("archived"):
            active.add(number_of(item))
    return due + [request for guild, known in guilds.items() if guild for request in _threads_of(mirror, guild, known)]


def _looked_at(mirror: Mirror, channel: int) -> list[Request]:
    try:
        about = mirror.discord.channel(channel)
    except (Gone, Unreadable):
        return [Request("sync", channel, why="it cannot be seen any more")]
    if about.get("type") in POSTS_ONLY:  # its last message is a thread, which the guild's list shows
        return []
    behind = Coverage.read(mirror.table(channel).mark).behind(about.get("last_message_id"))
    return [Request("sync", channel, why="it says it has something new")] if behind else []


def _threads_of(mirror: Mirror, guild: int, known: set[int]) -> list[Request]:
    """Threads with something new, those that are new, and those that went out of sight: archived, or deleted."""
    try:
        active = mirror.discord.active_threads(guild)
    except (Gone, Unreadable):
        return []
    parents = {number_of(item) for item in mirrored(mirror.store)}
    told = threads.news(mirror, [one for one in active if one.get("parent_id") and parse(one["parent_id"]) in parents])
    if told.items or told.events:
        mirror.store.records.put(told.items, told.events, "watch")
    vanished = known - {parse(thread["id"]) for thread in active}
    return [*told.requests, *(Request("sync", one, why="it is no longer active") for one in sorted(vanished))]


# --- Every day ---


def daily(mirror: Mirror) -> int:
    """Clear away what crashes left behind, then move what is left; answers how many blobs moved."""
    sweep(mirror)
    return tiers(mirror)


def sweep(mirror: Mirror) -> int:
    """Delete blobs that nothing names; answers how many."""
    swept = 0
    for item in kept(mirror.store):
        told = steps.sweep(mirror, number_of(item))
        if told.events:
            mirror.store.records.put((), told.events, "sweep")
        swept += told.detail["blobs"]
    return swept


def tiers(mirror: Mirror) -> int:
    """Move what is no longer used to a cooler tier, and back what is; answers how many blobs moved."""
    moved = 0
    for item in kept(mirror.store):
        told = tiering.round_of(mirror, number_of(item))
        if told.events:
            mirror.store.records.put((), told.events, "tiers")
        moved += sum(told.detail.values())
    return moved

"""The workers on the engine: add a channel, sync it, review a message, remove a channel, watch, move between tiers.

A sync is one job per channel, keyed by it, so there is one writer; a removal waits until nobody writes any more.
What is done is in `steps`, a page at a time; here it becomes jobs and their outcomes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from custody.channels import fetching, owing, paying, removing, rounds, states, steps, threads, tiering, trust
from custody.channels.crawl import Coverage
from custody.channels.discord import BadToken, Gone, RateLimited, Unreadable
from custody.channels.makers import ADD, FILES, MAKER_OF, REMOVE, REVIEW, SYNC
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
from custody.model.errors import Unavailable
from custody.model.item import Item
from custody.model.job import Filter, NewJob
from custody.model.outcome import Failed, Outcome, Passed, Wait

__all__ = [
    "ADD", "CHANNEL", "FILES", "REMOVE", "REVIEW", "SYNC", "Mirror", "add", "add_job", "checked", "daily", "files",
    "files_job", "item_id", "job_of", "kept", "mirrored", "number_of", "remove", "remove_job", "review", "review_job",
    "sweep", "sync", "sync_job",
    "tiers", "watch",
]  # fmt: skip

TOKEN_SECONDS = 60.0  # before it is looked whether there is another token
BUSY_SECONDS = 0.5  # before a removal looks again whether somebody still writes


# --- What is asked, as jobs ---


def add_job(channel: int, newest_first: bool = False) -> NewJob:
    return _job(ADD, channel, **_newest_first(newest_first))


def sync_job(channel: int, why: str = "", newest_first: bool = False) -> NewJob:
    return _job(SYNC, channel, **({"why": why} if why else {}), **_newest_first(newest_first))


def review_job(channel: int, message: int) -> NewJob:
    given = {"channel": str(channel), "message": str(message)}
    return MAKER_OF[REVIEW].checked(NewJob(REVIEW, given, key=f"{channel}/{message}", lane=str(channel)))


def files_job(channel: int) -> NewJob:
    return _job(FILES, channel)


def remove_job(channel: int, why: str = "") -> NewJob:
    return _job(REMOVE, channel, **({"why": why} if why else {}))


def job_of(request: Request) -> NewJob:
    made: dict[str, Callable[[], NewJob]] = {
        "add": lambda: add_job(request.channel, request.newest_first),
        "sync": lambda: sync_job(request.channel, request.why, request.newest_first),
        "review": lambda: review_job(request.channel, request.message),
        "files": lambda: files_job(request.channel),
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
    try:
        return _passed(steps.add(mirror, channel_of(work), bool(work.facts.get("newest_first"))))
    except BadToken as refusal:
        return Wait(TOKEN_SECONDS, str(refusal))


def sync(work: Work, mirror: Mirror) -> Outcome:
    """Fetch what is new, page by page, then look at the newest again for edits and deletions.

    What a service refuses is written down, with the time of the next try, and the job is over: a job that failed would
    swallow whatever is asked later, and one that waits would wait on when its reason is gone.
    """
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
    except Unavailable as trouble:
        if trouble.code == "table.damaged":  # no second try helps before somebody mends it
            return _passed(steps.set_aside(mirror, channel, trouble))
        steps.stumbled(mirror, channel, trouble)
        raise


def review(work: Work, mirror: Mirror) -> Outcome:
    channel, message = channel_of(work), parse(str(work.payload["message"]))
    try:
        return _passed(steps.review(mirror, channel, message))
    except REFUSALS as refusal:
        return _passed(steps.set_aside(mirror, channel, refusal))
    except RateLimited as limit:
        return _wait(limit)


def files(work: Work, mirror: Mirror) -> Outcome:
    """Fetch what messages named, some at a time; what must wait is asked for again by the watch, when it is due."""
    channel = channel_of(work)
    try:
        while True:
            steps.still_mirrored(mirror, channel)
            done, told = fetching.batch(mirror, channel)
            if done:
                return _passed(told)
            mirror.store.records.put(told.items, told.events, work.claim.holder)
            if work.stopped:
                return Wait(0, "stopped between two files; the next worker goes on")
    except steps.NotMirrored as refusal:
        return _passed(Told({"why": str(refusal)}))
    except RateLimited as limit:
        return _wait(limit)


def remove(work: Work, mirror: Mirror) -> Outcome:
    """Delete everything we keep of a channel, once nobody writes to it any more."""
    channel = channel_of(work)
    if mirror.item(channel) is None:
        return Failed("channel.unknown", f"channel {channel} was never mirrored here")
    begun = removing.begin_removal(mirror, channel)
    mirror.store.records.put(begun.items, agent=work.claim.holder)
    if _somebody_writes(mirror, channel):
        return Wait(BUSY_SECONDS, "a sync of this channel is just ending")
    while removing.remove_page(mirror, channel):
        if work.stopped:
            return Wait(0, "stopped between two pages; the next worker goes on")
    told = removing.removed(channel, str(work.facts.get("why", "")))
    then = [job_of(request) for request in begun.requests]
    return Passed(items=told.items, events=told.events, then=then, forget=True)


def _somebody_writes(mirror: Mirror, channel: int) -> bool:
    jobs = mirror.store.queue.every(Filter(kind="channel/*", lane=str(channel)))
    return any(job.holder and job.kind in (SYNC, REVIEW, FILES) for job in jobs)


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
    due, guilds = fetching.due(mirror), dict[int, set[int]]()
    try:
        for item in kept(mirror.store):
            if request := _due_anyway(mirror, item):
                due.append(request)
            elif item.detail.get("mirrored") != "yes":
                continue
            active = guilds.setdefault(parse(str(item.detail.get("guild") or 0)), set())
            if not parent_of(item):
                due += [] if request else _looked_at(mirror, item)
            elif not item.detail.get("archived"):
                active.add(number_of(item))
        listed = [one for guild, known in guilds.items() if guild for one in _threads_of(mirror, guild, known)]
    except BadToken as refusal:
        _refused(mirror, refusal)
        return []
    return due + listed


DUE_BY_ITEM = {
    "look_again": "some messages were not shown",
    "erase_at": "some are to be erased",
    paying.OWED_AT: "something is owed",
}


def _due_anyway(mirror: Mirror, item: Item) -> Request | None:
    """Whatever the channel says of itself: a second try, a second witness, or its round is due."""
    now, channel, trouble = mirror.store.now(), number_of(item), item.detail.get("trouble") or {}
    if trouble:
        if trouble.get("what") == "token" and not mirror.discord.dead:
            return Request("sync", channel, why="there is another token")
        due = states.is_due(trouble, now)
        return Request("sync", channel, why=f"tried again: {trouble.get('what')}") if due else None
    if item.detail.get("mirrored") != "yes" or item.detail.get("kind") in POSTS_ONLY:
        return None
    for name, why in DUE_BY_ITEM.items():
        if (then := item.detail.get(name)) and trust.moment(str(then)) <= now:
            return Request("sync", channel, why=why)
    if item.detail.get(owing.NO_INTENT) and owing.sees_content(mirror):
        return Request("sync", channel, why="its content may be seen now")
    if rounds.is_due(mirror, item, Coverage.read(mirror.table(channel).mark)):
        return Request("sync", channel, why="every message is to be seen again")
    return None


def _refused(mirror: Mirror, refusal: BadToken) -> None:
    """The token is everybody's: all that is mirrored waits for another."""
    for item in mirrored(mirror.store):
        if (item.detail.get("trouble") or {}).get("what") != "token":
            told = steps.set_aside(mirror, number_of(item), refusal)
            mirror.store.records.put(told.items, told.events, "watch")


def _looked_at(mirror: Mirror, item: Item) -> list[Request]:
    channel = number_of(item)
    try:
        about = mirror.discord.channel(channel)
    except (Gone, Unreadable):
        return [Request("sync", channel, why="it cannot be seen any more")]
    found = list[Request]()
    if threads.is_due(mirror, item) or threads.hinted(mirror, about):
        told = threads.look(mirror, item, about, active=False)  # the guild's list is asked for once, for all
        if told.items or told.events:
            mirror.store.records.put(told.items, told.events, "watch")
        found = [*told.requests]
    if about.get("type") in POSTS_ONLY:  # its last message is a thread
        return found
    last = about.get("last_message_id")
    news = Coverage.read(mirror.table(channel).mark).behind(last) and str(last) != item.detail.get("hint")
    return [*found, Request("sync", channel, why="it says it has something new")] if news else found


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
        told = removing.sweep(mirror, number_of(item))
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

"""The workers on the engine: add a channel, sync it, review a message, remove a channel, watch, move between tiers.

A sync is one job per channel, keyed by it, so there is one writer; a removal waits until nobody writes any more.
What is done is in `crawler`, a page at a time; here it becomes jobs and their outcomes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from custody.channels import removal
from custody.channels.blobs import tier_moves
from custody.channels.blobs.port import Broken
from custody.channels.condition import refusals
from custody.channels.condition.refusals import REFUSALS
from custody.channels.context import CHANNEL, Context, Request, Told, checked, item_id, kept, mirrored, number_of
from custody.channels.crawl import crawler, look_around
from custody.channels.crawl.crawler import FORWARD, GAPS, Progress
from custody.channels.discord.client import RateLimited
from custody.channels.discord.rate_limits import LONGEST
from custody.channels.files import fetch
from custody.channels.integrity import damage
from custody.channels.makers import ADD, FILES, MAKER_OF, REMOVE, REVIEW, SYNC
from custody.channels.snowflake import parse
from custody.channels.table import Torn
from custody.errors import Refused, Unavailable
from custody.kernel.engine.work import Work
from custody.kernel.model.authority.acting import system
from custody.kernel.model.job import Filter, NewJob
from custody.kernel.model.outcome import Failed, Outcome, Passed, Wait

__all__ = [
    "ADD",
    "CHANNEL",
    "FILES",
    "REMOVE",
    "REVIEW",
    "SYNC",
    "Context",
    "add",
    "add_job",
    "checked",
    "daily",
    "files",
    "files_job",
    "item_id",
    "job_of",
    "kept",
    "mirrored",
    "number_of",
    "remove",
    "remove_job",
    "review",
    "review_job",
    "sweep",
    "sync",
    "sync_job",
    "tiers",
    "watch",
]

LATEST = int((LONGEST + 600) * 1_000_000)  # microseconds: no job of a channel is ever due later than this
TURN = 20  # questions of one channel before others have their turn
BUSY_SECONDS = 0.5  # before a removal looks again whether somebody still writes


# --- What is asked, as jobs ---


def add_job(channel: int, newest_first: bool = False) -> NewJob:
    return _job(ADD, channel, **_newest_first(newest_first))


def sync_job(channel: int, why: str = "", newest_first: bool = False) -> NewJob:
    return _job(SYNC, channel, **({"why": why} if why else {}), **_newest_first(newest_first))


def next_turn(work: Work, progress: Progress) -> NewJob:
    """A sync that goes on when others had their turn: behind them in the line; behind what is new if it is not."""
    told = {name: str(count) for name, count in progress.counted().items() if count}  # ids are beyond 2^53
    facts = {**work.facts, "progress": told}
    again = _job(SYNC, channel_of(work), **facts)
    return again if progress.phase in (FORWARD, GAPS) else replace(again, priority=again.priority + 1)


def review_job(channel: int, message: int) -> NewJob:
    given = {"channel": str(channel), "message": str(message)}
    return MAKER_OF[REVIEW].checked(NewJob(REVIEW, given, key=f"{channel}/{message}", lane=str(channel)))


def files_job(channel: int) -> NewJob:
    return _job(FILES, channel)


def remove_job(channel: int, why: str = "", along: Iterable[int] = ()) -> NewJob:
    """With the threads that were shown to whoever said it: none that is heard of later is taken along."""
    told = {"why": why, "along": [str(one) for one in along]}
    return _job(REMOVE, channel, **{name: value for name, value in told.items() if value})


def job_of(request: Request) -> NewJob:
    made: dict[str, Callable[[], NewJob]] = {
        "add": lambda: add_job(request.channel, request.newest_first),
        "sync": lambda: sync_job(request.channel, request.why, request.newest_first),
        "review": lambda: review_job(request.channel, request.message),
        "files": lambda: files_job(request.channel),
        "remove": lambda: remove_job(request.channel, request.why, request.along),
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


def add(work: Work, mirror: Context) -> Outcome:
    """Make the channel known. What a service refuses is written down on its item, and the job is over."""
    try:
        return _passed(crawler.add(mirror, channel_of(work), bool(work.facts.get("newest_first"))))
    except RateLimited as limit:
        return _wait(limit)


def sync(work: Work, mirror: Context) -> Outcome:
    """Fetch what is new, page by page, then look at the newest again for edits and deletions.

    What a service refuses is written down, with the time of the next try, and the job is over: a job that failed would
    swallow whatever is asked later, and one that waits would wait on when its reason is gone.
    """
    channel = channel_of(work)
    table = mirror.table(channel)
    progress = Progress.read(work.facts.get("progress") or {}, bool(work.facts.get("newest_first")))
    turn = progress.asked + TURN
    try:
        while not progress.done:
            if work.stopped:
                return Wait(0, "stopped between two pages; the next worker goes on")
            if progress.asked >= turn:
                if _others_wait(mirror, channel):
                    return Passed({"asked": progress.asked}, then=[next_turn(work, progress)], forget=True)
                turn = progress.asked + TURN
            progress = crawler.page(mirror, channel, table, progress)
        return _passed(crawler.ended(mirror, channel, table, progress))
    except REFUSALS as refusal:
        return _passed(refusals.set_aside(mirror, channel, refusal))
    except RateLimited as limit:
        return _wait(limit)
    except Unavailable as trouble:
        if isinstance(trouble, Torn | Broken):  # it was mended as far as can be: the rest is somebody's to mend
            return _passed(refusals.set_aside(mirror, channel, trouble))
        refusals.stumbled(mirror, channel, trouble)
        raise


def _others_wait(mirror: Context, channel: int) -> bool:
    """Is there something to fetch for another channel that nobody does just now?"""
    now, jobs = mirror.store.now(), mirror.store.queue.every(Filter(kind="channel/*"))
    return any(
        job.kind in (ADD, SYNC, REVIEW)
        and job.lane != str(channel)
        and job.ended is None
        and not job.holder
        and (job.due is None or job.due <= now)
        for job in jobs
    )


def review(work: Work, mirror: Context) -> Outcome:
    channel, message = channel_of(work), parse(str(work.payload["message"]))
    try:
        return _passed(crawler.review(mirror, channel, message))
    except REFUSALS as refusal:
        return _passed(refusals.set_aside(mirror, channel, refusal))
    except RateLimited as limit:
        return _wait(limit)


def files(work: Work, mirror: Context) -> Outcome:
    """Fetch what messages named, some at a time; what must wait is asked for again by the watch, when it is due."""
    channel = channel_of(work)
    try:
        crawler.still_mirrored(mirror, channel)
        damage.look(mirror, channel)
        while True:
            crawler.still_mirrored(mirror, channel)
            done, told = fetch.batch(mirror, channel)
            if done:
                return _passed(told)
            mirror.store.records.put(told.items, told.events, work.claim.holder)
            if work.stopped:
                return Wait(0, "stopped between two files; the next worker goes on")
    except refusals.NotMirrored as refusal:
        return _passed(Told({"why": str(refusal)}))
    except RateLimited as limit:
        return _wait(limit)


def remove(work: Work, mirror: Context) -> Outcome:
    """Delete everything we keep of a channel, once nobody writes to it any more."""
    channel = channel_of(work)
    if mirror.item(channel) is None:
        return Failed("channel.unknown", f"channel {channel} was never mirrored here")
    along = [parse(str(one)) for one in work.facts.get("along") or ()]
    begun = removal.begin_removal(mirror, channel, along)
    mirror.store.records.put(begun.items, agent=work.claim.holder)
    if _somebody_writes(mirror, channel):
        return Wait(BUSY_SECONDS, "a sync of this channel is just ending")
    while removal.remove_page(mirror, channel):
        if work.stopped:
            return Wait(0, "stopped between two pages; the next worker goes on")
    told = removal.removed(mirror, channel, str(work.facts.get("why", "")))
    then = [job_of(request) for request in begun.requests]
    return Passed(items=told.items, events=told.events, then=then, forget=True)


def _somebody_writes(mirror: Context, channel: int) -> bool:
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


def watch(mirror: Context) -> int:
    """Where something may be new, a sync is due. What a channel says of its last message is only a hint."""
    believe_no_clock(mirror)
    requests = look_around.around(mirror)
    if requests:
        mirror.store.queue.submit([job_of(request) for request in requests], system("watch"))
    return len(requests)


def believe_no_clock(mirror: Context) -> None:
    """Ask anew for what waits longer than anything of ours ever does: its time was set by a clock that was ahead."""
    latest = mirror.store.now() + LATEST
    jobs = [job for job in mirror.store.queue.every(Filter(kind="channel/*")) if job.kind in MAKER_OF]
    for job in jobs:
        if job.ended is not None or job.holder or job.due is None or job.due <= latest:
            continue
        with suppress(Refused):  # somebody works on it just now
            mirror.store.queue.delete(job.id, "watch", "a clock was ahead when its time was set")
            again = NewJob(job.kind, dict(job.payload), key=job.key, lane=job.lane, facts=dict(job.facts))
            mirror.store.queue.submit_one(MAKER_OF[job.kind].checked(again), system("watch"))


# --- Every day ---


def daily(mirror: Context) -> int:
    """Clear away what crashes left behind, then move what is left; answers how many blobs moved."""
    sweep(mirror)
    return tiers(mirror)


def sweep(mirror: Context) -> int:
    """Delete blobs that nothing names; answers how many."""
    swept = 0
    for item in kept(mirror.store):
        told = removal.sweep(mirror, number_of(item))
        if told.events:
            mirror.store.records.put((), told.events, "sweep")
        swept += told.detail["blobs"]
    return swept


def tiers(mirror: Context) -> int:
    """Move what is no longer used to a cooler tier, and back what is; answers how many blobs moved."""
    moved = 0
    for item in kept(mirror.store):
        told = tier_moves.round_of(mirror, number_of(item))
        if told.events:
            mirror.store.records.put((), told.events, "tiers")
        moved += sum(told.detail.values())
    return moved

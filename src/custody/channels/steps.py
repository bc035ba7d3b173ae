"""What is done with a channel, a page at a time, whoever coordinates it: the engine, Azure's queues or Temporal.

Each page is written with its mark in one commit: whatever is killed when, the next worker reads the mark and goes on
behind it. What an archive has of a channel is always a contiguous beginning plus gaps that are written down.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice

from custody.channels import attachments, crawl, seen, threads
from custody.channels.blobs import NoBlob
from custody.channels.crawl import PAGE, Coverage, Page, next_ask
from custody.channels.discord import Gone, Unreadable
from custody.channels.mirror import (
    HELD,
    POSTS_ONLY,
    Mirror,
    Raw,
    Request,
    Told,
    described,
    item_id,
    noted,
    threads_under,
)
from custody.channels.snowflake import HIGHEST, parse
from custody.channels.table import Found, Table
from custody.model.errors import CustodyError, Refused
from custody.model.event import NewEvent
from custody.model.item import Item

LOOK_BACK = 2  # pages of the newest that are compared again after each sync
PER_PAGE_OF_REMOVAL = 100
ORPHANED = timedelta(days=1)  # before a blob that nothing names is taken for one that nobody wants


class Hidden(Refused):
    """The channel shows nothing at all, though we have some of it: the bot may not read its history any more."""

    code = "discord.hidden"


class NotMirrored(Refused):
    """The channel was removed, or never added."""

    code = "channel.not-mirrored"


SET_ASIDE: dict[type[CustodyError], str] = {Unreadable: "unreadable", Gone: "gone", Hidden: "hidden"}
REFUSALS = (Unreadable, Gone, Hidden, NotMirrored)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one sync has come. What has been fetched is not here but in the mark."""

    added: int = 0
    lost: int = 0  # files that could not be had
    pages: int = 0
    newest_first: bool = False
    done: bool = False


# --- Adding ---


def add(mirror: Mirror, channel: int, newest_first: bool = False) -> Told:
    """A channel is mirrored from now on. Adding a known one again is no news."""
    known = mirror.item(channel)
    if known and known.detail.get("mirrored") == "yes":
        return Told({"known": True, "name": known.detail.get("title", "")})
    try:
        item = described(mirror.discord.channel(channel))
    except (Gone, Unreadable) as refusal:
        return Told({"reason": refusal.message}, failed=refusal.code)
    name = str(item.detail["title"])
    event = NewEvent(item.id, "added", detail={"name": name})
    return Told({"name": name}, (item,), (event,), (Request("sync", channel, newest_first=newest_first),))


# --- Syncing ---


def page(mirror: Mirror, channel: int, table: Table, progress: Progress) -> Progress:
    """Fetch one page and write it: forward from what we have, or what a gap is missing."""
    if still_mirrored(mirror, channel).detail.get("kind") in POSTS_ONLY:
        return replace(progress, done=True)
    coverage = Coverage.read(table.mark)
    backward = progress.newest_first and (bool(coverage.gaps) or not progress.pages)
    ask, asked_at = next_ask(coverage, backward), mirror.stamp()
    messages = mirror.discord.messages(channel, after=ask.after, before=ask.before, limit=PAGE)
    if not messages and coverage.gaps and not mirror.discord.messages(channel, before=HIGHEST, limit=1):
        raise Hidden("it shows no messages at all", where=item_id(channel), hint="may the bot read its history?")
    asked = Page(tuple(parse(raw["id"]) for raw in messages), ask.after, ask.before)
    grown = coverage.fetched(asked)
    attachments.want(mirror, channel, messages)
    threads.remember(mirror, channel, messages)
    if messages or grown != coverage:
        table.upsert(messages, grown.mark(), asked_at)
    done = asked.short and not grown.gaps and ask.after is not None
    return replace(
        progress,
        added=progress.added + len(messages),
        pages=progress.pages + 1,
        done=done,
    )


def ended(mirror: Mirror, channel: int, table: Table, progress: Progress) -> Told:
    """The present was reached: look at the newest again for edits and deletions, and for threads."""
    item, about = still_mirrored(mirror, channel), mirror.discord.channel(channel)
    edited = deleted = 0
    if about.get("type") not in POSTS_ONLY:
        edited, deleted = look_back(mirror, channel, table)
    found = threads.look(mirror, item, about)
    coverage = Coverage.read(table.mark)
    told = {
        "added": progress.added,
        "edited": edited,
        "deleted": deleted,
        "upto": str(coverage.upto),
        "gaps": len(coverage.gaps),
        **({"files lost": progress.lost} if progress.lost else {}),
        **found.detail,
    }
    items, events = [*found.items], [*found.events]
    archived = bool((about.get("thread_metadata") or {}).get("archived"))
    if archived != bool(item.detail.get("archived")):
        items.append(noted(channel, archived=archived))
    if item.detail.get("mirrored") != "yes":
        items.append(noted(channel, mirrored="yes"))
        events.append(NewEvent(item.id, "readable again"))
    if progress.added or edited or deleted or found.events:
        outcome = "warning" if progress.lost else "success"
        events.append(NewEvent(item.id, "synced", outcome, detail=told))  # type: ignore[arg-type]
    return Told(told, tuple(items), tuple(events), (*found.requests, *_files_wanted(mirror, channel)))


def still_mirrored(mirror: Mirror, channel: int) -> Item:
    item = mirror.item(channel)
    if item is None or item.detail.get("mirrored") in ("removing", "removed"):
        raise NotMirrored("it is not mirrored", where=item_id(channel), hint="`custody channel add` it")
    return item


def look_back(mirror: Mirror, channel: int, table: Table, pages: int = LOOK_BACK) -> tuple[int, int]:
    """Compare the newest pages with what is kept; every version of an edited message stays."""
    edited = deleted = 0
    before = Coverage.read(table.mark).upto + 1
    for _ in range(pages):
        asked_at, messages = mirror.stamp(), mirror.discord.messages(channel, before=before, limit=PAGE)
        shown = Page(tuple(parse(raw["id"]) for raw in messages), before=before)
        first = 0 if shown.short else shown.ids[0]
        stored = {one.id: one for one in table.between(first, before) if not one.deleted_at}
        changes = crawl.look_back({key: one.message for key, one in stored.items()}, shown, messages)
        if not changes.proved:
            raise Hidden("it shows no messages at all", where=item_id(channel), hint="may the bot read its history?")
        updated = [*changes.edited, *changes.added]
        attachments.want(mirror, channel, messages)
        threads.remember(mirror, channel, messages)
        if updated:
            table.upsert(updated, asked_at=asked_at)
        seen.refresh(table, mirror.seen(channel), messages, asked_at)
        deleted += take_out(mirror, channel, table, [stored[one] for one in changes.deleted])
        edited += len(changes.edited)
        if shown.short:
            break
        before = shown.ids[0]
    return edited, deleted


def take_out(mirror: Mirror, channel: int, table: Table, gone: list[Found]) -> int:
    """Messages that were deleted, their files first: a crash in between finds them gone again next time."""
    if not gone:
        return 0
    attachments.drop(mirror.blobs, channel, gone)
    return table.delete([one.id for one in gone], mirror.stamp())


def set_aside(mirror: Mirror, channel: int, refusal: CustodyError) -> Told:
    """We may no longer read it: it is marked so and left alone, and what we have stays."""
    how, item = SET_ASIDE.get(type(refusal), ""), mirror.item(channel)
    told = {"why": str(refusal)}
    if not how or item is None or item.detail.get("mirrored") == how:
        return Told(told)
    event = NewEvent(item.id, how, "failure", detail=told)
    # What was named until now is fetched all the same: its links do not last.
    return Told(told, (noted(channel, mirrored=how),), (event,), _files_wanted(mirror, channel))


# --- One message ---


def review(mirror: Mirror, channel: int, message: int) -> Told:
    """Look at one message again: found, it is brought up to date; gone, it is taken out."""
    still_mirrored(mirror, channel)
    table, item, asked_at = mirror.table(channel), item_id(channel), mirror.stamp()
    raw = _message(mirror, channel, message)
    if raw is None:
        found = table.search(message)
        gone = take_out(mirror, channel, table, [found] if found and not found.deleted_at else [])
        told = {"message": str(message), "was here": gone}
        return Told({"gone": True}, events=(NewEvent(item, "message deleted", detail=told),))
    attachments.want(mirror, channel, [raw])
    table.upsert([raw], asked_at=asked_at)
    seen.refresh(table, mirror.seen(channel), [raw], asked_at)
    event = NewEvent(item, "message reviewed", detail={"message": str(message)})
    return Told({"gone": False}, events=(event,), requests=_files_wanted(mirror, channel))


def _files_wanted(mirror: Mirror, channel: int) -> tuple[Request, ...]:
    """Files are a job of their own: no message waits for one."""
    return (Request("files", channel),) if attachments.anything_wanted(mirror, channel) else ()


def _message(mirror: Mirror, channel: int, message: int) -> Raw | None:
    try:
        return mirror.discord.message(channel, message)
    except Gone:
        return None


# --- Removing ---


def begin_removal(mirror: Mirror, channel: int) -> Told:
    """From now on nobody writes to it; its threads go as well."""
    children = _threads_left(mirror, channel)
    along = (noted(thread, removed_with=str(channel)) for thread in children)
    requests = tuple(Request("remove", thread, why=f"its channel {channel} was removed") for thread in children)
    return Told({}, (noted(channel, mirrored="removing"), *along), (), requests)


def _threads_left(mirror: Mirror, channel: int) -> list[int]:
    under = threads_under(mirror.store, channel)
    return [one for one in under if (item := mirror.item(one)) and item.detail.get("mirrored") != "removed"]


def remove_page(mirror: Mirror, channel: int) -> bool:
    """Delete some of what we keep, from our own lists: it works after a kick as well. Answers whether there is more."""
    if any(table.remove_some(PER_PAGE_OF_REMOVAL) for table in mirror.tables(channel)):
        return True
    left = list(islice(mirror.blobs.list(f"media/{channel}/"), PER_PAGE_OF_REMOVAL + 1))
    for blob in left[:PER_PAGE_OF_REMOVAL]:
        with suppress(NoBlob):
            mirror.blobs.delete(blob.name)
    return len(left) > PER_PAGE_OF_REMOVAL


def removed(channel: int, why: str = "") -> Told:
    event = NewEvent(item_id(channel), "removed", detail={"why": why} if why else {})
    return Told({}, (noted(channel, mirrored="removed"),), (event,))


# --- Clearing away ---


def sweep(mirror: Mirror, channel: int) -> Told:
    """Blobs that a crash in the middle of a split left behind. Fresh ones may be a writer's that is at work now."""
    before = mirror.now() - ORPHANED
    swept = [name for table in mirror.tables(channel) for name in table.sweep(before)]
    event = NewEvent(item_id(channel), "swept", detail={"blobs": len(swept)})
    return Told({"blobs": len(swept)}, events=(event,) if swept else ())


def left_of(mirror: Mirror, channel: int) -> list[str]:
    """Blobs that are still kept of a channel."""
    return [blob.name for folder in HELD for blob in mirror.blobs.list(f"{folder}/{channel}/")]

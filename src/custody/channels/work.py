"""The workers: add a channel, sync it, look back, review a message, remove a channel. One function each.

A sync is one job per channel, keyed by it, so there is one writer. Each page is written with its mark in one commit:
whatever is killed when, the next worker reads the mark and goes on behind it. What an archive has of a channel is
always a contiguous beginning plus gaps that are written down.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from custody.channels import crawl, media
from custody.channels.blobs import Blobs
from custody.channels.crawl import PAGE, Coverage, Page, next_ask
from custody.channels.discord import Discord, Gone, Unreadable
from custody.channels.snowflake import parse
from custody.channels.table import Settings, Table
from custody.engine.work import Work
from custody.model.errors import BadInput, CustodyError, Unavailable
from custody.model.event import NewEvent
from custody.model.item import Item, NewItem
from custody.model.job import NewJob
from custody.model.outcome import Failed, Outcome, Passed, Wait
from custody.stores import Store

ADD: Final = "channel/add"
SYNC: Final = "channel/sync"
REVIEW: Final = "channel/review"
REMOVE: Final = "channel/remove"
CHANNEL: Final = "channel"  # the type of the items
LOOK_BACK = 2  # pages of the newest that are compared again after each sync
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Raw = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Mirror:
    """Where messages come from and where they are kept."""

    store: Store
    discord: Discord
    blobs: Blobs
    settings: Settings
    largest_file: int = 100 << 20

    def table(self, channel: int) -> Table:
        return Table(self.blobs, channel, self.settings)

    def now(self) -> datetime:
        return EPOCH + timedelta(microseconds=self.store.now())


def item_id(channel: int) -> str:
    return f"channel/{channel}"


def add_job(channel: int) -> NewJob:
    return NewJob(ADD, {"channel": str(channel)}, key=str(channel), lane=str(channel))


def sync_job(channel: int, why: str = "") -> NewJob:
    return NewJob(
        SYNC, {"channel": str(channel)}, key=str(channel), lane=str(channel), facts={"why": why} if why else {}
    )


def review_job(channel: int, message: int) -> NewJob:
    given = {"channel": str(channel), "message": str(message)}
    return NewJob(REVIEW, given, key=f"{channel}/{message}", lane=str(channel))


def remove_job(channel: int) -> NewJob:
    return NewJob(REMOVE, {"channel": str(channel)}, key=str(channel), lane=str(channel))


def channel_of(work: Work) -> int:
    return parse(str(work.payload["channel"]))


def add(work: Work, mirror: Mirror) -> Outcome:
    """A channel is mirrored from now on. Adding a known one again is no news."""
    channel = channel_of(work)
    try:
        about = mirror.discord.channel(channel)
    except (Gone, Unreadable) as refusal:
        return Failed(refusal.code, str(refusal))
    item = NewItem(
        item_id(channel), frozenset({CHANNEL}), fingerprint=f"added {channel}",
        detail={"title": about.get("name", str(channel)), "guild": about.get("guild_id", ""), "mirrored": "yes"},
    )  # fmt: skip
    events = [NewEvent(item.id, "added", detail={"name": about.get("name", "")})]
    return Passed({"name": about.get("name", "")}, items=[item], events=events, then=[sync_job(channel)], forget=True)


def sync(work: Work, mirror: Mirror) -> Outcome:
    """Fetch what is new, page by page, then look at the newest again for edits and deletions."""
    channel = channel_of(work)
    table = mirror.table(channel)
    try:
        added, finished = _forward(work, mirror, channel, table)
        if not finished:
            return Wait(0, "stopped between two pages; the next worker goes on")
        edited, deleted = _look_back(mirror, channel, table)
    except Unreadable as refusal:
        return _set_aside(mirror, channel, refusal)
    coverage = Coverage.read(table.mark)
    told = {
        "added": added,
        "edited": edited,
        "deleted": deleted,
        "upto": str(coverage.upto),
        "gaps": len(coverage.gaps),
    }
    events = [NewEvent(item_id(channel), "synced", detail=told)] if added or edited or deleted else []
    return Passed(told, events=events, forget=True)


def _forward(work: Work, mirror: Mirror, channel: int, table: Table) -> tuple[int, bool]:
    """Pages from what we have up to the present; how many messages, and whether the end was reached."""
    added = 0
    coverage = Coverage.read(table.mark)
    while not work.stopped:
        ask = next_ask(coverage)
        messages = mirror.discord.messages(channel, after=ask.after, before=ask.before, limit=PAGE)
        page = Page(tuple(parse(raw["id"]) for raw in messages), ask.after, ask.before)
        coverage = coverage.fetched(page)
        _keep_files(mirror, messages)
        if messages:
            table.upsert(messages, coverage.mark())
        added += len(messages)
        if page.short and not coverage.gaps:
            return added, True
    return added, False


def _keep_files(mirror: Mirror, messages: Sequence[Raw]) -> None:
    """Attachments are fetched before their links expire. One that cannot be had does not stop the messages."""
    for url in _links(messages):
        try:
            media.keep(mirror.blobs, mirror.discord.attachment(url), mirror.largest_file)
        except CustodyError as error:
            if isinstance(error, Unavailable):
                raise
            mirror.store.records.note("media/lost", "not kept", "channels", link=url[:500], why=str(error))


def _links(messages: Sequence[Raw]) -> Iterator[str]:
    for raw in messages:
        for attachment in raw.get("attachments") or []:
            if isinstance(attachment, Mapping) and attachment.get("url"):
                yield str(attachment["url"])


def _look_back(mirror: Mirror, channel: int, table: Table) -> tuple[int, int]:
    """Compare the newest pages with what is kept; every version of an edited message stays."""
    edited = deleted = 0
    before = Coverage.read(table.mark).upto + 1
    for _ in range(LOOK_BACK):
        messages = mirror.discord.messages(channel, before=before, limit=PAGE)
        page = Page(tuple(parse(raw["id"]) for raw in messages), before=before)
        if not messages:
            break
        first = page.ids[0] if not page.short else 0
        stored = {
            parse(found.message["id"]): found.message for found in table.between(first, before) if not found.deleted_at
        }
        changes = crawl.look_back(stored, page, messages)
        if changes.edited or changes.added:
            table.upsert([*changes.edited, *changes.added], Coverage.read(table.mark).mark())
        if changes.deleted:
            deleted += table.delete(changes.deleted, mirror.now().isoformat())
        edited += len(changes.edited)
        if page.short:
            break
        before = page.ids[0]
    return edited, deleted


def _set_aside(mirror: Mirror, channel: int, refusal: CustodyError) -> Outcome:
    """We may no longer read it: it is marked so and left alone, and what we have stays."""
    item = NewItem(item_id(channel), frozenset({CHANNEL}), detail={"mirrored": "unreadable"}, changed=False)
    event = NewEvent(item.id, "unreadable", "failure", detail={"why": str(refusal)})
    return Passed({"why": str(refusal)}, items=[item], events=[event], forget=True)


def review(work: Work, mirror: Mirror) -> Outcome:
    """Look at one message again: found, it is brought up to date; gone, it is taken out."""
    channel, message = channel_of(work), parse(str(work.payload["message"]))
    table = mirror.table(channel)
    try:
        raw = mirror.discord.message(channel, message)
    except Gone:
        gone = table.delete([message], mirror.now().isoformat())
        event = NewEvent(item_id(channel), "message deleted", detail={"message": str(message), "was here": gone})
        return Passed({"gone": True}, events=[event], forget=True)
    table.upsert([raw], table.mark)
    event = NewEvent(item_id(channel), "message reviewed", detail={"message": str(message)})
    return Passed({"gone": False}, events=[event], forget=True)


def remove(work: Work, mirror: Mirror) -> Outcome:
    """Delete everything we keep of a channel, from our own table: it works after a kick as well."""
    channel = channel_of(work)
    table = mirror.table(channel)
    while table.remove_some():
        if work.stopped:
            return Wait(0, "stopped between two pages; the next worker goes on")
    item = NewItem(item_id(channel), frozenset({CHANNEL}), detail={"mirrored": "removed"}, changed=False)
    return Passed(items=[item], events=[NewEvent(item.id, "removed")], forget=True)


def mirrored(store: Store) -> Iterator[Item]:
    """The channels that are to be kept up to date."""
    after = ""
    while items := store.records.items(after, type_=CHANNEL):
        yield from (item for item in items if item.detail.get("mirrored") == "yes")
        after = items[-1].id


def number_of(item: Item) -> int:
    return parse(item.id.removeprefix("channel/"))


def watch(mirror: Mirror) -> int:
    """Ask each channel for its last message; where something may be new, a sync is due. The hint is only a hint."""
    due = []
    for item in mirrored(mirror.store):
        channel = number_of(item)
        try:
            about = mirror.discord.channel(channel)
        except (Gone, Unreadable):
            due.append(sync_job(channel, "it cannot be seen any more"))
            continue
        if Coverage.read(mirror.table(channel).mark).behind(about.get("last_message_id")):
            due.append(sync_job(channel, "it says it has something new"))
    if due:
        mirror.store.queue.submit(due, "watch")
    return len(due)


def checked(channel: str) -> int:
    """A channel's number, from what a person typed."""
    if not channel.isdigit():
        raise BadInput(
            f"{channel!r} is not a channel's number", code="channel.number", hint="a long number, from the app"
        )
    return parse(channel)

"""Threads and forum posts: found through their parent, each then a channel of its own.

Active threads are listed for a whole guild at once. Archived ones are listed by the date of their archiving, the
last first, so a look ends at the date up to which an earlier one came: a thread that was revived meanwhile has
a new date and is met again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile
from typing import Any

from custody.channels.crawl import Coverage
from custody.channels.discord import Gone, Unreadable
from custody.channels.mirror import THREADED, Mirror, Request, Told, described, noted
from custody.channels.snowflake import parse
from custody.model.event import NewEvent
from custody.model.item import Item

LOOKED = "threads_upto"  # the date of archiving up to which all threads are known

Raw = dict[str, Any]


def look(mirror: Mirror, item: Item, about: Raw) -> Told:
    """The threads of a channel that are new, or have something new."""
    if about.get("type") not in THREADED or not about.get("guild_id"):
        return Told({})
    channel, since = parse(about["id"]), str(item.detail.get(LOOKED, ""))
    archived = list(_archived(mirror, channel, since))
    upto = max((_archived_at(thread) for thread in archived), default=since)
    active = [one for one in _active(mirror, parse(about["guild_id"])) if str(one.get("parent_id")) == about["id"]]
    told = news(mirror, [*active, *archived])
    return replace(told, items=(*told.items, noted(channel, **{LOOKED: upto}))) if upto != since else told


def news(mirror: Mirror, threads: list[Raw]) -> Told:
    """Threads as they are now, against what is known here."""
    items, events, requests = [], [], []
    for thread in {one["id"]: one for one in threads}.values():
        number, item = parse(thread["id"]), described(thread)
        known = mirror.item(number)
        if known is None or _went_with_its_channel(known):
            items.append(replace(item, detail={**item.detail, "removed_with": ""}) if known else item)
            events.append(NewEvent(item.id, "added", detail={"name": item.detail["title"], "thread": True}))
            requests.append(Request("sync", number, why="a thread that is new"))
            continue
        if known.detail.get("mirrored") != "yes":  # removed or set aside: it does not come back by itself
            continue
        if bool(known.detail.get("archived")) != item.detail["archived"]:
            items.append(noted(number, archived=item.detail["archived"]))
        if Coverage.read(mirror.table(number).mark).behind(thread.get("last_message_id")):
            requests.append(Request("sync", number, why="a thread that says it has something new"))
    return Told({"threads": len(events)} if events else {}, tuple(items), tuple(events), tuple(requests))


def _went_with_its_channel(known: Item) -> bool:
    """Removed because its channel was, which is mirrored again."""
    return known.detail.get("mirrored") == "removed" and bool(known.detail.get("removed_with"))


def _active(mirror: Mirror, guild: int) -> list[Raw]:
    try:
        return mirror.discord.active_threads(guild)
    except (Gone, Unreadable):
        return []


def _archived(mirror: Mirror, channel: int, since: str) -> Iterator[Raw]:
    for kind in ("public", "private") if mirror.private_threads else ("public",):
        try:
            found = mirror.discord.archived_threads(channel, kind)
            yield from takewhile(lambda thread: _archived_at(thread) >= since, found)
        except (Gone, Unreadable):
            continue


def _archived_at(thread: Raw) -> str:
    return str(thread["thread_metadata"]["archive_timestamp"])

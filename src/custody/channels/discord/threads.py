"""Threads and forum posts: found through their parent, each then a channel of its own.

Three sources, of which any one suffices: the lists (active threads of a whole guild, then archived ones by their
parent: what is archived in between is met in the second); messages that say that a thread begins there; and the last
message of a forum, which is a thread. Lists lag and lack, messages are shown again and again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from custody.channels import places
from custody.channels.condition.states import TIED, UNLISTED
from custody.channels.context import POSTS_ONLY, THREADED, Context, Request, Told, noted, number_of
from custody.channels.crawl import due
from custody.channels.crawl.coverage import Coverage
from custody.channels.discord import thread_lists
from custody.channels.discord.client import Gone, Unreadable
from custody.channels.snowflake import parse
from custody.errors import BadInput
from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import Item

CURSORS: Final = "threads_seen"  # by kind of list: the date of archiving up to which all threads are known
NAMED: Final = "threads_named"  # threads that messages speak of and nobody knows yet
WHOLE: Final = "threads_whole"  # when the lists were last read to their ends
MOST_NAMED = 200
MOST_ASKED = 20  # of those in one look: others have their turn
HAS_THREAD, THREAD_CREATED = 1 << 5, 18
OFTEN, RARELY = timedelta(minutes=15), timedelta(hours=6)  # between two looks: at a forum, and at other channels

Raw = dict[str, Any]


def look(mirror: Context, item: Item, about: Raw, active: bool = True) -> Told:
    """The threads of a channel that are new, or have something new; the active ones too, unless others list those."""
    if about.get("type") not in THREADED or not about.get("guild_id"):
        return Told({})
    channel = parse(about["id"])
    mirror.looked[channel] = mirror.now()
    listed = _active(mirror, parse(about["guild_id"])) if active else []
    alive = [one for one in listed if str(one.get("parent_id")) == about["id"]]
    cursors = dict(item.detail.get(CURSORS) or {})
    now, period = mirror.store.now(), int(mirror.round_days * timedelta(days=1) / timedelta(microseconds=1))
    whole = bool(period) and due.is_over(item.detail.get(WHOLE), now, period)
    lists = thread_lists.walked(mirror, channel, cursors, whole)
    archived, moved = lists.threads, lists.cursors
    shown = {str(one["id"]) for one in (*alive, *archived)}
    unknown = [one for one in _unknown(mirror, item, about) if str(one) not in shown]
    named, later = unknown[-MOST_ASKED:], [str(one) for one in unknown[:-MOST_ASKED]]
    told = news(mirror, [*alive, *archived, *_fetched(mirror, channel, named)])
    facts: dict[str, Any] = {CURSORS: moved} if moved != cursors else {}
    facts |= {NAMED: later} if item.detail.get(NAMED) or later else {}
    facts |= {WHOLE: mirror.stamp()} if lists.ended and whole else {}
    said = {UNLISTED: lists.unlisted, TIED: lists.tied}
    facts |= {name: value for name, value in said.items() if value != (item.detail.get(name) or "")}
    return replace(told, items=(*told.items, noted(channel, **facts))) if facts else told


def is_due(mirror: Context, item: Item) -> bool:
    """Is it time to look for threads, though the channel says nothing? Once in every run, and from time to time."""
    if item.detail.get("kind") not in THREADED:
        return False
    looked = mirror.looked.get(number_of(item))
    often = OFTEN if item.detail.get("kind") in POSTS_ONLY else RARELY
    return looked is None or not timedelta() <= mirror.now() - looked < often


def remember(mirror: Context, channel: int, messages: Iterable[Mapping[str, Any]]) -> None:
    """Note the threads that messages speak of, for the look at the end of the sync: a list may not show them."""
    named = {one for raw in messages if (one := begins(raw)) and mirror.item(one) is None}
    item = mirror.item(channel) if named else None
    if item is None or (item.detail.get("kind") not in THREADED and item.detail.get(places.SURE)):
        return
    known = {parse(str(one)) for one in item.detail.get(NAMED) or ()}
    if named - known:
        newest = sorted(known | named)[-MOST_NAMED:]
        mirror.store.records.put([noted(channel, **{NAMED: [str(one) for one in newest]})], agent="threads")


def begins(raw: Mapping[str, Any]) -> int:
    """The thread that begins at this message, which has its id; 0 if none does."""
    thread, flags = raw.get("thread"), raw.get("flags")
    flagged = isinstance(flags, int) and bool(flags & HAS_THREAD)
    reference = raw.get("message_reference") if raw.get("type") == THREAD_CREATED else None
    told = (thread or {}).get("id") if isinstance(thread, dict) else None
    if told is None and isinstance(reference, dict):
        told = reference.get("channel_id")
    try:
        return parse(str(told)) if told else parse(str(raw.get("id"))) if flagged else 0
    except BadInput:
        return 0


def _unknown(mirror: Context, item: Item, about: Raw) -> list[int]:
    """Threads that somebody spoke of and that are not known here."""
    told = [str(one) for one in item.detail.get(NAMED) or ()]
    if about.get("type") in POSTS_ONLY and about.get("last_message_id"):
        told.append(str(about["last_message_id"]))
    return [one for one in map(parse, told) if mirror.item(one) is None]


def _fetched(mirror: Context, parent: int, threads: Iterable[int]) -> list[Raw]:
    found = []
    for one in threads:
        try:
            about = mirror.discord.channel(one)
        except (Gone, Unreadable):
            continue
        if str(about.get("parent_id")) == str(parent) and about.get("thread_metadata"):
            found.append(about)
    return found


def news(mirror: Context, threads: list[Raw]) -> Told:
    """Threads as they are now, against what is known here."""
    items, events, requests, new = [], [], [], 0
    for thread in {one["id"]: one for one in threads}.values():
        number, item = parse(thread["id"]), places.new(mirror, thread, places.LIST)
        known = mirror.item(number)
        if known is None or _went_with_its_channel(known):
            items.append(replace(item, detail={**item.detail, "removed_with": ""}) if known else item)
            events.append(NewEvent(item.id, "added", detail={"name": item.detail["title"], "thread": True}))
            events += places.told_of(item.id, item.detail["kind"])
            requests.append(Request("sync", number, why="a thread that is new"))
            new += 1
            continue
        if known.detail.get("mirrored") != "yes":  # removed or set aside: it does not come back by itself
            continue
        places.learn(mirror, known, thread, places.LIST)
        if bool(known.detail.get("archived")) != bool(item.detail.get("archived")):
            items.append(noted(number, archived=bool(item.detail.get("archived"))))
        if Coverage.read(mirror.table(number).mark).behind(thread.get("last_message_id")):
            requests.append(Request("sync", number, why="a thread that says it has something new"))
    return Told({"threads": new} if new else {}, tuple(items), tuple(events), tuple(requests))


def hinted(mirror: Context, about: Raw) -> bool:
    """Does a forum name a post that is not known here?"""
    last = str(about.get("last_message_id") or "")
    if about.get("type") not in POSTS_ONLY or not last.isdecimal() or mirror.item(int(last)) is not None:
        return False
    asked = (int(str(about["id"])), int(last))
    fresh = asked not in mirror.known  # it may name one that was deleted, and go on doing so
    mirror.known.add(asked)
    return fresh


def _went_with_its_channel(known: Item) -> bool:
    """Removed because its channel was, which is mirrored again."""
    return known.detail.get("mirrored") == "removed" and bool(known.detail.get("removed_with"))


def _active(mirror: Context, guild: int) -> list[Raw]:
    try:
        return mirror.discord.active_threads(guild)
    except (Gone, Unreadable):
        return []

"""Rounds: every message of a channel seen again, page by page from the beginning, every so many days.

Nothing else finds what was left out of the middle of a page when it was first shown, or changed deep in the past. Some
pages of a round have their turn with each look at a quiet channel, so that a channel of a thousand messages is seen
whole every day; what is left of it when the days are over is done in one go. An archive that was made before answers
were judged has no round behind it, so one is due at once.
"""

from __future__ import annotations

from typing import Any

from custody.channels import notes
from custody.channels.context import Context, noted, number_of
from custody.channels.crawl import due, trust, walk
from custody.channels.crawl.coverage import Coverage
from custody.channels.crawl.kept import Kept, Live
from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import Item

HOUR = 3_600 * 1_000_000
DAY = 24 * HOUR
OVER = -1


def told(item: Item) -> dict[str, Any]:
    """What the item has of its rounds: `cursor` while one is under way, and when the last ended."""
    found = item.detail.get("round")
    return dict(found) if isinstance(found, dict) else {}


def is_due(mirror: Context, item: Item, coverage: Coverage) -> bool:
    """Must all of it be seen again now, or is a round of that sort under way?"""
    if not coverage.upto:
        return False
    known, now = told(item), mirror.store.now()
    if "cursor" in known or not known.get("ended"):
        return True
    period = int(mirror.round_days * DAY)
    if not period or not due.is_over(known["ended"], now, period):
        return False
    return due.is_over(mirror.notes.of(number_of(item)).get(notes.ENDED), now, period)


def has_a_turn(mirror: Context, item: Item, coverage: Coverage) -> bool:
    """Are some pages of its past to be seen again with this look? Once in `look_hours`."""
    if not coverage.upto or not mirror.round_pages or not mirror.look_hours:
        return False
    last = mirror.notes.of(number_of(item)).get(notes.TURN)
    return due.is_over(last, mirror.store.now(), int(mirror.look_hours * HOUR))


def place(mirror: Context, item: Item) -> tuple[int, int]:
    """Where the round that is under way stands, and how many kept messages it was denied so far."""
    known = told(item)
    if "cursor" in known:
        return int(known["cursor"]), int(known.get("denied", 0))
    noted_ = mirror.notes.of(number_of(item))
    return (noted_[notes.CURSOR], noted_.get(notes.DENIED, 0)) if noted_.get(notes.CURSOR) else (0, 0)


def step(live: Live, kept: Kept, cursor: int, found: walk.Found) -> int:
    """One page; answers where to go on, `OVER` at the end."""
    there = walk.again(live, kept, cursor, found)
    return OVER if there is None else there


def ended(mirror: Context, item: Item, count: int, whole: bool) -> None:
    """All of it was seen again; so many kept messages were not shown."""
    channel, now = number_of(item), mirror.store.now()
    mirror.notes.put(channel, **{notes.ENDED: now, notes.TURN: now, notes.CURSOR: 0, notes.DENIED: count})
    if whole or count:
        event = NewEvent(item.id, "seen again", detail={"since": told(item).get("began", ""), "not shown": count})
        known = told(item)
        began = {"began": known["began"]} if "cursor" in known and known.get("began") else {}  # this one's own
        over = noted(channel, round={**began, "ended": mirror.stamp(), "denied": count})
        mirror.store.records.put((over,), (event,), "channels")


def saved(mirror: Context, item: Item, cursor: int, count: int, whole: bool) -> None:
    """Where a round stands, for whoever goes on with it, and how many kept messages it was denied so far."""
    channel, now = number_of(item), mirror.store.now()
    if not whole:
        began = mirror.notes.of(channel) if place(mirror, item)[0] else {}
        fresh = {notes.BEGAN: began.get(notes.BEGAN) or now}
        mirror.notes.put(channel, **{notes.TURN: now, notes.CURSOR: cursor, notes.DENIED: count}, **fresh)
        return
    known = told(item)
    since = known.get("began") if "cursor" in known else ""
    facts = {"began": since or mirror.stamp(), "cursor": str(cursor), "denied": count}
    mirror.store.records.put((noted(channel, round=known | facts),), (), "channels")


def denied(mirror: Context, item: Item, believed: int) -> int:
    """How many kept messages the last round, or this one so far, was denied; unless an operator has spoken since."""
    known, numbers = told(item), mirror.notes.of(number_of(item))
    since = known.get("began") or known.get("ended")
    of_item = int(known.get("denied", 0)) if since and trust.moment(str(since)) > believed else 0
    began = numbers.get(notes.BEGAN) or numbers.get(notes.ENDED, 0)
    return max(of_item, numbers.get(notes.DENIED, 0) if began > believed else 0)

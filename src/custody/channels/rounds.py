"""Rounds: every message of a channel seen again, page by page from the beginning, every so many days.

Nothing else finds what was left out of the middle of a page when it was first shown, or changed deep in the past. An
archive that was made before answers were judged has no round behind it, so one is due at once.
"""

from __future__ import annotations

from typing import Any

from custody.channels import trust, walk
from custody.channels.crawl import Coverage
from custody.channels.keeping import Kept, Live
from custody.channels.mirror import Mirror, noted, number_of
from custody.model.event import NewEvent
from custody.model.item import Item

DAY = 86_400 * 1_000_000
OVER = -1


def told(item: Item) -> dict[str, Any]:
    """What the item has of its rounds: `cursor` while one is under way, and when the last ended."""
    found = item.detail.get("round")
    return dict(found) if isinstance(found, dict) else {}


def is_due(mirror: Mirror, item: Item, coverage: Coverage) -> bool:
    if not coverage.upto:
        return False
    known = told(item)
    if "cursor" in known or not known.get("ended"):
        return True
    return bool(mirror.round_days) and trust.moment(known["ended"]) + mirror.round_days * DAY <= mirror.store.now()


def place(item: Item) -> tuple[int, int]:
    """Where the round that is under way stands, and how many kept messages it was denied so far."""
    known = told(item)
    return (int(known["cursor"]), int(known.get("denied", 0))) if "cursor" in known else (0, 0)


def step(live: Live, kept: Kept, cursor: int, found: walk.Found) -> int:
    """One page; answers where to go on, `OVER` at the end."""
    there = walk.again(live, kept, cursor, found)
    return OVER if there is None else there


def ended(mirror: Mirror, item: Item, count: int) -> None:
    """All of it was seen again; so many kept messages were not shown."""
    event = NewEvent(item.id, "seen again", detail={"since": told(item).get("began", ""), "not shown": count})
    over = noted(number_of(item), round={"ended": mirror.stamp(), "denied": count})
    mirror.store.records.put((over,), (event,), "channels")


def saved(mirror: Mirror, item: Item, cursor: int, count: int) -> None:
    """Where a round stands, for whoever goes on with it, and how many kept messages it was denied so far."""
    known = told(item)
    now = {"began": known.get("began") or mirror.stamp(), "cursor": str(cursor), "denied": count}
    mirror.store.records.put((noted(number_of(item), round=known | now),), (), "channels")


def denied(item: Item, believed: int) -> int:
    """How many kept messages the last round was denied, unless an operator has spoken since."""
    known = told(item)
    since = known.get("began") or known.get("ended")
    return int(known.get("denied", 0)) if since and trust.moment(str(since)) > believed else 0

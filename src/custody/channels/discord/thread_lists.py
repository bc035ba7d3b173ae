"""The lists of archived threads, read down to where they were read before.

They are sorted by the date of archiving, the last first, and asked for from a date on. Three things are easily lost,
and are not: threads of one date on the edge of a page (the next page begins a millisecond later, and what was met is
dropped; where more than a page lie within that, a microsecond later), threads that a list shows late (a look goes a day
further down than the last one came), and those of a kind that could not be asked for (each kind has a cursor of its
own, which moves only when its list was read to the end). What no list can show, and what looks like it, is told: more
than a page of one moment, or the same page for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from custody.channels.context import Context
from custody.channels.discord.client import Gone, Unreadable
from custody.channels.snowflake import parse
from custody.errors import BadInput

PUBLIC, PRIVATE, JOINED = "public", "private", "joined"
FLOOR: Final = timedelta(days=1)  # further down than the last look came
TICK = timedelta(milliseconds=1)
GRAIN = timedelta(microseconds=1)  # of the dates in a list
MOST_PAGES = 2_000  # a list that goes on for ever is none

Raw = dict[str, Any]
Page = Callable[[str], Raw]  # the page before this, or the first


@dataclass(slots=True)
class Walk:
    """One kind's list as far as it was read."""

    threads: dict[str, Raw] = field(default_factory=dict)
    ended: bool = False  # well: everything down to the floor was shown
    cursor: str = ""
    unlisted: str = ""  # why there are some that the list does not show
    tied: str = ""  # more than a page of them were archived at this moment: no list by date shows all of those

    def take(self, page: Raw) -> list[Raw]:
        """What this page shows for the first time."""
        shown = page.get("threads")
        good = [one for one in shown if _is_thread(one)] if isinstance(shown, list) else []
        new = [one for one in good if one["id"] not in self.threads]
        self.threads |= {one["id"]: one for one in new}
        return new


@dataclass(frozen=True, slots=True)
class Walked:
    threads: list[Raw]
    cursors: dict[str, str]
    unlisted: str = ""  # why some cannot be listed
    tied: str = ""  # a moment of which no list can show all
    ended: bool = False  # every list that there is was read to its end, or to its floor


def walked(mirror: Context, channel: int, cursors: Mapping[str, str], whole: bool = False) -> Walked:
    """Archived threads of every kind that may be asked for, and the cursors as they are now.

    All of the lists, if a whole look is due: what was left out of one by a wrong answer is found by no other.
    """
    found, moved, unlisted, tied, ended = dict[str, Raw](), dict(cursors), "", "", False
    for kind in (PUBLIC, PRIVATE, JOINED) if mirror.private_threads else (PUBLIC,):
        walk = Walk(cursor=cursors.get(kind, ""))
        try:
            if kind == JOINED:
                _by_id(walk, partial(mirror.discord.joined_threads, channel))
            else:
                _by_date(walk, partial(mirror.discord.archived_threads, channel, kind=kind), whole)
        except (Gone, Unreadable):
            pass  # what was shown is shown; the next look begins where this one did
        found |= walk.threads
        stamps = [archived_at(one) for one in walk.threads.values()]
        if walk.ended and stamps and not (walk.unlisted or walk.tied):
            moved[kind] = max(*stamps, walk.cursor)
        unlisted, tied = unlisted or walk.unlisted, tied or walk.tied
        ended |= kind == PUBLIC and walk.ended
    return Walked(
        threads=list(found.values()),
        cursors=moved,
        unlisted=unlisted,
        tied=tied,
        ended=ended and not (unlisted or tied),
    )


def _by_date(walk: Walk, page: Page, whole: bool) -> None:
    floor = _earlier(walk.cursor, FLOOR) if walk.cursor and not whole else ""
    before, told, over = "", True, False
    for _ in range(MOST_PAGES):
        answer = page(before)
        new = walk.take(answer)
        stamps = [archived_at(one) for one in answer.get("threads") or () if _is_thread(one)]
        more = answer.get("has_more") is not False
        if over and not new and not more and not _is_above(stamps, before):  # that it is over is said twice
            walk.ended = True
            return
        if not stamps or not (new or told) or _is_above(stamps, before):
            walk.unlisted = walk.unlisted or ("the same comes again and again" if stamps and (more or before) else "")
            return
        if min(stamps) < floor:
            walk.ended = True
            return
        edge, over = min(stamps), not more
        closest = _earlier(edge, -GRAIN)
        if new and (later := _earlier(edge, -TICK)) != before:
            before, told = later, True
        elif more and before != closest:
            before, told = closest, True
        else:  # all of one moment: go on below it
            walk.tied = edge if more and len(stamps) > 1 and set(stamps) == {edge} else walk.tied
            before, told = edge, bool(new)
    walk.unlisted = "the list goes on for ever"


def _is_above(stamps: Iterable[str], before: str) -> bool:
    """Is one of these not below what was asked for?"""
    asked = datetime.fromisoformat(before) if before else None
    return asked is not None and any(datetime.fromisoformat(one) >= asked for one in stamps)


def _by_id(walk: Walk, page: Page) -> None:
    """The list of private threads that the bot has joined is sorted by their ids: it is read to its end each time."""
    before = ""
    for _ in range(MOST_PAGES):
        answer = page(before)
        new = walk.take(answer)
        if answer.get("has_more") is False and walk.threads:
            walk.ended = True
        if not new and answer.get("has_more") and walk.threads:
            walk.unlisted = "the same comes again and again"
        if not new or not answer.get("has_more"):
            return
        before = min((one["id"] for one in new), key=int)


def _is_thread(one: Any) -> bool:
    if not isinstance(one, dict) or not isinstance(one.get("thread_metadata"), dict):
        return False
    try:
        parse(one.get("id", ""))
        datetime.fromisoformat(archived_at(one))
    except (ValueError, TypeError, AttributeError, BadInput):
        return False
    return True


def archived_at(thread: Raw) -> str:
    return str(thread["thread_metadata"].get("archive_timestamp", ""))


def _earlier(stamp: str, by: timedelta) -> str:
    return (datetime.fromisoformat(stamp) - by).isoformat(timespec="microseconds")

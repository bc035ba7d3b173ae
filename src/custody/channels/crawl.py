"""What has been fetched of a channel, what to fetch next, and what a second look has shown. Pure decisions.

The archive of a channel is always a contiguous beginning plus gaps that are written down. Nothing is skipped
because something newer is there: a gap is fetched until it is closed. Coverage travels as the mark of the
table's last page, so it is never ahead of the messages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from custody.channels.snowflake import HIGHEST, parse
from custody.channels.versions import newer
from custody.model.errors import BadInput

PAGE = 100
MOST_GAPS = 50  # the mark must fit into a blob's metadata

Raw = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Gap:
    """Ids between these two, without them."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Page:
    """One answer: what was asked, and the ids that came, in order."""

    ids: tuple[int, ...]
    after: int | None = None
    before: int | None = None
    limit: int = PAGE

    @property
    def short(self) -> bool:
        """There was no more to give."""
        return len(self.ids) < self.limit

    def proves(self) -> Gap:
        """The ids of which we now know all: a full page speaks for its span, a short one for the rest too."""
        if self.after is not None:
            return Gap(self.after, HIGHEST + 1 if self.short else self.ids[-1] + 1)
        return Gap(-1 if self.short else self.ids[0] - 1, HIGHEST + 1 if self.before is None else self.before)


@dataclass(frozen=True, slots=True)
class Coverage:
    """Every message up to `upto` was fetched, except those in the gaps."""

    upto: int = 0
    gaps: tuple[Gap, ...] = ()

    # --- How it grows ---

    def fetched(self, page: Page) -> Coverage:
        """The coverage after a page, whichever way it was asked for."""
        known = page.proves()
        grown = self
        if page.ids and page.ids[-1] > self.upto:
            grown = self.advance(page.ids[-1]) if known.low <= self.upto else self.gap(page.ids[0], page.ids[-1])
        return grown.close(known.low, known.high)

    def advance(self, upto: int) -> Coverage:
        """Everything from `self.upto` on up to here was fetched."""
        if upto < self.upto:
            raise BadInput("coverage does not shrink", code="crawl.coverage", where=str(upto))
        return replace(self, upto=upto)

    def gap(self, first: int, upto: int) -> Coverage:
        """A page from `first` to `upto` was fetched, and nothing between it and what we had."""
        if not self.upto < first <= upto:
            raise BadInput("this is not beyond what was fetched", code="crawl.coverage", where=f"{first}..{upto}")
        return _bounded(replace(self, upto=upto, gaps=(*self.gaps, Gap(self.upto, first))))

    def close(self, low: int, high: int) -> Coverage:
        """Everything between these two was fetched: gaps shrink, part, or go."""
        left: list[Gap] = []
        for gap in self.gaps:
            pieces = (Gap(gap.low, min(gap.high, low + 1)), Gap(max(gap.low, high - 1), gap.high))
            left += [piece for piece in pieces if piece.high - piece.low > 1] if _meet(gap, low, high) else [gap]
        return replace(self, gaps=tuple(left))

    def joined(self, other: Coverage) -> Coverage:
        """What is there if both are true. Nothing that was fetched is ever missing again, so they are."""
        newer, older = (self, other) if self.upto >= other.upto else (other, self)
        low = -1
        for gap in older.gaps:
            newer, low = newer.close(low, gap.low + 1), gap.high - 1
        return newer.close(low, older.upto + 1)

    # --- What it says ---

    @property
    def prefix(self) -> int:
        """Everything up to here is there, without exception."""
        return self.gaps[0].low if self.gaps else self.upto

    def covers(self, message: int) -> bool:
        return message <= self.upto and not any(gap.low < message < gap.high for gap in self.gaps)

    def behind(self, last_message: str | None) -> bool:
        """Does a channel's own account of its last message promise anything new? A hint, no more."""
        return last_message is not None and parse(last_message) > self.upto

    # --- As a mark ---

    def mark(self) -> str:
        gaps = [[str(gap.low), str(gap.high)] for gap in self.gaps]
        return json.dumps({"upto": str(self.upto), "gaps": gaps}, separators=(",", ":"))

    @classmethod
    def read(cls, mark: str) -> Coverage:
        if not mark:
            return cls()
        try:
            told = json.loads(mark)
            return cls(int(told["upto"]), tuple(Gap(int(low), int(high)) for low, high in told["gaps"]))
        except (ValueError, TypeError, LookupError, RecursionError, OverflowError) as error:
            raise BadInput("not a mark of a crawl", code="crawl.mark", where=mark[:100]) from error


def joined(old: str, new: str) -> str:
    """Two marks as one."""
    return Coverage.read(old).joined(Coverage.read(new)).mark()


def _meet(gap: Gap, low: int, high: int) -> bool:
    """Do a gap and a fetched span have an id in common?"""
    return max(gap.low, low) + 1 < min(gap.high, high)


def _bounded(coverage: Coverage) -> Coverage:
    if len(coverage.gaps) > MOST_GAPS:
        raise BadInput(
            f"{len(coverage.gaps)} gaps",
            code="crawl.gaps",
            hint="close some before fetching newer messages first",
        )
    return coverage


@dataclass(frozen=True, slots=True)
class Ask:
    """The next page to ask for."""

    after: int | None = None
    before: int | None = None


def next_ask(coverage: Coverage, newest_first: bool = False) -> Ask:
    """Forward from what we have; for those who cannot wait, the newest page first, and then the gap it left.

    A gap is closed from its newer end if newest first, else from its older end.
    """
    if not coverage.gaps:
        return Ask(before=HIGHEST) if newest_first else Ask(after=coverage.upto)
    if newest_first:
        return Ask(before=coverage.gaps[-1].high)
    return Ask(after=coverage.gaps[0].low)


# --- A second look ---


@dataclass(frozen=True, slots=True)
class Changes:
    added: tuple[Raw, ...] = ()
    edited: tuple[Raw, ...] = ()
    deleted: tuple[int, ...] = ()
    proved: bool = True  # False when the answer may only mean that we are not allowed to see


def look_back(stored: Mapping[int, Raw], page: Page, messages: Sequence[Raw]) -> Changes:
    """Compare what is kept with what a page shows now.

    A message is deleted if the page speaks for its id and does not have it. An empty page speaks for nothing:
    a bot that lost the right to read history gets one for every channel, and an archive must not believe that
    all is gone. Messages that come late, with ids below some that were seen earlier, are among the added.
    """
    shown = {parse(raw["id"]): raw for raw in messages}
    known = page.proves()
    mine = {one: raw for one, raw in stored.items() if known.low < one < known.high}
    added = tuple(raw for one, raw in shown.items() if one not in stored)
    if not shown and mine:
        return Changes(proved=False)
    edited = tuple(raw for one, raw in shown.items() if one in stored and newer(stored[one], raw))
    return Changes(added, edited, tuple(one for one in sorted(mine) if one not in shown))

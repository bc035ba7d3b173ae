"""How much of a channel was shown to us so far. Pure.

Coverage is made of spans that pages speak for; what lies between them, and before the first, are gaps that are written
down. Nothing is skipped because something newer is there: a gap is asked for until it is closed. Coverage travels as
the mark of the table's last page, so it is never ahead of the messages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from custody.channels.crawl.trust import Span, cover, identity
from custody.errors import BadInput

MOST_GAPS = 50  # the mark must fit into a blob's metadata

Raw = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Gap:
    """Ids between these two, without them."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """Every message up to `upto` was shown, except those in the gaps; the first may begin before all ids."""

    upto: int = 0
    gaps: tuple[Gap, ...] = ()

    # --- How it grows ---

    @property
    def spans(self) -> tuple[Span, ...]:
        """What was shown without a break."""
        if not self.upto:
            return ()
        edges = [0, *(edge for gap in self.gaps for edge in (gap.low, gap.high)), self.upto]
        pairs = zip(edges[::2], edges[1::2], strict=True)
        return tuple((low, high) for low, high in pairs if low <= high)

    @classmethod
    def of(cls, spans: Sequence[Span]) -> Coverage:
        """The coverage that these spans are; they rise and do not meet."""
        if not spans:
            return cls()
        edges = [-1, *(edge for span in spans for edge in span)]
        between = zip(edges[::2], edges[1::2], strict=False)
        return cls(spans[-1][1], tuple(Gap(low, high) for low, high in between if high - max(low, 0) > 1))

    def grown(self, *spans: Span) -> Coverage:
        """With what was shown since."""
        return Coverage.of(cover(self.spans, *spans)) if spans else self

    def joined(self, other: Coverage) -> Coverage:
        """What is there if both are true. Nothing that was shown is ever unknown again, so they are."""
        return self.grown(*other.spans)

    # --- What it says ---

    @property
    def prefix(self) -> int:
        """Everything up to here is there, without exception."""
        return max(self.gaps[0].low, 0) if self.gaps else self.upto

    def covers(self, message: int) -> bool:
        return message <= self.upto and not any(gap.low < message < gap.high for gap in self.gaps)

    def behind(self, last_message: Any) -> bool:
        """Does a channel's own account of its last message promise anything new? A hint, no more."""
        told = identity({"id": last_message})
        return told is not None and told > self.upto

    # --- As a mark ---

    def mark(self) -> str:
        gaps = [[str(gap.low), str(gap.high)] for gap in _bounded(self.gaps)]
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


def _bounded(gaps: Sequence[Gap]) -> Sequence[Gap]:
    """As many as a mark has room for: the nearest become one. To know less than we could costs a second question."""
    left = list(gaps)
    while len(left) > MOST_GAPS:
        near = min(range(len(left) - 1), key=lambda at: left[at + 1].low - left[at].high)
        left[near : near + 2] = [Gap(left[near].low, left[near + 1].high)]
    return left

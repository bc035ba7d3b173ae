"""What is kept of a channel as a bar: from its first message to its newest, with the gaps that are known. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from custody.channels.crawl.coverage import Coverage
from custody.channels.snowflake import time_of

WIDTH = 100.0
LEAST = 0.8  # so that the shortest gap can still be seen


@dataclass(frozen=True, slots=True)
class Range:
    """A stretch of a channel, by the ids of its messages."""

    kept: bool
    low: int
    high: int
    start: float  # where it begins in the bar
    width: float

    @property
    def since(self) -> datetime:
        return time_of(self.low)

    @property
    def until(self) -> datetime:
        return time_of(self.high)


def ranges(coverage: Coverage, channel: int, first: int | None) -> Sequence[Range]:
    """Kept and missing stretches in order. `first` is the oldest message that is kept."""
    if not coverage.upto:
        return []
    stretches: list[tuple[bool, int, int]] = []
    at = _beginning(coverage, channel, first)
    for gap in coverage.gaps:
        low = max(gap.low, at)
        stretches += [(True, at, low)] if low > at else []
        stretches.append((False, low, gap.high))
        at = gap.high
    stretches += [(True, at, coverage.upto)] if coverage.upto > at or not stretches else []
    return _placed(stretches)


def _beginning(coverage: Coverage, channel: int, first: int | None) -> int:
    """A channel's own number tells when it was made; nothing in it can be older."""
    if coverage.gaps and coverage.gaps[0].low == 0:
        return min(channel, coverage.gaps[0].high)
    return coverage.upto if first is None else min(first, coverage.upto)


def _placed(stretches: Sequence[tuple[bool, int, int]]) -> Sequence[Range]:
    """To scale by time, which is what ids are made of, but none so short that it cannot be seen."""
    lengths = [max(high - low, 1) for _, low, high in stretches]
    free, whole = WIDTH - LEAST * len(stretches), sum(lengths)
    placed, x = [], 0.0
    for (kept, low, high), length in zip(stretches, lengths, strict=True):
        width = LEAST + free * length / whole
        placed.append(Range(kept=kept, low=low, high=high, start=round(x, 2), width=round(width, 2)))
        x += width
    return placed


def sentence(coverage: Coverage) -> str:
    if not coverage.upto:
        return "nothing is kept yet"
    newest = f"up to {time_of(coverage.upto):%Y-%m-%d %H:%M} UTC"
    count = len(coverage.gaps)
    return f"without a gap {newest}" if not count else f"{newest}, with {count} known gap{'' if count == 1 else 's'}"

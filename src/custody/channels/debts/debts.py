"""What an archive owes a channel: spans that were fetched and are not, or no longer, whole. Pure.

A gap was never fetched; it only shrinks, and lives in the mark of the messages. A debt may appear on what was fetched
long ago: seen without its content for want of an intent, an element that could not be read, a block that is damaged.
Debts live in the mark of the table `seen`, as `[low, high, why, since, at]`; `at` says how far it is paid. Marks are
joined: of one debt the newer claim counts and, of equal ones, the one that is paid further.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from custody.errors import BadInput

MOST: Final = 50  # the mark must fit into a blob's metadata
VEIL: Final = "veil"
BLANK: Final = "blank"
UNREADABLE: Final = "unreadable"
DAMAGED: Final = "damaged"
DIFFERS: Final = "differs"
TORN: Final = "torn"
LOST: Final = "lost"
SAID: Final[Mapping[str, str]] = {
    VEIL: "fetched without the message content intent",
    BLANK: "shown without the text that is kept of it, and without an edit",
    UNREADABLE: "something in an answer could not be read",
    DAMAGED: "blocks here are not what they were written as",
    DIFFERS: "the channel shows it, and it is lacking here or otherwise here, or was erased",
    TORN: "a part of the archive could not be read any more; what the channel shows of it is fetched again",
    LOST: "earlier versions, and what was deleted there, may be lost: `custody channel accept-loss` says that you know",
    "unheard": "changes may have been missed",
    "failed": "the service gave nothing usable for it",
    "old": "kept by rules that believed more than they should have; to be looked at once more",
}


@dataclass(frozen=True, slots=True)
class Debt:
    """Messages from `low` to `high`, both of them included."""

    low: int
    high: int
    why: str
    since: str  # when it was found
    at: int = -1  # everything up to here is paid

    @property
    def open(self) -> bool:
        return self.at < self.high

    @property
    def next(self) -> int:
        """The first id that is still owed."""
        return max(self.low, self.at + 1)


@dataclass(frozen=True, slots=True)
class Debts:
    every: tuple[Debt, ...] = ()  # paid ones too, for as long as somebody might still claim them: they are joined
    more: Mapping[str, Any] = field(default_factory=dict)  # other facts of the same mark; the larger wins

    def open(self) -> tuple[Debt, ...]:
        return tuple(debt for debt in self.every if debt.open)

    def owe(self, low: int, high: int, why: str, since: str) -> Debts:
        """One more; what is owed for the same reason and touches it becomes one with it."""
        if any(one.open and one.why == why and one.next <= low and high <= one.high for one in self.every):
            return self
        return replace(self, every=_bounded(_united((*self.every, Debt(low, high, why, since)))))

    def paid(self, debt: Debt, at: int) -> Debts:
        """Paid up to an id. A debt that nobody knows any more was merged: it is paid there."""
        known = [replace(one, at=max(one.at, at)) if _same(one, debt) else one for one in self.every]
        return replace(self, every=tuple(known))

    def joined(self, other: Debts) -> Debts:
        found: dict[tuple[int, int, str], Debt] = {}
        for one in (*self.every, *other.every):
            key = one.low, one.high, one.why
            found[key] = max(found.get(key, one), one, key=lambda debt: (debt.since, debt.at))
        more = dict(self.more)
        for name, value in other.more.items():
            more[name] = max(more.get(name, value), value, key=lambda told: (str(type(told)), told))
        return Debts(_bounded(_united(found.values())), more)

    # --- As a mark ---

    def mark(self) -> str:
        rows = [[str(one.low), str(one.high), one.why, one.since, str(one.at)] for one in self.every]
        return json.dumps({"debts": rows, **self.more}, separators=(",", ":"))

    @classmethod
    def read(cls, mark: str) -> Debts:
        if not mark:
            return cls()
        try:
            told = dict(json.loads(mark))
            rows = told.pop("debts", [])
            found = [
                Debt(low=int(low), high=int(high), why=str(why), since=str(since), at=int(at))
                for low, high, why, since, at in rows
            ]
            return cls(tuple(found), told)
        except (ValueError, TypeError, LookupError, RecursionError, OverflowError) as error:
            raise BadInput("not a mark of debts", code="debts.mark", where=mark[:100]) from error


def joined(old: str, new: str) -> str:
    """Two marks as one."""
    return Debts.read(old).joined(Debts.read(new)).mark() if old and new else old or new


def _same(one: Debt, other: Debt) -> bool:
    return (one.low, one.high, one.why, one.since) == (other.low, other.high, other.why, other.since)


def _united(debts: Iterable[Debt]) -> list[Debt]:
    """Open ones of one reason that have ids in common as one, paid only as far as the least of them."""
    kept: list[Debt] = []
    for one in sorted(debts, key=lambda debt: (debt.why, not debt.open, debt.low, debt.high)):
        last = kept[-1] if kept else None
        if last and last.open and one.open and last.why == one.why and one.low <= last.high:
            kept[-1] = _as_one(last, one)
        else:
            kept.append(one)
    return kept


def _bounded(debts: Iterable[Debt]) -> tuple[Debt, ...]:
    """In order; where there are too many, paid ones are forgotten, then the nearest become one.

    To owe more than need be costs a look; to owe less would be a lie.
    """
    kept = sorted(debts, key=lambda one: (one.low, one.high, one.why, one.since))
    while len(kept) > MOST:
        paid = next((one for one in kept if not one.open), None)
        if paid is not None:
            kept.remove(paid)
            continue
        at = min(range(len(kept) - 1), key=lambda n: kept[n + 1].low - kept[n].high)
        kept[at : at + 2] = [_as_one(kept[at], kept[at + 1])]
    return tuple(kept)


def _as_one(one: Debt, other: Debt) -> Debt:
    since = max(one.since, other.since)
    return Debt(
        low=min(one.low, other.low), high=max(one.high, other.high), why=one.why, since=since, at=min(one.at, other.at)
    )

"""What an item's history has of somebody else's events already, so that nothing is taken over twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal

from custody.formats.premis import kept
from custody.formats.premis.model import Identifier, PremisEvent
from custody.kernel.history.exchange.habits import Habits
from custody.kernel.history.exchange.identity import OURS
from custody.kernel.history.verify import place_name
from custody.kernel.model.event import PREMIS, Event, item_subject

IMPORTED: Final = "imported"
UNNAMED: Final = "custody"
"""The name of a history that was given none: those of others may be called so, too."""
Answer = Literal["new", "known", "conflict"]


def record_of(event: Event) -> tuple[PremisEvent, Mapping[str, Any]] | None:
    """What was said where an event was taken over from, and the record itself; None for one of our own."""
    record = event.detail.get(PREMIS)
    if not isinstance(record, dict) or "identifier" not in record:
        return None
    try:
        return kept.from_json({"type": event.type, **record})[0], record  # before, it was kept where it was changed
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


class Known:
    """Every item's events, read once, by identifier."""

    def __init__(self, history: Callable[[str], Iterable[Event]], origin: str, habits: Habits) -> None:
        self.seen: dict[str, int] = {}
        self._history, self._origin, self._habits = history, origin, habits
        self._theirs: dict[str, dict[Identifier, PremisEvent]] = {}
        self._ours: dict[str, dict[Identifier, Event]] = {}
        self._scant: set[tuple[str, Identifier]] = set()
        self._newest: dict[tuple[str, str], int] = {}

    def look(self, item: str, event: PremisEvent) -> tuple[Answer, str]:
        """Is it there, and if another is there in its stead, in what does it differ?"""
        if item not in self._theirs:
            self._read(item)
        own = self._ours[item].get(event.identifier)
        if own is not None:
            parts = {"type": own.type == event.type.text, "time": own.at == self._at(event)}
            differs = [name for name, same in parts.items() if not same]
            if not differs or self._origin != UNNAMED:
                return ("conflict", " and ".join(differs)) if differs else ("known", "")
        there = self._theirs[item].get(event.identifier)
        if there is None:
            return "new", ""
        differs = self._differences(there, event, (item, event.identifier) in self._scant)
        return ("conflict", " and ".join(differs)) if differs else ("known", "")

    def add(self, item: str, type_: str, event: PremisEvent) -> None:
        self._theirs[item][event.identifier] = event
        self._stands(item, type_, self._at(event))

    def is_past(self, item: str, type_: str, event: PremisEvent) -> bool:
        """Does the item have an event of this type that happened later? The newest decides what its subscribers do,
        and an old one that comes late is not it. One that does not say when it happened is older than any."""
        newest = self._newest.get((item, type_))
        at = self._at(event)
        return newest is not None and (at is None or at < newest)

    def _stands(self, item: str, type_: str, at: int | None) -> None:
        if at is not None:
            self._newest[item, type_] = max(at, self._newest.get((item, type_), at))

    def _read(self, item: str) -> None:
        theirs: dict[Identifier, PremisEvent] = {}
        ours: dict[Identifier, Event] = {}
        self.seen[item] = 0
        for event in self._history(item):
            self.seen[item] = event.seq
            found = record_of(event)
            self._stands(item, event.type, self._at(found[0]) if found else event.at)
            if found is None:
                ours[OURS, f"{self._origin}/{place_name(item_subject(item), event.seq)}"] = event
                continue
            theirs.setdefault(found[0].identifier, found[0])
            if "objects" not in found[1]:
                self._scant.add((item, found[0].identifier))
        self._theirs[item], self._ours[item] = theirs, ours

    def _differences(self, one: PremisEvent, other: PremisEvent, scant: bool) -> list[str]:
        """By their names. Of an import of before, only time and type are compared: it kept no more."""
        at = {"time": (self._at(one) or one.at, self._at(other) or other.at), "type": (one.type, other.type)}
        rest = {
            "outcome": (one.results, other.results),
            "detail": (one.details, other.details),
            "agent": (set(one.agents), set(other.agents)),
            "object": (set(one.objects), set(other.objects)),
        }
        return [name for name, (mine, yours) in (at if scant else {**at, **rest}).items() if mine != yours]

    def _at(self, event: PremisEvent) -> int | None:
        return self._habits.time(event.at)

"""Triggers: the question that makes an item ready for a robot.

Only the newest event of each type counts. `admits` is the one decision; the store's candidates, the claim's
re-check, `why` and the dry run all ask it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from custody.kernel.model.item import Item, Latest

STOPPED = "stopped"
"""While an item's newest event of this type stands, no robot takes it: the brake that no trigger has to mention."""


@dataclass(frozen=True, slots=True)
class Trigger:
    past: frozenset[str] = frozenset()  # happened, and went well (or with a warning)
    failed: frozenset[str] = frozenset()  # happened, and failed
    absent: frozenset[str] = frozenset()  # has not happened, well or badly
    old: frozenset[str] = frozenset()  # has not happened, or before the item last changed
    types: frozenset[str] = frozenset()  # the item has all of these types
    items: frozenset[str] = frozenset()  # one of exactly these items (empty: any)

    def mentions(self) -> frozenset[str]:
        """The event types whose arrival can change the answer."""
        return self.past | self.failed | self.absent | self.old

    def minds(self, event: str) -> bool:
        """Can the arrival of this event change the answer? Asked of every robot at every event."""
        return (
            event in self.past or event in self.absent or event in self.old or event in self.failed or event == STOPPED
        )

    def looks_at(self) -> frozenset[str]:
        """All that the answer depends on, of an item's newest events."""
        return self.mentions() | {STOPPED}

    def watches_changes(self) -> bool:
        """A change of content, type or existence can change the answer."""
        return bool(self.old or self.types or self.items or self.absent)

    def as_dict(self) -> dict[str, list[str]]:
        return {name: sorted(getattr(self, name)) for name in self.__slots__ if getattr(self, name)}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Trigger:
        return cls(**{name: frozenset(values) for name, values in given.items()})


@dataclass(frozen=True, slots=True)
class Clause:
    """One part of a trigger, whether it holds, and the event that decides."""

    text: str
    holds: bool
    because: str


def admits(trigger: Trigger, item: Item, latest: Mapping[str, Latest]) -> bool:
    """Is this item ready for the robot that has this trigger?"""
    return all(holds for _, _, holds in _answers(trigger, item, latest))


def clauses(trigger: Trigger, item: Item, latest: Mapping[str, Latest]) -> Iterator[Clause]:
    """Every part of the trigger with its answer in words, for `why`."""
    for part, name, holds in sorted(_answers(trigger, item, latest), key=_in_order):
        yield Clause(_TEXTS[part].format(name), holds, _because(part, name, item, latest.get(name)))


def _answers(trigger: Trigger, item: Item, latest: Mapping[str, Latest]) -> Iterator[tuple[str, str, bool]]:
    """The decision: each part, what it names, and whether it holds. Words are made elsewhere, as few ask for them."""
    if STOPPED in latest:
        yield "stopped", STOPPED, False
    if trigger.items:
        yield "items", item.id, item.id in trigger.items
    for name in trigger.types:
        yield "types", name, name in item.types
    for name in trigger.past:
        event = latest.get(name)
        yield "past", name, event is not None and event.outcome != "failure"
    for name in trigger.failed:
        event = latest.get(name)
        yield "failed", name, event is not None and event.outcome == "failure"
    for name in trigger.absent:
        yield "absent", name, name not in latest
    for name in trigger.old:
        yield "old", name, _is_old(latest.get(name), item)


_TEXTS = {
    "stopped": "is not stopped",
    "items": "is one of the named items",
    "types": "has type {}",
    "past": "{} went well",
    "failed": "{} failed",
    "absent": "{} has not happened",
    "old": "{} is older than the last change",
}
_PARTS = list(_TEXTS)


def _in_order(answer: tuple[str, str, bool]) -> tuple[int, str]:
    return _PARTS.index(answer[0]), answer[1]


def _because(part: str, name: str, item: Item, event: Latest | None) -> str:
    if part == "items":
        return f"this is {item.id}"
    if part == "types":
        return f"types: {', '.join(sorted(item.types)) or 'none'}"
    return _told(name, event, item if part == "old" else None)


def _is_old(event: Latest | None, item: Item) -> bool:
    return event is None or (event.seq if event.seen is None else event.seen) < item.changed


def _told(name: str, event: Latest | None, item: Item | None = None) -> str:
    if event is None:
        return f"{name} never happened"
    change = f"; the content last changed at {item.changed}" if item else ""
    return f"newest {name} is number {event.seq}, {event.outcome}{change}"

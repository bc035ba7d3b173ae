"""Triggers: the question that makes an item ready for a robot.

Only the newest event of each type counts. `admits` is the one decision; the store's candidates, the claim's
re-check, `why` and the dry run all ask it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from custody.model.item import Item, Latest

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


def clauses(trigger: Trigger, item: Item, latest: Mapping[str, Latest]) -> Iterator[Clause]:
    """Every part of the trigger with its answer, for `why`."""
    if STOPPED in latest:
        yield Clause("is not stopped", False, f"it was stopped by its event number {latest[STOPPED].seq}")
    if trigger.items:
        yield Clause("is one of the named items", item.id in trigger.items, f"this is {item.id}")
    for name in sorted(trigger.types):
        yield Clause(f"has type {name}", name in item.types, f"types: {', '.join(sorted(item.types)) or 'none'}")
    for name in sorted(trigger.past):
        event = latest.get(name)
        yield Clause(f"{name} went well", event is not None and event.outcome != "failure", _told(name, event))
    for name in sorted(trigger.failed):
        event = latest.get(name)
        yield Clause(f"{name} failed", event is not None and event.outcome == "failure", _told(name, event))
    for name in sorted(trigger.absent):
        yield Clause(f"{name} has not happened", name not in latest, _told(name, latest.get(name)))
    for name in sorted(trigger.old):
        event = latest.get(name)
        yield Clause(f"{name} is older than the last change", _is_old(event, item), _told(name, event, item))


def admits(trigger: Trigger, item: Item, latest: Mapping[str, Latest]) -> bool:
    """Is this item ready for the robot that has this trigger?"""
    return all(clause.holds for clause in clauses(trigger, item, latest))


def _is_old(event: Latest | None, item: Item) -> bool:
    return event is None or (event.seq if event.seen is None else event.seen) < item.changed


def _told(name: str, event: Latest | None, item: Item | None = None) -> str:
    if event is None:
        return f"{name} never happened"
    change = f"; the content last changed at {item.changed}" if item else ""
    return f"newest {name} is number {event.seq}, {event.outcome}{change}"

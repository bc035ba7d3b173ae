"""As of: an item as it stood at a moment, folded from its history, and what the robots would have said then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from custody.errors import NotFound
from custody.kernel.model.event import Event
from custody.kernel.model.item import Item, Latest
from custody.kernel.model.names.reserved import FOLDER
from custody.kernel.model.trigger import Clause, clauses
from custody.kernel.stores import Store
from custody.kernel.stores.rules.items import CHANGED, SEEN, subscriptions
from custody.robots.items.restart import standing

DESCRIBED = "described"
OWN = ("types", "fingerprint", "place", FOLDER)
"""Told beside what is kept as detail."""


@dataclass(frozen=True, slots=True)
class AsOf:
    item: Item
    events: Sequence[Event]
    latest: dict[str, Latest]
    answers: Mapping[str, Sequence[Clause]]  # by robot: the triggers as they are now, on the history as it was

    def ready_for(self) -> list[str]:
        return [name for name, found in self.answers.items() if all(clause.holds for clause in found)]


def as_of(store: Store, item_id: str, at: int) -> AsOf:
    """The item at a moment of the store's time (microseconds)."""
    now = store.records.item(item_id)
    events = [event for event in store.records.all_events(f"item/{now.id}") if event.at <= at]
    if not events:
        raise NotFound(f"{item_id} was not there yet", code="item.unknown", hint="its first event is later")
    item, latest = then(now, events), latest_then(events)
    answers = {name: tuple(clauses(trigger, item, latest)) for name, trigger, _ in store.db.read(subscriptions)}
    return AsOf(item, events, latest, answers)


def then(now: Item, events: Sequence[Event]) -> Item:
    """What the item was, from its changes alone; what no event told (its collection) is as it is now."""
    types: frozenset[str] = frozenset()
    fingerprint, changed, place = "", 0, ""
    detail: dict[str, object] = {}
    for event in events:
        if event.type in (CHANGED, DESCRIBED) and "fingerprint" in event.detail:
            types |= frozenset(event.detail.get("types", ()))
            fingerprint = event.detail["fingerprint"]
            changed = event.seq if event.type == CHANGED else changed
            detail |= {name: value for name, value in event.detail.items() if name not in OWN}
            place = str(event.detail.get("place", place))
    return Item(
        id=now.id,
        types=types,
        seq=events[-1].seq,
        changed=changed,
        collection=now.collection,
        fingerprint=fingerprint,
        detail=detail,
        place=place,
    )


def latest_then(events: Sequence[Event]) -> dict[str, Latest]:
    """The newest standing event of each type, with what its robot had seen."""
    return {
        name: Latest(name, event.seq, event.outcome, int(event.detail.get(SEEN, event.seq)))
        for name, event in standing(events).items()
        if name not in (CHANGED, DESCRIBED)
    }

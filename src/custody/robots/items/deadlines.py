"""Deadlines: a robot's event should be there within so long of another one. Data on a label, not another robot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from custody.kernel.model.trigger import STOPPED, Trigger, clauses
from custody.kernel.stores import Store
from custody.kernel.stores.rows import Tx
from custody.kernel.stores.rules.items import subscriptions

PAGE = 500


@dataclass(frozen=True, slots=True)
class Late:
    """An item whose event should have come by now."""

    robot: str
    event: str
    item: str
    since: str  # the event from which it counts …
    began: int  # … and when that was
    due: int
    waits_for: str  # the first thing that keeps the robot from it


def late(store: Store, robot: str = "", limit: int = 100) -> list[Late]:
    """All that is overdue, a robot at a time; `limit` for each."""
    found = store.db.read(subscriptions)
    return [
        each
        for name, trigger, facts in found
        if facts.get("within") and robot in ("", name)
        for each in _of(store, name, trigger, facts, limit=limit)
    ]


def due_of(store: Store, item_id: str, facts: dict[str, Any]) -> int | None:
    """When a robot's event should be there for an item; None while there is nothing to count from."""
    if not facts.get("within"):
        return None
    latest = store.records.latest(item_id)
    began, done = latest.get(str(facts["since"])), latest.get(str(facts["event"]))
    if began is None or began.outcome == "failure" or (done and done.seq > began.seq):
        return None
    event = store.records.events(f"item/{item_id}", after=began.seq - 1, limit=1)[0]
    return event.at + _microseconds(facts)


def _of(store: Store, name: str, trigger: Trigger, facts: dict[str, Any], limit: int) -> Iterator[Late]:
    event, since = str(facts["event"]), str(facts["since"])

    def look(tx: Tx) -> list[tuple[str, int]]:
        rows = tx.run(
            "late_items",
            since=since,
            event=event,
            before=tx.now - _microseconds(facts),
            after="",
            limit=limit,
            again=int(event in trigger.old),
        )
        return [(item, at) for item, at in rows]

    for item_id, began in store.db.read(look):
        due = began + _microseconds(facts)
        yield Late(
            robot=name,
            event=event,
            item=item_id,
            since=since,
            began=began,
            due=due,
            waits_for=_obstacle(store, name, trigger, item_id),
        )


def _obstacle(store: Store, robot: str, trigger: Trigger, item_id: str) -> str:
    latest = store.records.latest(item_id)
    if STOPPED in latest:
        return "it is stopped"
    for clause in clauses(trigger, store.records.item(item_id), latest):
        if not clause.holds:
            return clause.because
    job = store.queue.by_key(f"robot/{robot}", item_id)
    if job is None:
        return "it is ready, and nobody has seen it yet"
    reasons = store.queue.why(job.id)
    return reasons[0].text if reasons else "it is ready"


def _microseconds(facts: dict[str, Any]) -> int:
    return int(float(facts["within"]) * 1_000_000)

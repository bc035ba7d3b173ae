"""Restarting: withdraw an event, and what came of it, so that the line goes on from there.

Nothing is deleted. A withdrawal is an event too (who, why, what it withdraws), and withdrawing it brings the
withdrawn back. What depended on the event is found through the robots' own triggers, not by date.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from custody.errors import NotFound
from custody.kernel.model.event import Event, item_subject
from custody.kernel.model.item import Item
from custody.kernel.model.trigger import Trigger
from custody.kernel.stores import Store
from custody.kernel.stores.rows import Tx, item_from, loads
from custody.kernel.stores.rules.events import events_of, write_event
from custody.kernel.stores.rules.items import SEEN, subscriptions, wake_robots
from custody.robots.items.priority import set_priority
from custody.robots.robot import Robot

WITHDRAWN = "withdrawn"
BY_PEOPLE = "by hand"
"""In the detail of an event that a person made with a command: what kind of command it was."""


@dataclass(frozen=True, slots=True)
class Step:
    """All that matters of a robot here: what it waits for, and what it records."""

    event: str
    when: Trigger


def registered(tx: Tx) -> list[Step]:
    return [Step(str(facts.get("event", "")), trigger) for _, trigger, facts in subscriptions(tx)]


def dependents(steps: Sequence[Robot | Step], event: str) -> list[str]:
    """The event and every event that, through the robots' triggers, came of it; in the order of the line."""
    found = [event]
    for name in found:
        found += [step.event for step in steps if name in step.when.past and step.event not in found]
    return found


def restart(store: Store, robots: Sequence[Robot], item_id: str, event: str, who: str, why: str) -> list[str]:
    """Withdraw the newest `event` of an item and what depended on it; answers the types that were withdrawn."""

    def work(tx: Tx) -> list[str]:
        latest = {row[0]: row[1] for row in tx.run("latest", item=item_id)}
        if event not in latest:
            raise NotFound(f"{event} has not happened to {item_id}", code="event.unknown")
        wanted = dependents(robots or registered(tx), event)
        gone = {name: latest[name] for name in wanted if name in latest}
        _write(tx, item_id, {"withdraws": gone, "why": why}, who)
        return list(gone)

    withdrawn = store.db.write(work)
    store.wake()
    return withdrawn


def undo(store: Store, item_id: str, who: str, why: str) -> list[str]:
    """Take back the last thing that was done to the item by hand: restart, override, stop, approve, prioritise."""

    def work(tx: Tx) -> list[str]:
        events = list(events_of(tx, item_subject(item_id)))
        done = by_hand(events)
        if not done:
            raise NotFound(f"nothing was done to {item_id} that could be undone", code="event.unknown")
        last = done[-1]
        if last.type == WITHDRAWN:
            _write(tx, item_id, {"undoes": last.seq, "why": why}, who)
            return list(last.detail["withdraws"])
        _write(tx, item_id, {"only": {last.type: last.seq}, "why": why}, who, was=last.detail.get("was"))
        return [last.type]

    back = store.db.write(work)
    store.wake()
    return back


def stopped(store: Store, limit: int = 50) -> list[tuple[str, str]]:
    """Items that no robot takes, and why."""
    rows = store.db.read(lambda tx: tx.run("stopped_items", after="", limit=limit))
    return [(item, f"{loads(detail).get('why', '')} ({agent})") for item, _, agent, detail in rows]


def by_hand(events: Sequence[Event]) -> list[Event]:
    """What people (or the guard against loops) did to the item and what is in force, oldest first."""
    return [event for event in events if _stands(event, events)]


def _stands(event: Event, events: Sequence[Event]) -> bool:
    """Could this be undone: something that a person (or the guard) did, and that was not undone since?"""
    if event.type == WITHDRAWN:
        return "withdraws" in event.detail and event.seq not in _undone(events)
    return (BY_PEOPLE in event.detail or event.type == "stopped") and not _gone(event, events)


def _undone(events: Iterable[Event]) -> set[int]:
    return {event.detail["undoes"] for event in events if event.type == WITHDRAWN and "undoes" in event.detail}


def _gone(event: Event, events: Sequence[Event]) -> bool:
    undone = _undone(events)
    for one in events:
        if one.type == WITHDRAWN and one.seq not in undone and one.seq > event.seq:
            if one.detail.get("only", {}).get(event.type) == event.seq:
                return True
            if event.seq <= one.detail.get("withdraws", {}).get(event.type, 0):
                return True
    return False


def standing(events: Sequence[Event]) -> dict[str, Event]:
    """The newest event of each type that has not been withdrawn."""
    undone = _undone(events)
    gone: dict[str, int] = {}
    single: set[int] = set()
    for event in events:
        if event.type == WITHDRAWN and event.seq not in undone:
            gone |= event.detail.get("withdraws", {})
            single |= set(event.detail.get("only", {}).values())
    newest: dict[str, Event] = {}
    for event in events:
        if event.type != WITHDRAWN and event.seq > gone.get(event.type, 0) and event.seq not in single:
            newest[event.type] = event
    return newest


def _write(tx: Tx, item_id: str, detail: dict[str, object], who: str, was: dict[str, int | None] | None = None) -> None:
    """The withdrawal, what stands after it, and the robots that this wakes."""
    item = locked(tx, item_id)
    before = {row[0] for row in tx.run("latest", item=item_id)}
    seq = item_from(tx.run("number_item", id=item_id)[0]).seq
    write_event(tx, item_subject(item_id), seq, WITHDRAWN, outcome="none", agent=who, detail=detail)
    if was is not None:
        set_priority(tx, item, seq, was.get("priority"), who=who)
    stands = standing([event for event in events_of(tx, item_subject(item_id))])
    for name in before - set(stands):
        tx.run("delete_latest", item=item_id, type=name)
    for name, event in stands.items():
        if name not in ("changed", "described"):
            seen = int(event.detail.get(SEEN, event.seq))
            tx.run("set_latest", item=item_id, type=name, seq=event.seq, outcome=event.outcome, seen=seen)
    for name in sorted(before | set(stands)):
        wake_robots(tx, item, name)


def locked(tx: Tx, item_id: str) -> Item:
    rows = tx.run("lock_item", id=item_id)
    if not rows:
        raise NotFound(f"there is no item {item_id}", code="item.unknown", hint="`custody item list`")
    return item_from(rows[0])

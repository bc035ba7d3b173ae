"""Restarting: withdraw an event, and what came of it, so that the line goes on from there.

Nothing is deleted. A withdrawal is an event too (who, why, what it withdraws), and withdrawing it brings the
withdrawn back. What depended on the event is found through the robots' own triggers, not by date.
"""

from __future__ import annotations

from collections.abc import Sequence

from custody.model.errors import NotFound
from custody.model.event import Event, item_subject
from custody.robots.robot import Robot
from custody.stores import Store
from custody.stores.history import events_of, write_event
from custody.stores.items import wake_robots
from custody.stores.rows import Tx, item_from

WITHDRAWN = "withdrawn"


def dependents(robots: Sequence[Robot], event: str) -> list[str]:
    """The event and every event that, through the robots' triggers, came of it; in the order of the line."""
    found = [event]
    for name in found:
        found += [robot.event for robot in robots if name in robot.when.past and robot.event not in found]
    return found


def restart(store: Store, robots: Sequence[Robot], item_id: str, event: str, who: str, why: str) -> list[str]:
    """Withdraw the newest `event` of an item and what depended on it; answers the types that were withdrawn."""
    wanted = dependents(robots, event)

    def work(tx: Tx) -> list[str]:
        latest = {row[0]: row[1] for row in tx.run("latest", item=item_id)}
        if event not in latest:
            raise NotFound(f"{event} has not happened to {item_id}", code="event.unknown")
        gone = {name: latest[name] for name in wanted if name in latest}
        _write(tx, item_id, {"withdraws": gone, "why": why}, who)
        return list(gone)

    withdrawn = store.db.write(work)
    store.wake()
    return withdrawn


def undo(store: Store, item_id: str, who: str, why: str) -> list[str]:
    """Take the newest withdrawal back."""

    def work(tx: Tx) -> list[str]:
        events = list(events_of(tx, item_subject(item_id)))
        undone = {event.detail.get("undoes") for event in events if event.type == WITHDRAWN}
        last = next(
            (e for e in reversed(events) if e.type == WITHDRAWN and "withdraws" in e.detail and e.seq not in undone),
            None,
        )
        if last is None:
            raise NotFound(f"nothing was withdrawn from {item_id}", code="event.unknown")
        _write(tx, item_id, {"undoes": last.seq, "why": why}, who)
        return list(last.detail["withdraws"])

    back = store.db.write(work)
    store.wake()
    return back


def standing(events: Sequence[Event]) -> dict[str, Event]:
    """The newest event of each type that has not been withdrawn."""
    undone = {event.detail["undoes"] for event in events if event.type == WITHDRAWN and "undoes" in event.detail}
    gone: dict[str, int] = {}
    for event in events:
        if event.type == WITHDRAWN and event.seq not in undone:
            gone |= event.detail.get("withdraws", {})
    newest: dict[str, Event] = {}
    for event in events:
        if event.type != WITHDRAWN and event.seq > gone.get(event.type, 0):
            newest[event.type] = event
    return newest


def _write(tx: Tx, item_id: str, detail: dict[str, object], who: str) -> None:
    rows = tx.run("lock_item", id=item_id)
    if not rows:
        raise NotFound(f"there is no item {item_id}", code="item.unknown")
    before = {row[0] for row in tx.run("latest", item=item_id)}
    seq = int(tx.run("number_item", id=item_id)[0][0])
    write_event(tx, item_subject(item_id), seq, WITHDRAWN, "none", who, detail)
    stands = standing([event for event in events_of(tx, item_subject(item_id))])
    for name in before - set(stands):
        tx.run("delete_latest", item=item_id, type=name)
    for name, event in stands.items():
        if name not in ("changed", "described"):
            tx.run("set_latest", item=item_id, type=name, seq=event.seq, outcome=event.outcome, seen=event.seq)
    for name in sorted(before | set(stands)):
        wake_robots(tx, item_from(rows[0]), name)

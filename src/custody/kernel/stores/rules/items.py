"""Items and what happened to them; and the robots that may now act.

Changes and events draw from one sequence per item, under the item's row lock, so "older than the last change"
needs no clock and two events at the same moment both have their place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeAlias

from custody.errors import BadInput, KeyConflict, NotFound
from custody.kernel.model.authority.acting import system
from custody.kernel.model.event import NewEvent, item_subject
from custody.kernel.model.item import Item, Latest, NewItem
from custody.kernel.model.job import NewJob
from custody.kernel.model.names.reserved import FOLDER, PRIORITY, check_event
from custody.kernel.model.trigger import Trigger, admits
from custody.kernel.stores.rows import Tx, dumps, item_from, latest_from, loads
from custody.kernel.stores.rules.events import write_event
from custody.kernel.stores.rules.submit import submit_one

Robot: TypeAlias = tuple[str, Trigger, dict[str, Any]]
Look: TypeAlias = tuple[Item, dict[str, Latest]]
CHANGED = "changed"
SEEN = "seen"
"""In an event that missed a change: the last one that whoever did the work had seen."""


def record(tx: Tx, new: Sequence[NewItem], events: Sequence[NewEvent], agent: str) -> None:
    """Make or change items, then append events to them, then see who is interested."""
    edited: dict[str, int] = {}  # the change before the one that whoever records here made itself
    robots = Interested(tx)
    for item in sorted(new, key=lambda item: item.id):
        edited[item.id] = put_item(tx, item, agent, robots)
    for event in sorted(events, key=lambda event: event.item):
        append(tx, event, agent, edited.get(event.item), robots=robots)


class Interested:
    """The robots, read when the first news has its place, once for all the news of a transaction."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._robots: list[Robot] | None = None

    def in_news(self, event_type: str | None, teller: str) -> list[Robot]:
        if self._robots is None:
            self._robots = subscriptions(self._tx)
        return [robot for robot in self._robots if robot[0] != teller and concerns(robot[1], event_type)]


def put_item(tx: Tx, new: NewItem, agent: str, robots: Interested) -> int:
    """Make the item, or note that its content changed. An unchanged fingerprint is no change.

    Answers which change was the last one before."""
    first = first_of(new)
    if tx.run("insert_item", **columns_of(first)):
        _tell_change(tx, first, new, agent, robots=robots)
        return 0
    old = _locked(tx, new.id)
    changed = new.changed and (not new.fingerprint or new.fingerprint != old.fingerprint)
    seq = old.seq + 1
    item = Item(
        id=new.id,
        types=old.types | new.types,
        seq=seq,
        changed=seq if changed else old.changed,
        collection=new.collection or old.collection,
        fingerprint=new.fingerprint or old.fingerprint,
        detail={**old.detail, **new.detail},
        place=old.place if new.place is None else new.place,
    )
    if item == replace(old, seq=seq):
        return old.changed  # nothing is new about it
    tx.run("change_item", **columns_of(item))
    _tell_change(tx, item, new, agent, robots=robots)
    return old.changed


def first_of(new: NewItem) -> Item:
    """As it is when it comes into being."""
    check(new)
    return Item(
        id=new.id,
        types=new.types,
        seq=1,
        changed=int(new.changed),
        collection=new.collection,
        fingerprint=new.fingerprint,
        detail=new.detail,
        place=new.place or "",
    )


def check(new: NewItem) -> None:
    """Whoever brings it: where an item is stands in its place, never in what is told about it."""
    named(new.id, "item id")
    if FOLDER in new.detail:
        raise BadInput(
            f"{FOLDER!r} cannot be kept in an item's detail",
            code="item.reserved",
            where=new.id,
            hint="where an item is, is its place: a path below a storage root",
        )


def columns_of(item: Item) -> dict[str, Any]:
    return {
        "id": item.id,
        "seq": item.seq,
        "changed": item.changed,
        "types": _types(item.types),
        "collection": item.collection,
        "fingerprint": item.fingerprint,
        "detail": dumps(item.detail),
        "place": item.place,
    }


def _tell_change(tx: Tx, item: Item, new: NewItem, agent: str, robots: Interested) -> None:
    how, told = change_told(item, new)
    write_event(tx, item_subject(item.id), item.seq, how, outcome="none", agent=agent, detail=told)
    wake_robots(tx, item, None, robots=robots)


def change_told(item: Item, new: NewItem) -> tuple[str, dict[str, Any]]:
    """The event of a change: its type, and what it says."""
    place = {"place": item.place} if new.place is not None else {}
    told = {**new.detail, "types": sorted(item.types), "fingerprint": item.fingerprint, **place}
    return CHANGED if item.changed == item.seq else "described", told


def append(tx: Tx, event: NewEvent, agent: str, changed: int | None = None, robots: Interested | None = None) -> int:
    """Append one event to an item; it becomes the newest of its type. `changed`: the last change by anyone else."""
    check_type(event)
    rows = tx.run("number_item", id=event.item)  # which also locks it
    if not rows:
        raise unknown(event.item)
    item = item_from(rows[0])
    missed = missed_change(event, item, changed)
    seen = item.seq if missed is None else missed
    told = told_with(event, missed)
    event_id = write_event(
        tx, item_subject(item.id), item.seq, event.type, outcome=event.outcome, agent=event.agent or agent, detail=told
    )
    tx.run("set_latest", item=item.id, type=event.type, seq=item.seq, outcome=event.outcome, seen=seen)
    wake_robots(tx, item, event.type, event.robot if missed is None else "", robots=robots)
    return event_id


def missed_change(event: NewEvent, item: Item, changed: int | None) -> int | None:
    """The last change that was seen, if a later one came while the work was under way: the event is older than it."""
    last = item.changed if changed is None else changed
    return event.seen if event.seen is not None and event.seen < last else None


def told_with(event: NewEvent, missed: int | None) -> Mapping[str, Any]:
    """What the event says; one that missed a change says so."""
    return event.detail if missed is None else {**event.detail, SEEN: missed}


def wake_robots(tx: Tx, item: Item, event_type: str | None, teller: str = "", robots: Interested | None = None) -> None:
    """Ask only the triggers that this news can change; a ready item is a job of kind robot/NAME.

    The item is as it stands under its lock, which whoever brings the news holds."""
    interested = (robots or Interested(tx)).in_news(event_type, teller)
    if not interested:
        return
    latest = latest_from(tx.run("latest", item=item.id))
    for name, trigger, facts in interested:
        if admits(trigger, item, latest):
            make_ready(tx, name, item, facts)


def look_again(tx: Tx, robot: str, item_id: str) -> None:
    """News that came while the robot's job was there made no new one; now that it is gone, ask once more."""
    rows = tx.run("lock_item", id=item_id)
    latest = latest_from(tx.run("latest", item=item_id))
    for name, trigger, facts in subscriptions(tx):
        if rows and name == robot and admits(trigger, item_from(rows[0]), latest):
            make_ready(tx, name, item_from(rows[0]), facts)


def make_ready(tx: Tx, robot: str, item: Item, facts: dict[str, Any], agent: str = "engine") -> None:
    try:
        submit_one(tx, ready_job(robot, item, facts), tx.new_move(), system(agent))
    except KeyConflict:
        pass  # its job is there, and someone has spoilt its payload: that must not keep anyone from recording events


def ready_job(robot: str, item: Item, facts: Mapping[str, Any]) -> NewJob:
    """An item that is ready for a robot *is* a job, one per robot and item."""
    return NewJob(
        f"robot/{robot}",
        {"item": item.id},
        key=item.id,
        lane=item.collection,
        collection=item.collection,
        priority=item.detail.get(PRIORITY, facts.get("priority", 50)),
    )


def subscriptions(tx: Tx) -> list[Robot]:
    return [(robot, *read_robot(trigger, facts)) for robot, trigger, facts, _ in tx.run("subscriptions")]


@lru_cache(maxsize=1024)
def read_robot(trigger: str, facts: str) -> tuple[Trigger, dict[str, Any]]:
    """Kept by its text, so that a robot that is new or has changed is seen at once and others are read only once."""
    return Trigger.from_dict(loads(trigger)), loads(facts)


def concerns(trigger: Trigger, event_type: str | None) -> bool:
    return trigger.watches_changes() if event_type is None else trigger.minds(event_type)


def look(tx: Tx, ids: Iterable[str]) -> dict[str, Look]:
    """Items as they stand, each with its newest events; those that are not there are left out."""
    found: dict[str, Look] = {}
    for item_id in ids:
        for row in tx.run("item", id=item_id):
            found[item_id] = (item_from(row), latest_from(tx.run("latest", item=item_id)))
    return found


def _locked(tx: Tx, item_id: str) -> Item:
    rows = tx.run("lock_item", id=item_id)
    if not rows:
        raise unknown(item_id)
    return item_from(rows[0])


def named(name: str, where: str) -> None:
    """What nobody could ask for by its name is not written down."""
    if not name or "\0" in name:
        raise BadInput("a name is needed, without NUL in it", code="record.name", where=where)


def check_type(event: NewEvent) -> None:
    """Whichever way it comes: what the system itself says happened is not for a robot to say."""
    named(event.type, "event type")
    if event.robot:
        check_event(event.type, f"robot {event.robot}", "robot.reserved")


def unknown(item_id: str) -> NotFound:
    return NotFound(f"there is no item {item_id}", code="item.unknown", hint="`custody item list` shows what there is")


def _types(types: Iterable[str]) -> str:
    for name in types:
        if name.split() != [name]:
            raise BadInput(f"{name!r} cannot be a type", code="item.type", where="item types", hint="one word each")
    return f" {' '.join(sorted(types))} "

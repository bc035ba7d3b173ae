"""The sweep: fills the queue of a robot that is new, and now and then looks whether anything was missed.

What is ready is found by the database, with the trigger as a question to its indexes, so that a look at millions of
items brings back only those that a robot would take. What comes meanwhile is pushed; what is stale is found out when
the work begins.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence

from custody.errors import KeyConflict
from custody.kernel.engine.kinds import Chore
from custody.kernel.model.authority.acting import system
from custody.kernel.model.item import Item
from custody.kernel.model.trigger import STOPPED, Trigger, admits
from custody.kernel.stores import Store
from custody.kernel.stores.rows import Tx, item_from
from custody.kernel.stores.rules.items import make_ready, ready_job
from custody.robots.robot import Robot

LOOKED_AT = 5_000
"""Items in one look: short enough to be in nobody's way."""
CHUNK = 500
FILL_SECONDS = 2.0
REPAIR_SECONDS = 3600.0
"""At least so long between looks at every item …"""
REPAIR_SHARE = 20
"""… and at least so many times what the last one took: many millions of items are looked at less often."""
END = "\U0010ffff"


def chores(store: Store, robots: Sequence[Robot]) -> Sequence[Chore]:
    """In threads of their own, so that a new robot does not wait for the end of a repair."""
    return (
        Chore("robots sweep", FILL_SECONDS, lambda: _each(robots, lambda robot: sweep(store, robot)), finds=True),
        Chore("robots repair", FILL_SECONDS, lambda: _each(robots, lambda robot: repair_if_due(store, robot))),
    )


def _each(robots: Sequence[Robot], act: Callable[[Robot], object]) -> None:
    for robot in robots:
        act(robot)


def sweep(store: Store, robot: Robot) -> int:
    """Fill the queue of a robot that is new or whose trigger has changed; how many items were looked at."""
    total = 0
    while looked := _sweep_on(store, robot):
        total += looked
    if total:
        store.wake()
    return total


def _sweep_on(store: Store, robot: Robot) -> int:
    filled = store.db.read(lambda tx: {row[0]: row[3] for row in tx.run("subscriptions")}.get(robot.name, END))
    if filled == END:
        return 0
    looked, last = _look_on(store, robot, filled)
    store.db.write(lambda tx: tx.run("advance_filled", robot=robot.name, filled=last, was=filled))
    return looked


def repair_if_due(store: Store, robot: Robot) -> int:
    """Look at every item again, if it is time; of several processes one does it."""
    name, started = f"repair/{robot.name}", time.monotonic()

    def taken(tx: Tx) -> bool:
        rows = tx.run("counter", name=name)
        if not rows or int(rows[0][0]) <= tx.now:
            _put_off(tx, name, REPAIR_SECONDS)
        return bool(rows) and int(rows[0][0]) <= tx.now  # a robot that is new has just been filled

    if not store.db.write(taken):
        return 0
    looked = repair(store, robot)
    store.db.write(lambda tx: _put_off(tx, name, max(REPAIR_SECONDS, REPAIR_SHARE * (time.monotonic() - started))))
    return looked


def _put_off(tx: Tx, name: str, seconds: float) -> int:
    rows = tx.run("counter", name=name)
    was = int(rows[0][0]) if rows else 0
    return int(tx.run("bump", name=name, by=tx.now + int(seconds * 1_000_000) - was)[0][0])


def repair(store: Store, robot: Robot) -> int:
    """Look at every item, and queue what is ready and has no job; how many items were looked at."""
    total, after = 0, ""
    while after != END:
        looked, after = _look_on(store, robot, after)
        total += looked
    store.wake()
    return total


def _look_on(store: Store, robot: Robot, after: str) -> tuple[int, str]:
    """One look: how many items were looked at, and the last of them."""
    looked, last, ready = _ready_after(store, robot.when, after)
    for at in range(0, len(ready), CHUNK):
        _queue(store, robot, ready[at : at + CHUNK])
    return looked, last


def ready_items(store: Store, trigger: Trigger) -> Iterator[Item]:
    """All that a robot with this trigger would take now, in the order of their names."""
    after = ""
    while after != END:
        _, after, ready = _ready_after(store, trigger, after)
        yield from ready


def _ready_after(store: Store, trigger: Trigger, after: str) -> tuple[int, str, list[Item]]:
    asked = {part: json.dumps(sorted(getattr(trigger, part))) for part in Trigger.__slots__}
    asked["absent"] = json.dumps(sorted(trigger.absent | {STOPPED}))

    def look(tx: Tx) -> tuple[int, str, list[Item]]:
        looked, last = tx.run("items_ahead", after=after, limit=LOOKED_AT)[0]
        rows = tx.run("ready_items", after=after, last=last, **asked) if looked else []
        return looked, last or END, [item_from(row) for row in rows]

    looked, last, found = store.db.read(look)
    if not found:
        return looked, last, []
    seen = store.records.look([item.id for item in found], trigger.looks_at())
    ready = [item for item, latest in seen.values() if admits(trigger, item, latest)]
    return looked, last, sorted(ready, key=lambda item: item.id)


def _queue(store: Store, robot: Robot, ready: Sequence[Item]) -> None:
    facts = {"priority": robot.priority}
    try:
        store.queue.submit([ready_job(robot.name, item, facts) for item in ready], system("sweep"))
    except KeyConflict:  # someone has spoilt the payload of one: the others go on

        def one_by_one(tx: Tx) -> None:
            for item in ready:
                make_ready(tx, robot.name, item, facts, agent="sweep")

        store.db.write(one_by_one)

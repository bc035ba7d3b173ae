"""The life of a robot: find what is ready, work on it under the job's own token, record the event, all or nothing.

Readiness is a job of kind robot/NAME, one per item, made when an event arrives. The decision is made again against
the events when the work begins, so an item is never worked on twice for the same reason, however late a wake-up comes.
The event is written in the transaction that settles the job: a worker that lost its lease can record nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from custody.engine.kinds import Chore, Kind
from custody.engine.work import Work
from custody.model.errors import NotFound, Unavailable
from custody.model.event import NewEvent
from custody.model.item import Item
from custody.model.outcome import Failed, Outcome, Passed, Wait
from custody.model.trigger import admits
from custody.robots.robot import Report, Robot
from custody.stores import Store
from custody.stores.items import ready_job
from custody.stores.rows import Tx, dumps, item_from, latest_from
from custody.stores.submit import submit_one

CHUNK = 500
SWEEP_SECONDS = 2.0
END = "\U0010ffff"


def kinds(store: Store, robots: Sequence[Robot]) -> Sequence[Kind]:
    """The robots as kinds of work for a worker."""
    return tuple(_kind(store, robot) for robot in robots)


def _kind(store: Store, robot: Robot) -> Kind:
    def handler(work: Work) -> Outcome:
        return run_on_item(work, store, robot)

    return Kind(robot.kind, handler, at_once=robot.at_once, tries=robot.tries, backoff=robot.backoff)


def chores(store: Store, robots: Sequence[Robot]) -> Sequence[Chore]:
    return (Chore("robots sweep", SWEEP_SECONDS, lambda: [sweep(store, robot) for robot in robots]),)


def subscribe(store: Store, robots: Sequence[Robot]) -> None:
    """Register triggers, so that appending an event in any application wakes the robots concerned."""

    def work(tx: Tx) -> None:
        for robot in robots:
            facts = {"event": robot.event, "priority": robot.priority, "version": robot.version}
            tx.run("set_subscription", robot=robot.name, trigger=dumps(robot.when.as_dict()), facts=dumps(facts))

    store.db.write(work)
    store.wake()


def unsubscribe(store: Store, name: str) -> bool:
    return store.db.write(lambda tx: bool(tx.run("drop_subscription", robot=name)))


def sweep(store: Store, robot: Robot) -> int:
    """A rolling look at all items, a chunk at a time: fills a new robot's queue, and repairs anything missed."""

    def work(tx: Tx) -> int:
        filled = {row[0]: row[3] for row in tx.run("subscriptions")}.get(robot.name, END)
        rows = [] if filled == END else tx.run("items", after=filled, collection="", type="", limit=CHUNK)
        for row in rows:
            item = item_from(row)
            if admits(robot.when, item, latest_from(tx.run("latest", item=item.id))):
                submit_one(tx, ready_job(robot.name, item, {"priority": robot.priority}), tx.new_move(), "sweep")
        if filled != END:
            tx.run("set_filled", robot=robot.name, filled=rows[-1][0] if rows else END)
        return len(rows)

    total = 0
    while looked := store.db.write(work):
        total += looked
    store.wake()
    return total


def sweep_again(store: Store, robot: Robot) -> int:
    """From the beginning: what the periodic repair does."""
    store.db.write(lambda tx: tx.run("set_filled", robot=robot.name, filled=""))
    return sweep(store, robot)


def run_on_item(work: Work, store: Store, robot: Robot) -> Outcome:
    """One item: is it still ready? do it; say how it went."""
    try:
        item = store.records.item(str(work.payload["item"]))
    except NotFound as gone:
        return Passed({"why": str(gone)}, forget=True)
    if not admits(robot.when, item, store.records.latest(item.id)):
        return Passed({"why": "it is no longer ready"}, forget=True)
    report = Report()
    late = _timed(robot, item, report)
    if late:
        return late
    if report.postponed:
        return Wait(*report.postponed)
    event = NewEvent(
        item.id, robot.event, report.outcome, robot.agent, report.detail(),  # type: ignore[arg-type]
        seen=None if report.edited else item.changed, robot=robot.name,
    )  # fmt: skip
    edited = [report.edited] if report.edited else []
    return Passed({"item": item.id, "outcome": report.outcome}, items=edited, events=[event], forget=True)


def _timed(robot: Robot, item: Item, report: Report) -> Failed | None:
    """Do the work, within its time. What runs on after that is fenced: whatever it says is not recorded."""
    if robot.timeout is None:
        robot(item, report)
        return None
    failure: list[BaseException] = []

    def work() -> None:
        try:
            robot(item, report)
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=work, daemon=True, name=f"robot {robot.name}")
    thread.start()
    thread.join(robot.timeout)
    if thread.is_alive():
        return Failed("robot.timeout", f"{robot.name} did not finish {item.id} within {robot.timeout:g} s")
    if failure:
        raise failure[0]
    return None


def lock_component(store: Store, robot: Robot, holder: str, seconds: float) -> object:
    """The component lock of the seed: one process at a time, unless the robot says otherwise."""
    if robot.hosts != 1:
        return object()
    lease = store.leases.claim(f"robot/{robot.name}", holder, seconds)
    if lease is None:
        held = store.leases.get(f"robot/{robot.name}")
        raise Unavailable(f"{robot.name} is run by {held.holder if held else 'another process'}", code="robot.busy")
    return lease

"""The life of a robot: find what is ready, work on it under the job's own token, record the event, all or nothing.

Readiness is a job of kind robot/NAME, one per item, made when an event arrives. The decision is made again against
the events when the work begins, so an item is never worked on twice for the same reason, however late a wake-up comes.
The event is written in the transaction that settles the job: a worker that lost its lease can record nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from custody.engine.kinds import Chore, Kind
from custody.engine.work import Work
from custody.model.errors import NotFound
from custody.model.event import NewEvent, item_subject
from custody.model.item import Item
from custody.model.outcome import Failed, Outcome, Passed, Wait
from custody.model.trigger import admits
from custody.robots import guard
from custody.robots.locks import Locks
from custody.robots.orphans import keep_orphan
from custody.robots.program import Program, TimedOut, end_all, mark_of
from custody.robots.robot import Report, Robot
from custody.stores import Store
from custody.stores.items import make_ready
from custody.stores.rows import Tx, dumps, item_from, latest_from

CHUNK = 500
SWEEP_SECONDS = 2.0
LOCK_SECONDS = 2.0
"""How long an item whose lock is busy is left alone."""
BUSY = "its lock is held by"
END = "\U0010ffff"


def kinds(store: Store, robots: Sequence[Robot], locks: Locks | None = None, cycle: bool = False) -> Sequence[Kind]:
    """The robots as kinds of work for a worker; in a single cycle each takes at most what its label says."""
    return tuple(_kind(Line(store, robot, locks), cycle) for robot in robots)


@dataclass(frozen=True, slots=True)
class Line:
    """One robot at its place: the store it looks at, and the locks it must hold."""

    store: Store
    robot: Robot
    locks: Locks | None = None


def _kind(line: Line, cycle: bool) -> Kind:
    robot = line.robot
    return Kind(
        robot.kind, lambda work: run_on_item(work, line), at_once=robot.at_once, tries=robot.tries,
        backoff=robot.backoff, at_most=robot.at_most if cycle else 0,
        confirm_dead=lambda job: end_all(mark_of(job)) if isinstance(robot.work, Program) else None,
    )  # fmt: skip


def chores(store: Store, robots: Sequence[Robot]) -> Sequence[Chore]:
    return (Chore("robots sweep", SWEEP_SECONDS, lambda: [sweep(store, robot) for robot in robots]),)


def subscribe(store: Store, robots: Sequence[Robot]) -> None:
    """Register triggers, so that appending an event in any application wakes the robots concerned."""

    def work(tx: Tx) -> None:
        for robot in robots:
            facts = {"event": robot.event, "priority": robot.priority, "version": robot.version}
            facts |= {"within": robot.within, "since": robot.since} if robot.within else {}
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
                make_ready(tx, robot.name, item, {"priority": robot.priority}, "sweep")
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


def run_on_item(work: Work, line: Line) -> Outcome:
    """One item: is it still ready? do it; say how it went."""
    store, robot = line.store, line.robot
    try:
        item = store.records.item(str(work.payload["item"]))
    except NotFound as gone:
        return Passed({"why": str(gone)}, forget=True)
    if not admits(robot.when, item, store.records.latest(item.id)):
        return Passed({"why": "it is no longer ready"}, forget=True, look=(robot.name, item.id))
    spared = _spared(store, robot, item) if robot.edits else None
    if spared:
        return Passed({"item": item.id, "outcome": spared.outcome}, events=[spared], forget=True)
    report = Report()
    if line.locks is None:
        late = _timed(line, work, item, report)
    else:
        with line.locks.item(work, robot, item.id) as other:
            if other:
                return Wait(LOCK_SECONDS, f"{BUSY} {other}")
            late = _timed(line, work, item, report)
    return late or _recorded(line, work, item, report)


def _spared(store: Store, robot: Robot, item: Item) -> NewEvent | None:
    """What is recorded instead of working, so that robots which edit come to rest."""
    events = store.records.events(item_subject(item.id), after=max(0, item.seq - guard.LOOKED_AT))
    if guard.as_it_left_it(events, robot, item):
        told = {"why": "the content is as this robot left it", guard.EDITED: item.fingerprint}
        return NewEvent(item.id, robot.event, "success", robot.agent, told, seen=item.changed, robot=robot.name)
    if guard.turns(events, robot) >= robot.rounds:
        return guard.stopping(events, robot, item)
    return None


def _recorded(line: Line, work: Work, item: Item, report: Report) -> Outcome:
    if report.postponed:
        return Wait(*report.postponed)
    event = _event(line.robot, item, report)
    if work.lost:
        keep_orphan(line.store, event, work.job, f"the item was lost meanwhile ({work.stop_reason})")
    edited = [report.edited] if report.edited else []
    return Passed({"item": item.id, "outcome": report.outcome}, items=edited, events=[event], forget=True)


def _event(robot: Robot, item: Item, report: Report) -> NewEvent:
    return NewEvent(
        item.id, robot.event, report.outcome, robot.agent, report.detail(),  # type: ignore[arg-type]
        seen=item.changed, robot=robot.name,
    )  # fmt: skip


def _timed(line: Line, work: Work, item: Item, report: Report) -> Failed | None:
    """Do the work, within its time."""
    robot = line.robot
    if isinstance(robot.work, Program):
        try:
            robot.work.run(item, report, mark_of(work.job), robot.timeout, work.on_stop)
        except TimedOut:
            return _late(robot, item, "it was killed")
        return None
    if robot.timeout is None:
        robot(item, report)
        return None
    call = _Call(lambda: robot(item, report), lambda: _too_late(line, work, item, report))
    if not call.finished_within(robot.timeout):
        return _late(robot, item, "it runs on, and whatever it says is not recorded")
    return None


def _late(robot: Robot, item: Item, then: str) -> Failed:
    return Failed("robot.timeout", f"{robot.name} did not finish {item.id} within {robot.timeout:g} s: {then}")


def _too_late(line: Line, work: Work, item: Item, report: Report) -> None:
    keep_orphan(line.store, _event(line.robot, item, report), work.job, "it came after its time was over")


@dataclass(slots=True)
class _Call:
    """A call in a thread of its own, which cannot be killed: if it ends too late, that is noted."""

    work: Callable[[], None]
    too_late: Callable[[], None]
    failure: list[BaseException] = field(default_factory=list)
    abandoned: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
    ended: bool = False

    def finished_within(self, seconds: float) -> bool:
        thread = threading.Thread(target=self._run, daemon=True, name="custody-robot")
        thread.start()
        thread.join(seconds)
        with self.lock:
            self.abandoned = not self.ended
        if not self.abandoned and self.failure:
            raise self.failure[0]
        return not self.abandoned

    def _run(self) -> None:
        try:
            self.work()
        except BaseException as error:
            self.failure.append(error)
        with self.lock:
            self.ended = True
            late = self.abandoned
        if late and not self.failure:
            self.too_late()

"""The life of a robot: find what is ready, work on it under the job's own token, record the event, all or nothing.

Readiness is a job of kind robot/NAME, one per item, made when an event arrives. The decision is made again against
the events when the work begins, so an item is never worked on twice for the same reason, however late a wake-up comes.
The event is written in the transaction that settles the job: a worker that lost its lease can record nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from custody.border.egress.allowance import Asked, Permit, Rules
from custody.border.roots import NO_ROOTS
from custody.errors import BadInput
from custody.kernel.engine.kinds import Kind
from custody.kernel.engine.work import Work
from custody.kernel.model.authority.grant import NETWORK
from custody.kernel.model.event import NewEvent, item_subject
from custody.kernel.model.item import Item, NewItem
from custody.kernel.model.names.names import clashes
from custody.kernel.model.names.reserved import check_detail, check_note
from custody.kernel.model.outcome import Failed, Outcome, Passed, Wait
from custody.kernel.model.trigger import admits
from custody.kernel.stores import Store
from custody.kernel.stores.rows import Tx, dumps
from custody.kernel.stores.rules.items import Look
from custody.robots import loop_guard
from custody.robots.declaration import RESERVED_CODE, Report, Robot
from custody.robots.items.late_events import keep_orphan
from custody.robots.locks import Locks
from custody.robots.makers import ROBOT_MAKER
from custody.robots.part import PRIORITY
from custody.robots.programs.input import located
from custody.robots.programs.program import Program, mark_of
from custody.robots.programs.sandboxed import Interrupted, TimedOut, Turn, Yard
from custody.robots.subscribers import PREFIX

PATIENCE = 30.0
"""Seconds between looks at whether what it asks for is granted."""
LOCK_SECONDS = 2.0
"""How long an item whose lock is busy is left alone."""
FRESH_SECONDS = 0.25
"""How long a look at an item, taken with its claim, is good for."""
BUSY = "its lock is held by"


def kinds(
    store: Store, robots: Sequence[Robot], locks: Locks | None = None, cycle: bool = False, yard: Yard | None = None
) -> Sequence[Kind]:
    """The robots as kinds of work for a worker; in a single cycle each takes at most what its label says."""
    yard = yard or Yard()
    return tuple(_kind(Line(store, robot, locks, yard), cycle) for robot in robots)


@dataclass(frozen=True, slots=True)
class Line:
    """One robot at its place: the store it looks at, the locks it must hold, and where sandboxes are."""

    store: Store
    robot: Robot
    locks: Locks | None = None
    yard: Yard | None = None


def _kind(line: Line, cycle: bool) -> Kind:
    robot = line.robot
    return Kind(
        robot.kind,
        lambda work: run_on_item(work, line),
        at_once=robot.at_once,
        tries=robot.tries,
        backoff=robot.backoff,
        at_most=robot.at_most if cycle else 0,
        prepare=lambda works: _prepare(line, works),
        maker=ROBOT_MAKER,
        confirm_dead=lambda job: robot.work.end(mark_of(job), line.yard) if isinstance(robot.work, Program) else None,
    )


def subscribe(store: Store, robots: Sequence[Robot]) -> None:
    """Register triggers, so that appending an event in any application wakes the robots concerned. Of one line, no two
    may look alike; one that was renamed is no other robot, so that those of former lines are left to the doctor."""
    for those in clashes(robot.name for robot in robots):
        raise BadInput(
            f"the robots {' and '.join(those)} look alike",
            code="robot.name",
            where=those[0],
            hint="call one of them otherwise",
        )

    def work(tx: Tx) -> None:
        for robot in robots:
            trigger, facts = dumps(robot.when.as_dict()), dumps(facts_of(robot))
            tx.run("set_subscription", kind=robot.kind, trigger=trigger, facts=facts, priority_from=PRIORITY)

    store.db.write(work)
    store.wake()


def facts_of(robot: Robot) -> dict[str, Any]:
    """What is kept of a robot beside its trigger."""
    facts: dict[str, Any] = {"event": robot.event, "priority": robot.priority, "version": robot.version}
    facts |= {"within": robot.within, "since": robot.since} if robot.within else {}
    return facts | ({"network": asked_of(robot)} if asked_of(robot) else {})


def unsubscribe(store: Store, name: str) -> bool:
    return store.db.write(lambda tx: bool(tx.run("drop_subscription", kind=f"{PREFIX}{name}")))


def run_on_item(work: Work, line: Line) -> Outcome:
    """One item: is it still ready? do it; say how it went."""
    store, robot = line.store, line.robot
    # Who edits must see the content as it is now, not as it was when the claim was made.
    found = (None if robot.edits else _prepared(work)) or _look(store, robot, [work]).get(_item_of(work))
    if found is None:
        return Passed({"why": f"there is no item {_item_of(work)}"}, forget=True)
    item, latest = found
    if not admits(robot.when, item, latest):
        return Passed({"why": "it is no longer ready"}, forget=True, look=(robot.kind, item.id))
    spared = _spared(store, robot, item) if robot.edits else None
    if spared:
        return Passed({"item": item.id, "outcome": spared.outcome}, events=[spared], forget=True)
    if not_granted := _not_granted(line):
        return Wait(PATIENCE, not_granted)
    report, item = Report(), _located(line, item)
    if line.locks is None:
        late = _timed(line, work, item, report)
    else:
        with line.locks.item(work, robot, item.id) as other:
            if other:
                return Wait(LOCK_SECONDS, f"{BUSY} {other}")
            late = _timed(line, work, item, report)
    return late or _recorded(line, work, item, report)


def _located(line: Line, item: Item) -> Item:
    """As the robot is told of it: with the folder, if its place is seen here. One that leads elsewhere is refused."""
    return located(item, line.yard.roots if line.yard else NO_ROOTS)


def _not_granted(line: Line) -> str:
    asked = asked_of(line.robot)
    return _permit(line).waits_for(asked) if asked else ""


def asked_of(robot: Robot) -> Asked:
    """Where its label says that it wants to go."""
    confined = robot.work.confined if isinstance(robot.work, Program) else None
    return confined.network if confined else False


def _permit(line: Line) -> Permit:
    subject, rules = f"robot/{line.robot.name}", line.yard.network if line.yard else Rules()
    return Permit(subject, lambda: line.store.grants.of(subject, NETWORK), rules)


def _item_of(work: Work) -> str:
    return str(work.payload["item"])


def _look(store: Store, robot: Robot, works: Sequence[Work]) -> dict[str, Look]:
    return store.records.look([_item_of(work) for work in works], robot.when.looks_at())


def _prepare(line: Line, works: Sequence[Work]) -> None:
    """One look for all that was claimed together: whether they are ready is decided as of the claim."""
    readable = [work for work in works if "item" in work.payload]
    looked_at, found = time.monotonic(), _look(line.store, line.robot, readable)
    for work in readable:
        work.prepared = (looked_at, found.get(_item_of(work)))


def _prepared(work: Work) -> Look | None:
    """What was seen at the claim, unless the work has waited for its turn since: then it is looked at again."""
    looked_at, found = work.prepared or (0.0, None)
    return found if time.monotonic() - looked_at < FRESH_SECONDS else None


def _spared(store: Store, robot: Robot, item: Item) -> NewEvent | None:
    """What is recorded instead of working, so that robots which edit come to rest."""
    events = store.records.events(item_subject(item.id), after=max(0, item.seq - loop_guard.LOOKED_AT))
    if loop_guard.as_it_left_it(events, robot, item):
        told = {"why": "the content is as this robot left it", loop_guard.LEFT: item.fingerprint}
        return NewEvent(
            item=item.id,
            type=robot.event,
            outcome="success",
            agent=robot.agent,
            detail=told,
            seen=item.changed,
            teller=robot.kind,
        )
    if loop_guard.turns(events, robot) >= robot.rounds:
        return loop_guard.stopping(events, robot, item)
    return None


def _recorded(line: Line, work: Work, item: Item, report: Report) -> Outcome:
    if report.postponed:
        return Wait(*report.postponed)
    check_note(report.facts, item.id, RESERVED_CODE)  # whichever way a robot noted it
    event = _event(line.robot, item, report)
    if work.lost:
        keep_orphan(line.store, event, work.job, f"the item was lost meanwhile ({work.stop_reason})")
    edited = [_own_words(report.edited)] if report.edited else []
    return Passed({"item": item.id, "outcome": report.outcome}, items=edited, events=[event], forget=True)


def _own_words(edited: NewItem) -> NewItem:
    """Whichever way a robot said it: where an item is, is not for robots to say."""
    check_detail([*edited.detail, *([] if edited.place is None else ["place"])], edited.id, RESERVED_CODE)
    return edited


def _event(robot: Robot, item: Item, report: Report) -> NewEvent:
    return NewEvent(
        item=item.id,
        type=robot.event,
        outcome=report.outcome,  # type: ignore[arg-type]
        agent=robot.agent,
        detail=report.detail(),
        seen=item.changed,
        teller=robot.kind,
    )


def _timed(line: Line, work: Work, item: Item, report: Report) -> Outcome | None:
    """Do the work, within its time."""
    robot = line.robot
    if isinstance(robot.work, Program):
        try:
            robot.work.run(item, report, _turn(line, work))
        except TimedOut:
            return _late(robot, item, "it was killed")
        except Interrupted:
            return Wait(LOCK_SECONDS, "its sandbox was ended, as the item was not known to be ours any more")
        return None
    if robot.timeout is None:
        robot(item, report)
        return None
    call = _Call(lambda: robot(item, report), lambda: _too_late(line, work, item, report))
    if not call.finished_within(robot.timeout):
        return _late(robot, item, "it runs on, and whatever it says is not recorded")
    return None


def _turn(line: Line, work: Work) -> Turn:
    number, timeout = work.claim.token, line.robot.timeout
    permit = _permit(line) if asked_of(line.robot) else None
    return Turn(
        mark=mark_of(work.job),
        number=number,
        timeout=timeout,
        on_stop=work.on_stop,
        trusted=lambda: work.trusted_until,
        yard=line.yard,
        permit=permit,
    )


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

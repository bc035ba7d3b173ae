"""The verbs of `custody robot` by which people act on items: each one command, one event, who and why, and undone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from custody.cli import runtime
from custody.cli.runtime import AsJson, StoreUrl, Why
from custody.cli.times import ago, moment
from custody.errors import BadInput, CustodyError
from custody.kernel.stores import Store, open_store
from custody.robots.discovery import find_robots
from custody.robots.items import actions
from custody.robots.items.deadlines import late as find_late
from custody.robots.items.failures import Cause, causes
from custody.robots.items.late_events import orphans as find_orphans
from custody.robots.items.restart import restart as withdraw
from custody.robots.items.restart import undo as take_back

ItemId = Annotated[str, typer.Argument(help="an item's id")]
Load = Annotated[
    list[str] | None,
    typer.Option("--load", help="robots whose triggers say what depends on what; the registered ones unless told"),
]
AnyRobot = Annotated[str, typer.Argument(help="a robot's name; all when left out")]


def restart(
    item: ItemId,
    event: Annotated[str, typer.Argument(help="the event to withdraw, with what came of it")],
    why: Why,
    load: Load = None,
    store: StoreUrl = runtime.DEFAULT_STORE,
) -> None:
    """Let the line go on from before an event. Nothing is deleted; `undo` takes it back."""
    with open_store(store) as opened:
        item = opened.records.kept(item)
        withdrawn = withdraw(opened, find_robots(load or []), item, event, who=runtime.me(), why=why)
    print(f"withdrawn from {item}: {', '.join(withdrawn)}")


def undo(item: ItemId, why: Why, store: StoreUrl = runtime.DEFAULT_STORE) -> None:
    """Take back the last thing done to an item by hand: restart, override, stop, approve, prioritise."""
    with open_store(store) as opened:
        item = opened.records.kept(item)
        back = take_back(opened, item, runtime.me(), why)
    print(f"undone on {item}: {', '.join(back)}")


def override(
    item: ItemId,
    event: Annotated[str, typer.Argument(help="the event that failed")],
    why: Why,
    store: StoreUrl = runtime.DEFAULT_STORE,
) -> None:
    """Let a failure count as a success, so that the line goes on."""
    with open_store(store) as opened:
        item = opened.records.kept(item)
        actions.override(opened, item, event, runtime.me(), why=why)
    print(f"{event} counts as a success on {item}; `custody robot undo {item}` takes it back")


def stop(item: ItemId, why: Why, store: StoreUrl = runtime.DEFAULT_STORE) -> None:
    """Take an item off the line: no robot takes it until this is undone. (A whole robot: `custody hold set kind`.)"""
    with open_store(store) as opened:
        item = opened.records.kept(item)
        busy = actions.stop(opened, item, runtime.me(), why)
    print(f"{item} is stopped; `custody robot undo {item}` lets it go on")
    for robot in busy:
        print(f"  {robot} is at work on it, and finishes")


def approve(
    item: ItemId,
    why: Why,
    event: Annotated[str, typer.Option(help="the event that robots wait for")] = actions.APPROVED,
    reject: Annotated[bool, typer.Option("--reject", help="say no: the event is a failure")] = False,
    store: StoreUrl = runtime.DEFAULT_STORE,
) -> None:
    """Give the event that only a person can give."""
    with open_store(store) as opened:
        item = opened.records.kept(item)
        waited = actions.approve(opened, item, event, runtime.me(), why=why, rejected=reject)
    print(f"{event} {'refused' if reject else 'given'} for {item}; it is needed for: {', '.join(waited)}")


def prioritise(
    item: ItemId,
    priority: Annotated[int, typer.Argument(help="0 to 99; low goes first, 50 is usual")],
    why: Why,
    store: StoreUrl = runtime.DEFAULT_STORE,
) -> None:
    """Let an item go first, or last, for all robots, now and later."""
    with open_store(store) as opened:
        item = opened.records.kept(item)
        moved = actions.prioritise(opened, item, priority, runtime.me(), why=why)
    print(f"{item} has priority {priority}; {moved} waiting jobs moved")


def failures(robot: AnyRobot = "", store: StoreUrl = runtime.DEFAULT_STORE, json: AsJson = False) -> None:
    """Failures by cause: what one fixes once, and retries one, then all."""
    with open_store(store) as opened:
        found = causes(opened, robot)
    if json:
        runtime.emit(found)
        return
    columns = {
        "robot": lambda cause: cause.robot,
        "items": lambda cause: len(cause.items),
        "code": lambda cause: cause.code,
        "what": lambda cause: cause.event or "could not work",
        "reason": lambda cause: cause.reason,
        "for example": lambda cause: cause.items[0],
    }
    runtime.table(columns, found, "nothing has failed")


def retry(
    robot: Annotated[str, typer.Argument(help="a robot's name")],
    code: Annotated[str, typer.Argument(help="the cause, as `custody robot failures` shows it")],
    why: Why,
    everything: Annotated[bool, typer.Option("--all", help="all of them; else one, to see how it goes")] = False,
    store: StoreUrl = runtime.DEFAULT_STORE,
) -> None:
    """Let items that failed for one cause be worked on again: first one, then all."""
    with open_store(store) as opened:
        found = causes(opened, robot, code)
        if not found:
            raise BadInput(f"nothing of {robot} failed for {code}", code="robot.cause", hint="`custody robot failures`")
        tried = [_retry(opened, cause, everything, why) for cause in (found if everything else found[:1])]
    left = sum(len(cause.items) for cause in found) - sum(tried)
    print(f"{sum(tried)} of them will be worked on again" + (f"; {left} wait for --all" if left else ""))


def _retry(store: Store, cause: Cause, everything: bool, why: str) -> int:
    most = len(cause.items) if everything else 1
    done = 0
    for number, item in enumerate(cause.items[:most]):
        try:
            if cause.jobs:
                _operator(store).resume(cause.jobs[number], why)
            else:
                withdraw(store, [], item, cause.event, who=runtime.me(), why=why)
            done += 1
        except CustodyError as error:
            runtime.tell_error(error, as_json=False)
    return done


def _operator(store: Store) -> Any:
    from custody.cli.composition import machines
    from custody.kernel.operations.jobs import Operator

    return Operator(store, machines(), runtime.me())


def late(robot: AnyRobot = "", limit: int = 100, store: StoreUrl = runtime.DEFAULT_STORE, json: AsJson = False) -> None:
    """What should have happened by now, and what it waits for."""
    with open_store(store) as opened:
        found, now = find_late(opened, robot, limit), opened.now()
    if json:
        runtime.emit(found)
        return
    columns = {
        "robot": lambda each: each.robot,
        "item": lambda each: each.item,
        "event": lambda each: each.event,
        "since": lambda each: each.since,
        "late for": lambda each: ago(each.due, now),
        "waits for": lambda each: each.waits_for,
    }
    runtime.table(columns, found, "nothing is late")


def orphans(robot: AnyRobot = "", store: StoreUrl = runtime.DEFAULT_STORE, json: AsJson = False) -> None:
    """Events that came too late, from robots that had lost their item: refused, and kept aside."""
    with open_store(store) as opened:
        found = find_orphans(opened, [robot] if robot else [])
    if json:
        runtime.emit(found)
        return
    columns = {
        "at (UTC)": lambda event: moment(event.at),
        "item": lambda event: event.detail["item"],
        "event": lambda event: event.detail["event"],
        "outcome": lambda event: event.detail["outcome"],
        "by": lambda event: event.agent,
        "refused because": lambda event: event.detail["why"],
    }
    runtime.table(columns, found, "no event came too late")


VERBS: dict[str, Callable[..., None]] = {
    "restart": restart,
    "undo": undo,
    "override": override,
    "stop": stop,
    "approve": approve,
    "prioritise": prioritise,
    "failures": failures,
    "retry": retry,
    "late": late,
    "orphans": orphans,
}

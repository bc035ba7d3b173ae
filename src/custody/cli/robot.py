"""custody robot: functions that wake when an item has had the right events."""

from __future__ import annotations

import csv
import signal
import sys
from types import FrameType
from typing import Annotated

import typer

from custody.cli import running
from custody.cli.running import AsJson, StoreUrl, Why
from custody.model.errors import NotFound
from custody.model.trigger import Trigger, admits, clauses
from custody.robots.cycle import chores, kinds, lock_component, subscribe, sweep_again
from custody.robots.finding import find_robots
from custody.robots.lint import lint as look_over
from custody.robots.restart import restart as withdraw
from custody.robots.restart import undo as take_back
from custody.robots.robot import Robot, sentence
from custody.stores import Store, open_store
from custody.stores.items import subscriptions

app = running.noun("Functions that wake when an item has had the right events.")
Places = Annotated[list[str], typer.Argument(help="Python files, folders or modules with robots")]
Load = Annotated[
    list[str] | None, typer.Option("--load", help="files, folders or modules with robots; may be repeated")
]
ItemId = Annotated[str, typer.Argument(help="an item's id")]


@app.command()
def run(
    places: Places,
    once: Annotated[bool, typer.Option("--once", help="one cycle, as from cron, then end")] = False,
    threads: int = 4,
    lease: Annotated[float, typer.Option(help="seconds a claim lasts without renewal")] = 30,
    detailed: Annotated[bool, typer.Option("--detailed-exit-code", help="4 when there was nothing to do")] = False,
    store: StoreUrl = running.DEFAULT_STORE,
) -> None:
    """Run robots. Exit codes: 0 worked or nothing to do, 1 an item failed, 2 could not work, 3 another one runs it."""
    from custody.engine import Serving, Settings, Worker

    robots = find_robots(places)
    with open_store(store) as opened:
        subscribe(opened, robots)
        worker = Worker(
            opened, Serving(tuple(kinds(opened, robots)), tuple(chores(opened, robots))), Settings(threads, lease)
        )
        locks = [_locked(opened, robot, worker.holder, lease) for robot in robots]

        def stop(_signal: int, _frame: FrameType | None) -> None:
            worker.stop()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        before = _last_event(opened)
        if once:
            for robot in robots:
                sweep_again(opened, robot)
            worker.run_until_quiet()
        else:
            worker.run_forever()
        for lock in locks:
            _unlock(opened, lock)
        code = _exit_code(opened, robots, before, worker.settled_count, detailed)
    raise typer.Exit(code)


def _locked(store: Store, robot: Robot, holder: str, lease: float) -> object:
    from custody.model.errors import Refused, Unavailable

    try:
        return lock_component(store, robot, holder, lease)
    except Unavailable as busy:
        raise Refused(busy.message, code="robot.busy", hint="it ends by itself; or `custody lease break`") from busy


def _unlock(store: Store, lock: object) -> None:
    from custody.model.lease import Lease

    if isinstance(lock, Lease):
        store.leases.settle(lock)


def _last_event(store: Store) -> int:
    recent = store.records.recent(limit=1)
    return recent[0].id if recent else 0


def _exit_code(store: Store, robots: list[Robot], before: int, settled: int, detailed: bool) -> int:
    types, agents = {robot.event for robot in robots}, {robot.agent for robot in robots}
    after = before
    while events := store.records.since(after):
        if any(event.type in types and event.agent in agents and event.outcome == "failure" for event in events):
            return 1
        after = events[-1].id
    return 4 if detailed and not settled else 0


@app.command("list")
def list_(store: StoreUrl = running.DEFAULT_STORE, json: AsJson = False) -> None:
    """The robots that are registered, and how many items are ready for each."""
    with open_store(store) as opened:
        found = opened.db.read(subscriptions)
        counts = {kind: (state, count) for kind, state, count in opened.queue.counts()}
    rows = [(name, facts, trigger, counts.get(f"robot/{name}", ("", 0))[1]) for name, trigger, facts in found]
    if json:
        running.emit(
            [
                {"robot": name, **facts, "when": trigger.as_dict(), "ready": ready}
                for name, facts, trigger, ready in rows
            ]
        )
        return
    columns = {
        "robot": lambda row: row[0], "version": lambda row: row[1].get("version"),
        "records": lambda row: row[1].get("event"), "ready": lambda row: row[3], "when": lambda row: sentence(row[2]),
    }  # fmt: skip
    running.table(columns, rows, "no robots yet: custody robot run FILE")


@app.command()
def why(robot: str, item: ItemId, store: StoreUrl = running.DEFAULT_STORE, json: AsJson = False) -> None:
    """Is this item ready for this robot? Each clause, and the event that decides."""
    with open_store(store) as opened:
        trigger = _trigger(opened, robot)
        found = list(clauses(trigger, opened.records.item(item), opened.records.latest(item)))
        job = opened.queue.by_key(f"robot/{robot}", item)
        reasons = opened.queue.why(job.id) if job else []
    if json:
        running.emit({"ready": all(clause.holds for clause in found), "clauses": found, "job": reasons})
        return
    ready = all(clause.holds for clause in found)
    print(f"{item} is {'ready' if ready else 'not ready'} for {robot}")
    for clause in found:
        print(f"  {'yes' if clause.holds else 'no ':3}  {clause.text} ({clause.because})")
    for reason in reasons:
        print(f"  job {job.id if job else ''}: {reason.text}")


@app.command("dry-run")
def dry_run(robot: str, limit: int = 50, store: StoreUrl = running.DEFAULT_STORE) -> None:
    """Which items it would take now."""
    with open_store(store) as opened:
        trigger, after, shown = _trigger(opened, robot), "", 0
        while (items := opened.records.items(after)) and shown < limit:
            for item in items:
                if shown < limit and admits(trigger, item, opened.records.latest(item.id)):
                    print(item.id)
                    shown += 1
            after = items[-1].id
    print(f"{shown} items" + (" (there may be more)" if shown == limit else ""), file=sys.stderr)


@app.command()
def lint(places: Places) -> None:
    """Look over a line of robots for what would stop it, repeat it, or never let it begin."""
    remarks = look_over(find_robots(places))
    for remark in remarks:
        print(remark)
    print(f"{len(remarks)} remarks", file=sys.stderr)
    raise typer.Exit(1 if remarks else 0)


@app.command()
def restart(
    item: ItemId,
    event: Annotated[str, typer.Argument(help="the event to withdraw, with what came of it")],
    why: Why,
    load: Load = None,
    store: StoreUrl = running.DEFAULT_STORE,
) -> None:
    """Let the line go on from before an event. Nothing is deleted; `undo` takes it back."""
    with open_store(store) as opened:
        withdrawn = withdraw(opened, find_robots(load or []), item, event, running.me(), why)
    print(f"withdrawn from {item}: {', '.join(withdrawn)}")


@app.command()
def undo(item: ItemId, why: Why, store: StoreUrl = running.DEFAULT_STORE) -> None:
    """Take the last restart back."""
    with open_store(store) as opened:
        back = take_back(opened, item, running.me(), why)
    print(f"they stand again on {item}: {', '.join(back)}")


@app.command()
def matrix(collection: str = "", limit: int = 1000, store: StoreUrl = running.DEFAULT_STORE) -> None:
    """Items and their events, as CSV: a column for each event that a robot records or asks for."""
    with open_store(store) as opened:
        found = opened.db.read(subscriptions)
        events = sorted(
            {facts["event"] for _, _, facts in found} | {name for _, trigger, _ in found for name in trigger.mentions()}
        )
        out = csv.writer(sys.stdout)
        out.writerow(["item", *events])
        for item in opened.records.items("", limit, collection):
            latest = opened.records.latest(item.id)
            out.writerow([item.id, *(latest[name].outcome if name in latest else "" for name in events)])


def _trigger(store: Store, name: str) -> Trigger:
    for robot, trigger, _ in store.db.read(subscriptions):
        if robot == name:
            return trigger
    raise NotFound(f"there is no robot {name}", code="robot.unknown", hint="`custody robot list`")

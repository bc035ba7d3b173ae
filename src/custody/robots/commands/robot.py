"""custody robot: functions and programs that wake when an item has had the right events."""

from __future__ import annotations

import csv
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from custody.border.egress.allowance import Rules
from custody.cli import runtime
from custody.cli.needs_config import ConfigFile
from custody.cli.runtime import AsJson, StoreUrl
from custody.cli.signals import stop_on_signals
from custody.cli.storage_roots import open_roots, roots_of
from custody.cli.times import ago, moment
from custody.config import Config, find
from custody.errors import NotFound, Unavailable
from custody.kernel.model.trigger import Trigger, clauses
from custody.kernel.ports import Leases
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.rules.items import subscriptions
from custody.robots.commands import grants
from custody.robots.commands import items as robot_acts
from custody.robots.discovery import INSTALLED, find_robots
from custody.robots.items.deadlines import due_of, late
from custody.robots.items.restart import by_hand
from custody.robots.lint import BEGINNINGS
from custody.robots.lint import lint as look_over
from custody.robots.locks import Locks
from custody.robots.programs.program import Program
from custody.robots.programs.properties import SUFFIX, converted, labels_of
from custody.robots.programs.sandboxed import YARD, Yard, missing
from custody.robots.robot import Robot, sentence
from custody.robots.runner import facts_of, kinds, subscribe
from custody.robots.summary import Tally
from custody.robots.sweep import chores, ready_items, repair, repair_if_due, sweep

app = runtime.noun("Functions and programs that wake when an item has had the right events.")
for verb, act in (robot_acts.VERBS | grants.VERBS).items():
    app.command(verb)(act)

Places = Annotated[
    list[str] | None,
    typer.Argument(help="Python files, *.robot.toml, folders, modules, or `installed` for what packages offer"),
]
ItemId = Annotated[str, typer.Argument(help="an item's id")]
Load = Annotated[list[str] | None, typer.Option("--load", help="where the robot is, as for run; else as it last ran")]


@app.command()
def run(
    places: Places = None,
    once: Annotated[bool, typer.Option("--once", help="one cycle, as from cron, then end")] = False,
    again: Annotated[bool, typer.Option("--sweep", help="with --once: look at every item again first")] = False,
    threads: int = 4,
    lease: Annotated[float, typer.Option(help="seconds a claim lasts without renewal")] = 30,
    locks: Annotated[
        str,
        typer.Option(help="zookeeper://HOST:PORT,…/ROOT for the locks of robots and items; else leases in the store"),
    ] = "",
    log: Annotated[bool, typer.Option(help="structured log on standard error")] = False,
    detailed: Annotated[bool, typer.Option("--detailed-exit-code", help="4 when there was nothing to do")] = False,
    config: ConfigFile = None,
    store: StoreUrl = runtime.DEFAULT_STORE,
) -> None:
    """Run robots. Exit codes: 0 worked or nothing to do, 1 an item failed, 2 could not work, 3 another one runs it."""
    from custody.cli.composition import decided
    from custody.cli.log import Logging
    from custody.kernel.engine import Serving, Settings, Worker
    from custody.kernel.engine.listeners import NOTHING

    robots = find_robots(places or [INSTALLED])
    found = find(config)
    yard = _yard(robots, found)
    with open_store(store) as opened, _leases(locks, opened, lease) as (leases, items):
        open_roots(opened, found)
        holder = f"{socket.gethostname()}:{os.getpid()}:{opened.new_move()[:6]}"
        held = Locks(leases, holder, lease, items)
        held.take(robots)
        tally = Tally(opened, Logging() if log else NOTHING)
        try:
            subscribe(opened, robots)
            serving = decided(
                Serving(tuple(kinds(opened, robots, held, once, yard=yard)), tuple(chores(opened, robots)))
            )
            worker = Worker(opened, serving, Settings(threads, lease), tally)
            stop_on_signals(worker.stop)
            held.keep(worker.stop)
            if once:
                for robot in robots:
                    sweep(opened, robot)
                    (repair if again else repair_if_due)(opened, robot)
                worker.run_until_quiet()
                tally.leftovers(robots)
            else:
                worker.run_forever()
        finally:
            held.release()
            yard.close()
        print("\n".join(tally.lines() or ["nothing to do"]))
        if held.lost:
            raise Unavailable(held.lost, code="lock.lost", hint="what was being worked on is given up, and done again")
    raise typer.Exit(1 if tally.any_bad() else 4 if detailed and not worker.settled_count else 0)


def _yard(robots: Sequence[Robot], found: Config | None) -> Yard:
    """Said at once, not at the first item: a program that must run in a sandbox, where there is none, or no place."""
    yard = Yard(found.home / YARD if found else None, roots_of(found), found.network if found else Rules())
    for robot in robots:
        if isinstance(robot.work, Program) and robot.work.confined:
            if not yard.look():
                raise missing(f"robot {robot.name}", yard.look())
            yard.open()
    return yard


@contextmanager
def _leases(url: str, store: Store, lease: float) -> Iterator[tuple[Leases, Leases | None]]:
    """For robots, and for items; in the store an item's lock is the lease of its job."""
    if not url:
        yield store.leases, None
        return
    from custody.kernel.stores.zookeeper_leases import ZooKeeperLeases

    with ZooKeeperLeases.open(url, lease) as leases:
        yield leases, leases.passing()


@app.command("list")
def list_(store: StoreUrl = runtime.DEFAULT_STORE, json: AsJson = False) -> None:
    """The robots that are registered, how many items are ready for each, and how many are late."""
    with open_store(store) as opened:
        found = opened.db.read(subscriptions)
        counts = {(kind, state): count for kind, state, count in opened.queue.counts()}
        overdue = late(opened, limit=1000)
        amiss = grants.waiting(opened)
    rows = [
        {
            "robot": name,
            **facts,
            "when": trigger.as_dict(),
            "ready": counts.get((f"robot/{name}", "queued"), 0),
            "failed": counts.get((f"robot/{name}", "failed"), 0),
            "late": sum(each.robot == name for each in overdue) if facts.get("within") else None,
            "amiss": amiss.get(name, ""),
        }
        for name, trigger, facts in found
    ]
    if json:
        runtime.emit(rows)
        return
    columns = {
        "robot": lambda row: row["robot"],
        "version": lambda row: row.get("version"),
        "records": lambda row: row.get("event"),
        "ready": lambda row: row["ready"],
        "broken": lambda row: row["failed"],
        "late": lambda row: row["late"],
        "amiss": lambda row: row["amiss"],
        "when": lambda row: sentence(Trigger.from_dict(row["when"])),
    }
    runtime.table(columns, rows, "no robots yet: custody robot run FILE")


@app.command()
def why(
    robot: str, item: ItemId, load: Load = None, store: StoreUrl = runtime.DEFAULT_STORE, json: AsJson = False
) -> None:
    """Is this item ready for this robot? Each clause, and the event that decides."""
    with open_store(store) as opened:
        trigger, facts = _known(opened, robot, load)
        item = opened.records.kept(item)
        found = list(clauses(trigger, opened.records.item(item), opened.records.latest(item)))
        job = opened.queue.by_key(f"robot/{robot}", item)
        reasons = opened.queue.why(job.id) if job else []
        due, now = due_of(opened, item, facts), opened.now()
        acts = by_hand(list(opened.records.all_events(f"item/{item}")))
    ready = all(clause.holds for clause in found)
    if json:
        runtime.emit({"ready": ready, "clauses": found, "job": reasons, "due": due, "by_hand": acts})
        return
    print(f"{item} is {'ready' if ready else 'not ready'} for {robot}")
    for clause in found:
        print(f"  {'yes' if clause.holds else 'no ':3}  {clause.text} ({clause.because})")
    for reason in reasons:
        print(f"  job {job.id if job else ''}: {reason.text}")
    if due is not None:
        print(
            f"  {facts['event']} should be there by {moment(due)} UTC" + (f", {ago(due, now)} ago" if due < now else "")
        )
    for event in acts:
        print(f"  {event.type} by {event.agent} on {moment(event.at)} UTC: {event.detail.get('why')}")


@app.command("dry-run")
def dry_run(robot: str, load: Load = None, limit: int = 50, store: StoreUrl = runtime.DEFAULT_STORE) -> None:
    """Which items it would take now. With --load also a robot that has never run, or not as it is written now."""
    with open_store(store) as opened:
        trigger, shown = _known(opened, robot, load)[0], 0
        for item in islice(ready_items(opened, trigger), limit):
            print(item.id)
            shown += 1
    print(runtime.counted(shown, "item") + (" (there may be more)" if shown == limit else ""), file=sys.stderr)


@app.command()
def lint(
    places: Annotated[list[str], typer.Argument(help="as for run; also *.properties of the old framework")],
    known: Annotated[list[str] | None, typer.Option(help="an event that comes from elsewhere; may be repeated")] = None,
) -> None:
    """Look over a line of robots for what would stop it, repeat it, or never let it begin."""
    old = [Path(place) for place in places if place.endswith(SUFFIX)]
    read = [labels_of(path) for path in old]
    found = find_robots([place for place in places if not place.endswith(SUFFIX)])
    remarks = [remark for each in read for remark in each.remarks]
    remarks += look_over([*found, *(each.robot for each in read if each.robot)], BEGINNINGS | frozenset(known or ()))
    for remark in remarks:
        print(remark)
    print(runtime.counted(len(remarks), "remark"), file=sys.stderr)
    raise typer.Exit(1 if remarks else 0)


@app.command()
def convert(
    file: Annotated[Path, typer.Argument(help="a property file with autonomous.* keys")],
    name: Annotated[str, typer.Option(help="the robot's name; the file's unless told")] = "",
    event: Annotated[str, typer.Option(help="the event it records, where the file does not show it")] = "",
    command: Annotated[str, typer.Option(help="the program that does the work")] = "./work",
    version: str = "1.0",
) -> None:
    """Turn a property file of the old framework into a label (NAME.robot.toml), with remarks on what has no place."""
    read = labels_of(file, name, event, command, version=version)
    print(converted(read), end="")
    for remark in read.remarks:
        print(remark, file=sys.stderr)


@app.command()
def matrix(collection: str = "", limit: int = 1000, store: StoreUrl = runtime.DEFAULT_STORE) -> None:
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


def _known(store: Store, name: str, load: list[str] | None) -> tuple[Trigger, dict[str, Any]]:
    """A robot as it is written, where that is told, or as it was when it last ran."""
    written = {robot.name: (robot.when, facts_of(robot)) for robot in find_robots(load or [])}
    known = written if load else {robot: (when, facts) for robot, when, facts in store.db.read(subscriptions)}
    if name in known:
        return known[name]
    hint = f"there are {', '.join(known)}" if load else "`custody robot list`; one that has never run: --load FILE"
    raise NotFound(f"there is no robot {name}", code="robot.unknown", hint=hint)

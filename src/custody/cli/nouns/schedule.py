"""custody schedule: what becomes due, and when."""

from __future__ import annotations

from datetime import datetime
from itertools import islice
from typing import Annotated

import typer

from custody.cli import runtime
from custody.cli.open_store import open_store
from custody.cli.runtime import AsJson, Limit, StoreUrl
from custody.cli.times import moment
from custody.formats.shell import command
from custody.formats.text.compact_json import json_text
from custody.kernel.model.authority.acting import name_of
from custody.kernel.model.schedule import Schedule, Wanted
from custody.kernel.model.times import is_by_the_wall_clock, times_of, zone_of
from custody.kernel.stores import Store
from custody.web.operations.makers import MAKERS
from custody.web.operations.setters import Setters

app = runtime.noun("What becomes due, and when.")
Name = Annotated[str, typer.Argument(help="the schedule's name")]
LATE = 60_000_000
"""Microseconds after which a slot that has come, and that nobody took, is worth a word."""


@app.command("set")
def set_(
    name: Name,
    spec: Annotated[str, typer.Argument(help='"0 3 * * 1-5", "every 30m" or "@daily"')],
    kind: Annotated[str, typer.Argument(help="kind of job to make")],
    payload: Annotated[str | None, typer.Argument(help="JSON for the job")] = None,
    zone: Annotated[str | None, typer.Option(help="time zone of a cron expression; UTC unless said")] = None,
    lane: Annotated[str | None, typer.Option(help="lane of the jobs; none unless said")] = None,
    overlap: Annotated[
        str | None, typer.Option(help="skip or allow, when the last run has not ended; skip unless said")
    ] = None,
    missed: Annotated[
        str | None,
        typer.Option(help="when several slots have come unseen: run once for all, or skip them; once unless said"),
    ] = None,
    store: StoreUrl = runtime.DEFAULT_STORE,
) -> None:
    """Make or change a schedule. Of one that is there, what is not said stays as it is."""
    MAKERS.must_be_free(kind)
    given = None if payload is None else runtime.read_json(payload, "payload")
    with open_store(store) as opened:
        schedule = opened.schedules.change(
            name,
            Wanted(spec=spec, kind=kind, payload=given, zone=zone, lane=lane, overlap=overlap, missed=missed),
            runtime.acting(),
        )
        print("set" if schedule.paused else f"next at {_both(schedule, schedule.next_slot)}")
        if zone and zone != "UTC" and not is_by_the_wall_clock(spec):
            print(f"{spec!r} is counted in UTC, whatever the time zone: for a time of day there, say it as cron does")
        _what_keeps_it(opened, schedule)


@app.command("list")
def list_(store: StoreUrl = runtime.DEFAULT_STORE, json: AsJson = False) -> None:
    """All schedules and when each comes next."""
    with open_store(store) as opened:
        schedules, now, setters = opened.schedules.list(), opened.now(), Setters(opened)
        told = [(each, setters.doubt(each), setters.remedy(each)) for each in schedules]
    if json:
        runtime.emit(schedules)
        return
    columns = {
        "schedule": lambda row: row.name,
        "when": lambda row: row.spec,
        "zone": lambda row: row.zone,
        "kind": lambda row: row.kind,
        "set by": lambda row: name_of(row.by) if row.by else "nobody",
        "next (UTC)": lambda row: _next(row, now),
    }
    runtime.table(columns, schedules, "no schedules; `custody schedule set` makes one")
    for schedule, doubt, remedy in told:
        if schedule.why:
            runtime.tell(f"{schedule.name} was paused by itself: {schedule.why}; `{remedy}`")
        elif doubt:
            runtime.tell(f"{schedule.name}: {doubt}; `{command('schedule adopt', schedule.name)}` makes it yours")


@app.command()
def show(name: Name, store: StoreUrl = runtime.DEFAULT_STORE, json: AsJson = False) -> None:
    """One schedule: what it makes, and when it comes next."""
    with open_store(store) as opened:
        schedule, now = opened.schedules.get(name), opened.now()
        if json:
            runtime.emit(schedule)
            return
        runtime.show(
            [
                ("schedule", schedule.name),
                ("when", schedule.spec),
                ("zone", schedule.zone),
                ("makes", schedule.kind),
                ("payload", schedule.payload and json_text(schedule.payload)),
                ("lane", schedule.lane),
                ("set by", schedule.by and name_of(schedule.by)),
                ("why", schedule.why),
                ("overlap", OVERLAP[schedule.overlap]),
                ("missed", MISSED[schedule.missed]),
                ("next", "paused" if schedule.paused else ""),
                *[("next", _both(schedule, slot)) for slot in _coming(schedule, now)],
            ]
        )
        _what_keeps_it(opened, schedule)


OVERLAP = {
    "skip": "skip: no run while the last one has not ended",
    "allow": "allow: also while the last run has not ended",
}
MISSED = {
    "once": "once: one run for all slots that have come unseen",
    "skip": "skip: none, when several have come unseen",
}


def _coming(schedule: Schedule, now: int) -> list[int]:
    if schedule.paused:
        return []
    later = times_of(schedule.spec, schedule.zone).after(max(schedule.next_slot, now))
    return [schedule.next_slot, *islice(later, 2)]


def _next(schedule: Schedule, now: int) -> str:
    if schedule.paused:
        return "paused"
    return moment(schedule.next_slot) + (" (nobody has come for it)" if now - schedule.next_slot > LATE else "")


def _both(schedule: Schedule, slot: int) -> str:
    """On the clocks of its zone, and in UTC."""
    there = datetime.fromtimestamp(slot // 1_000_000, zone_of(schedule.zone))
    if not is_by_the_wall_clock(schedule.spec) or not there.utcoffset():
        return f"{moment(slot)} UTC"
    return f"{there:%Y-%m-%d %H:%M:%S} in {schedule.zone}, {moment(slot)} UTC"


def _what_keeps_it(store: Store, schedule: Schedule) -> None:
    """What a newcomer would wait for in vain."""
    if schedule.why:
        print(f"it was paused by itself: {schedule.why}")
        runtime.tell(f"`{Setters(store).remedy(schedule)}`")
    elif schedule.paused:
        runtime.tell(f"it is paused: `{command('schedule continue', schedule.name)}` lets it go on")
    if schedule.paused:
        return
    if doubt := Setters(store).doubt(schedule):
        runtime.tell(f"{doubt}; `{command('schedule adopt', schedule.name)}` makes it yours")
    if not store.workers():
        runtime.tell("no worker is running: slots become jobs while one is (`custody worker run`, `custody serve`)")


@app.command()
def slots(name: Name, limit: Limit = 20, store: StoreUrl = runtime.DEFAULT_STORE, json: AsJson = False) -> None:
    """What became of its slots: ran, missed or skipped."""
    with open_store(store) as opened:
        rows = opened.schedules.slots(name, limit)
        if not rows:
            opened.schedules.get(name)  # says so if there never was one
    if json:
        runtime.emit([{"slot": slot, "job": job, "outcome": outcome} for slot, job, outcome in rows])
        return
    columns = {"slot (UTC)": lambda row: moment(row[0]), "outcome": lambda row: row[2], "job": lambda row: row[1]}
    runtime.table(columns, rows, "no slot has come yet")


@app.command()
def pause(name: Name, store: StoreUrl = runtime.DEFAULT_STORE) -> None:
    """Let no slot come until it is continued. What would have come meanwhile is not made up for."""
    with open_store(store) as opened:
        opened.schedules.pause(name, True, runtime.me())
    runtime.tell(f"{name} is paused; `{command('schedule continue', name)}` lets it go on")


@app.command("continue")
def continue_(name: Name, store: StoreUrl = runtime.DEFAULT_STORE) -> None:
    """Go on from now."""
    with open_store(store) as opened:
        opened.schedules.pause(name, False, runtime.me())
        schedule = opened.schedules.get(name)
        print(f"{name} goes on, next at {_both(schedule, schedule.next_slot)}")
        _what_keeps_it(opened, schedule)


@app.command()
def adopt(name: Name, store: StoreUrl = runtime.DEFAULT_STORE) -> None:
    """Let it go on in your name, whoever set it: their right to may have ended."""
    with open_store(store) as opened:
        MAKERS.must_be_free(opened.schedules.get(name).kind)
        schedule = opened.schedules.adopt(name, runtime.acting())
        print(f"{name} is yours, next at {_both(schedule, schedule.next_slot)}")


@app.command()
def drop(name: Name, store: StoreUrl = runtime.DEFAULT_STORE) -> None:
    """Forget a schedule; its history stays."""
    with open_store(store) as opened:
        dropped = opened.schedules.drop(name, runtime.me())
    print(f"{name} is gone" if dropped else f"{name}: nothing to do, there is no such schedule")

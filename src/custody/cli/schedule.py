"""custody schedule: what becomes due, and when."""

from __future__ import annotations

from typing import Annotated

import typer

from custody.cli import running
from custody.cli.opening import open_store
from custody.cli.running import AsJson, Limit, StoreUrl
from custody.cli.when import moment
from custody.model.schedule import Schedule

app = running.noun("What becomes due, and when.")
Name = Annotated[str, typer.Argument(help="the schedule's name")]


@app.command("set")
def set_(
    name: Name,
    spec: Annotated[str, typer.Argument(help='"0 3 * * 1-5" or "every 30m"')],
    kind: Annotated[str, typer.Argument(help="kind of job to make")],
    payload: Annotated[str, typer.Argument(help="JSON for the job")] = "{}",
    zone: Annotated[str, typer.Option(help="time zone of a cron expression")] = "UTC",
    overlap: Annotated[str, typer.Option(help="skip or allow, when the last run has not ended")] = "skip",
    missed: Annotated[str, typer.Option(help="once or skip, after a pause")] = "once",
    store: StoreUrl = running.DEFAULT_STORE,
) -> None:
    """Make or change a schedule."""
    from custody.model.errors import BadInput

    if overlap not in ("skip", "allow") or missed not in ("once", "skip"):
        raise BadInput("cannot read this option", hint="--overlap skip|allow, --missed once|skip")
    schedule = Schedule(
        name, spec, kind, running.read_json(payload, "payload"), zone,
        overlap="allow" if overlap == "allow" else "skip", missed="skip" if missed == "skip" else "once",
    )  # fmt: skip
    with open_store(store) as opened:
        opened.schedules.put(schedule, running.me())
        print(f"next at {moment(opened.schedules.get(name).next_slot)} UTC")


@app.command("list")
def list_(store: StoreUrl = running.DEFAULT_STORE, json: AsJson = False) -> None:
    """All schedules and when each comes next."""
    with open_store(store) as opened:
        schedules = opened.schedules.list()
    if json:
        running.emit(schedules)
        return
    columns = {
        "schedule": lambda row: row.name, "when": lambda row: row.spec, "zone": lambda row: row.zone,
        "kind": lambda row: row.kind, "next (UTC)": lambda row: "paused" if row.paused else moment(row.next_slot),
    }  # fmt: skip
    running.table(columns, schedules, "no schedules")


@app.command()
def slots(name: Name, limit: Limit = 20, store: StoreUrl = running.DEFAULT_STORE, json: AsJson = False) -> None:
    """What became of its slots: ran, missed or skipped."""
    with open_store(store) as opened:
        rows = opened.schedules.slots(opened.schedules.get(name).name, limit)
    if json:
        running.emit(rows)
        return
    columns = {"slot (UTC)": lambda row: moment(row[0]), "outcome": lambda row: row[2], "job": lambda row: row[1]}
    running.table(columns, rows, "no slot has come yet")


@app.command()
def pause(name: Name, store: StoreUrl = running.DEFAULT_STORE) -> None:
    """Let no slot come until it is continued."""
    with open_store(store) as opened:
        opened.schedules.pause(name, True, running.me())
    print(f"{name} is paused")


@app.command("continue")
def continue_(name: Name, store: StoreUrl = running.DEFAULT_STORE) -> None:
    """Go on from now."""
    with open_store(store) as opened:
        opened.schedules.pause(name, False, running.me())
    print(f"{name} goes on")


@app.command()
def drop(name: Name, store: StoreUrl = running.DEFAULT_STORE) -> None:
    """Forget a schedule; its history stays."""
    with open_store(store) as opened:
        dropped = opened.schedules.drop(name, running.me())
    print(f"{name} is gone" if dropped else f"{name}: nothing to do, there is no such schedule")

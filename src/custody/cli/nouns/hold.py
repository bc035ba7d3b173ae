"""custody hold: pause a collection, a batch, a storage node, the queue, a job, a kind of work or a lane, with a why."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from custody.application import installed
from custody.cli import runtime
from custody.cli.open_store import label, number, open_store
from custody.cli.runtime import AsJson, StoreUrl, Why
from custody.cli.times import ago
from custody.config import find
from custody.installation import held_as, machines, scopes
from custody.kernel.model.job import Filter, HeldBy
from custody.kernel.operations.jobs import Operator
from custody.kernel.stores import Store
from custody.kernel.stores.queue import SCOPES as OF_QUEUES

app = runtime.noun("Pause a collection, a batch, a storage node, the queue, a job, a kind of work or a lane.")


OF_APPLICATIONS = [scope for application in installed() for scope in application.scopes]
SCOPES = (*OF_QUEUES, *OF_APPLICATIONS, "job")  # a job becomes held itself
if TYPE_CHECKING:
    Scope = str
else:
    Scope = StrEnum("Scope", {scope: scope for scope in SCOPES})
Name = Annotated[str, typer.Argument(help="its name")]


@app.command("set")
def set_(scope: Scope, name: Name, why: Why, store: StoreUrl = runtime.DEFAULT_STORE) -> None:
    """Pause it. Work that is under way goes on; nothing new starts."""
    with open_store(store) as opened:
        if scope == "job":
            _operator(opened).hold(number(name), why)
            new, nothing = True, ""
        else:
            nothing = _matches_nothing(opened, scope, name)
            new = any([opened.queue.hold(*each, runtime.me(), why) for each in _held(scope, name)])
    print(f"{scope} {name} is held" if new else f"{scope} {name} was held already")
    if nothing:
        print(f"  {nothing}: is the name right?", file=sys.stderr)


@app.command()
def lift(scope: Scope, name: Name, why: Why = "", store: StoreUrl = runtime.DEFAULT_STORE) -> None:
    """End the pause. Jobs that became held stay so until they are released."""
    with open_store(store) as opened:
        if scope == "job":
            _operator(opened).release(number(name), why)
            lifted = True
        else:
            lifted = any([opened.queue.lift(*each, runtime.me(), why) for each in _held(scope, name)])
    print(f"{scope} {name} is no longer held" if lifted else f"{scope} {name}: nothing to do, it is not held")
    release = {"collection": "job release --collection", "batch": "batch release"}
    if lifted and scope in release:
        print(f"its held jobs: custody {release[scope]} {name}")


def _held(scope: Scope, name: str) -> Sequence[tuple[str, str]]:
    """What the store knows of it."""
    return held_as(scope, str(number(name)) if scope == "batch" else name)


def _matches_nothing(store: Store, scope: Scope, name: str) -> str:
    """A slip of the pen would pause nothing, and look as if it did."""
    if scope == "batch":
        store.queue.get(number(name))
        return ""
    if scope == "collection":
        known = [
            *(found.collections() if (found := find(None)) else ()),
            *(archive.collection for archive in store.queue.list(Filter(collection=name), 0, 1)),
        ]
        return "" if name in known else f"nothing here is of this collection (profiles: {', '.join(known) or 'none'})"
    if scope in OF_APPLICATIONS:
        found, application = find(None), next(each.name for each in installed() if scope in each.scopes)
        return scopes()[scope].doubt(
            getattr(found, application) if found else None, found.home if found else Path(), name
        )
    return ""


def _operator(store: Store) -> Operator:
    return Operator(store, machines(), runtime.me())


def _shown(hold: HeldBy) -> str:
    return label(int(hold.name)) if hold.scope == "batch" and hold.name.isdigit() else hold.name


@app.command("list")
def list_(store: StoreUrl = runtime.DEFAULT_STORE, json: AsJson = False) -> None:
    """What is paused, by whom, why, since when."""
    with open_store(store) as opened:
        holds, now = opened.queue.holds(), opened.now()
    if json:
        runtime.emit(holds)
        return
    columns = {
        "scope": lambda hold: hold.scope,
        "name": _shown,
        "by": lambda hold: hold.who,
        "for": lambda hold: ago(hold.since, now),
        "why": lambda hold: hold.why,
    }
    runtime.table(columns, holds, "nothing is held")

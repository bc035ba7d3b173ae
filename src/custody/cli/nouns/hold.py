"""custody hold: pause a collection, a batch, a storage node, the queue, a job, a kind of work or a lane, with a why."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer

from custody.cli import runtime
from custody.cli.open_store import label, number, open_store
from custody.cli.runtime import AsJson, StoreUrl, Why
from custody.cli.times import ago
from custody.config import find, profile_names
from custody.kernel.model.job import Filter, HeldBy
from custody.kernel.operations.jobs import Operator
from custody.kernel.stores import Store

app = runtime.noun("Pause a collection, a batch, a storage node, the queue, a job, a kind of work or a lane.")


class Scope(StrEnum):
    collection = "collection"
    batch = "batch"
    kind = "kind"
    lane = "lane"
    node = "node"  # a storage node: the lane of jobs that are to be stored there
    queue = "queue"  # all of an application's work: its kinds
    job = "job"  # one job, which becomes held


Name = Annotated[str, typer.Argument(help="its name")]


@app.command("set")
def set_(scope: Scope, name: Name, why: Why, store: StoreUrl = runtime.DEFAULT_STORE) -> None:
    """Pause it. Work that is under way goes on; nothing new starts."""
    with open_store(store) as opened:
        if scope is Scope.job:
            _operator(opened).hold(number(name), why)
            new, nothing = True, ""
        else:
            nothing = _matches_nothing(opened, scope, name)
            new = any([opened.queue.hold(*each, runtime.me(), why) for each in _held(scope, name)])
    print(f"{scope.value} {name} is held" if new else f"{scope.value} {name} was held already")
    if nothing:
        print(f"  {nothing}: is the name right?", file=sys.stderr)


@app.command()
def lift(scope: Scope, name: Name, why: Why = "", store: StoreUrl = runtime.DEFAULT_STORE) -> None:
    """End the pause. Jobs that became held stay so until they are released."""
    with open_store(store) as opened:
        if scope is Scope.job:
            _operator(opened).release(number(name), why)
            lifted = True
        else:
            lifted = any([opened.queue.lift(*each, runtime.me(), why) for each in _held(scope, name)])
    print(
        f"{scope.value} {name} is no longer held" if lifted else f"{scope.value} {name}: nothing to do, it is not held"
    )
    release = {Scope.collection: "job release --collection", Scope.batch: "batch release"}
    if lifted and scope in release:
        print(f"its held jobs: custody {release[scope]} {name}")


def _held(scope: Scope, name: str) -> Sequence[tuple[str, str]]:
    """What the store knows of it."""
    from custody.ingest.holds import known_as

    return known_as(scope.value, str(number(name)) if scope is Scope.batch else name)


def _matches_nothing(store: Store, scope: Scope, name: str) -> str:
    """A slip of the pen would pause nothing, and look as if it did."""
    if scope is Scope.batch:
        store.queue.get(number(name))
        return ""
    if scope is Scope.collection:
        known = [
            *profile_names(find(None)),
            *(archive.collection for archive in store.queue.list(Filter(collection=name), 0, 1)),
        ]
        return "" if name in known else f"nothing here is of this collection (profiles: {', '.join(known) or 'none'})"
    if scope is Scope.node:
        nodes = _nodes()
        return "" if not nodes or name in nodes else f"no collection is stored there (nodes: {', '.join(nodes)})"
    return ""


def _nodes() -> Sequence[str]:
    from custody.ingest.config import read_profiles

    found = find(None)
    folder = found.home / found.ingest.profiles if found else None
    if found is None or folder is None or not folder.is_dir():
        return ()
    return sorted({*found.ingest.nodes, *(each.storage.node for each in read_profiles(folder).values())})


def _operator(store: Store) -> Operator:
    from custody.cli.composition import machines

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

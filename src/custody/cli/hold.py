"""custody hold: pause a collection, a batch, a kind of work, a lane or a storage node, and say why."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from custody.cli import running
from custody.cli.opening import open_store
from custody.cli.running import AsJson, StoreUrl, Why
from custody.cli.when import ago

app = running.noun("Pause a collection, a batch, a kind of work, a lane or a storage node, and say why.")


class Scope(StrEnum):
    collection = "collection"
    batch = "batch"
    kind = "kind"
    lane = "lane"
    node = "node"  # a storage node: the lane of jobs that are to be stored there


Name = Annotated[str, typer.Argument(help="its name")]


@app.command("set")
def set_(scope: Scope, name: Name, why: Why, store: StoreUrl = running.DEFAULT_STORE) -> None:
    """Pause it. Work that is under way goes on; nothing new starts."""
    with open_store(store) as opened:
        new = opened.queue.hold(*_held(scope, name), running.me(), why)
    print(f"{scope.value} {name} is held" if new else f"{scope.value} {name} was held already")


@app.command()
def lift(scope: Scope, name: Name, why: Why = "", store: StoreUrl = running.DEFAULT_STORE) -> None:
    """End the pause. Jobs that became held stay so until they are released."""
    with open_store(store) as opened:
        lifted = opened.queue.lift(*_held(scope, name), running.me(), why)
    print(
        f"{scope.value} {name} is no longer held" if lifted else f"{scope.value} {name}: nothing to do, it is not held"
    )
    if lifted and scope is Scope.collection:
        print(f"its held jobs: custody job release --collection {name}")


def _held(scope: Scope, name: str) -> tuple[str, str]:
    from custody.ingest.nodes import lane_of

    return ("lane", lane_of(name)) if scope is Scope.node else (scope.value, name)


@app.command("list")
def list_(store: StoreUrl = running.DEFAULT_STORE, json: AsJson = False) -> None:
    """What is paused, by whom, why, since when."""
    with open_store(store) as opened:
        holds, now = opened.queue.holds(), opened.now()
    if json:
        running.emit(holds)
        return
    columns = {
        "scope": lambda hold: hold.scope, "name": lambda hold: hold.name, "by": lambda hold: hold.who,
        "for": lambda hold: ago(hold.since, now), "why": lambda hold: hold.why,
    }  # fmt: skip
    running.table(columns, holds, "nothing is held")

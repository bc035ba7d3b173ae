"""custody kind: what sorts of work may be asked for from outside."""

from __future__ import annotations

from typing import Annotated

import typer

from custody.cli import runtime
from custody.cli.open_store import open_store
from custody.cli.runtime import AsJson, StoreUrl, Why
from custody.cli.times import ago

app = runtime.noun("What sorts of work may be asked for from outside.")


@app.command("list")
def list_(store: StoreUrl = runtime.DEFAULT_STORE, json: AsJson = False) -> None:
    """Kinds that workers have offered (--exec, --load). They stay known while no worker runs."""
    with open_store(store) as opened:
        kinds, now = opened.kinds.list(), opened.now()
    if json:
        runtime.emit(kinds)
        return
    columns = {
        "kind": lambda one: one.kind,
        "known for": lambda one: ago(one.since, now),
        "last offered": lambda one: ago(one.seen, now) + " ago",
    }
    runtime.table(columns, kinds, "no worker has offered a kind of its own: custody worker run --exec KIND=COMMAND")


@app.command()
def forget(
    kind: Annotated[str, typer.Argument(help="as `custody kind list` shows it")],
    why: Why = "",
    store: StoreUrl = runtime.DEFAULT_STORE,
) -> None:
    """Let nobody ask for it any more, until a worker offers it again. Jobs that are there stay."""
    with open_store(store) as opened:
        forgotten = opened.kinds.forget(kind, runtime.me(), why)
    print(f"{kind} is forgotten" if forgotten else f"{kind}: nothing to do, no worker had offered it")

"""custody item: the things the archive keeps."""

from __future__ import annotations

from typing import Annotated

import typer

from custody.cli import running
from custody.cli.opening import open_store
from custody.cli.running import AsJson, Limit, StoreUrl
from custody.cli.when import moment, moment_of
from custody.model.item import NewItem
from custody.robots.asof import as_of as stood

app = running.noun("The things the archive keeps, and their whole history.")


@app.command("list")
def list_(
    collection: str = "",
    type_: Annotated[str, typer.Option("--type")] = "",
    after: Annotated[str, typer.Option(help="start after this id")] = "",
    limit: Limit = 50,
    store: StoreUrl = running.DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Items, by id."""
    with open_store(store) as opened:
        items = opened.records.items(after, limit, collection, type_)
    if json:
        running.emit(items)
        return
    columns = {
        "item": lambda item: item.id, "types": lambda item: " ".join(sorted(item.types)),
        "collection": lambda item: item.collection, "events": lambda item: item.seq,
        "title": lambda item: item.detail.get("title"),
    }  # fmt: skip
    running.table(columns, items, "no items match")


@app.command()
def add(
    ids: Annotated[list[str], typer.Argument(help="one or more ids")],
    type_: Annotated[list[str] | None, typer.Option("--type", help="what it is; may be repeated")] = None,
    collection: str = "",
    fingerprint: Annotated[str, typer.Option(help="of its content; the same again is no change")] = "",
    detail: Annotated[str, typer.Option(help="a JSON object, @FILE or -; robots find `folder` in it")] = "{}",
    store: StoreUrl = running.DEFAULT_STORE,
) -> None:
    """Make an item, or tell that its content has changed: for what no application here has brought in."""
    told = running.read_json(detail, "--detail")
    items = [NewItem(each, frozenset(type_ or ()), collection, fingerprint, told) for each in ids]
    with open_store(store) as opened:
        opened.records.put(items, [], running.me())
        opened.wake()
    print(f"{len(items)} told")


@app.command()
def show(
    item: str,
    as_of: Annotated[str, typer.Option(help="as it stood then: a day (its end), or a time (UTC unless it says)")] = "",
    store: StoreUrl = running.DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """One item, and everything that happened to it, whichever application did it; and which robots it is ready for."""
    with open_store(store) as opened:
        then = stood(opened, item, moment_of(as_of)) if as_of else stood(opened, item, opened.now())
    found, events = then.item, then.events
    if json:
        ready = {name: name in then.ready_for() for name in then.answers}
        running.emit({"item": found, "events": events, "ready": ready, "answers": then.answers})
        return
    running.show(
        [
            ("item", found.id), ("types", " ".join(sorted(found.types))), ("collection", found.collection),
            ("fingerprint", found.fingerprint), *sorted(found.detail.items()),
        ]
    )  # fmt: skip
    print()
    columns = {
        "at (UTC)": lambda event: moment(event.at), "event": lambda event: event.type,
        "outcome": lambda event: event.outcome, "by": lambda event: event.agent,
    }  # fmt: skip
    running.table(columns, events, "nothing has happened to it")
    for robot, clauses in then.answers.items():
        missing = [f"{clause.text} ({clause.because})" for clause in clauses if not clause.holds]
        print(f"{robot}: {'not ready: ' + '; '.join(missing) if missing else 'ready'}")

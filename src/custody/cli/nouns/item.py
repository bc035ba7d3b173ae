"""custody item: the things the archive keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from custody.border.roots import Roots
from custody.cli import runtime
from custody.cli.needs_config import ConfigFile
from custody.cli.open_store import open_store
from custody.cli.runtime import AsJson, Limit, StoreUrl
from custody.cli.storage_roots import roots_of
from custody.cli.times import moment, moment_of
from custody.config import find
from custody.errors import BadInput
from custody.kernel.model.item import NewItem
from custody.kernel.model.names.reserved import check_detail
from custody.robots.items.as_of import as_of as stood

TITLE = "title"
"""The system's word that whoever brings an item in may say."""

app = runtime.noun("The things the archive keeps, and their whole history.")


@app.command("list")
def list_(
    collection: str = "",
    type_: Annotated[str, typer.Option("--type")] = "",
    after: Annotated[str, typer.Option(help="start after this id")] = "",
    limit: Limit = 50,
    store: StoreUrl = runtime.DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Items, by id."""
    with open_store(store) as opened:
        items = opened.records.items(after, limit, collection, type_)
    if json:
        runtime.emit(items)
        return
    columns = {
        "item": lambda item: item.id,
        "types": lambda item: " ".join(sorted(item.types)),
        "collection": lambda item: item.collection,
        "events": lambda item: item.seq,
        "title": lambda item: item.detail.get("title"),
    }
    runtime.table(columns, items, "no items match")


@app.command()
def add(
    ids: Annotated[list[str], typer.Argument(help="one or more ids")],
    type_: Annotated[list[str] | None, typer.Option("--type", help="what it is; may be repeated")] = None,
    collection: str = "",
    fingerprint: Annotated[str, typer.Option(help="of its content; the same again is no change")] = "",
    detail: Annotated[str, typer.Option(help="a JSON object, @FILE or -")] = "{}",
    folder: Annotated[
        Path | None, typer.Option(help="where its files are: below a storage root of custody.toml")
    ] = None,
    config: ConfigFile = None,
    store: StoreUrl = runtime.DEFAULT_STORE,
) -> None:
    """Make an item, or tell that its content has changed: for what no application here has brought in."""
    told = runtime.read_json(detail, "--detail")
    check_detail((word for word in told if word != TITLE), "--detail")
    place = _place(folder, roots_of(find(config))) if folder else None
    with open_store(store) as opened:
        known = dict.fromkeys(opened.records.kept(each) for each in ids)
        items = [
            NewItem(
                id=each,
                types=frozenset(type_ or ()),
                collection=collection,
                fingerprint=fingerprint,
                detail=told,
                place=place,
            )
            for each in known
        ]
        opened.records.put(items, [], runtime.me())
        opened.wake()
    print(f"{len(items)} told")


def _place(folder: Path, roots: Roots) -> str:
    """What robots may be shown lies below a root that an operator has named."""
    place = roots.place_of(folder.resolve())
    if place is None:
        known = ", ".join(f"{root.name} = {root.path}" for root in roots) or "none"
        raise BadInput(
            f"{folder} lies below no storage root",
            code="root.unknown",
            where="--folder",
            hint=f"[storage] roots in custody.toml; there are: {known}",
        )
    roots.source(place)
    return place


@app.command()
def show(
    item: str,
    as_of: Annotated[str, typer.Option(help="as it stood then: a day (its end), or a time (UTC unless it says)")] = "",
    store: StoreUrl = runtime.DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """One item, and everything that happened to it, whichever application did it; and which robots it is ready for."""
    with open_store(store) as opened:
        then = stood(opened, item, moment_of(as_of)) if as_of else stood(opened, item, opened.now())
    found, events = then.item, then.events
    if json:
        ready = {name: name in then.ready_for() for name in then.answers}
        runtime.emit({"item": found, "events": events, "ready": ready, "answers": then.answers})
        return
    runtime.show(
        [
            ("item", found.id),
            ("types", " ".join(sorted(found.types))),
            ("collection", found.collection),
            ("fingerprint", found.fingerprint),
            *([("place", found.place)] if found.place else []),
            *sorted(found.detail.items()),
        ]
    )
    print()
    columns = {
        "at (UTC)": lambda event: moment(event.at),
        "event": lambda event: event.type,
        "outcome": lambda event: event.outcome,
        "by": lambda event: event.agent,
    }
    runtime.table(columns, events, "nothing has happened to it")
    for robot, clauses in then.answers.items():
        missing = [f"{clause.text} ({clause.because})" for clause in clauses if not clause.holds]
        print(f"{robot}: {'not ready: ' + '; '.join(missing) if missing else 'ready'}")

"""custody channel search, export: what is kept, for those who read it."""

from __future__ import annotations

import json as jsons
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from custody.channels import paying, seen, trust
from custody.channels.mirror import checked
from custody.channels.reader import Leaving, Shown
from custody.channels.seen import written
from custody.channels.snowflake import HIGHEST, at
from custody.cli.channel_parts import Channel, blobs_of, known, reader
from custody.cli.configured import ConfigFile, StoreUrl, opened
from custody.model.errors import BadInput, NotFound
from custody.model.item import Item
from custody.stores import Store


def search(
    channel: Channel,
    message: Annotated[str, typer.Argument(help="a message's number")] = "",
    since: Annotated[datetime | None, typer.Option(help="messages from this time on (UTC)")] = None,
    until: Annotated[datetime | None, typer.Option(help="and before this one")] = None,
    config: ConfigFile = None,
    store: StoreUrl = "",
) -> None:
    """One message with all its versions and as it was last seen, or those of a span of time, a line each."""
    if bool(message) == bool(since or until):
        raise BadInput("say which message, or a span of time", hint="custody channel search 123 456, or --since DATE")
    with opened(config, store) as (_, settings):
        kept = reader(settings, checked(channel), blobs_of(settings))
        if not message:
            low, high = (at(one.replace(tzinfo=UTC)) if one else None for one in (since, until))
            for one in kept.between(low or 0, high or HIGHEST + 1):
                print(_line(one))
            return
        found = kept.search(checked(message))
    if found is None:
        raise NotFound(f"message {message} is not kept of channel {channel}", code="message.unknown")
    _tell(found)


def _line(one: Shown) -> str:
    if one.damaged or not one.versions:
        return jsons.dumps({"id": str(one.id), "damaged" if one.damaged else "deleted": True})
    besides = one.besides
    return (written({**one.message, "custody": besides}) if besides else one.versions[-1]).decode()


def _tell(found: Shown) -> None:
    if found.deleted_at:
        print(f"deleted, noticed at {found.deleted_at}")
    if found.gone:
        print(f"deleted there, noticed at {found.gone}; kept here")
    if found.damaged:
        print("damaged here: `custody channel verify --mend` fetches it again")
        raise typer.Exit(1)
    for line in found.versions:
        print(jsons.dumps(jsons.loads(line), ensure_ascii=False, indent=1))
    if found.versions and found.message != found.newest:
        print(f"as it was last seen, {found.besides.get('seen', '')}")
        print(jsons.dumps(found.message, ensure_ascii=False, indent=1))
    if was := found.besides.get("was"):
        print("no longer shown")
        print(jsons.dumps(was, ensure_ascii=False, indent=1))


def export(
    channel: Channel,
    target: Annotated[Path, typer.Argument(help="a file, or a folder for --html")],
    jsonl: Annotated[bool, typer.Option("--jsonl", help="JSON lines")] = False,
    sqlite: Annotated[bool, typer.Option("--sqlite", help="a database with full-text search")] = False,
    html: Annotated[bool, typer.Option("--html", help="pages to read and search")] = False,
    without_deleted: Annotated[
        bool, typer.Option("--without-deleted", help="leave out what was deleted there, whatever the policy")
    ] = False,
    with_hidden: Annotated[
        bool, typer.Option("--with-hidden", help="also what the policy hides until it is erased; for operators")
    ] = False,
    config: ConfigFile = None,
    store: StoreUrl = "",
) -> None:
    """Everything that is kept of a channel, in a form that others can read."""
    from custody.channels.export.jsonl import write_jsonl
    from custody.channels.export.sqlite import write_sqlite
    from custody.channels.export.whole import write_pages

    if sum((jsonl, sqlite, html)) != 1:
        raise BadInput("say which form", hint="--jsonl, --sqlite or --html")
    if without_deleted and with_hidden:
        raise BadInput("what is hidden was deleted there", hint="--without-deleted or --with-hidden")
    number, leaving = checked(channel), Leaving(without_deleted)
    with opened(config, store) as (handle, settings):
        blobs = blobs_of(settings)
        item = None if with_hidden else _item(handle, number)
        messages = leaving.through(reader(settings, number, blobs, item).between())
        if jsonl:
            count = write_jsonl(messages, target)
        elif sqlite:
            count = write_sqlite(messages, target, number, channel)
        else:
            count = write_pages(blobs, messages, target, number, leaving)
        if leaving.damaged:
            paying.note(seen.of(blobs, number, settings.channels.capacity), leaving.damaged, trust.stamp(handle.now()))
    print(f"{count} messages in {target}")
    if leaving.out:
        print(f"{len(leaving.out)} that were deleted there are kept and not in it")
    if damaged := leaving.damaged:
        print(f"{len(damaged)} of them are damaged here and not in it, from {damaged[0]} on: `custody channel verify`")
        raise typer.Exit(1)


def _item(store: Store, channel: int) -> Item | None:
    """What is left of a channel may be exported where the store of its archive is no longer."""
    try:
        return known(store, channel)
    except NotFound:
        return None

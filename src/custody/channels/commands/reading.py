"""custody channel search, export: what is kept, for those who read it."""

from __future__ import annotations

import json as jsons
import sys
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from custody.channels.blobs.port import Blobs
from custody.channels.commands.parts import Channel, blobs_of, checked_message, known, reader, refuse_removed
from custody.channels.condition.standing import hurt_of, lack_of
from custody.channels.context import POSTS_ONLY, checked, threads_under
from custody.channels.crawl import trust
from custody.channels.debts import payment
from custody.channels.integrity import damage, expected
from custody.channels.messages import last_seen
from custody.channels.messages.copies import written
from custody.channels.messages.deletions import erased_from
from custody.channels.messages.reader import Leaving, Reader, Shown
from custody.channels.plain_text import plainly
from custody.channels.snowflake import HIGHEST, at
from custody.cli.needs_config import ConfigFile, StoreUrl, opened
from custody.config import Config
from custody.errors import BadInput, CustodyError, NotFound
from custody.kernel.model.item import Item
from custody.kernel.stores import Store


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
    with opened(config, store) as (handle, settings):
        number, blobs, leaving = checked(channel), blobs_of(settings, handle), Leaving()
        item = _item(handle, number, blobs)
        kept = reader(settings, number, blobs)
        found, first, last = None, 0, HIGHEST
        if message:
            first = last = checked_message(message)
            found = kept.search(checked_message(message))
            deque(leaving.through([found] if found else []), maxlen=0)
        else:
            low, high = (at(one.replace(tzinfo=UTC)) if one else None for one in (since, until))
            first, last = low or 0, high or HIGHEST
            for one in leaving.through(kept.between(low or 0, high or HIGHEST + 1)):
                print(_line(one))
        wrong = _noticed(handle, settings, number, blobs, leaving=leaving, read=kept)
        hurt = hurt_of(handle, blobs, number, first, high=last) if item else ""
    if message and found is None and hurt:
        print(f"message {message} is not here, and may be lost: {hurt}")
        raise typer.Exit(1)
    if message and found is None:
        raise NotFound(f"message {message} is not kept of channel {channel}", code="message.unknown")
    if found:
        _tell(found, erased_from(settings.channels, item, found.gone) if item and found.gone else "")
    if wrong:
        print(f"{wrong}: `custody channel verify {channel} --mend` fetches again what the channel still shows")
        raise typer.Exit(1)
    if hurt:
        print(f"that may not be all: {hurt}")
        raise typer.Exit(1)


def _noticed(store: Store, settings: Config, channel: int, blobs: Blobs, leaving: Leaving, read: Reader) -> str:
    """Write down what a reader has met; answers it in words."""
    told = []
    if leaving.damaged:
        told.append(f"{len(leaving.damaged)} of them are damaged here and not in it, from {leaving.damaged[0]} on")
        try:
            overlay = last_seen.of(blobs, channel, settings.channels.capacity)
            payment.note(overlay, leaving.damaged, trust.stamp(store.now()))
        except CustodyError as error:
            if not damage.is_damage(error):
                raise
            damage.noticed(store, channel, str(error))
    gone = expected.lacking(store, blobs, channel).values()
    told += [f"{one.where}: {one.detail}" for one in gone]
    told += [f"from {low} to {high} the archive cannot be read" for low, high in leaving.lost]
    told += [f"what was last seen of {low} to {high} cannot be read" for low, high in read.unseen]
    if leaving.files:
        told.append(f"{len(leaving.files)} files are damaged or missing and not in it")
    if leaving.lost or read.unseen or leaving.files or gone:
        damage.noticed(store, channel, told[-1])
    return "; ".join(told[:5]) + (f"; and {len(told) - 5} more parts" if len(told) > 5 else "")


def _line(one: Shown) -> str:
    if one.upto:
        return jsons.dumps(one.message)
    if one.damaged or not one.versions:
        return jsons.dumps({"id": str(one.id), "damaged" if one.damaged else "deleted": True})
    besides = one.besides
    return _escaped((written({**one.message, "custody": besides}) if besides else one.versions[-1]).decode())


def _tell(found: Shown, until: str) -> None:
    if found.deleted_at:
        print(f"deleted, noticed at {found.deleted_at}")
    if found.gone:
        then = f"kept here until {until} at the least, hidden from exports and pages, and then erased"
        print(f"deleted there, noticed at {found.gone}; {then if until else 'kept here'}")
    if found.damaged:
        print("damaged here: `custody channel verify --mend` fetches it again")
    for line in found.versions:
        print(_readable(jsons.loads(line)))
    if found.versions and found.message != found.newest:
        print(f"as it was last seen, {found.besides.get('seen', '')}")
        print(_readable(found.message))
    if was := found.besides.get("was"):
        print("no longer shown")
        print(_readable(was))


def _readable(told: Mapping[str, Any]) -> str:
    """As JSON for people: what would deceive or break a terminal is escaped, and so can be read back."""
    return _escaped(jsons.dumps(told, ensure_ascii=False, indent=1))


def _escaped(text: str) -> str:
    """JSON that says the same in signs that the output can write."""
    any_ = (sys.stdout.encoding or "utf-8").lower().replace("-", "") == "utf8"
    good = text.isascii() or any_
    if good and all(plainly(line) == line for line in text.split("\n")):
        return text
    return "".join(sign if _is_fine(sign, any_) else _escape(sign) for sign in text)


def _is_fine(sign: str, any_: bool) -> bool:
    return sign == "\n" or (plainly(sign) == sign if any_ else sign.isascii() and sign.isprintable())


def _escape(sign: str) -> str:
    return f"\\u{ord(sign):04x}" if ord(sign) < 0x10000 else jsons.dumps(sign)[1:-1]


def export(
    channel: Channel,
    target: Annotated[Path, typer.Argument(help="a file, or a folder for --html")],
    jsonl: Annotated[bool, typer.Option("--jsonl", help="JSON lines, one a message")] = False,
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
    """Everything that is kept of a channel, earlier versions too, in a form that others can read."""
    from custody.channels.export.bundle import write_pages
    from custody.channels.export.jsonl import write_jsonl
    from custody.channels.export.sqlite import write_sqlite

    if sum((jsonl, sqlite, html)) != 1:
        raise BadInput("say which form", hint="--jsonl, --sqlite or --html")
    if without_deleted and with_hidden:
        raise BadInput("what is hidden was deleted there", hint="--without-deleted or --with-hidden")
    number, leaving = checked(channel), Leaving(without_deleted)
    with opened(config, store) as (handle, settings):
        blobs = blobs_of(settings, handle)
        item, under = _item(handle, number, blobs), threads_under(handle, number)
        kept = reader(settings, number, blobs, None if with_hidden else item)
        messages = leaving.through(kept.between())
        detail = item.detail if item else {}
        name = str(detail.get("title") or number)
        if jsonl:
            count = write_jsonl(messages, target)
        elif sqlite:
            about = {one: detail[one] for one in ("guild", "kind", "parent", "archived") if detail.get(one) is not None}
            count = write_sqlite(messages, target, number, name, about=jsons.dumps(about))
        else:
            count = write_pages(blobs, messages, target, number, leaving=leaving, title=name)
        wrong = _noticed(handle, settings, number, blobs, leaving=leaving, read=kept)
        lacks, code = lack_of(handle, blobs, number) if item else ("", 0)
        if item and (hurt := hurt_of(handle, blobs, number)):
            lacks, code = hurt, 1
    print(f"{count} messages in {target}")
    if under:
        what = "posts" if detail.get("kind") in POSTS_ONLY else "threads"
        print(f"its {len(under)} {what} are channels of their own, to be exported one by one: `custody channel list`")
    if leaving.out:
        print(f"{len(leaving.out)} that were deleted there are kept and not in it")
    if wrong:
        print(f"{wrong}: `custody channel verify {channel} --mend` fetches again what the channel still shows")
        raise typer.Exit(1)
    if lacks:
        print(f"that is not all of it: {lacks}")
        raise typer.Exit(code)


def _item(store: Store, channel: int, blobs: Blobs) -> Item | None:
    """What is left of a channel may be read where the store of its archive is no longer."""
    try:
        item = known(store, channel)
        refuse_removed(item)
        return item
    except NotFound:
        if next(iter(blobs.list(f"ch/{channel}/")), None) is None:
            raise
        return None

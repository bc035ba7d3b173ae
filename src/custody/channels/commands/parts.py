"""What the commands about channels have in common."""

from __future__ import annotations

from typing import Annotated

import typer

from custody.channels.blobs.port import Blobs
from custody.channels.context import checked, item_id
from custody.channels.kinds import open_blobs, settings_of
from custody.channels.messages.reader import Reader, reader_of
from custody.channels.snowflake import parse
from custody.channels.table import Table
from custody.config import Config
from custody.errors import BadInput, NotFound
from custody.kernel.model.item import Item
from custody.kernel.stores import Store

Channel = Annotated[str, typer.Argument(help="the channel's number")]


def blobs_of(settings: Config, store: Store) -> Blobs:
    """Where channels are kept; a place that is not there though something was kept in it is refused."""
    return open_blobs(settings.channels, settings.home, store)


def table_of(settings: Config, channel: str, blobs: Blobs) -> Table:
    return Table(blobs, checked(channel), settings_of(settings.channels))


def checked_message(message: str) -> int:
    """A message's number, from what a person typed."""
    if not message.isdigit():
        raise BadInput(
            f"{message!r} is not a message's number", code="message.number", hint="a long number, from the app"
        )
    return parse(message)


def reader(settings: Config, channel: int, blobs: Blobs, item: Item | None = None) -> Reader:
    """As readers are shown it; without its item all that is here, as an operator wants it."""
    return reader_of(blobs, channel, settings_of(settings.channels), item, policies=settings.channels)


def known(store: Store, channel: int) -> Item:
    """A channel's item; one that was never mirrored is refused."""
    try:
        return store.records.item(item_id(channel))
    except NotFound:
        raise NotFound(
            f"channel {channel} is not mirrored here",
            code="channel.unknown",
            hint="`custody channel list` shows which are",
        ) from None

"""Channels as the archive knows them: items, what is asked about them, and where their messages are kept.

Threads and forum posts are channels of their own, with a parent. Nothing here fetches or writes a message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from custody.channels.blobs.port import Blobs
from custody.channels.crawl.walk import Found
from custody.channels.discord.client import Discord
from custody.channels.files import wanted
from custody.channels.messages import last_seen as seen
from custody.channels.notes import Notes
from custody.channels.plain_text import plainly
from custody.channels.snowflake import parse
from custody.channels.table import Settings, Table
from custody.errors import BadInput, NotFound
from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import Item, NewItem
from custody.kernel.stores import Store

CHANNEL: Final = "channel"  # the type of the items
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
THREADED = frozenset({0, 5, 15, 16})  # text, announcements, forum, media: what may have threads
POSTS_ONLY = frozenset({15, 16})  # forum, media: nothing but threads
ASKED: Final = "asked"  # of an item: the channel is to be mirrored, and the service has not shown it yet
HELD = ("ch", "seen", "files", "assets", "media")  # folders of the blob store in which a channel has one

Raw = Mapping[str, Any]
What = Literal["add", "sync", "review", "files", "remove"]


@dataclass(frozen=True, slots=True)
class Request:
    """Something asked about a channel: all that a queue ever carries."""

    what: What
    channel: int
    message: int = 0
    newest_first: bool = False
    why: str = ""
    along: tuple[int, ...] = ()  # of a removal: the threads that its operator was shown
    order: str = ""  # of a removal: which one in the store it belongs to


@dataclass(frozen=True, slots=True)
class Told:
    """What a step has to say: in a word, about items, and what is to be asked next."""

    detail: Mapping[str, Any]
    items: tuple[NewItem, ...] = ()
    events: tuple[NewEvent, ...] = ()
    requests: tuple[Request, ...] = ()
    failed: str = ""  # a code, if there is nothing that can be done


@dataclass(frozen=True, slots=True)
class Context:
    """Where messages come from and where they are kept."""

    store: Store
    discord: Discord
    blobs: Blobs
    settings: Settings
    largest_file: int = 100 << 20
    look_back: int = 2  # pages of the newest that are looked at again after each sync
    round_days: float = 30.0  # after which every message is looked at again; 0: never
    look_hours: float = 20.0  # after which a channel that says nothing new is looked at again; 0: never
    round_pages: int = 10  # of its past that are seen again with each such look
    deleted: str = "keep"  # what becomes of messages that are gone there, where nobody says otherwise
    policies: Mapping[str, str] = field(default_factory=dict)  # the same for channels and guilds, by their numbers
    private_threads: bool = False  # asking for them without the right to is an invalid request each time
    intent: dict[str, tuple[datetime, bool]] = field(default_factory=dict, compare=False)  # may the bot see content?
    looked: dict[int, datetime] = field(default_factory=dict, compare=False)  # when threads were last looked for
    suspected: dict[int, Found] = field(default_factory=dict, compare=False)  # what is still to be looked into
    known: set[tuple[int, int]] = field(default_factory=set, compare=False)  # files that need no second look

    def table(self, channel: int) -> Table:
        return Table(self.blobs, channel, self.settings)

    def files(self, channel: int) -> Table:
        """The attachments of a channel's messages, by their ids: where each is kept, or why it is not."""
        return files_of(self.blobs, channel)

    def assets(self, channel: int) -> Table:
        """What its messages show besides attachments, by numbers made from the links."""
        return assets_of(self.blobs, channel)

    def seen(self, channel: int) -> Table:
        """What changes about a channel's messages without an edit, and what is owed: as it was last seen."""
        return seen.of(self.blobs, channel, self.settings.capacity)

    def tables(self, channel: int) -> tuple[Table, ...]:
        """All that are kept of a channel; the messages first, so that nobody reads a channel that is half removed."""
        return self.table(channel), self.seen(channel), self.files(channel), self.assets(channel)

    @property
    def notes(self) -> Notes:
        return Notes(self.store)

    def item(self, channel: int) -> Item | None:
        try:
            return self.store.records.item(item_id(channel))
        except NotFound:
            return None

    def now(self) -> datetime:
        return EPOCH + timedelta(microseconds=self.store.now())

    def stamp(self) -> str:
        """The store's time as it is written into tables: later ones sort after earlier ones."""
        return self.now().isoformat(timespec="microseconds")


def files_of(blobs: Blobs, channel: int) -> Table:
    return Table(blobs, channel, Settings(merge=wanted.latest, joined=wanted.joined), folder="files")


def assets_of(blobs: Blobs, channel: int) -> Table:
    """A hundred to a block: their numbers come in no order, and every one would be a place to be read."""
    settings = Settings(packing=100, merge=wanted.latest, joined=wanted.joined)
    return Table(blobs, channel, settings, folder="assets")


def item_id(channel: int) -> str:
    return f"channel/{channel}"


def number_of(item: Item) -> int:
    return parse(item.id.removeprefix("channel/"))


def parent_of(item: Item) -> int:
    """The channel that a thread belongs to; 0 for one that is not a thread."""
    return parse(str(item.detail.get("parent") or 0))


def checked(channel: str) -> int:
    """A channel's number, from what a person typed."""
    if not channel.isdigit():
        raise BadInput(
            f"{channel!r} is not a channel's number", code="channel.number", hint="a long number, from the app"
        )
    return parse(channel)


def described(about: Raw) -> NewItem:
    """A channel's item, from what the service says about it."""
    channel = parse(about["id"])
    thread = about.get("thread_metadata") or {}
    detail = {
        "title": plainly(about.get("name")) or str(channel),
        "guild": about.get("guild_id") or "",
        "kind": kind_of(about),
        "mirrored": "yes",
    }
    if thread:
        detail |= {"parent": about.get("parent_id") or "", "archived": bool(thread.get("archived"))}
    return NewItem(item_id(channel), frozenset({CHANNEL}), fingerprint=f"added {channel}", detail=detail)


def kind_of(about: Raw) -> int:
    """The number of its kind; what is no number is that of a text channel, which may have everything."""
    told = about.get("type")
    return told if type(told) is int else 0


def noted(channel: int, **detail: Any) -> NewItem:
    """A fact about a channel that is no change of its content."""
    return NewItem(item_id(channel), frozenset({CHANNEL}), detail=detail, changed=False)


def channels(store: Store) -> Iterator[Item]:
    after = ""
    while items := store.records.items(after, type_=CHANNEL):
        yield from items
        after = items[-1].id


def mirrored(store: Store) -> Iterator[Item]:
    """The channels that are to be kept up to date."""
    return (item for item in channels(store) if item.detail.get("mirrored") == "yes")


def kept(store: Store) -> Iterator[Item]:
    """The channels of which we have something: also those that we may no longer read."""
    return (item for item in channels(store) if item.detail.get("mirrored") not in ("removing", "removed"))


def threads_under(store: Store, channel: int) -> list[int]:
    """The threads of a channel that are known here."""
    return [number_of(item) for item in channels(store) if parent_of(item) == channel]

"""Messages as people are shown them: the newest version, with what was last seen of it on top and what is gone marked.

Whoever reads an archive (searches, exports, pages) reads through here, so that all show the same: reactions, previews,
pins, results and threads as last seen; *gone* for what was deleted there and is kept here; and, where a policy will
erase such messages, nothing of them from the moment on that they are gone, as if it were done already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from custody.channels.blobs.port import Blobs
from custody.channels.context import item_id
from custody.channels.crawl import trust
from custody.channels.integrity import expected
from custody.channels.messages import last_seen
from custody.channels.messages.copies import own_line
from custody.channels.messages.deletions import Policies, hidden_since
from custody.channels.snowflake import HIGHEST
from custody.channels.table import Found, Settings, Table, Torn
from custody.errors import NotFound
from custody.kernel.model.item import Item
from custody.kernel.stores import Store

NEVER = HIGHEST << 20  # microseconds: later than every moment


@dataclass(frozen=True, slots=True)
class Shown:
    """A message with what is told of it besides."""

    id: int
    versions: tuple[bytes, ...]
    deleted_at: str = ""  # nothing is left of it, or nothing is shown
    damaged: str = ""
    gone: str = ""  # deleted there, by two witnesses, since then; kept here
    row: Mapping[str, Any] | None = None
    hidden: bool = False  # it is here, but is to be erased
    upto: int = 0  # of a part that is lost with the names of what was in it: its last id; `id` is its first

    @property
    def newest(self) -> dict[str, Any]:
        """Its newest version, exactly as it came."""
        return Found(self.id, self.versions, damaged=self.damaged, upto=self.upto).message

    @property
    def message(self) -> dict[str, Any]:
        """As it was last seen."""
        return self.newest if self.damaged else last_seen.on_top(self.newest, self.row)

    @property
    def besides(self) -> dict[str, Any]:
        """What we know and the service does not say: when it was seen so, what is no longer shown, if it is gone."""
        row = self.row or {}
        told = {"seen": row.get("seen"), "was": row.get("was"), "deleted_there": self.gone}
        return {name: value for name, value in told.items() if value}


def shown(found: Found, row: Mapping[str, Any] | None = None, hidden_after: int = NEVER) -> Shown:
    since = trust.doubt_of(row).confirmed() if row and found.versions else None
    gone = trust.stamp(since) if since is not None else ""
    if since is not None and since > hidden_after:
        return Shown(found.id, (), deleted_at=gone, hidden=True)
    versions = tuple(map(own_line, found.versions))
    return Shown(
        id=found.id,
        versions=versions,
        deleted_at=found.deleted_at,
        damaged=found.damaged,
        gone=gone,
        row=row,
        upto=found.upto,
    )


def plainly(found: Iterable[Found]) -> Iterator[Shown]:
    """Messages of which nothing else is known."""
    return map(shown, found)


@dataclass(frozen=True, slots=True)
class Reader:
    """One channel, as people are shown it."""

    table: Table
    overlay: Table
    hidden_after: int = NEVER  # what was gone later than this is not shown
    unseen: list[trust.Span] = field(default_factory=list, compare=False)  # met: what was last seen there is damaged

    lacking: Callable[[], str] = lambda: ""  # what the store knows to have been kept, and is not there

    @property
    def mark(self) -> str:
        return self.table.mark

    def between(self, first: int = 0, end: int = HIGHEST + 1) -> Iterator[Shown]:
        for found, row in last_seen.zipped(self.table, self.overlay, first, end, unknown=self.unseen):
            yield self._shown(found, row, any(low <= found.id <= high for low, high in self.unseen))

    def _shown(self, found: Found, row: Mapping[str, Any] | None, unknown: bool) -> Shown:
        """Where nobody can say whether a message is to be hidden, it is."""
        if unknown and found.versions and self.hidden_after != NEVER:
            return Shown(found.id, (), damaged="what was last seen of it")
        return shown(found, row, self.hidden_after)

    def search(self, message: int) -> Shown | None:
        try:
            found = self.table.search(message)
        except Torn as torn:
            return Shown(message, (), damaged=torn.where)
        if found is None:
            return None
        try:
            row = self.overlay.search(message)
        except Torn:
            self.unseen.append((message, message))
            return self._shown(found, None, unknown=True)
        return self._shown(found, row.message if row and row.versions else None, bool(row and row.damaged))


def reader_of(
    blobs: Blobs, channel: int, settings: Settings, item: Item | None = None, policies: Policies | None = None
) -> Reader:
    """A channel's reader; without its item and the policies nothing is hidden, as an operator wants it."""
    hidden_after = hidden_since(policies, item) if item and policies else None
    tables = Table(blobs, channel, settings), last_seen.of(blobs, channel, settings.capacity)
    return Reader(*tables, NEVER if hidden_after is None else hidden_after)


def readers(store: Store, blobs: Blobs, settings: Settings, policies: Policies) -> Callable[[int], Reader]:
    """Readers by the number of a channel, each with what is said of it now."""

    def of(channel: int) -> Reader:
        try:
            item = store.records.item(item_id(channel))
        except NotFound:
            item = None
        return replace(
            reader_of(blobs, channel, settings, item, policies=policies), lacking=lambda: _gone(store, blobs, channel)
        )

    return of


def _gone(store: Store, blobs: Blobs, channel: int) -> str:
    gone = expected.lacking(store, blobs, channel).values()
    return next((f"{one.where}: {one.detail}" for one in gone), "")


@dataclass(slots=True)
class Leaving:
    """Counts on the way what an export leaves out, and what is damaged."""

    without_deleted: bool = False
    damaged: list[int] = field(default_factory=list)
    lost: list[trust.Span] = field(default_factory=list)  # parts of which nobody knows what was in them
    files: list[int] = field(default_factory=list)  # that are damaged, or missing, and so not in it
    out: set[int] = field(default_factory=set)  # kept, and not to be seen: their files are not, either

    def through(self, messages: Iterable[Shown]) -> Iterator[Shown]:
        for one in messages:
            if one.upto:
                self.lost.append((one.id, one.upto))
            elif one.damaged:
                self.damaged.append(one.id)
            if one.hidden or (self.without_deleted and one.gone):
                self.out.add(one.id)
            if not (self.without_deleted and (one.gone or one.deleted_at)):
                yield one

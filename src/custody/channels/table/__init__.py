"""A channel's messages as a range-indexed table on block blobs.

Leaves hold messages keyed by their ids; indexes above them say which leaf an id belongs to. Every message
that was written is found again, whatever crashed when, and whoever else was writing. Text is not searched
here: exports to SQLite and HTML do that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from custody.channels import snowflake
from custody.channels.blobs.port import Blobs
from custody.channels.snowflake import HIGHEST, block_id
from custody.channels.table import commit, delete, fsck, orphans, search, sweep, upsert
from custody.channels.table.fsck import Finding, Survey
from custody.channels.table.node import Found, Message
from custody.channels.table.tree import Settings, Torn, Tree

__all__ = ["Finding", "Found", "Message", "Settings", "Survey", "Table", "Torn"]


class Table:
    """One channel's or thread's messages. Not shared between threads; any number may be open at once."""

    def __init__(self, blobs: Blobs, channel: int, settings: Settings | None = None, folder: str = "ch") -> None:
        self._tree = Tree(blobs, f"{folder}/{channel}/", settings or Settings())

    def search(self, message: int) -> Found | None:
        return search.search(self._tree, block_id(message))

    def between(self, first: int = 0, end: int = HIGHEST + 1) -> Iterator[Found]:
        """Messages with first <= id < end, oldest first; tombstones too."""
        return search.between(self._tree, block_id(first), block_id(end))

    def during(self, since: datetime, until: datetime) -> Iterator[Found]:
        """Messages made from one moment up to another."""
        return self.between(snowflake.at(since), snowflake.at(until))

    def upsert(
        self,
        messages: Iterable[Mapping[str, Any]],
        mark: str = "",
        asked_at: str = "",
        *,
        veiled: Collection[int] = (),
        revive: bool = True,
    ) -> None:
        """Write messages as the service gave them, and then the mark.

        With the moment before they were asked for, those that were found deleted since stay deleted; unless they may
        be revived, all that were ever deleted do. Veiled ones were given without their content: they are kept only
        where there is nothing yet.
        """
        upsert.upsert(
            self._tree,
            [Message.of(raw, asked_at, veiled=int(raw["id"]) in veiled, revive=revive) for raw in messages],
            mark,
        )

    def mend(self, messages: Iterable[Mapping[str, Any]], asked_at: str = "") -> None:
        """Write messages also where a block already bears their name: it may be damaged, and is then set aside."""
        upsert.upsert(self._tree, [Message.of(raw, asked_at, anew=True) for raw in messages])

    @property
    def mark(self) -> str:
        """What was last written with a page: never ahead of the messages."""
        return upsert.read_mark(self._tree)

    @property
    def turn(self) -> int:
        """A number that only grows while the last part of it is written; 0 where that was not counted."""
        return upsert.read_turn(self._tree)

    def vouch(self) -> None:
        """Write down how often each part was written, where an earlier version has not counted."""
        commit.vouch_all(self._tree)

    def delete(self, messages: Collection[int], deleted_at: str = "") -> int:
        """Take messages out with all their versions; answers how many were there."""
        return delete.delete(self._tree, [block_id(one) for one in messages], deleted_at)

    def bury(self, erased: Iterable[tuple[int, str]]) -> None:
        """Write that messages were erased, and when, where nothing is known of them."""
        upsert.upsert(
            self._tree, [Message.of({"id": str(one), "deleted_at": when}, revive=False) for one, when in erased]
        )

    def remove_some(self, most: int = 100) -> bool:
        """Delete part of the whole table; answers whether there is more."""
        return delete.remove_some(self._tree, most)

    def check(self) -> list[Finding]:
        return fsck.check(self._tree).findings

    def survey(self, content: bool = True) -> Survey:
        """What a walk over all of it sees; without the content only what its blobs say of themselves."""
        return fsck.check(self._tree, content)

    def repair(self) -> list[Finding]:
        """Mend what can be mended; answers what is left. Where a part is lost, an empty one takes its place."""
        return fsck.repair(self._tree)

    def drop_damaged(self) -> list[tuple[str, str]]:
        """Set blocks aside that are not what their names say; answers from where to where each was."""
        return fsck.drop_damaged(self._tree)

    def drop_foreign(self) -> list[tuple[str, str]]:
        """Set blocks aside that have messages of another channel; answers from where to where each was."""
        return fsck.drop_foreign(self._tree)

    def set_all_aside(self) -> None:
        """Set aside all of a table that is another's."""
        fsck.set_all_aside(self._tree)

    def sign(self) -> None:
        """Write down whose it is, where an earlier version has not."""
        commit.sign(self._tree)

    @property
    def is_signed(self) -> bool:
        """Does it say whose it is? One that is not there has nothing to say."""
        return commit.is_signed(self._tree)

    def unnamed(self) -> list[str]:
        """Leaves that no index names, and of which not everything is in the table; of one that can be walked."""
        return [one.name for one in orphans.unnamed(self._tree) if not orphans.is_spare(self._tree, one)]

    def take_in(self, before: datetime) -> dict[str, list[int]]:
        """Write what only leaves have that nothing names, written before a moment; answers it by their names."""
        return orphans.take_in(self._tree, orphans.unnamed(self._tree, before))

    def sweep(self, before: datetime) -> list[str]:
        """Delete blobs that nothing names and nobody needs, written before a moment; answers their names."""
        return sweep.sweep(self._tree, before)

    def must_stay_hot(self, name: str) -> bool:
        """Indexes and the last leaf are read and written all the time."""
        last = self._tree.locate(block_id(HIGHEST))
        return not name.startswith(f"{self._tree.prefix}leaf/") or (last is not None and name == last.leaf)

"""Counts the updates of a git repository's branches, in the store: whoever asks, from whichever machine, hears the same
numbers, and nothing of ours lies in a folder that somebody else can write to.

Deleted branches are remembered with the number 0: they are no revision, but a branch made again is new. Two who count
at once: the second finds that the journal has grown, and looks again.
"""

from __future__ import annotations

import json
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from custody.errors import Unavailable
from custody.kernel.stores import Store
from custody.kernel.stores.rows import Tx
from custody.kernel.stores.sql.database import Database

TRIES = 50


@dataclass(frozen=True, slots=True)
class Update:
    number: int
    ref: str
    old: str
    new: str


class Grown(Exception):
    """Somebody else has counted meanwhile."""


class Journal:
    """Of one repository, by its uuid."""

    # What was read of any of them, by store: it only grows.
    _seen: ClassVar[weakref.WeakKeyDictionary[Database, dict[str, list[Update]]]] = weakref.WeakKeyDictionary()
    _lock = threading.Lock()

    def __init__(self, store: Store, repository: str) -> None:
        self._store, self.repository = store, repository

    def updates(self) -> list[Update]:
        """All of them; only what is new is read, and whether the store still has what was read last."""
        with self._lock:
            seen = self._seen.setdefault(self._store.db, {}).get(self.repository, [])
        found = self._read(after=len(seen) - 1)
        if seen and found[:1] != seen[-1:]:  # a store that was put back
            seen, found = [], self._read(after=0)
        if len(found) > bool(seen):
            seen = [*seen, *found[bool(seen) :]]
            with self._lock:
                self._seen[self._store.db][self.repository] = seen
        return seen

    def _read(self, after: int) -> list[Update]:
        rows = self._store.db.glance(lambda tx: tx.run("wf_updates", repository=self.repository, after=after))
        return [Update(number, text(ref), old, new) for _, number, ref, old, new in rows]

    def write(self, count: Callable[[Writer], None]) -> Writer:
        """Let `count` add what it finds to be new. Numbers are given by one at a time; whoever comes second counts
        again."""
        for _ in range(TRIES):
            writer = Writer(self.updates())
            count(writer)
            if not writer.new:
                return writer
            try:
                self._store.db.write(lambda tx, writer=writer: self._put(tx, writer))  # type: ignore[misc]
            except Grown:
                continue
            return writer
        raise Unavailable("too many count the revisions of this repository at once", code="archive.busy")

    def _put(self, tx: Tx, writer: Writer) -> None:
        for seq, update in enumerate(writer.new, len(writer.updates) - len(writer.new) + 1):
            if not tx.run("wf_add_update", repository=self.repository, seq=seq, **_columns(update)):
                raise Grown


def put_all(tx: Tx, repository: str, updates: Iterable[Update]) -> None:
    """Take over what was counted elsewhere, in the transaction that makes the repository known."""
    for seq, update in enumerate(updates, 1):
        tx.run("wf_add_update", repository=repository, seq=seq, **_columns(update))


def _columns(update: Update) -> dict[str, str | int]:
    return {"number": update.number, "ref": stored(update.ref), "old": update.old, "new": update.new}


def stored(ref: str) -> str:
    """git takes any bytes for the name of a branch; a database only text."""
    return json.dumps(ref)[1:-1] if any("\ud800" <= letter <= "\udfff" for letter in ref) or "\\" in ref else ref


def text(ref: str) -> str:
    return str(json.loads(f'"{ref}"')) if "\\" in ref else ref


class Writer:
    def __init__(self, updates: list[Update]) -> None:
        self.updates = list(updates)
        self.new: list[Update] = []
        self._youngest = max((update.number for update in self.updates), default=0)
        self._last = {update.ref: update for update in self.updates}
        self._live = sum(not is_nothing(update.new) for update in self._last.values())

    @property
    def live(self) -> int:
        """Branches that are there, as far as was counted."""
        return self._live

    def tips(self) -> dict[str, str]:
        return {ref: update.new for ref, update in self._last.items()}

    def tip(self, ref: str) -> str:
        """Its commit; empty if it was never counted."""
        last = self._last.get(ref)
        return last.new if last else ""

    def last(self, ref: str) -> Update | None:
        return self._last.get(ref)

    def add(self, ref: str, old: str, new: str) -> Update:
        update = Update(0 if is_nothing(new) else self._youngest + 1, ref, old, new)
        self._live += (not is_nothing(new)) - (not is_nothing(self.tip(ref)))
        self._youngest = max(self._youngest, update.number)
        self._last[ref] = update
        self.updates.append(update)
        self.new.append(update)
        return update

    def youngest(self) -> int:
        return self._youngest


def is_nothing(commit: str) -> bool:
    """git writes zeros for "no commit"."""
    return not commit.strip("0")


Told = tuple[str, str, str]  # branch, old commit, new commit


def in_order(told: Sequence[Told], tip: Callable[[str], str]) -> Iterator[Told]:
    """Updates in the order of the pushes, whatever that of the notes: each after the one that it follows. `tip` says
    where a branch stands by now; what follows nothing that is known comes when nothing else does."""
    waiting: dict[tuple[str, str], list[int]] = {}
    for number, (ref, old, _) in enumerate(told):
        waiting.setdefault((ref, _named(old)), []).append(number)
    for numbers in waiting.values():
        numbers.reverse()  # the next of them is the last
    done = bytearray(len(told))
    for forced in (False, True):
        for number, (ref, old, _) in enumerate(told):
            if done[number] or (not forced and _named(tip(ref)) != _named(old)):
                continue
            now: int | None = number
            while now is not None:
                done[now] = True
                yield told[now]
                after = waiting.get((ref, _named(tip(ref))), [])
                while after and done[after[-1]]:
                    after.pop()
                now = after.pop() if after and (forced or after[-1] < number) else None


def _named(commit: str) -> str:
    return "" if is_nothing(commit) else commit  # there are as many zeros as an id has letters

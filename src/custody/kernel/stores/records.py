"""Items and events, as users of the store see them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from custody.errors import BadInput
from custody.kernel.model.event import Event, NewEvent
from custody.kernel.model.item import Item, Latest, NewItem
from custody.kernel.stores.rows import event_from, item_from, latest_from
from custody.kernel.stores.rules import items, spellings
from custody.kernel.stores.rules.events import write_note
from custody.kernel.stores.sql.database import Database


class SqlRecords:
    def __init__(self, db: Database) -> None:
        self._db = db

    def put(self, new: Sequence[NewItem], events: Sequence[NewEvent] = (), agent: str = "") -> None:
        """Make or change items and append events to them, together."""
        self._db.record(new, events, agent)
        self._db.bell.ring()

    def append(self, event: NewEvent) -> int:
        """Append one event to an item; answers its id."""
        event_id = self._db.append(event, event.agent)
        self._db.bell.ring()
        return event_id

    def note(self, subject: str, type_: str, agent: str, **detail: object) -> int:
        """Append an event to a subject that is neither a job nor an item."""
        items.named(subject, "event subject")
        items.named(type_, "event type")
        if subject.startswith(("job/", "item/")):
            raise BadInput(f"{subject} numbers its own events", code="event.subject", hint="settle it, or append to it")
        return self._db.write(lambda tx: write_note(tx, subject, type_, agent, detail=detail))

    def kept(self, item_id: str) -> str:
        """An item's id as it is kept, from any spelling that is equal."""
        return spellings.kept(self._db, item_id)

    def kept_subject(self, subject: str) -> str:
        """The same of whom events are about: items have equal names, others only their own."""
        sort, slash, name = subject.partition("/")
        return f"item/{self.kept(name)}" if (sort, slash) == ("item", "/") and name else subject

    def item(self, item_id: str) -> Item:
        """An item, by its id as it is kept or by one that is equal."""
        rows = self._db.read(lambda tx: tx.run("item", id=item_id))
        if not rows:
            kept = self.kept(item_id)
            rows = self._db.read(lambda tx: tx.run("item", id=kept))
        if not rows:
            raise items.unknown(item_id)
        return item_from(rows[0])

    def latest(self, item_id: str) -> dict[str, Latest]:
        return latest_from(self._db.read(lambda tx: tx.run("latest", item=item_id)))

    def look(self, ids: Sequence[str], types: Iterable[str]) -> dict[str, items.Look]:
        """Items with at least those of their newest events that have these types; what is not there is left out."""
        return self._db.look(ids, types)

    def items(self, after: str = "", limit: int = 100, collection: str = "", type_: str = "") -> list[Item]:
        word = f" {type_} " if type_ else ""
        rows = self._db.read(lambda tx: tx.run("items", after=after, limit=limit, collection=collection, type=word))
        return [item_from(row) for row in rows]

    def events(self, subject: str, after: int = 0, limit: int = 1000) -> list[Event]:
        """A subject's events in order."""
        rows = self._db.read(lambda tx: tx.run("events", subject=subject, after=after, limit=limit))
        return [event_from(row) for row in rows]

    def all_events(self, subject: str) -> Iterator[Event]:
        after = 0
        while events := self.events(subject, after):
            yield from events
            after = events[-1].seq

    def recent(self, before: int = 2**62, limit: int = 100) -> list[Event]:
        """The newest events of all subjects, newest first."""
        rows = self._db.read(lambda tx: tx.run("recent_events", before=before, limit=limit))
        return [event_from(row) for row in rows]

    def since(self, after: int, limit: int = 1000) -> list[Event]:
        rows = self._db.read(lambda tx: tx.run("events_after", after=after, limit=limit))
        return [event_from(row) for row in rows]

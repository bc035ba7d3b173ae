"""Late events: what a robot found out after it had lost its item. Refused by the store, and kept aside for people."""

from __future__ import annotations

from collections.abc import Sequence

from custody.errors import CustodyError
from custody.kernel.model.event import Event, NewEvent
from custody.kernel.model.job import Answer, Change, Job
from custody.kernel.stores import Store
from custody.kernel.stores.rules.items import subscriptions

LATE = "late"


def keep_orphan(store: Store, event: NewEvent, job: Job, why: str) -> None:
    """Write it down beside the history of the item, where no trigger looks."""
    told = {
        "item": event.item,
        "event": event.type,
        "outcome": event.outcome,
        "told": dict(event.detail),
        "why": why,
        "job": job.id,
        "token": job.token,
    }
    try:
        store.records.note(f"orphan/{event.robot}", LATE, event.agent, **told)
    except CustodyError:
        pass  # the store is away: then there is nothing more that could be done with it


def keep_refused(store: Store, job: Job, change: Change, answer: Answer) -> None:
    """The events of a settle that came too late."""
    for event in change.events:
        if not answer.done and event.robot:
            keep_orphan(store, event, job, answer.why)


def orphans(store: Store, robots: Sequence[str] = ()) -> list[Event]:
    """All that were kept, of these robots or of all, oldest first."""
    names = robots or [name for name, _, _ in store.db.read(subscriptions)]
    found = [event for name in names for event in store.records.all_events(f"orphan/{name}")]
    return sorted(found, key=lambda event: event.id)

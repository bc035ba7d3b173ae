"""Derived must equal recomputed, every row must be what its history says, and what has a history must have a row.

Counters (`unmet`, `open`), the newest event of each type and the numbering of events are kept up by the moves
themselves. Here they are counted again from what they are derived from. The tests ask at the end of every test,
`custody doctor` whenever someone wants to know; a fault is never mended here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby, islice

from custody.kernel.applications import gathered
from custody.kernel.model.event import Event
from custody.kernel.model.job import DELETED, Fold, fold
from custody.kernel.stores.rows import Row, Tx, event_from, job_from
from custody.kernel.stores.rules.claim import FORGOTTEN
from custody.kernel.stores.store import Store

RECOUNTS = ("unmet", "met", "open", "lease", "latest", "sequences", "numbers")
PAGE = 500
MOST = 1000
"""Faults that are told: where there are more, no more of them are looked for."""
Told = Callable[[str, int], None]
"""Hears of what so many were looked at until now, whenever there were some more."""


def _nobody(what: str, count: int) -> None:
    """Hears nothing."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something on record that is not what it should be."""

    check: str  # which recount found it
    subject: str  # "job/12", "item/ark:/99999/fk4x"
    found: str
    expected: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.check} is {self.found}, expected {self.expected}"


def recount(store: Store, told: Told = _nobody) -> list[Fault]:
    """Every fault there is, up to MOST; an empty list when all is well."""
    return store.db.read(lambda tx: faults(tx, told))


def faults(tx: Tx, told: Told = _nobody) -> list[Fault]:
    """The same, inside a transaction."""
    return list(islice(_all(tx, told), MOST))


def _all(tx: Tx, told: Told) -> Iterator[Fault]:
    yield from _recounted(tx)
    yield from _refolded(tx, told)
    yield from _without_row(tx, told)
    for (item,) in tx.run("items_without_row", limit=MOST):
        yield Fault("row", item, "gone", "an item, by its history")


def _recounted(tx: Tx) -> Iterator[Fault]:
    for check in RECOUNTS:
        for subject, found, expected in tx.run(f"recount_{check}"):
            yield Fault(check, subject, str(found), str(expected))


def _refolded(tx: Tx, told: Told) -> Iterator[Fault]:
    """Jobs whose events, folded, do not give their row; a page at a time."""
    after = count = 0
    while rows := tx.run("next_jobs", after=after, limit=PAGE):
        last: int = rows[-1][0]
        events = tx.run("events_of_jobs", after=after, last=last)
        folded = {job: fold(event_from(row[1:]) for row in own) for job, own in groupby(events, _first)}
        for job in map(job_from, rows):
            row = Fold.of(job)
            if folded.get(job.id) != row:
                yield Fault("fold", job.subject, str(row), str(folded.get(job.id, "no events at all")))
        after = last
        count += len(rows)
        told("jobs", count)


def _without_row(tx: Tx, told: Told) -> Iterator[Fault]:
    """Jobs whose history neither deletes nor forgets them, and that are gone all the same; a page at a time."""
    after, count = "job/", 0
    while subjects := tx.run("histories_without_row", after=after, limit=PAGE):
        last: str = subjects[-1][0]
        events = [event_from(row) for row in tx.run("events_without_row", after=after, last=last)]
        for subject, own in groupby(events, lambda event: event.subject):
            history = list(own)
            if not _may_be_gone(history):
                yield Fault("row", subject, "gone", str(fold(history)))
        after = last
        count += len(subjects)
        told("histories of jobs that have no row any more", count)


def _may_be_gone(history: list[Event]) -> bool:
    last = history[-1]
    if last.detail.get(FORGOTTEN) or fold(history) == DELETED:
        return True
    if any(not event.detail for event in history):
        return True  # erased, and with it what it said; only what has no row can be
    kind = str(history[0].detail.get("kind", ""))
    # Of before its end was told so: kinds whose jobs leave no row when they have passed.
    return last.detail.get("ended") == "passed" and kind.startswith(gathered(lambda part: part.forgets))


def _first(row: Row) -> int:
    job: int = row[0]
    return job

"""Derived must equal recomputed, and every row must be what its history says.

Counters (`unmet`, `open`), the newest event of each type and the numbering of events are kept up by the moves
themselves. Here they are counted again from what they are derived from. The tests ask at the end of every test,
`custody doctor` whenever someone wants to know; a fault is never mended here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from custody.model.job import Fold, fold
from custody.stores.rows import Row, Tx, event_from, job_from
from custody.stores.sql import Store

RECOUNTS = ("unmet", "met", "open", "lease", "latest", "sequences", "numbers")
PAGE = 500


@dataclass(frozen=True, slots=True)
class Fault:
    """Something on record that is not what it should be."""

    check: str  # which recount found it
    subject: str  # "job/12", "item/ark:/99999/fk4x"
    found: str
    expected: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.check} is {self.found}, expected {self.expected}"


def recount(store: Store) -> list[Fault]:
    """Every fault there is; an empty list when all is well."""
    return store.db.read(faults)


def faults(tx: Tx) -> list[Fault]:
    """The same, inside a transaction."""
    return [*_recounted(tx), *_refolded(tx)]


def _recounted(tx: Tx) -> Iterator[Fault]:
    for check in RECOUNTS:
        for subject, found, expected in tx.run(f"recount_{check}"):
            yield Fault(check, subject, str(found), str(expected))


def _refolded(tx: Tx) -> Iterator[Fault]:
    """Jobs whose events, folded, do not give their row; a page at a time."""
    after = 0
    while rows := tx.run("next_jobs", after=after, limit=PAGE):
        last: int = rows[-1][0]
        told = tx.run("events_of_jobs", after=after, last=last)
        folded = {job: fold(event_from(row[1:]) for row in events) for job, events in groupby(told, _first)}
        for job in map(job_from, rows):
            row = Fold.of(job)
            if folded.get(job.id) != row:
                yield Fault("fold", job.subject, str(row), str(folded.get(job.id, "no events at all")))
        after = last


def _first(row: Row) -> int:
    job: int = row[0]
    return job

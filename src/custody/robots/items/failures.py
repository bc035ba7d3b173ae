"""Failures by cause: three hundred items that failed for one reason are one row. Retry one; if it goes well, all.

Two sorts stand side by side: events that say the item failed, and jobs that could not be worked on at all
(time-outs, surprises). Both are grouped by code and by what was said, without numbers and names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import Any

from custody.kernel.model.job import Filter
from custody.kernel.stores import Store
from custody.kernel.stores.rows import Row, Tx, loads
from custody.kernel.stores.rules.items import subscriptions

PAGE = 1000
SHOWN = 120


@dataclass(slots=True)
class Cause:
    """One reason, and the items it stopped."""

    robot: str
    event: str  # "" where the work itself broke and no event was recorded
    code: str
    reason: str
    items: list[str] = field(default_factory=list)
    jobs: list[int] = field(default_factory=list)


def causes(store: Store, robot: str = "", code: str = "", most: int = 10_000_000) -> list[Cause]:
    """The most frequent first; at most so many failures of each robot are looked at."""
    found: dict[tuple[str, ...], Cause] = {}
    for name, _, facts in store.db.read(subscriptions):
        if robot in ("", name):
            for cause in islice(chain(_events(store, name, str(facts.get("event", ""))), _jobs(store, name)), most):
                if code in ("", cause.code):
                    known = found.setdefault((name, cause.event, cause.code, cause.reason), cause)
                    if known is not cause:
                        known.items += cause.items
                        known.jobs += cause.jobs
    return sorted(found.values(), key=lambda cause: (-len(cause.items), cause.robot, cause.code))


def _events(store: Store, robot: str, event: str) -> Iterator[Cause]:
    after = ""
    while rows := store.db.read(partial(_page, event=event, after=after)):
        for item, _, _, _, detail in rows:
            first = next(iter(loads(detail).get("findings") or [{}]))
            yield Cause(
                robot=robot,
                event=event,
                code=str(first.get("code", "")),
                reason=alike(str(first.get("reason", "")), item),
                items=[item],
            )
        after = rows[-1][0]


def _page(tx: Tx, event: str, after: str) -> list[Row]:
    return tx.run("failed_events", event=event, after=after, limit=PAGE)


def _jobs(store: Store, robot: str) -> Iterator[Cause]:
    for job in store.queue.every(Filter(kind=f"robot/{robot}", ended="failed")):
        last = store.records.events(job.subject, after=job.seq - 1, limit=1)
        told: Any = last[0].detail if last else {}
        yield Cause(
            robot=robot,
            event="",
            code=job.code or "",
            reason=alike(str(told.get("reason", "")), str(job.key)),
            items=[str(job.key)],
            jobs=[job.id],
        )


def alike(reason: str, item: str) -> str:
    """What was said, without what differs from item to item."""
    return re.sub(r"\d+", "#", reason.replace(item, "ITEM"))[:SHOWN]

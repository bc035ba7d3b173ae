"""An item's own priority: on the item, so that jobs made later have it too, and on the jobs that wait already."""

from __future__ import annotations

from dataclasses import replace

from custody.kernel.engine.changes import change
from custody.kernel.model.item import Item
from custody.kernel.model.job import Job
from custody.kernel.model.machine import WORK
from custody.kernel.stores.rows import Tx, job_from
from custody.kernel.stores.rules import claim
from custody.kernel.stores.rules.items import columns_of
from custody.robots.part import PRIORITY
from custody.robots.subscribers import subscriptions

PRIORITISED = "prioritised"


def jobs_of(tx: Tx, item_id: str) -> list[tuple[Job, int]]:
    """The item's jobs, one per robot that it is ready for, each with the robot's own priority."""
    known = subscriptions(tx)
    rows = [(tx.run("job_by_key", kind=f"robot/{name}", key=item_id), facts) for name, _, facts in known]
    return [(job_from(found[0]), int(facts.get("priority", 50))) for found, facts in rows if found]


def set_priority(tx: Tx, item: Item, seq: int, priority: int | None, who: str) -> int:
    """None: as the robots say. Answers how many waiting jobs have moved."""
    detail = {name: value for name, value in item.detail.items() if name != PRIORITY}
    detail |= {PRIORITY: priority} if priority is not None else {}
    tx.run("change_item", **columns_of(replace(item, seq=seq, detail=detail)))
    return sum(_move(tx, job, own if priority is None else priority, who) for job, own in jobs_of(tx, item.id))


def _move(tx: Tx, job: Job, priority: int, who: str) -> bool:
    if job.ended or job.holder:
        return False
    moved = change(job, WORK, "prioritise", agent=who, move=tx.new_move(), priority=priority)
    return claim.settle(tx, moved).done

"""How many jobs a batch has, and how many of them have not ended: as its own facts say, or as they are counted."""

from __future__ import annotations

from custody.ingest.states import JOB
from custody.kernel.model.job import Job
from custody.kernel.stores import Store


def jobs_of(store: Store, batch: Job) -> tuple[int, int]:
    """All, and those that are open. What another service made is counted in the tree; and a batch that has not become
    all of its jobs counts itself among the open ones, which is nobody else's business."""
    if store.elsewhere and store.elsewhere.has(batch.id):
        ends = store.elsewhere.ends(batch.id)
        return sum(ends.values()), ends.get(None, 0)
    if "jobs" in batch.facts:
        return int(batch.facts["jobs"]), batch.open
    counts = store.queue.children(batch.id)
    return sum(count for _, count in counts), sum(count for state, count in counts if JOB.is_working(state))

"""Cleaning up: batches that were completed or deleted long enough ago go, with their jobs and folders.

Deleting is idempotent and complete at any crash: jobs first, each with its folder, then the batch; a folder whose job
is gone is found by the next cleaning. The history of all of them stays.
"""

from __future__ import annotations

import json
import re

from custody.errors import Refused
from custody.ingest.adapters import Adapters
from custody.ingest.batch import notices
from custody.ingest.states import BATCH_KIND
from custody.ingest.submission import idempotency
from custody.ingest.zookeeper.tree import shown
from custody.kernel.model.job import Filter, Job
from custody.kernel.stores import Store

DAY = 86_400_000_000
STAGED_SECONDS = 86_400.0
_STAGED = re.compile("staged:([0-9a-f]{64})")


def clean_up(world: Adapters, days: float | None) -> dict[str, int]:
    """Remove completed batches older than `days` (None: they stay), working folders whose job is gone, and staged bytes
    that nothing speaks of any more. Every worker sees to it now and then."""
    before = 0 if days is None else world.store.now() - int(days * DAY)
    old = [
        job
        for state in ("completed", "deleted")  # marked as deleted, where a crash left the rest
        for job in world.store.queue.every(Filter(kind=BATCH_KIND, state=state))
        if job.changed < before or state == "deleted"
    ]
    for batch in old:
        why = "it was deleted before" if batch.state == "deleted" else f"completed more than {days or 0:g} days ago"
        delete_batch(world.store, batch, "cleaning", why, world=world)
    return {"batches": len(old), "folders": _remove_orphans(world), "staged": _remove_unspoken(world)}


def delete_batch(store: Store, batch: Job, who: str, why: str, world: Adapters | None = None) -> int:
    """A batch and all its jobs; answers how many jobs went with it."""
    if batch.ended is None and batch.state != "held":
        raise Refused(
            f"batch {shown(batch.id)} is {batch.state}: it can be deleted when it has ended or is held",
            code="state.conflict",
        )
    count = 0
    for job in store.queue.every(Filter(parent=batch.id)):
        count += store.queue.delete(job.id, who, why)  # refused, for one that was resumed and is being worked on
        if world is not None:
            world.disk.remove(job)
    for delivery in notices.about(world, batch) if world is not None else ():
        if delivery.ended:
            store.queue.delete(delivery.id, who, why)
    if batch.key:
        idempotency.remember(store, batch.key, batch.id, batch.payload)  # it outlasts the batch
    store.queue.delete(batch.id, who, why)
    return count


def _remove_unspoken(world: Adapters) -> int:
    """Uploads, manifests and mails that no job has in its payload or its facts; young ones may be about to be."""
    spoken: set[str] = set()
    for job in world.store.queue.every():
        spoken.update(_STAGED.findall(json.dumps([dict(job.payload), dict(job.facts)])))
    return world.staging.sweep(spoken, STAGED_SECONDS)


def _remove_orphans(world: Adapters) -> int:
    """Folders of jobs that completed or are gone: a crash between the last step's two halves leaves one. In the tree
    what was deleted stays until its batch goes, which a failed one may never do."""
    removed = 0
    for number, path in list(world.disk.folders()):
        job = next(iter(world.store.queue.list(after=number - 1, limit=1)), None)
        if job is None or job.id != number or job.ended in ("passed", "deleted"):
            world.disk.remove_folder(path)
            removed += 1
    return removed

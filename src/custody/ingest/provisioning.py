"""Who may have room on a working disk: decided over all that wait at once, and asked by `why` in the same words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from custody.ingest.disk import Room, WorkingDisk, admit, promised, space_needed
from custody.ingest.states import JOB_KIND
from custody.model.job import Filter, Job
from custody.model.outcome import Outcome
from custody.model.why import Reason
from custody.stores import Store

ADMITTED = ("downloading", "processing", "storing", "recording", "notify")
"""States in which a job has, or will soon have, bytes on the working disk."""


def provision(waiting: Sequence[Job], store: Store, disk: WorkingDisk) -> Mapping[int, Outcome]:
    """Who may have room on this machine's working disk."""
    return admit(waiting, _room(store, disk), disk.place, store.now())


def why_no_room(job: Job, store: Store, disk: WorkingDisk) -> Reason | None:
    """Why a job that waits for room has none, by asking for all that wait; None when it will have some."""
    waiting = [each for each in store.queue.every(Filter(kind=JOB_KIND, state="provisioning")) if each.unmet == 0]
    room = _room(store, disk)
    if job.id in admit(waiting, room, disk.place, store.now()):
        return None
    needed = space_needed(job)
    wanted = "its size is not known" if needed is None else f"it needs {needed} bytes"
    kept = int(room.total * room.threshold)
    return Reason(
        "space",
        f"there is no room for it: {wanted}, {max(0, room.free)} are free on the working disk, {kept} of them are kept",
        "jobs ahead of it end and give back their room, or someone makes room on the working disk",
        job.changed,
    )


def _room(store: Store, disk: WorkingDisk) -> Room:
    free, total = disk.free()
    free -= promised((job, disk.used_by(job)) for job in _admitted(store, disk))
    return Room(free, total, disk.threshold)


def _admitted(store: Store, disk: WorkingDisk) -> Sequence[Job]:
    return [
        job
        for state in ADMITTED
        for job in store.queue.every(Filter(kind=JOB_KIND, state=state))
        if job.place == disk.place
    ]

"""Why a deposit does not go on: what the queue says, and what only ingest can know: room on the disk, why it failed,
whether resuming can help; and for a batch, what its open jobs wait for, counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from custody.ingest.actions import had_jobs
from custody.ingest.states import BATCH_KIND, JOB_KIND, MACHINES
from custody.ingest.steps.provision import why_no_room
from custody.ingest.storage.working_disk import WorkingDisk
from custody.kernel.model.job import Filter, Job
from custody.kernel.model.names.job_numbers import shown
from custody.kernel.model.why import READY, Reason
from custody.kernel.operations.jobs import may_resume
from custody.kernel.stores import Store

MOST_ASKED = 500
"""Open jobs of a batch that are asked; the others wait for much the same."""


def why(store: Store, job: Job, disk: WorkingDisk | None = None, place: str = "") -> Sequence[Reason]:
    """What a job or a batch waits for. Never empty for one that is neither being worked on nor at its end."""
    return told(store, job, store.queue.why(job.id, place or (disk.place if disk else "")), disk)


def told(store: Store, job: Job, reasons: Sequence[Reason], disk: WorkingDisk | None) -> Sequence[Reason]:
    """What the queue says of it, or in its place what only ingest can know."""
    if job.kind not in MACHINES:
        return reasons
    if job.ended == "failed":
        return [_ended(store, job)]
    if job.state == "provisioning" and disk is not None and {reason.code for reason in reasons} <= READY:
        no_room = why_no_room(job, store, disk)
        return [no_room] if no_room else reasons
    return reasons


def _ended(store: Store, job: Job) -> Reason:
    told = store.queue.reason(job)
    text = f"it has ended: {job.state}, {job.code or 'without a code'}" + (f": {told}" if told else "")
    return Reason("ended", text, _after(job), job.changed)


def _after(job: Job) -> str:
    if may_resume(job, MACHINES[job.kind]):
        return f"the cause is mended and someone resumes it: custody job resume {shown(job.id)}"
    if job.kind == BATCH_KIND and had_jobs(job):
        return f"its failed jobs are resumed, and then: custody batch report {shown(job.id)} --update"
    return "nothing: what was handed in cannot be used; a new submission is required"


@dataclass(frozen=True, slots=True)
class Waiting:
    """Open jobs of a batch that wait for the same."""

    count: int
    example: int
    reason: Reason


def of_children(store: Store, batch: Job, disk: WorkingDisk | None = None) -> Sequence[Waiting]:
    """What the open jobs of a batch wait for, the commonest first."""
    found: dict[tuple[str, str], Waiting] = {}
    asked = 0
    for job in store.queue.every(Filter(kind=JOB_KIND, parent=batch.id)):
        if job.ended is not None or asked >= MOST_ASKED:
            continue
        asked += 1
        for reason in why(store, job, disk):
            key = (reason.code, _gist(reason))
            known = found.get(key, Waiting(0, job.id, reason))
            found[key] = replace(known, count=known.count + 1)
    return sorted(found.values(), key=lambda each: -each.count)


def _gist(reason: Reason) -> str:
    """What jobs have in common that wait for one thing; how many are ahead of each, or how big it is, is its own."""
    return reason.text if reason.code in ("held", "paused", "no-worker", "place") else ""

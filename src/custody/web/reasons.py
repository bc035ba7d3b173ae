"""Why a job does not go on: what the queue says, what ingest knows, and whether anybody will ever come for it."""

from __future__ import annotations

from collections.abc import Sequence

from custody.ingest import blockers
from custody.ingest.disk import WorkingDisk
from custody.model.job import Job
from custody.model.why import Reason
from custody.stores import Store
from custody.web.makers import MAKERS


def why(store: Store, job: Job, disk: WorkingDisk | None = None, place: str = "") -> Sequence[Reason]:
    """Never empty for one that is neither being worked on nor at its end."""
    reasons = blockers.why(store, job, disk, place)
    if job.ended is not None or not MAKERS.is_gone(job.kind):
        return reasons
    text = f"nothing works on {job.kind} any more: another version of this program made it"
    gone = Reason("no-kind", text, f"somebody ends it: {ending(job)}", job.changed)
    return [gone, *(reason for reason in reasons if reason.code not in blockers.READY)]


def ending(job: Job) -> str:
    """The command that ends a job for which nobody will come."""
    return f"custody job cancel {job.id} --why 'its kind is gone'"

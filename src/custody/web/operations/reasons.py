"""Why a job does not go on: what the queue says, what its application knows, and whether anybody will ever come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from custody.application import of_kind
from custody.formats.shell import command
from custody.installation import makers
from custody.kernel.engine.judge import FORGED
from custody.kernel.model.job import Job
from custody.kernel.model.why import READY, Reason
from custody.kernel.operations.makers import BULK_MAKER, VERIFY_MAKER
from custody.kernel.stores import Store
from custody.opening import Opened

AGAIN: Final = "ask for it again, with another key"


def why(store: Store, job: Job, opened: Callable[[str], Opened | None], place: str = "") -> Sequence[Reason]:
    """Never empty for one that is neither being worked on nor at its end. Only the application that has its kind is
    asked for, by its name."""
    reasons = store.queue.why(job.id, place)
    if (application := of_kind(job.kind)) and (asked := opened(application.name)):
        reasons = asked.why(job, reasons)
    if is_refused_for_good(store, job):
        return [replace(reason, clears=f"nothing: {AGAIN}") for reason in reasons]
    if job.ended is not None or not makers().is_gone(job.kind):
        return reasons
    text = f"nothing works on {job.kind} any more: another version of this program made it"
    gone = Reason("no-kind", text, f"somebody ends it: {ending(job)}", job.changed)
    return [gone, *(reason for reason in reasons if reason.code not in READY)]


def is_refused_for_good(store: Store, job: Job) -> bool:
    """Would it be refused again, whatever anybody mends? What it says and who asked for it never change; whoever
    asks may ask again. An application's other jobs are held against the store too, which may be put right."""
    maker = makers().of(job.kind)
    if job.ended != "failed" or maker not in (BULK_MAKER, VERIFY_MAKER):
        return False
    from custody.web.operations.bulk import RIGHT_ENDED, asker

    if job.code == RIGHT_ENDED:  # an issuer may vouch for somebody again; a token never comes back
        return not job.by.startswith("oidc:") and asker(store, job) is None
    return job.code == FORGED and bool(maker.fault(job.payload) or (maker.verify and maker.verify(store, job)))


def ending(job: Job) -> str:
    """The command that ends a job for which nobody will come."""
    return command("job cancel", str(job.id), why="its kind is gone")

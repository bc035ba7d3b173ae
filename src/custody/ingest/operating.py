"""What an operator may do to a batch besides the moves that every job has."""

from __future__ import annotations

from custody.ingest.states import BATCH
from custody.ingest.tree import shown
from custody.model.errors import Refused
from custody.model.job import Answer, Change, Job
from custody.stores import Store


def had_jobs(batch: Job) -> bool:
    """One that has some can be reported on, also when its first report could not be made."""
    return bool(batch.facts.get("told") or batch.facts.get("jobs"))


def ask_for_update(store: Store, batch: Job, who: str) -> Answer:
    """The attempts to mend have ended: tell the depositor what changed. Refused while a job is still open."""
    to = BATCH.next(batch.state, "report")
    if not had_jobs(batch):
        raise Refused(
            f"batch {shown(batch.id)} failed before it had jobs: there is nothing to update", code="batch.unreported"
        )
    if batch.open:
        raise Refused(
            f"{batch.open} resumed jobs of batch {shown(batch.id)} have not ended",
            code="batch.open",
            hint="wait for them, or the report would be out of date when it arrives",
        )
    answer = store.queue.move(
        Change(batch.id, batch.state, to, "asked", "none", who, True, None, None, store.new_move())
    )
    if not answer.done:
        raise Refused(answer.why, code=answer.code)
    return answer

"""What an operator may do to a batch besides the moves that every job has."""

from __future__ import annotations

from custody.errors import Refused
from custody.ingest.states import BATCH, JOB_KIND
from custody.kernel.engine.changes import change
from custody.kernel.model.job import Answer, Filter, Job
from custody.kernel.model.names.job_numbers import shown
from custody.kernel.operations.jobs import Operator
from custody.kernel.stores import Store


def had_jobs(batch: Job) -> bool:
    """One that has some can be reported on, also when its first report could not be made."""
    return bool(batch.facts.get("told") or batch.facts.get("jobs"))


def has_become_jobs(batch: Job) -> bool:
    return batch.state not in ("held", "pending")


def release_batch(operator: Operator, batch: Job, why: str) -> list[tuple[int, str]]:
    """Let a batch go on, or its jobs that are held, once it has become jobs: each one's id, and "" or why not."""
    if not has_become_jobs(batch):
        operator.release(batch.id, why)
        return []
    held = Filter(kind=JOB_KIND, parent=batch.id, state="held")
    return list(operator.every(held, lambda job: operator.release(job, why)))


def ask_for_update(store: Store, batch: Job, who: str) -> Answer:
    """The attempts to mend have ended: tell the depositor what changed. Refused while a job is still open."""
    asked = change(batch, BATCH, "report", agent=who, move=store.new_move())
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
    answer = store.queue.move(asked)
    if not answer.done:
        raise Refused(answer.why, code=answer.code)
    return answer

"""custody archive why: what keeps a task from running, and what would change that, in an archive's own words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from custody.cli import runtime
from custody.cli.runtime import AsJson
from custody.cli.told_commands import aimed
from custody.errors import NotFound
from custody.kernel.model.job import Job
from custody.kernel.model.why import Reason
from custody.kernel.stores import Store
from custody.workflows.commands.tasks import (
    InRun,
    Name,
    Revision,
    StoreUrl,
    TaskName,
    faults_of,
    job_of,
    of_run,
    opened,
)
from custody.workflows.makers import task_key
from custody.workflows.plan.plan_jobs import FAULTY, find_task
from custody.workflows.tasks.images import MAY_LIVE, lives_until

_OTHER = re.compile(r"(?:needed|blocked by) job (\d+)")


def why(
    name: Name,
    revision: Revision,
    task: TaskName = "COMMIT",
    run: InRun = "commit",
    store: StoreUrl = "",
    json: AsJson = False,
) -> None:
    """Why a task of a revision is not running."""
    with opened(store) as handle:
        job = job_of(handle, name, revision, task, run=run)
        reasons = _elsewhere(job, handle.now()) or handle.queue.why(job.id)
        if json:
            runtime.emit(reasons)
            return
        itself = f"{name} {revision} {task}{of_run(run)}"
        told = [(reason.text, _clears(handle, name, job, itself, reason=reason)) for reason in reasons]
        is_faulty = task == "COMMIT" and find_task(handle, task_key(name, revision, "commit", FAULTY)) is not None
    for text, clears in told:
        print(runtime.harmless(f"{name} r{revision} {task}: {text}\n  until: {aimed(clears)}"))
    if is_faulty:
        print(faults_of(name, revision))


def _elsewhere(job: Job, now: int) -> Sequence[Reason]:
    """Whoever holds it does nothing but wait for this."""
    until = lives_until(job, now) if job.holder else 0
    clears = f"that machine's worker goes on with it, or {-(-(until - now) // 1_000_000)} seconds have passed"
    return [Reason("elsewhere", MAY_LIVE, clears)] if until else []


def _clears(store: Store, name: str, job: Job, itself: str, reason: Reason) -> str:
    if job.task == FAULTY:
        return "a later commit mends it"
    if job.ended in ("failed", "cancelled"):
        return f"`custody archive retry {itself}`"
    other = _task(store, _OTHER.search(reason.text))
    if other is None:
        return reason.clears
    words = f"{name} {other.payload['revision']} {other.task}{of_run(str(other.payload.get('run', 'commit')))}"
    if job.ended:  # it was skipped
        return f"`custody archive retry {words}`, and that succeeds: then this comes back"
    return f"`custody archive retry {words}`, or `custody archive accept {words} --why …`"


def _task(store: Store, found: re.Match[str] | None) -> Job | None:
    """The task that is spoken of, if it is one and still there."""
    try:
        job = store.queue.get(int(found[1])) if found else None
    except NotFound:
        return None
    return job if job and job.task and "revision" in job.payload else None

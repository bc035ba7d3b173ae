"""Who may make the jobs of workflows: notices of revisions, planning, and runs that somebody asks for.

What a task does is not believed from its payload at all: the recipe is read from the revision (tasks/run.py). Here it
is looked whether the job can be one of its archive's, of a revision that was taken in, of a run that there is.
"""

from __future__ import annotations

import re
from typing import Any, Final

from custody.errors import NotFound
from custody.formats.shape import Optional, either, flag, list_of, map_of, part, record, text, whole
from custody.kernel.engine.makers import Maker
from custody.kernel.model.job import Job

COMMIT_KIND: Final = "workflow/commit"
RUN_KIND: Final = "workflow/run"
TASK_KIND: Final = "workflow/task"
QUICK_KIND: Final = "workflow/quick"  # the same, for which every worker keeps a thread free: never behind long tasks
_RUN: Final = "`custody archive run ARCHIVE TASK`"
_OF_A_RUN: Final = re.compile(r"(manual|schedule)-([1-9][0-9]{0,18})")
_PARTS: Final = Optional(list_of(part))


def commit_key(archive: str, revision: int) -> str:
    return f"{archive}:{revision}"


def task_key(archive: str, revision: int, run: str, task: str) -> str:
    return f"{archive}:{revision}:{run}:{task}"


def runs_line(archive: str) -> str:
    return f"{archive}/runs"


def schedule_name(archive: str, workflow: str) -> str:
    return f"{archive}/{workflow}"


def _commit_is_true(store: Any, job: Job) -> str:
    given = job.payload
    own = (given["archive"], given["archive"], commit_key(given["archive"], given["revision"]))
    if (job.collection, job.line, job.key) != own or job.position != given["revision"]:
        return "it is not the commit job of its archive and revision"
    return _was_taken_in(store, given["archive"], given["revision"])


def _was_taken_in(store: Any, archive: str, revision: int) -> str:
    """An archive that is gone has nothing to be planned or run: whoever works on it finds that out."""
    rows = store.db.glance(lambda tx: tx.run("wf_archive", name=archive))
    last = int(rows[0][4]) if rows else revision  # as `Kept` has it
    return "" if revision <= last else f"{archive} has been taken in up to revision {last} only"


def _run_is_true(store: Any, job: Job) -> str:
    given = job.payload
    if "slot" not in given:
        if job.collection != given["archive"] or "schedule" in given or "revision" not in given:
            return "nobody asked its archive for it"
        return _was_taken_in(store, given["archive"], given["revision"])
    name = schedule_name(given["archive"], given["wanted"])
    if given.get("schedule") != name or store.schedules.job_of(name, given["slot"]) != job.id:
        return "no schedule of its archive made it"
    return ""


def _task_is_true(store: Any, job: Job) -> str:
    given = job.payload
    archive, revision, run = given["archive"], given["revision"], given["run"]
    if job.collection != archive or job.key != task_key(archive, revision, run, given["task"]):
        return "it is not a task of its archive and revision"
    if job.task != given["task"]:
        return "it stands for another task"
    if run == "commit":
        own, planner = (archive, revision), store.queue.by_key(COMMIT_KIND, commit_key(archive, revision))
    elif found := _OF_A_RUN.fullmatch(run):
        own, planner = (runs_line(archive), int(found[2])), _job(store, int(found[2]))
    else:
        return "there is no such run"
    is_its = planner is not None and planner.kind in (COMMIT_KIND, RUN_KIND) and planner.payload["archive"] == archive
    if not is_its or (job.line, job.position) != own:
        return "nothing planned it"
    known = planner.payload.get("revision") or planner.facts.get("revision")
    return "" if known == revision else "it was planned for another revision"


def _job(store: Any, number_: int) -> Job | None:
    try:
        found: Job = store.queue.get(number_)
    except NotFound:
        return None
    return found


COMMIT_MAKER: Final = Maker(
    kind=COMMIT_KIND,
    instead="`custody archive notify ARCHIVE REVISION`",
    verify=_commit_is_true,
    shape=record(archive=part, revision=whole(1)),
)
RUN_MAKER: Final = Maker(
    kind=RUN_KIND,
    instead=_RUN,
    verify=_run_is_true,
    shape=record(
        archive=part,
        wanted=part,
        revision=Optional(whole(1)),
        alone=Optional(flag),
        schedule=Optional(text(500)),
        slot=Optional(whole()),
        by=Optional(text(500)),  # asked for by an earlier version; never read
    ),
)
_RECIPE: Final = record(
    command=Optional(list_of(text())),
    script=Optional(text()),
    shell=Optional(text(20)),
    env=Optional(map_of(text())),
    network=Optional(either(flag, list_of(text(500)))),
    timeout=Optional(whole()),
    grace=Optional(whole()),
    retries=Optional(whole()),
    outputs=Optional(list_of(text())),
    output_limit=Optional(whole()),
    image=Optional(text()),
    secrets=Optional(list_of(part)),
    ready=Optional(text(20)),
)
_TASK: Final = record(
    archive=part,
    revision=whole(1),
    run=part,
    task=part,
    file=Optional(text()),
    recipe=Optional(_RECIPE),
    depends=_PARTS,
    cancels=_PARTS,
    cancels_here=_PARTS,
    definition=Optional(text(200)),
    lineage=Optional(list_of(text())),
    faults=Optional(list_of(text())),
)
TASK_MAKER: Final = Maker(kind=TASK_KIND, behalf="parent", instead=_RUN, shape=_TASK, verify=_task_is_true)
QUICK_MAKER: Final = Maker(kind=QUICK_KIND, behalf="parent", instead=_RUN, shape=_TASK, verify=_task_is_true)
MAKERS: Final = (COMMIT_MAKER, RUN_MAKER, TASK_MAKER, QUICK_MAKER)

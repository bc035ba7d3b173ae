"""Runs that a person or a schedule asks for, at a revision, with the definition of that revision.

The job of a run plans its tasks as a commit's job does, then waits until they have ended; so a schedule knows whether
its last run is over, and `why` of a run names the tasks it waits for. Tasks of such runs wait for earlier instances
(PREV) to have ended, however: a person who runs something again does so because of how it ended. They supersede each
other, but nothing that a commit started, and no commit supersedes them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from custody.errors import BadInput, NotFound, Refused
from custody.kernel.engine.work import Work
from custody.kernel.model.authority.acting import Acting
from custody.kernel.model.event import NewEvent
from custody.kernel.model.graph import Edge
from custody.kernel.model.job import Job, NewJob
from custody.kernel.model.names.job_keys import check_key
from custody.kernel.model.outcome import Failed, Outcome, Passed, Wait
from custody.kernel.stores import Store
from custody.kernel.stores.rows import job_from
from custody.workflows.archives.table import Archives, Kept
from custody.workflows.definition.task import COMMIT, FINISHED, Definitions, Task, Workflow
from custody.workflows.makers import COMMIT_KIND, RUN_KIND, RUN_MAKER, commit_key, runs_line
from custody.workflows.patience import patiently
from custody.workflows.plan.job import revision_item
from custody.workflows.plan.past_revisions import nearest_jobs
from custody.workflows.plan.plan import PREVIOUS, Plan, Ref
from custody.workflows.plan.plan import run as plan_run
from custody.workflows.plan.plan_jobs import Run, submit
from custody.workflows.tasks.recipes import definitions_of

PATIENCE = 60.0
MOST_JOBS = 2**63 - 1  # no job has a higher number
GOOD_ENDS = ("passed", "superseded", "skipped")


def ask_for_run(
    store: Store, archive: str, wanted: str, acting: Acting, *, revision: int = 0, alone: bool = False, key: str = ""
) -> int:
    """Have a task, with those it depends on, or a whole workflow run again; answers the run's job.

    `key` names the wish: the same again gives the same run.
    """
    check_key(key or None)
    kept = Archives(store).get(archive)
    asked = {"wanted": wanted, "alone": alone} | ({"revision": revision} if revision else {})
    before = store.queue.by_key(RUN_KIND, f"{archive}:{key}") if key else None
    if before is not None and asked.items() <= before.payload.items():
        store.confirm()
        return before.id  # the youngest revision of then, though there are younger ones by now
    if kept.frozen:
        raise Refused(f"{archive} is frozen: {kept.frozen}", code="archive.frozen", hint="`custody archive thaw`")
    revision = revision or kept.last
    if not revision:
        raise NotFound(f"nothing has been committed to {archive} yet", code="archive.revision")
    if not 1 <= revision <= kept.last:
        hint = f"it has been taken in up to {kept.last}"
        raise NotFound(f"{archive} has no revision {revision}", code="archive.revision", hint=hint)
    chosen(definitions_of(store, kept, revision), wanted, alone)
    payload = {"archive": archive, "revision": revision, "wanted": wanted, "alone": alone}
    commit = store.queue.by_key(COMMIT_KIND, commit_key(archive, revision))
    job = NewJob(
        RUN_KIND,
        payload,
        key=f"{archive}:{key}" if key else None,
        priority=10,
        lane=archive,
        collection=archive,
        needs=[Edge(commit.id)] if commit else [],
    )
    return store.queue.submit_one(RUN_MAKER.checked(job), acting).id


def newest_runs(store: Store, archive: str, most: int, before: int = 0) -> Sequence[Job]:
    """The last so many runs, oldest first; of those that were asked for before a certain one, if it is named."""
    asked = {"lane": archive, "before": before or MOST_JOBS, "limit": most}
    return [job_from(row) for row in reversed(store.db.read(lambda tx: tx.run("wf_runs", **asked)))]


def chosen(definitions: Definitions, wanted: str, alone: bool = False, by_clock: bool = False) -> tuple[Workflow, ...]:
    """A workflow by its name, or a task with all it depends on in its revision. The clock asks for workflows only."""
    if definitions.faults:
        raise BadInput(str(definitions.faults[0]), code="workflow.faults", hint="`custody archive plan` shows all")
    for workflow in definitions.workflows if not by_clock else ():
        if task := workflow.task(wanted):
            beside = definitions.on_commit if workflow in definitions.on_commit else (workflow,)
            names = {task.name} if alone else _with_needed(task, beside)
            found = (replace(w, tasks=tuple(t for t in w.tasks if t.name in names)) for w in beside)
            return tuple(workflow for workflow in found if workflow.tasks)
    for workflow in definitions.workflows:
        if workflow.name == wanted:
            return (workflow,)
    known = [name for w in definitions.workflows for name in (w.name, *(task.name for task in w.tasks))]
    hint = f"known: {', '.join(dict.fromkeys(known))}" if known else "there are no workflow files at this revision"
    raise NotFound(f"there is no task or workflow {wanted}", code="task.unknown", hint=hint)


def _with_needed(task: Task, workflows: Iterable[Workflow]) -> set[str]:
    tasks = {task.name: task for workflow in workflows for task in workflow.tasks}
    found: set[str] = set()
    ahead = [task.name]
    while ahead:
        name = ahead.pop()
        if name not in found:
            found.add(name)
            ahead += [edge.task for edge in tasks[name].depends if not edge.earlier and edge.task != COMMIT]
    return found


def run(work: Work, store: Store) -> Outcome:
    """Plan a run; when its tasks have ended, say how."""
    name = str(work.payload["archive"])
    if "tasks" in work.facts:
        return _over(work, store, name)
    kept = Archives(store).workable(name)
    if isinstance(kept, str):
        return patiently(work, kept)
    revision = int(
        work.payload.get("revision") or work.facts.get("revision") or Archives(store).open(kept).main(kept.last)
    )
    commit = store.queue.by_key(COMMIT_KIND, commit_key(kept.name, revision))
    if revision < 1 or (commit is not None and commit.ended is None):
        needs = [Edge(commit.id)] if commit else []
        return Wait(0 if commit else PATIENCE, "its revision has not been planned yet", needs, {"revision": revision})
    if "revision" not in work.facts:
        work.keep(revision=revision)  # a schedule's run stays with the revision it began with
    try:
        planned = _plan(store, kept, revision, work)
    except (BadInput, NotFound) as error:
        return Failed(error.code, error.message)
    made = submit(
        work, store, kept.name, planned, run=Run(run_name(work), work.job.id, lambda task: _earlier(work, store, task))
    )
    return _until_over(made)


def run_name(work: Work) -> str:
    return f"{'schedule' if _by_clock(work) else 'manual'}-{work.job.id}"


def _by_clock(work: Work) -> bool:
    return "slot" in work.payload


def _plan(store: Store, kept: Kept, revision: int, work: Work) -> Plan:
    definitions = definitions_of(store, kept, revision)
    workflows = chosen(
        definitions, str(work.payload["wanted"]), bool(work.payload.get("alone")), by_clock=_by_clock(work)
    )
    planned = plan_run(workflows, revision, _CommitsUpTo(store, kept.name, revision), name=run_name(work))
    edges = tuple(replace(edge, wants=FINISHED) if edge.wants == PREVIOUS else edge for edge in planned.edges)
    return replace(planned, edges=edges, definition_hash=definitions.hash)


class _CommitsUpTo:
    """What commits up to this revision started: the past of a run."""

    def __init__(self, store: Store, name: str, revision: int) -> None:
        self._store, self._name, self._revision = store, name, revision

    def nearest(self, task: str) -> Collection[int]:
        return [found.revision for found in nearest_jobs(self._store, self._name, [task], self._revision + 1)]

    def blocking(self) -> Iterable[Ref]:
        return ()


def _earlier(work: Work, store: Store, task: Task) -> Sequence[Edge]:
    """PREV among the runs themselves: the last one before this."""
    return list(_last_runs(work, store, [edge.task for edge in task.depends if edge.earlier]))


def _last_runs(work: Work, store: Store, tasks: Iterable[str]) -> Iterator[Edge]:
    line = runs_line(str(work.payload["archive"]))
    found = store.db.read(
        lambda tx: [row for t in tasks for row in tx.run("wf_last_run", line=line, task=t, position=work.job.id)]
    )
    yield from (Edge(row[0], "finished") for row in found)


def _until_over(tasks: dict[str, int]) -> Outcome:
    needs = [Edge(job, "finished") for job in tasks.values()]
    return Wait(0, "its tasks have not ended", needs=needs, keep={"tasks": tasks})


def _over(work: Work, store: Store, name: str) -> Outcome:
    tasks: dict[str, int] = dict(work.facts["tasks"])
    ends = {task: store.queue.get(job).ended for task, job in tasks.items()}
    if None in ends.values():
        return _until_over(tasks)  # one was retried while we looked
    told: dict[str, Any] = {"run": run_name(work), "job": work.job.id, "tasks": ends}
    bad = [f"{task} ({end})" for task, end in ends.items() if end not in GOOD_ENDS]
    item = revision_item(name, int(work.facts["revision"]))
    event = NewEvent(item, f"run {work.payload['wanted']}", "failure" if bad else "success", detail=told)
    if bad:
        return Failed("run.failed", f"not all of its tasks succeeded: {', '.join(bad)}", detail=told, events=[event])
    return Passed(told, events=[event])

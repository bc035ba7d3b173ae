"""The jobs of a plan: made level by level, so that every edge points at a job that exists.

Each waits for the job that plans it, so none can start before all of them are there. The last level, usually the only
one, is left to whoever planned: it comes into being with that job's own end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from custody.kernel.engine.work import Work
from custody.kernel.model.graph import Edge, Otherwise, Wants
from custody.kernel.model.job import Job, NewJob
from custody.kernel.model.quick import quick
from custody.kernel.stores import Store
from custody.workflows.definition.task import COMMIT, ON_COMMIT, QUICK, Task
from custody.workflows.makers import (
    COMMIT_KIND,
    QUICK_KIND,
    QUICK_MAKER,
    TASK_KIND,
    TASK_MAKER,
    commit_key,
    runs_line,
    task_key,
)
from custody.workflows.plan.plan import Plan, PlannedEdge, PlannedTask, Ref
from custody.workflows.tasks.recipes import recipe

FAULTY = "(definition)"
MOST_TOLD = 50  # faults: the others are of a kind with them
_edge, _new_job = quick(Edge), quick(NewJob)  # for each task of each revision
WANTS: dict[str, Wants] = {"success": "success", "finished": "finished", "failure": "failure", "prev": "passable"}


@dataclass(frozen=True, slots=True)
class Run:
    """Which instances of tasks are being planned: those of a commit, or those of a run of their own."""

    name: str = ON_COMMIT
    job: int = 0  # the job that plans them
    also: Callable[[Task], Sequence[Edge]] = lambda _: ()  # what they wait for besides what the plan says


@dataclass(frozen=True, slots=True)
class Begun:
    """The jobs of a plan that are there, by name, and those of its last level, which are still to be submitted."""

    made: dict[str, int]
    last: dict[str, NewJob]


def submit(work: Work, store: Store, name: str, planned: Plan, run: Run) -> dict[str, int]:
    """All the jobs of a plan; answers their numbers by name."""
    begun = begin(work, store, name, planned, run=run)
    return begun.made | dict(zip(begun.last, work.spawn(list(begun.last.values())), strict=True))


def begin(
    work: Work, store: Store, name: str, planned: Plan, run: Run, known: Mapping[Ref, int] | None = None
) -> Begun:
    """The jobs of a plan, level by level, but for the last. `known` are jobs that need not be looked up again."""
    if planned.faults:
        return Begun({}, {FAULTY: _faulty(name, planned)})
    made: dict[str, int] = {}
    waiting = {task.name: task for task in planned.tasks}
    edges: dict[str, list[PlannedEdge]] = {task: [] for task in waiting}
    for edge in planned.edges:
        edges.get(edge.task, []).append(edge)
    wanted = {edge.on for task in edges.values() for edge in task if _is_earlier(edge.on, planned.revision, run)}
    earlier = targets(store, name, wanted, known or {})
    while True:
        level: dict[str, NewJob] = {}
        for task in waiting.values():
            if _known(edges[task.name], planned.revision, run, made):
                needs = list(_edges(planned, edges[task.name], made, run, earlier=earlier))
                ahead = {edge.on for edge in needs}
                needs += [edge for edge in run.also(task.definition) if edge.on not in ahead]
                level[task.name] = task_job(name, planned, task, needs, run=run)
        waiting = {task: planned for task, planned in waiting.items() if task not in level}
        if not waiting:
            return Begun(made, level)
        made |= zip(level, work.spawn(list(level.values())), strict=True)


def _is_earlier(ref: Ref, revision: int, run: Run) -> bool:
    return (ref.revision, ref.run) != (revision, run.name)


def _known(edges: Iterable[PlannedEdge], revision: int, run: Run, made: dict[str, int]) -> bool:
    ours = [edge.on.task for edge in edges if not _is_earlier(edge.on, revision, run)]
    return all(task in made or task == COMMIT for task in ours)


def _edges(
    planned: Plan, wanted: Iterable[PlannedEdge], made: dict[str, int], run: Run, earlier: Mapping[Ref, int]
) -> Iterator[Edge]:
    for edge in wanted:
        otherwise: Otherwise = "skip" if edge.otherwise == "skip" else "wait"
        if _is_earlier(edge.on, planned.revision, run):
            target = earlier.get(edge.on)
        else:
            target = run.job if edge.on.task == COMMIT else made[edge.on.task]
        if target is not None:
            yield _edge(target, WANTS[edge.wants], otherwise)


def targets(store: Store, archive: str, refs: Iterable[Ref], known: Mapping[Ref, int]) -> Mapping[Ref, int]:
    """The jobs of tasks that were planned before, as far as there are any; looked up all in one go."""
    names = {name: ref for ref in refs if ref not in known for name in _names(archive, ref)}
    if not names:
        return known
    rows = store.db.glance(lambda tx: tx.run("wf_by_keys", names=json.dumps(list(names))))
    return {**known, **{names[kind, key]: job for kind, key, job in rows}}


def _names(archive: str, ref: Ref) -> Sequence[tuple[str, str]]:
    if ref.task == COMMIT:
        return [(COMMIT_KIND, commit_key(archive, ref.revision))]
    key = task_key(archive, ref.revision, ref.run, ref.task)
    return [(TASK_KIND, key), (QUICK_KIND, key)]


def find_task(store: Store, key: str) -> Job | None:
    return store.queue.by_key(TASK_KIND, key) or store.queue.by_key(QUICK_KIND, key)


def task_job(name: str, planned: Plan, task: PlannedTask, needs: list[Edge], run: Run) -> NewJob:
    """One task of one revision. Runs of their own supersede each other, but never what a commit started."""
    definition = task.definition
    cancels = [cancel for cancel in planned.cancels if cancel.task == task.name]
    others = [cancel.victim for cancel in cancels if cancel.victim != task.name]
    payload: dict[str, Any] = {
        "archive": name,
        "revision": planned.revision,
        "run": run.name,
        "task": task.name,
        "file": task.file,
        "recipe": recipe(definition),
        "depends": [edge.task for edge in definition.depends if not edge.earlier],
        "cancels": others,
        "definition": planned.definition_hash,
    }
    if here := [cancel.victim for cancel in cancels if cancel.same_revision]:
        payload["cancels_here"] = here  # those of them that it ends in its own revision too
    if planned.lineage:
        payload["lineage"] = list(planned.lineage)
    by_commit = run.name == ON_COMMIT
    maker = QUICK_MAKER if definition.ready or definition.lane == QUICK else TASK_MAKER
    made = _new_job(
        maker.kind,
        payload,
        key=task_key(name, planned.revision, run.name, task.name),
        state="skipped" if task.skip else "",
        facts={"why": task.skip} if task.skip else {},
        lane=name if definition.lane == "main" else f"{name}/{definition.lane}",
        collection=name,
        line=name if by_commit else runs_line(name),
        task=task.name,
        position=planned.revision if by_commit else run.job,
        supersedes=any(cancel.victim == task.name for cancel in cancels),
        needs=[] if task.skip else needs,  # a need that is met would bring it back
    )
    return maker.checked(made)


def _faulty(name: str, planned: Plan) -> NewJob:
    """A task that has failed already, to carry what is wrong with the definition; later revisions go on."""
    faults = [str(fault) for fault in planned.faults[:MOST_TOLD]]
    if len(planned.faults) > MOST_TOLD:
        faults.append(f"and {len(planned.faults) - MOST_TOLD:,} more: `custody archive lint` tells all of them")
    return NewJob(
        TASK_KIND,
        {"archive": name, "revision": planned.revision, "run": ON_COMMIT, "task": FAULTY, "faults": faults},
        key=task_key(name, planned.revision, ON_COMMIT, FAULTY),
        state="failed",
        facts={"reason": faults[0]},
        lane=name,
        collection=name,
        line=name,
        task=FAULTY,
        position=planned.revision,
    )

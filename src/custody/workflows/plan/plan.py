"""What a revision adds to the queue: tasks, what each waits for, and what each supersedes. Pure decisions.

PREV is resolved here, once, into revisions that exist: to the nearest ancestor that has the task, on a merge
to one for each parent; a task that no ancestor has waits for nothing. So an edge never names a job that is
not there, and a task that was absent for a few revisions does not overtake its older self.

The edges are those of the definitions plus three kinds that nobody writes: each commit waits for the one
before, each task for its commit, and a commit for the *blocking* tasks of the one before. Reading definitions
belongs to `definition.py`, looking into the past to the caller, inserting jobs to whoever holds the archive's
lease.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from custody.formats.text.strict_yaml import Fault
from custody.kernel.model.quick import quick
from custody.workflows.definition.task import (
    COMMIT,
    FAILURE,
    FINISHED,
    ON_COMMIT,
    SUCCESS,
    Definitions,
    Depends,
    Schedule,
    Task,
    Workflow,
)

PREVIOUS = "prev"  # satisfied by success, and by an end that is nobody's fault: superseded or skipped
WAIT, SKIP = "wait", "skip"
MOST_STEPS = 8  # a task that commits may start a task that commits … so many times
SKIP_WORD = "[skip custody]"

# What an edge wants, and what becomes of the waiting task if it cannot have it.
_SAME_REVISION = {SUCCESS: (SUCCESS, SKIP), FINISHED: (FINISHED, WAIT), FAILURE: (FAILURE, SKIP)}
_EARLIER = {SUCCESS: (PREVIOUS, WAIT), FINISHED: (FINISHED, WAIT), FAILURE: (FAILURE, SKIP)}


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """A task of a revision; `COMMIT` is the revision's own."""

    revision: int
    task: str
    run: str = ON_COMMIT  # or the name of a run that a person or a schedule asked for

    def __str__(self) -> str:
        return f"rev-{self.revision}:{'' if self.run == ON_COMMIT else self.run + ':'}{self.task}"


@dataclass(frozen=True, slots=True)
class PlannedTask:
    name: str
    definition: Task
    file: str
    blocking: bool = False  # the next commit waits for it
    skip: str = ""  # planned, but not to be run, for this reason


@dataclass(frozen=True, slots=True)
class PlannedEdge:
    task: str  # of the planned revision, or COMMIT
    on: Ref
    wants: str  # SUCCESS, FINISHED, FAILURE or PREVIOUS
    otherwise: str  # WAIT visibly, or SKIP


_ref, _edge = quick(Ref), quick(PlannedEdge)  # several for each task of each revision


@dataclass(frozen=True, slots=True)
class PlannedCancel:
    """When `task` is ready, unfinished instances of `victim` in all earlier revisions are superseded."""

    task: str
    victim: str
    same_revision: bool  # the one of this revision too
    max_in_a_row: int | None = None
    max_age: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    revision: int
    tasks: tuple[PlannedTask, ...] = ()
    edges: tuple[PlannedEdge, ...] = ()
    cancels: tuple[PlannedCancel, ...] = ()
    faults: tuple[Fault, ...] = ()  # then there are no tasks, but later revisions go on
    skipped: str = ""  # why the whole revision starts nothing
    definition_hash: str = ""
    schedules: tuple[tuple[str, Schedule], ...] = ()  # what is to be run by the clock from here on, by workflow
    lineage: tuple[str, ...] = ()  # which tasks, one through the other, made this commit

    @property
    def blocking(self) -> tuple[str, ...]:
        """Tasks that the next commit waits for."""
        return tuple(task.name for task in self.tasks if task.blocking)


class Past(Protocol):
    """What the planner asks about earlier revisions."""

    def nearest(self, task: str) -> Collection[int]:
        """The nearest ancestor revisions with a task of this name, one for each line that leads here."""

    def blocking(self) -> Iterable[Ref]:
        """The blocking tasks of the parent revisions."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """Which tasks, one through the other, made this commit; empty for a commit by a person."""

    tasks: tuple[str, ...] = ()

    @property
    def steps(self) -> int:
        return len(self.tasks)


BY_A_PERSON = Lineage()


def plan(
    definitions: Definitions,
    revision: int,
    past: Past,
    *,
    previous: Iterable[int] = (),
    lineage: Lineage = BY_A_PERSON,
    message: str = "",
) -> Plan:
    """Plan a commit. `previous` are the revisions whose commits come before it: N-1, and all parents."""
    edges = list(_commit_edges(definitions.on_commit, past, previous))
    if definitions.faults:
        return Plan(revision, edges=tuple(edges), faults=definitions.faults, definition_hash=definitions.hash)
    clocks = tuple((workflow.name, workflow.schedule) for workflow in definitions.workflows if workflow.schedule)
    if why := _nothing_to_do(lineage, message):
        return Plan(
            revision,
            edges=tuple(edges),
            skipped=why,
            definition_hash=definitions.hash,
            schedules=clocks,
            lineage=lineage.tasks,
        )
    planned = run(definitions.on_commit, revision, past, lineage=lineage)
    return replace(
        planned,
        edges=(*edges, *planned.edges),
        definition_hash=definitions.hash,
        schedules=clocks,
        lineage=lineage.tasks,
    )


def run(
    workflows: Sequence[Workflow], revision: int, past: Past, *, lineage: Lineage = BY_A_PERSON, name: str = ON_COMMIT
) -> Plan:
    """Plan the tasks of some workflows at a revision whose commit is there; `name` is that of a run of their own.

    A task that is left out is not waited for.
    """
    tasks = [(workflow, task) for workflow in workflows for task in workflow.tasks]
    absent = {Ref(revision, wanted.task, name) for _, task in tasks for wanted in task.depends if not wanted.earlier}
    absent -= {Ref(revision, task.name, name) for _, task in tasks} | {Ref(revision, COMMIT)}
    edges = [edge for _, task in tasks for edge in _task_edges(task, revision, past, name)]
    return Plan(
        revision,
        tasks=tuple(_planned(workflow, task, lineage) for workflow, task in tasks),
        edges=tuple(edge for edge in edges if edge.on not in absent),
        cancels=tuple(cancel for _, task in tasks for cancel in _cancels(task)),
    )


def _nothing_to_do(lineage: Lineage, message: str) -> str:
    if SKIP_WORD in message:
        return f"the commit message says {SKIP_WORD}"
    if lineage.steps > MOST_STEPS:
        return f"{lineage.steps} tasks have started each other by committing: {' → '.join(lineage.tasks)}"
    return ""


def _planned(workflow: Workflow, task: Task, lineage: Lineage) -> PlannedTask:
    again = task.name in lineage.tasks and not task.reentrant
    why = f"this commit was made by {' → '.join(lineage.tasks)}; {task.name} is not reentrant" if again else ""
    return PlannedTask(
        name=task.name, definition=task, file=workflow.file, blocking=_is_blocking(workflow, task), skip=why
    )


def _is_blocking(workflow: Workflow, task: Task) -> bool:
    """A task that is replaced by its successor cannot also hold it up, unless it says so."""
    if task.blocking is not None:
        return task.blocking
    replaced = any(edge.earlier and edge.task == task.name for edge in task.cancels)
    return workflow.strict and not replaced


def _commit_edges(workflows: Iterable[Workflow], past: Past, previous: Iterable[int]) -> Iterator[PlannedEdge]:
    seen: set[Ref] = set()
    edges = [PlannedEdge(COMMIT, Ref(earlier, COMMIT), SUCCESS, WAIT) for earlier in sorted(set(previous))]
    edges += [PlannedEdge(COMMIT, ref, PREVIOUS, WAIT) for ref in past.blocking()]
    for workflow in workflows:
        for wanted in workflow.commit_depends:
            edges += _earlier_edges(COMMIT, wanted, past)
    for edge in edges:
        if edge.on not in seen:
            seen.add(edge.on)
            yield edge


def _task_edges(task: Task, revision: int, past: Past, run_: str) -> Iterator[PlannedEdge]:
    yield _edge(task.name, _ref(revision, COMMIT), SUCCESS, WAIT)
    for wanted in task.depends:
        if wanted.earlier:
            yield from _earlier_edges(task.name, wanted, past)
        elif wanted.task != COMMIT:
            yield _edge(task.name, _ref(revision, wanted.task, run_), *_SAME_REVISION[wanted.when])


def _earlier_edges(task: str, wanted: Depends, past: Past) -> Iterator[PlannedEdge]:
    for earlier in sorted(set(past.nearest(wanted.task))):
        yield _edge(task, _ref(earlier, wanted.task), *_EARLIER[wanted.when])


def _cancels(task: Task) -> Iterator[PlannedCancel]:
    for edge in task.cancels:
        yield PlannedCancel(
            task=task.name,
            victim=edge.task,
            same_revision=not edge.earlier,
            max_in_a_row=edge.max_in_a_row,
            max_age=edge.max_age,
        )


def nearest(
    parents: Iterable[int], parents_of: Callable[[int], Iterable[int]], has: Callable[[int], bool]
) -> tuple[int, ...]:
    """Walk back from `parents` along every line, each until a revision for which `has` is true."""
    found: set[int] = set()
    seen: set[int] = set()
    ahead = list(parents)
    while ahead:
        revision = ahead.pop()
        if revision in seen:
            continue
        seen.add(revision)
        if has(revision):
            found.add(revision)
        else:
            ahead += parents_of(revision)
    return tuple(sorted(found))


class Known:
    """A past made of plans, for previews and pictures. `parents` says how revisions follow each other."""

    def __init__(self, plans: Iterable[Plan], parents: Callable[[int], Iterable[int]], revision: int) -> None:
        self._plans = {plan.revision: plan for plan in plans}
        self._parents = parents
        self._revision = revision

    def nearest(self, task: str) -> tuple[int, ...]:
        return nearest(self._parents(self._revision), self._parents, lambda revision: self._has(revision, task))

    def blocking(self) -> list[Ref]:
        parents = [self._plans[parent] for parent in self._parents(self._revision) if parent in self._plans]
        return [Ref(plan.revision, name) for plan in parents for name in plan.blocking]

    def _has(self, revision: int, task: str) -> bool:
        plan = self._plans.get(revision)
        return plan is not None and (task == COMMIT or any(planned.name == task for planned in plan.tasks))

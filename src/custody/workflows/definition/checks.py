"""Compares the tasks of a revision with each other: what cannot work, and what was probably not meant.

Tasks of all files that run on commits share one namespace and may depend on each other; a workflow that runs
on demand or on schedule runs alone, so its tasks know only each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from custody.formats.text.strict_yaml import Fault
from custody.workflows.definition.task import COMMIT, FAILURE, ON_COMMIT, PREV, Cancels, Depends, Place, Task, Workflow

MOST_TASKS = 1000


class Waits:
    """Who waits for whom, directly or not. One bit per task: a thousand tasks are quickly compared."""

    def __init__(self, direct: Mapping[str, Sequence[str]]) -> None:
        self.direct = direct
        self._bit = {name: 1 << place for place, name in enumerate(direct)}
        self._all = {name: sum({self._bit.get(other, 0) for other in others}) for name, others in direct.items()}
        for middle, bit in self._bit.items():
            for name, mask in self._all.items():
                if mask & bit:
                    self._all[name] = mask | self._all[middle]

    def __call__(self, name: str, other: str) -> bool:
        return bool(self._all.get(name, 0) & self._bit.get(other, 0))


def faults(workflows: Sequence[Workflow]) -> list[Fault]:
    found = [*_duplicates(workflows), *_same_names(workflows)]
    if sum(len(workflow.tasks) for workflow in workflows) > MOST_TASKS:
        return [_fault(Place(workflows[-1].file, 1, 1), f"there are more than {MOST_TASKS} tasks in this revision")]
    for tasks in _together(workflows):
        names = {task.name for task in tasks}
        waits = _waits(tasks)
        for task in tasks:
            found += _wrong_depends(task, names)
            found += _wrong_cancels(task, names, waits)
        found += _cycles(tasks, waits)
    return found


def remarks(workflows: Sequence[Workflow]) -> list[Fault]:
    everywhere = {task.name for workflow in workflows for task in workflow.tasks} | {COMMIT}
    found = [_remark(Place(w.file, 1, 1), "there are no tasks in this file") for w in workflows if not w.tasks]
    for workflow in workflows:
        for task in workflow.tasks:
            found += _remarks(task, everywhere)
            if task.blocking and _replaces_itself(task):
                hint = "the next commit waits for it, so it is never replaced"
                found.append(_remark(task.at, f"{task.name} is blocking and cancels {PREV}", hint))
    for tasks in _together(workflows):
        found += _implied(tasks)
    return found


def _together(workflows: Sequence[Workflow]) -> Iterator[list[Task]]:
    yield [task for workflow in workflows if workflow.when == ON_COMMIT for task in workflow.tasks]
    yield from (list(workflow.tasks) for workflow in workflows if workflow.when != ON_COMMIT)


def _waits(tasks: Iterable[Task]) -> Waits:
    """Within the revision: earlier ones cannot wait for later ones."""
    return Waits({task.name: [edge.task for edge in _same_revision(task)] for task in tasks})


def _same_revision(task: Task) -> list[Depends]:
    return [edge for edge in task.depends if not edge.earlier and edge.task != COMMIT]


def _duplicates(workflows: Iterable[Workflow]) -> Iterator[Fault]:
    first: dict[str, Place] = {}
    for workflow in workflows:
        for task in workflow.tasks:
            if task.name in first:
                yield _fault(task.at, f"there are two tasks named {task.name!r}", f"the other is at {first[task.name]}")
            first.setdefault(task.name, task.at)


def _same_names(workflows: Sequence[Workflow]) -> Iterator[Fault]:
    """A schedule knows its workflow by name."""
    first: dict[str, Workflow] = {}
    for workflow in workflows:
        other = first.setdefault(workflow.name, workflow)
        if other is not workflow and (other.schedule or workflow.schedule):
            message = f"there are two workflows named {workflow.name!r}, and one is run by the clock"
            yield _fault(Place(workflow.file, 1, 1), message, f"the other is {other.file}")


def _wrong_depends(task: Task, names: set[str]) -> Iterator[Fault]:
    seen: set[tuple[str, bool]] = set()
    for edge in task.depends:
        target = (edge.task, edge.earlier)
        if target in seen:
            yield _fault(edge.at, f"{task.name} depends on {_said(edge, task)} twice")
        seen.add(target)
        if edge.earlier or edge.task == COMMIT:
            continue
        if edge.task == task.name:
            yield _fault(edge.at, f"{task.name} depends on itself", f"write {PREV} for the earlier one")
        elif edge.task not in names:
            yield _fault(edge.at, f"there is no task named {edge.task!r}", _known(names))


def _wrong_cancels(task: Task, names: set[str], waits: Waits) -> Iterator[Fault]:
    awaited = {(edge.task, edge.earlier) for edge in task.depends}
    for edge in task.cancels:
        said = _said(edge, task)
        if edge.task == COMMIT:
            yield _fault(edge.at, f"{COMMIT} cannot be canceled")
        elif edge.task == task.name and not edge.earlier:
            yield _fault(edge.at, f"{task.name} cancels itself", f"write {PREV} for the earlier ones")
        elif (edge.task, edge.earlier) in awaited:
            yield _fault(edge.at, f"{task.name} both depends on {said} and cancels it")
        elif not edge.earlier and edge.task not in names:
            yield _fault(edge.at, f"there is no task named {edge.task!r}", _known(names))
        elif not edge.earlier and waits(task.name, edge.task):
            yield _fault(edge.at, f"{task.name} cancels {said}, which must have ended before it starts")
        elif not edge.earlier and waits(edge.task, task.name):
            yield _fault(edge.at, f"{task.name} cancels {said}, which waits for {task.name}: it would never run")


def _cycles(tasks: Sequence[Task], waits: Waits) -> Iterator[Fault]:
    """One fault for each group of tasks that wait for each other, with a shortest way round."""
    told: set[str] = set()
    for task in tasks:
        name = task.name
        if waits(name, name) and name not in told and name not in waits.direct[name]:
            told |= {other.name for other in tasks if waits(name, other.name) and waits(other.name, name)}
            way = " → ".join(_way_round(waits.direct, name))
            yield _fault(task.at, f"these tasks wait for each other: {way}")


def _way_round(direct: Mapping[str, Sequence[str]], name: str) -> list[str]:
    ways = [[name]]
    seen: set[str] = set()
    for way in ways:
        for following in direct.get(way[-1], ()):
            if following == name:
                return [*way, name]
            if following not in seen:
                seen.add(following)
                ways.append([*way, following])
    return [name]


def _remarks(task: Task, names: set[str]) -> Iterator[Fault]:
    if not task.command and not task.script and not task.ready:
        yield _remark(task.at, f"{task.name} runs nothing", "it only joins the tasks it depends on")
    if "\r\n" in task.script:
        yield _remark(task.at, f"the script of {task.name} has Windows line endings", "most shells trip over them")
    if task.image and "@" not in task.image and task.image.rpartition("/")[2].partition(":")[2] in ("", "latest"):
        yield _remark(task.at, f"the image {task.image} may change", "name a version, or better a digest")
    edges: tuple[Depends | Cancels, ...] = (*task.depends, *task.cancels)
    for edge in edges:
        if edge.earlier and edge.task not in names:
            yield _remark(edge.at, f"no task is named {edge.task!r} now", "an earlier revision may have one")
    for other in task.cancels:
        if (other.max_in_a_row or other.max_age) and not (other.earlier and other.task == task.name):
            yield _remark(other.at, f"max_in_a_row and max_age spare {PREV}, never {_said(other, task)}")
    for wanted in task.depends:
        if wanted.earlier and wanted.when == FAILURE:
            yield _remark(wanted.at, f"{task.name} runs only if {_said(wanted, task)} has failed")


def _implied(tasks: Sequence[Task]) -> Iterator[Fault]:
    waits = _waits(tasks)
    for task in tasks:
        names = [edge.task for edge in _same_revision(task)]
        for edge in _same_revision(task):
            via = next((name for name in names if name != edge.task and waits(name, edge.task)), None)
            if via and not waits(edge.task, via):
                yield _remark(edge.at, f"{task.name} need not name {edge.task}", f"{via} waits for it already")


def _replaces_itself(task: Task) -> bool:
    return any(edge.earlier and edge.task == task.name for edge in task.cancels)


def _said(edge: Depends | Cancels, task: Task) -> str:
    """As the author wrote it."""
    if not edge.earlier:
        return edge.task
    return PREV if edge.task == task.name else f"{PREV}:{edge.task}"


def _known(names: set[str]) -> str:
    return f"there are: {', '.join(sorted(names)[:10])}" if names else ""


def _fault(at: Place, message: str, hint: str = "") -> Fault:
    return Fault(file=at.file, line=at.line, column=at.column, message=message, hint=hint)


_remark = _fault

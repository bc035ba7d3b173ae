"""What a task does, as its revision says it: never as a payload does.

A revision does not change, so its definitions are read once by each process.
"""

from __future__ import annotations

from typing import Any

from custody.errors import BadInput, Refused
from custody.kernel.model.job import Job
from custody.kernel.stores import Store
from custody.workflows.archives.port import read_workflows
from custody.workflows.archives.table import Archives, Kept
from custody.workflows.definition.definition import read
from custody.workflows.definition.task import ON_COMMIT, Definitions, Task

MOST_KEPT = 256


def definitions_of(store: Store, kept: Kept, revision: int) -> Definitions:
    key = (kept.system, kept.location, kept.uuid, revision)
    if (known := _read.get(key)) is None:
        known = read(read_workflows(Archives(store).open(kept), revision)[0])
        while len(_read) >= MOST_KEPT:
            _read.pop(next(iter(_read)), None)
        _read[key] = known
    return known


_read: dict[tuple[str, str, str, int], Definitions] = {}


def recipe_of(store: Store, kept: Kept, job: Job) -> dict[str, Any]:
    """The recipe of a task's job; refused when its revision has no such task."""
    given = job.payload
    definitions = definitions_of(store, kept, int(given["revision"]))
    if definitions.faults:
        raise BadInput(f"{definitions.faults[0]}; a later commit has to mend it", code="workflow.faults")
    among = definitions.on_commit if given["run"] == ON_COMMIT else definitions.workflows
    named = sorted(among, key=lambda workflow: workflow.file != given.get("file"))
    task = next((task for workflow in named if (task := workflow.task(given["task"]))), None)
    if task is None:
        raise Refused(f"revision {given['revision']} of {kept.name} has no task {given['task']}", code="job.forged")
    return recipe(task)


def recipe(task: Task) -> dict[str, Any]:
    """What a worker needs to run it, pinned to the revision and definition that were planned."""
    given = {
        "command": list(task.command),
        "script": task.script,
        "shell": task.shell,
        "env": dict(task.env),
        "network": task.network if isinstance(task.network, bool) else list(task.network),
        "timeout": task.timeout,
        "grace": task.grace,
        "retries": task.retries,
        "outputs": list(task.outputs),
        "output_limit": task.output_limit,
        "image": task.image,
        "secrets": list(task.secrets),
        "ready": task.ready,
    }
    # No grace is something else than none said.
    return {name: value for name, value in given.items() if value or name == "grace"}

"""Workflow definitions: what an archive's `_workflows` folder says at one revision.

    # _workflows/publish.yaml
    when: commit                # or manual, or schedule with a cron; a bare list of tasks means commit
    tasks:
      - name: index
        depends: [PREV]         # this task, in the nearest earlier revision that has it
        command: ark-index
      - name: build-pdf
        depends: [index]
        cancels: [PREV]         # a newer book replaces one still being made
        script: pandoc content/*.md -o dist/book.pdf

`read` takes all files of a revision and gives tasks, or every fault with its file, line and column. Where the
files come from is the archive's business (`archives/port.py`), what becomes of the tasks is planned in `plan.py`.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from custody.formats.text.strict_yaml import MOST_FILES, Fault, Faults, Listing, Node, Spot, Table
from custody.formats.text.strict_yaml import read as read_text
from custody.workflows.definition import checks, vocabulary
from custody.workflows.definition.fields import Fields
from custody.workflows.definition.task import (
    COMMIT,
    ON_COMMIT,
    ON_SCHEDULE,
    PREV,
    Definitions,
    Depends,
    Schedule,
    Task,
    Workflow,
)

FOLDER = "_workflows"
_ENDINGS = (".yaml", ".json")
_OF_A_RUN = ("image", "env", "network", "timeout", "retries", "outputs", "secrets")  # only for what runs


def read(files: Mapping[str, bytes]) -> Definitions:
    """The definitions in these files (path → content), checked one by one and against each other."""
    return _read(tuple(sorted(files.items())))


@lru_cache(maxsize=32)
def _read(files: tuple[tuple[str, bytes], ...]) -> Definitions:
    """Most revisions leave their workflow files alone, and reading them is most of the work of planning one."""
    if len(files) > MOST_FILES:
        hint = "none of them is read; put the tasks of several into one"
        too_many = Fault(
            file=files[-1][0],
            line=1,
            column=1,
            message=f"there are more than {MOST_FILES} workflow files in this revision",
            hint=hint,
        )
        return Definitions((), (too_many,), digest(dict(files)))
    workflows, faults = [], []
    for file, data in files:
        found = Faults(file)
        workflow = _workflow(data, found)
        faults += found.found
        if workflow:
            workflows.append(workflow)
    faults += checks.faults(workflows)
    faults.sort(key=lambda fault: (fault.file, fault.line, fault.column))
    return Definitions(tuple(workflows), tuple(faults), digest(dict(files)))


def lint(definitions: Definitions, paths: Iterable[str] = ()) -> tuple[Fault, ...]:
    """What is allowed but probably not meant. `paths` are the files found in `_workflows`."""
    ignored = [
        Fault(file=path, line=1, column=1, message="this file is not read", hint=_why_ignored(path))
        for path in paths
        if _near_miss(path)
    ]
    return (*ignored, *checks.remarks(definitions.workflows))


def is_workflow_file(path: str) -> bool:
    """Files directly in `_workflows` whose names end in .yaml or .json."""
    folder, name = posixpath.split(path.strip("/"))
    return folder == FOLDER and not name.startswith(".") and name.endswith(_ENDINGS)


def digest(files: Mapping[str, bytes]) -> str:
    """One hash for what a revision's workflow files say, their names included."""
    whole = hashlib.sha256()
    for name in sorted(files):
        whole.update(f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n".encode())
    return whole.hexdigest()


def _near_miss(path: str) -> bool:
    folder, name = posixpath.split(path.strip("/"))
    return folder.split("/")[0] == FOLDER and name.lower().endswith((*_ENDINGS, ".yml")) and not is_workflow_file(path)


def _why_ignored(path: str) -> str:
    return "rename it to .yaml" if path.lower().endswith(".yml") else f"it must be directly in {FOLDER}"


def _workflow(data: bytes, faults: Faults) -> Workflow | None:
    node = read_text(data, faults)
    if node is None:
        if not faults.found:
            faults.add(Spot(1, 1), "the file is empty", "a list of tasks, or a table with 'tasks'")
        return None
    if isinstance(node, Listing):
        said: dict[str, Any] = {"tasks": node}
    elif isinstance(node, Table):
        said = _file(node, faults)
    else:
        faults.add(node.at, "a list of tasks was expected", "or a table with 'tasks'")
        return None
    tasks, commit_depends = _tasks(said.get("tasks"), faults)
    return Workflow(
        file=faults.file,
        tasks=tasks,
        when=said.get("when", ON_COMMIT),
        schedule=_schedule(said),
        strict=said.get("order") == "strict",
        lines=said.get("lines", ()),
        commit_depends=commit_depends,
        hash=hashlib.sha256(data).hexdigest(),
    )


def _file(node: Table, faults: Faults) -> dict[str, Any]:
    table = Fields(node, faults, vocabulary.FILE)
    said = table.read()
    when = said.get("when", ON_COMMIT)
    given = {key.value for key, _ in node.pairs}
    if "tasks" not in given:
        faults.add(node.at, "'tasks' is missing")
    if when == ON_SCHEDULE and "cron" not in given:
        faults.add(table.at("when"), "a schedule needs a 'cron'", "such as cron: 0 3 * * *")
    for key in ("cron", "timezone", "overlap"):
        if key in given and when != ON_SCHEDULE:
            faults.add(table.at(key), f"{key!r} needs 'when: schedule'")
    for key in ("order", "lines"):
        if key in given and when != ON_COMMIT:
            faults.add(table.at(key), f"{key!r} is only for commits")
    return said


def _schedule(said: Mapping[str, Any]) -> Schedule | None:
    if said.get("when") != ON_SCHEDULE or "cron" not in said:
        return None
    return Schedule(said["cron"], said.get("timezone", "UTC"), said.get("overlap", "skip"))


def _tasks(node: Node | None, faults: Faults) -> tuple[tuple[Task, ...], tuple[Depends, ...]]:
    tasks: list[Task] = []
    commit: tuple[Depends, ...] = ()
    if node is not None and not isinstance(node, Listing):
        faults.add(node.at, "a list of tasks was expected")
    for item in node.items if isinstance(node, Listing) else ():
        if not isinstance(item, Table):
            faults.add(item.at, "a task was expected", "name: …")
            continue
        table = Fields(item, faults, vocabulary.TASK)
        said = table.read()
        if said.get("name") == COMMIT:
            commit += _commit(table, said)
        elif task := _task(table, said):
            tasks.append(task)
    return tuple(tasks), commit


def _task(table: Fields, said: dict[str, Any]) -> Task | None:
    name = said.get("name")
    given = {key.value for key, _ in table.table.pairs}
    if "name" not in given:
        table.faults.add(table.table.at, "a task needs a name")
    if name == PREV:
        table.faults.add(table.at("name"), f"{PREV} is reserved")
    if {"command", "script"} <= given:
        table.faults.add(table.at("script"), "a task has a command or a script, not both")
    if "ready" in given and {"command", "script"} & given:
        table.faults.add(table.at("ready"), "a ready-made task brings its own command")
    if "shell" in given and "script" not in given:
        table.faults.add(table.at("shell"), "a shell needs a script", "a command is run without one")
    if not {"command", "script"} & given:
        for key in (key for key in _OF_A_RUN if key in given):
            table.faults.add(table.at(key), f"{key!r} needs a command or a script")
    if name is None:
        return None
    for kind in ("depends", "cancels"):
        said[kind] = tuple(edge if edge.task else replace(edge, task=name) for edge in said.get(kind, ()))
    return Task(**said, at=table.place(table.table.at))


def _commit(table: Fields, said: Mapping[str, Any]) -> tuple[Depends, ...]:
    """An entry named COMMIT adds to what the commit itself waits for; its own revision's tasks come later."""
    for key, _ in table.table.pairs:
        if key.value not in ("name", "depends"):
            table.faults.add(key.at, f"{COMMIT} has only 'depends'")
    wanted: tuple[Depends, ...] = said.get("depends", ())
    for edge in wanted:
        if not edge.earlier:
            at = Spot(edge.at.line, edge.at.column)
            table.faults.add(at, f"{COMMIT} can only wait for earlier revisions", f"write {PREV}:{edge.task}")
    return tuple(edge for edge in wanted if edge.earlier and edge.task not in ("", COMMIT))

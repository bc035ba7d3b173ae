"""What an archive's workflow files can say: tasks, their edges, and when they run. Values only.

`definition.py` reads them from text, `plan.py` decides what becomes of them at a revision.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from custody.formats.text.strict_yaml import Fault

COMMIT, PREV = "COMMIT", "PREV"
ON_COMMIT, ON_DEMAND, ON_SCHEDULE = "commit", "manual", "schedule"
SUCCESS, FINISHED, FAILURE = "success", "finished", "failure"

QUICK = "quick"  # the lane for which every worker keeps a thread free
READY = ("index",)  # tasks that come with the program

# What a script may be given to.
SHELLS: Mapping[str, tuple[str, ...]] = {
    "sh": ("sh", "-eu"),
    "bash": ("bash", "-eu", "-o", "pipefail"),
    "dash": ("dash", "-eu"),
    "zsh": ("zsh", "-eu", "-o", "pipefail"),
    "python": ("python",),
    "python3": ("python3",),
    "perl": ("perl", "-w"),
    "ruby": ("ruby",),
    "node": ("node",),
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is written, for messages and for the pages that show it."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Depends:
    task: str  # the name waited for; COMMIT for the commit itself
    earlier: bool  # PREV or PREV:name: in the nearest earlier revision that has it
    when: str = SUCCESS  # or FINISHED, or FAILURE
    at: Place = field(default=Place("", 0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Cancels:
    task: str
    earlier: bool  # only in earlier revisions; otherwise also in this one
    max_in_a_row: int | None = None  # let one finish after so many were superseded one after another
    max_age: int | None = None  # or after none has finished for so many seconds
    at: Place = field(default=Place("", 0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Task:
    name: str
    depends: tuple[Depends, ...] = ()
    cancels: tuple[Cancels, ...] = ()
    image: str = ""
    command: tuple[str, ...] = ()
    script: str = ""
    shell: str = "sh"
    env: tuple[tuple[str, str], ...] = ()
    network: bool | tuple[str, ...] = False  # True: all that is granted
    timeout: int | None = None  # seconds
    grace: int = 10
    retries: int = 0
    lane: str = "main"
    blocking: bool | None = None  # None: as the file's `order` says
    outputs: tuple[str, ...] = ()
    output_limit: int = 64 * 1024 * 1024
    reentrant: bool = False
    secrets: tuple[str, ...] = ()
    ready: str = ""  # one of READY, instead of a command
    at: Place = field(default=Place("", 0, 0), compare=False)

    @property
    def argv(self) -> tuple[str, ...]:
        """The command, or the shell that is given the script; empty for a task that only joins others."""
        return SHELLS[self.shell] if self.script else self.command

    def as_dict(self) -> dict[str, Any]:
        """Everything that decides what the task does, in a stable form."""
        edges = {
            "depends": [[edge.task, edge.earlier, edge.when] for edge in self.depends],
            "cancels": [[edge.task, edge.earlier, edge.max_in_a_row, edge.max_age] for edge in self.cancels],
        }
        rest = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "at"}
        return rest | edges

    @property
    def hash(self) -> str:
        text = json.dumps(self.as_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Schedule:
    cron: str
    timezone: str = "UTC"
    overlap: str = "skip"  # or allow: start although the last one still runs


@dataclass(frozen=True, slots=True)
class Workflow:
    """One file."""

    file: str
    tasks: tuple[Task, ...]
    when: str = ON_COMMIT
    schedule: Schedule | None = None
    strict: bool = False  # `order: strict`: tasks block the next commit unless they say otherwise
    lines: tuple[str, ...] = ()  # paths that are lines of their own, e.g. trunk, branches/*
    commit_depends: tuple[Depends, ...] = ()  # what COMMIT itself waits for, besides the commit before
    hash: str = ""  # of the file's bytes

    @property
    def name(self) -> str:
        return posixpath.splitext(posixpath.basename(self.file))[0]

    def task(self, name: str) -> Task | None:
        return next((task for task in self.tasks if task.name == name), None)


@dataclass(frozen=True, slots=True)
class Definitions:
    """All workflow files of one revision. With any fault in them none of their tasks is planned."""

    workflows: tuple[Workflow, ...] = ()
    faults: tuple[Fault, ...] = ()
    hash: str = ""

    @property
    def on_commit(self) -> tuple[Workflow, ...]:
        return tuple(workflow for workflow in self.workflows if workflow.when == ON_COMMIT)

    @property
    def earlier(self) -> frozenset[str]:
        """The tasks that commits ask for in earlier revisions."""
        edges = [edge for workflow in self.on_commit for task in workflow.tasks for edge in task.depends]
        edges += [edge for workflow in self.on_commit for edge in workflow.commit_depends]
        return frozenset(edge.task for edge in edges if edge.earlier)

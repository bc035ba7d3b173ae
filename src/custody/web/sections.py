"""What the dashboard consists of, as data: navigation, assembly lines, and the routes that applications bring.

An application adds a `Section`; nothing else in this package needs to know it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fastapi import APIRouter

from custody.ingest.states import BATCH_KIND, JOB_KIND, STEPS
from custody.kernel.access.rules import Rule


@dataclass(frozen=True, slots=True)
class Station:
    """A place on a line: jobs of a kind in a state."""

    state: str
    title: str
    late: float = 900.0  # seconds after which a job that could be claimed should have been


@dataclass(frozen=True, slots=True)
class Line:
    """What jobs of one kind pass through, in order."""

    title: str
    kind: str
    stations: tuple[Station, ...]
    done: str  # the state at its end


@dataclass(frozen=True, slots=True)
class Section:
    """An entry of the navigation, with what belongs to it."""

    title: str
    path: str
    letter: str  # `g` and this letter go there
    line: Line | None = None
    groups: str = ""  # a kind of job that has others as its children, such as a batch
    routers: tuple[APIRouter, ...] = ()
    rules: Mapping[str, Rule] = field(default_factory=dict)
    right: str = ""  # what it needs; without it there is no such entry
    whole: bool = True  # shows all collections at once
    brief: Callable[[Any], str] | None = None  # a few words for the overview, given the site
    also: str = ""  # addresses that belong to it besides its own


INGEST: Final = Section(
    "Batches",
    "/batches",
    "b",
    whole=False,
    right="batch:read",
    line=Line("Deposits", JOB_KIND, tuple(Station(state, state.capitalize()) for state in STEPS), "completed"),
    groups=BATCH_KIND,
)

FIRST: Final = (Section("Overview", "/", "o", right="overview:read"),)
LAST: Final = (
    Section("Jobs", "/jobs", "j", whole=False, right="job:read"),
    Section("Items", "/items", "i", whole=False, right="item:read"),
    Section("Holds", "/holds", "h", right="hold:read"),
    Section("Workers", "/workers", "w", right="worker:read"),
    Section("Schedules", "/schedules", "s", right="schedule:read"),
    Section("History", "/events", "e", right="event:read", also="/history"),
)

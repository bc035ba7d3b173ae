"""What the dashboard consists of, as data: navigation, assembly lines, and the routes that applications bring.

An application adds a `Section`; nothing else in this package needs to know it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter

from custody.application import installed, load
from custody.kernel.access.caller import Caller
from custody.kernel.access.rules import Rule
from custody.kernel.model.event import Event
from custody.kernel.model.job import Job

if TYPE_CHECKING:
    from custody.web.fast_path import Way


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
class Attempt:
    """A try of a job that printed something on this machine."""

    number: int
    running: bool
    size: int


@dataclass(frozen=True, slots=True)
class File:
    name: str
    size: int
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """What the page of an application's job shows besides: what it printed, and what it left. `Any` is the site."""

    attempts: Callable[[Any, Job], Sequence[Attempt]]
    log: Callable[[Any, Job, int], bytes]  # all that one attempt printed so far
    outputs: Callable[[Any, Job], Sequence[File]]
    output: Callable[[Any, Job, str], Path]


@dataclass(frozen=True, slots=True)
class Share:
    """Of a bar that shows how far a group has come."""

    look: str
    count: int
    start: float
    width: float


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found."""

    sort: str  # "batch", "job", "item"
    id: str
    title: str
    link: str
    how: str  # by which of its names


@dataclass(frozen=True, slots=True)
class Section:
    """An entry of the navigation, with what belongs to it. Where a function is given the site, it is `Any` here."""

    title: str
    path: str
    letter: str  # `g` and this letter go there
    line: Line | None = None
    groups: str = ""  # a kind of job that has others as its children, such as a batch; its page is PATH/NUMBER
    routers: tuple[APIRouter, ...] = ()  # of its pages
    rules: Mapping[str, Rule] = field(default_factory=dict)
    right: str = ""  # what it needs; without it there is no such entry
    whole: bool = True  # shows all collections at once
    brief: Callable[[Any], str] | None = None  # a few words for the overview, given the site
    also: str = ""  # addresses that belong to it besides its own
    application: str = ""  # whose it is: its templates are asked for as APPLICATION/NAME.html
    templates: str = ""  # the package below which they are, in a folder `templates`
    api: tuple[APIRouter, ...] = ()  # of its part of the API
    short: tuple[Way, ...] = ()  # those of them for which there is a short way besides
    uploads: frozenset[str] = frozenset()  # addresses that take whole files
    panels: Mapping[str, Panel] = field(default_factory=dict)  # by kind of job, or prefix of kinds
    share: Callable[[Any, Job], tuple[Sequence[Share], str]] | None = None  # how far a group has come, and in words
    item: Callable[[Any, str], Mapping[str, Any]] | None = None  # what it has recorded of an item, for the item's page
    related: Callable[[Event], Iterable[str]] | None = None  # subjects to which an event leads on
    search: Callable[[Any, Caller, str], Iterable[Found]] | None = None  # by names that only it knows


def all_sections() -> tuple[Section, ...]:
    """Those of every application that is installed."""
    return tuple(load(application.section) for application in installed() if application.section)


FIRST: Final = (Section("Overview", "/", "o", right="overview:read"),)
LAST: Final = (
    Section("Jobs", "/jobs", "j", whole=False, right="job:read"),
    Section("Items", "/items", "i", whole=False, right="item:read"),
    Section("Holds", "/holds", "h", right="hold:read"),
    Section("Workers", "/workers", "w", right="worker:read"),
    Section("Schedules", "/schedules", "s", right="schedule:read"),
    Section("History", "/events", "e", right="event:read", also="/history"),
)

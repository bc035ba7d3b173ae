"""Outcomes: all that a handler may return. An exception, by contrast, means a surprise.

A handler never writes queue state. It says what happened; the job's machine says what that means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from custody.kernel.model.event import NewEvent
from custody.kernel.model.graph import Edge
from custody.kernel.model.item import NewItem
from custody.kernel.model.job import NewJob

Facts: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Passed:
    """The work of this state is done. What follows is saved with it, or nothing is."""

    detail: Facts = field(default_factory=dict)  # for the history
    keep: Facts = field(default_factory=dict)  # facts for later states
    then: Sequence[NewJob] = ()  # jobs that come of it
    items: Sequence[NewItem] = ()  # things the archive keeps from now on
    events: Sequence[NewEvent] = ()  # what happened to items
    priority: int | None = None
    lane: str | None = None
    place: str | None = None
    warning: bool = False  # passed, but someone should look
    forget: bool = False  # the job's row goes; its history stays
    look: tuple[str, str] | None = None  # a subscriber and an item: is it ready after all, now that its job is gone?


Done = Passed
"""The same, as one says it of a job with a single state."""


@dataclass(frozen=True, slots=True)
class Failed:
    """It did not work. Transient failures are tried again with growing pauses; others wait for a person."""

    code: str
    reason: str = ""
    transient: bool = False
    detail: Facts = field(default_factory=dict)
    keep: Facts = field(default_factory=dict)
    then: Sequence[NewJob] = ()
    events: Sequence[NewEvent] = ()


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing is wrong, but not now: for some seconds, or until other jobs have ended. The attempt is given back."""

    seconds: float
    why: str
    needs: Sequence[Edge] = ()
    keep: Facts = field(default_factory=dict)
    until: str = ""  # what would end it, if that is more than time


@dataclass(frozen=True, slots=True)
class Hold:
    """A person must look first; `release` brings the job back."""

    why: str


Outcome: TypeAlias = Passed | Failed | Wait | Hold

"""Events: one thing that happened to one subject; appended, never changed.

Each event has its place in its subject's own sequence, starting at 1 and without holes. For a job, folding
its events gives the row back (see `fold` in job.py); for an item, the newest event of each type decides
which subscribers may act.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Outcome = Literal["success", "failure", "warning", "none"]

OUTCOMES: Final[tuple[Outcome, ...]] = ("success", "failure", "warning", "none")


@dataclass(frozen=True, slots=True)
class Event:
    """One line of history, as it was written."""

    id: int
    subject: str  # "job/12", "item/ark:/99999/fk4x", "hold/collection/maps", "schedule/nightly"
    seq: int  # 1, 2, 3 … within the subject
    type: str
    outcome: Outcome
    agent: str  # who did it: a worker, a robot with its version, a person
    at: int  # the store's time, microseconds since 1970 (UTC)
    detail: Mapping[str, Any] = field(default_factory=dict)
    token: int = 0  # the job's token after this move
    move: str = ""  # the random id of the move that wrote it


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event to be appended to an item (jobs write theirs themselves, one per move)."""

    item: str
    type: str
    outcome: Outcome = "success"
    agent: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)
    seen: int | None = None  # the item's last change that was looked at; a later one makes this event old
    teller: str = ""  # the subscriber that says so: its own report is not news to itself


PREMIS: Final = "premis"
"""In the detail of an event that was taken over from elsewhere: all that was said there."""


def told_time(event: Event) -> str:
    """When an imported event happened, in the words of whoever recorded it; empty for our own."""
    record = event.detail.get(PREMIS)
    at = record.get("at") if isinstance(record, dict) else ""
    return at if isinstance(at, str) else ""


LARGEST: Final = 2**53 - 1
"""The largest whole number that every reader of JSON takes for the same: larger ones belong in text."""
DEEPEST: Final = 64


def unsealable(value: Any, where: str = "", depth: int = 0) -> str:
    """Why a detail could not be sealed, or nothing: it must read the same in any language and in thirty years."""
    if depth >= DEEPEST:  # one more is around it when it is sealed
        return f"it is nested more than {DEEPEST} deep"
    if isinstance(value, int | float) and not -LARGEST <= value <= LARGEST:
        return f"{where or 'it'} is {value}, which is not exact everywhere"
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    told = (unsealable(part, f"{where}.{name}" if where else f"{name}", depth + 1) for name, part in parts)
    return next((why for why in told if why), "")


def job_subject(job_id: int) -> str:
    return f"job/{job_id}"


def item_subject(item_id: str) -> str:
    return f"item/{item_id}"

"""Items: the things an archive keeps: objects, revisions, channels.

An item's content and its history draw numbers from one sequence. `changed` is the number of its last change
of content; recording an event takes a number but never moves `changed`, so a robot's own report can never
make an item look new. "Older than the last change" compares two numbers of that sequence, never two clocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from custody.kernel.model.event import Outcome


@dataclass(frozen=True, slots=True)
class Item:
    id: str
    types: frozenset[str]
    seq: int  # numbers given out so far
    changed: int  # the number of the last change of content (0: never)
    collection: str = ""
    fingerprint: str = ""  # of the content, as whoever changed it told us
    detail: Mapping[str, Any] = field(default_factory=dict)
    place: str = ""  # where its files are, as `root:relative/path`; "" if nobody has said


@dataclass(frozen=True, slots=True)
class NewItem:
    """An item to be made, or an existing one whose content changed."""

    id: str
    types: frozenset[str] = frozenset()
    collection: str = ""
    fingerprint: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)
    changed: bool = True
    place: str | None = None  # None: where it was. Only whoever stores items says it, never a robot


@dataclass(frozen=True, slots=True)
class Latest:
    """The newest event of one type on one item: all that a trigger looks at."""

    type: str
    seq: int
    outcome: Outcome
    seen: int | None = field(
        default=None, compare=False
    )  # the change that whoever did it had seen; None: everything before the event

"""What robots bring into the kernel."""

from __future__ import annotations

from typing import Final

from custody.kernel.applications import Part, Schema

PRIORITY: Final = "robot_priority"
"""The word in an item's detail that goes before what its robots say."""
_FIRST: Final = "says whose turn comes first"

PART: Final = Part(
    name="robots",
    schema=Schema("custody", "robots/schema", migrations=1),
    details={PRIORITY: _FIRST},
    notes={
        PRIORITY: _FIRST,
        "edited": "says which content a robot left, for the guard against loops",
        "left": "says which content a robot left, for the guard against loops",
        "rounds": "is the guard's against loops",
        "robots": "is the guard's against loops",
        "robot": "says who did it, and stands beside the event",
    },
    agents=("sweep",),
    reads=("robot:read",),
    acts=("robot:act",),
    forgets=("robot/",),
    in_archives=("robot/",),
)

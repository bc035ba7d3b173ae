"""Who acts: a value, never text that somebody hands in.

It is made in few places: by the web's gate from a token, by the command line from the user of the system, and from a
job that is held, whose follow-ups are made on the same behalf. A test looks for others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SYSTEM: Final = "system"


@dataclass(frozen=True, slots=True)
class Acting:
    by: str  # IDENTITY/name: token:12/ada, cli:1000/ada, schedule:nightly/ada; the part before / is unique
    agent: str  # who an event says did it


def system(agent: str) -> Acting:
    """The program itself, on nobody's behalf: what watches, reconciles and wakes robots."""
    return Acting(SYSTEM, agent)


PROGRAM: Final = system("")
"""Code that names nobody. It is the program's own; whoever lets others in has to say who they are."""


def identity_of(by: str) -> str:
    """The unique part of who acted."""
    return by.partition("/")[0]


def name_of(by: str) -> str:
    """The part that people read."""
    identity, _, name = by.partition("/")
    return name or identity

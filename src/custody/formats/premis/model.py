"""What a document says: events, agents and objects, each with all that was said about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

Identifier: TypeAlias = tuple[str, str]
"""(type, value), as PREMIS identifies everything."""
NOBODY: Final[Identifier] = ("", "")


@dataclass(frozen=True, slots=True)
class Term:
    """A word, and whose word it is: `authority`, `authorityURI` and `valueURI`, as far as they are told."""

    text: str
    source: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Link:
    """Whom or what an event concerns, and in which roles."""

    identifier: Identifier
    roles: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True)
class Passage:
    """Something told in words, in XML of somebody's own, or both."""

    text: str = ""
    extensions: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.text or self.extensions)


@dataclass(frozen=True, slots=True)
class Result:
    """One outcome of an event, with what is told about it."""

    word: Term = Term("")
    details: tuple[Passage, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.word.text or self.details)


@dataclass(frozen=True, slots=True)
class PremisEvent:
    """An event as somebody else recorded it."""

    identifier: Identifier
    type: Term
    at: str
    details: tuple[Passage, ...] = ()
    results: tuple[Result, ...] = ()
    agents: tuple[Link, ...] = ()
    objects: tuple[Link, ...] = ()
    line: int = 0
    why: str = ""
    """Why nothing is known that it is about, if it has no objects."""

    @property
    def called(self) -> str:
        """For people: its identifier, its type and where it stands."""
        name = " ".join(filter(None, self.identifier)) or "without an identifier"
        return f"{f'line {self.line}: ' if self.line else ''}event {name} ({self.type.text or 'without a type'})"


@dataclass(frozen=True, slots=True)
class PremisAgent:
    identifiers: tuple[Identifier, ...]
    names: tuple[str, ...] = ()
    type: Term = Term("")
    version: str = ""
    notes: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PremisObject:
    identifiers: tuple[Identifier, ...]
    events: tuple[Identifier, ...] = ()
    """Those that it says it was part of."""


@dataclass(frozen=True, slots=True)
class Premis:
    """What a document says, and what in it was not understood."""

    events: tuple[PremisEvent, ...] = ()
    objects: tuple[PremisObject, ...] = ()
    agents: tuple[PremisAgent, ...] = ()
    losses: tuple[str, ...] = ()
    """What is there and could not be read, each with its place."""
    refers: tuple[str, ...] = ()
    """Other files in which it says that more of it stands."""
    root: str = ""

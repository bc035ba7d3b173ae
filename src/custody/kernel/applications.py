"""What applications bring into the kernel: tables, statements and words, as values. The kernel names none of them.

A process has one set of applications. Whoever composes it may give them (`install`); otherwise they are those that the
program comes with, and they are asked for when they are first needed: a store that was opened with fewer would take a
reserved word for a free one, or lack a statement in the middle of somebody's work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module

import custody


@dataclass(frozen=True, slots=True)
class Schema:
    """Where an application's SQL lies: a folder with statements.sql, and with sqlite/ and postgres/ for what differs:
    migrations NNNN_name.sql, what they come to (schema.sql), and statements.sql where it is said to be there."""

    package: str  # the topmost: nothing of the application is imported for its SQL
    folder: str  # in it
    migrations: int = 0  # how many there are: one that is missing is an error, not a smaller store
    overrides: tuple[str, ...] = ()  # the databases that have statements of their own


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One application, as the kernel sees it. Words are given with a sentence on who reads or records them."""

    name: str
    schema: Schema
    details: Mapping[str, str] = field(default_factory=dict)  # words in an item's detail that only it may set
    notes: Mapping[str, str] = field(default_factory=dict)  # words in an event's detail that only it may note
    events: Mapping[str, str] = field(default_factory=dict)  # types of events that only it records
    events_with: Mapping[str, str] = field(default_factory=dict)  # the same of types that begin with such a word
    agents: tuple[str, ...] = ()  # names under which it acts by itself: no token's
    reads: tuple[str, ...] = ()  # rights of whoever may look
    acts: tuple[str, ...] = ()  # rights of whoever may act
    forgets: tuple[str, ...] = ()  # prefixes of kinds whose jobs leave no row when they have passed
    deposits: tuple[str, ...] = ()  # kinds by which something is handed in to a collection
    in_archives: tuple[str, ...] = ()  # prefixes of kinds that work on what an archive's collection holds
    archive_named: str = ""  # the statement that finds an archive by its :name
    archive_list: str = ""  # the statement that lists all of them, the name first
    is_named: str = ""  # the statement that finds anything of its own by the identifier :name


_given: tuple[Part, ...] | None = None
_changed: list[Callable[[], None]] = []


def installed() -> tuple[Part, ...]:
    """Those of this process, by name."""
    return _given if _given is not None else install(import_module(custody.INSTALLED).parts())


def install(parts: Iterable[Part] | None) -> tuple[Part, ...]:
    """Give this process its applications, in place of those before; None: those that the program comes with, when they
    are next asked for."""
    global _given
    _given = None if parts is None else tuple(sorted(parts, key=lambda part: part.name))
    for forget in _changed:
        forget()
    return _given or ()


def when_changed(forget: Callable[[], None]) -> None:
    """Have what was worked out from the applications forgotten when there are others."""
    _changed.append(forget)


def merged(own: Mapping[str, str], of: Callable[[Part], Mapping[str, str]]) -> dict[str, str]:
    """The kernel's words, and those of all applications after them."""
    return {word: told for words in (own, *map(of, installed())) for word, told in words.items()}


def gathered(of: Callable[[Part], tuple[str, ...]]) -> tuple[str, ...]:
    """What all applications say of one thing."""
    return tuple(each for part in installed() for each in of(part))

"""Numbered migrations, each applied and recorded in one transaction: killed anywhere, it is there or it is not.

The kernel has a line of them, and each application one of its own. There was one line for all once: what an application
had in it stands in its own line now and says so in its first line (`-- was: 0005`). Where a store is still on the way
through that line it is followed in its old order, under its old numbers: whatever is left behind when a start is killed
there is a store that there was before, which the program of that time understands as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from custody.errors import NotFound, Unavailable, Unsafe
from custody.kernel.applications import installed, when_changed
from custody.kernel.stores.sql.statements import folder_of

KERNEL = 22
"""How many numbers there are in the kernel's line ..."""
MOVED = frozenset((2, 4, 9, 14, 19, 20))
"""... with those that are applications' now."""
LINES = 21
"""The one with which applications have lines of their own."""
_FILE = re.compile(r"(\d{4})_(.+)\.sql")
_WAS = re.compile(r"-- was: (\d{4})\n")


@dataclass(frozen=True, slots=True)
class Script:
    """A migration. `place` is its number in the line that there was for all, and that is the kernel's; 0: none."""

    line: str  # the application's name; empty: the kernel's
    number: int
    name: str
    text: str
    place: int = 0


@dataclass(frozen=True, slots=True)
class Reached:
    """What a store has behind it."""

    numbers: frozenset[int] = frozenset()  # of the line that there was for all, and that is the kernel's
    lines: frozenset[tuple[str, int]] = frozenset()  # of applications


@dataclass(frozen=True, slots=True)
class Step:
    """One transaction: a script to run, or only to be noted since it ran under its old number; and what is recorded."""

    script: Script
    is_run: bool
    is_numbered: bool  # recorded by its place, not in its application's line

    @property
    def record(self) -> tuple[str, tuple[str | int, ...]]:
        """The table, and the values before the time."""
        if self.is_numbered:
            return "schema_version", (self.script.place,)
        return "application_version", (self.script.line, self.script.number)


@cache
def migrations(dialect: str) -> tuple[Script, ...]:
    """All of them in the order in which a new store is built: what has a place by it, then each application's."""
    own = resources.files("custody.kernel.stores") / dialect / "migrations"
    found = [Script("", *each, place=each[0]) for each in _read(own, set(range(1, KERNEL + 1)) - MOVED)]
    for part in installed():
        if part.schema.migrations:
            folder = folder_of(part.schema) / dialect
            for number, name, text in _read(folder, set(range(1, part.schema.migrations + 1))):
                was = _WAS.match(text)
                found.append(
                    Script(line=part.name, number=number, name=name, text=text, place=int(was[1]) if was else 0)
                )
    return tuple(sorted(found, key=lambda script: (script.place or KERNEL + 1, script.line, script.number)))


def _read(folder: Traversable, numbers: set[int]) -> list[tuple[int, str, str]]:
    """Those that must be there: without one of them a store would be built that lacks a table."""
    files = {file.name: file for file in folder.iterdir()} if folder.is_dir() else {}
    found = [(int(match[1]), match[2], files[name].read_text()) for name in files if (match := _FILE.fullmatch(name))]
    if sorted(number for number, *_ in found) != sorted(numbers):
        odd = min(numbers ^ {number for number, *_ in found}, default=0)
        raise Unavailable(
            f"this installation has other migrations in {folder} than it should: look at {odd:04}",
            code="store.migrations",
            hint="install the program again, all of it",
        )
    return sorted(found)


def missing(what: str) -> NotFound:
    return NotFound(
        what,
        code="store.missing",
        hint="is the address right? A store is made by whatever first uses it, or by custody store migrate",
    )


def statements_of(script: str) -> Iterator[str]:
    """The statements of a script, one by one (no statement of ours contains a semicolon inside)."""
    for part in re.sub(r"--[^\n]*", "", script).split(";"):
        if part.strip():
            yield part.strip()


def next_step(dialect: str, reached: Reached) -> Step | None:
    """What a store that has come so far needs next; None: nothing. Refuses a store from the future."""
    known = migrations(dialect)
    _must_not_be_newer(known, reached)
    last = max(reached.numbers, default=0)
    # An application that came when the store had left its place behind is not on that way any more.
    late = {script.line for script in known if script.line and script.place <= last and not _is_there(script, reached)}
    for script in known:
        if script.place and script.line not in late and script.place not in reached.numbers:
            return Step(script, is_run=True, is_numbered=True)
    for script in known if LINES in reached.numbers else ():
        if script.line and (script.line, script.number) not in reached.lines:
            return Step(script, is_run=script.place not in reached.numbers, is_numbered=False)
    return None


def _is_there(script: Script, reached: Reached) -> bool:
    return not script.place or script.place in reached.numbers


def _must_not_be_newer(known: tuple[Script, ...], reached: Reached) -> None:
    newest = max(script.place for script in known)
    if (version := max(reached.numbers, default=0)) > newest:
        raise Unsafe(
            f"this store has schema {version}, newer than this program knows ({newest})",
            code="store.newer",
            hint="upgrade this program; an older one must not write to a newer store",
        )
    for part in installed():
        version = max((number for line, number in reached.lines if line == part.name), default=0)
        if version > part.schema.migrations:
            raise Unsafe(
                f"this store has schema {version} of {part.name}, newer than the installed one knows "
                f"({part.schema.migrations})",
                code="store.newer",
                hint=f"upgrade {part.name}; an older one must not write to a newer store",
            )


when_changed(migrations.cache_clear)

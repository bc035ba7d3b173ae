"""Reads the fields of a table in a workflow file, and the plain values: texts, names, numbers, times, sizes, lists.

One small function per kind of value. A value that is wrong is reported and left out, so that the rest of the file is
still read and all of its faults are told together. Which fields there are is told in `vocabulary.py`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from custody.formats.text.strict_yaml import Faults, Listing, Node, Spot, Table, Text
from custody.workflows.definition.task import Place

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
_DURATION = re.compile(r"(?:(\d{1,4})d)?(?:(\d{1,5})h)?(?:(\d{1,6})m)?(?:(\d{1,8})s?)?\Z")
_SIZE = re.compile(r"(\d{1,12})\s*(|[KMG]i?)B?\Z")
_UNITS = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "Ki": 1024, "Mi": 1024**2, "Gi": 1024**3}
_LONGEST = 30 * 24 * 3600

T = TypeVar("T")


class Wrong(Exception):
    """This value cannot be used."""

    def __init__(self, node: Node, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.node, self.message, self.hint = node, message, hint


class Fields:
    """Reads the fields of one table."""

    def __init__(self, table: Table, faults: Faults, known: Mapping[str, Callable[[Fields, Node], Any]]) -> None:
        self.table = table
        self.faults = faults
        self._known = known
        self._nodes = {key.value: value for key, value in table.pairs}

    def read(self) -> dict[str, Any]:
        """The values of all fields that are right."""
        values = {}
        for key, node in self.table.pairs:
            reader = self._known.get(key.value)
            if reader is None:
                self.faults.add(key.at, f"unknown key {key.value!r}", self._guess(key.value))
            elif isinstance(node, Text) and node.plain and node.value in ("", "~", "null"):
                self.faults.add(key.at, f"{key.value!r} has no value")
            else:
                try:
                    values[key.value] = reader(self, node)
                except Wrong as error:
                    self.tell(error)
        return values

    def at(self, key: str) -> Spot:
        """Where the value of a key stands; where the table begins if there is none."""
        return self._nodes[key].at if key in self._nodes else self.table.at

    def place(self, at: Spot) -> Place:
        return Place(self.faults.file, at.line, at.column)

    def tell(self, error: Wrong) -> None:
        self.faults.add(error.node.at, error.message, error.hint)

    def _guess(self, key: str) -> str:
        if key == "on":
            return "did you mean 'when'?"
        close = difflib.get_close_matches(key, self._known, n=1)
        return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(self._known))}"


# Plain values.


def text(fields: Fields, node: Node) -> str:
    if isinstance(node, Text):
        return node.value
    raise Wrong(node, "text was expected")


def name(fields: Fields, node: Node) -> str:
    value = text(fields, node)
    if NAME.match(value):
        return value
    raise Wrong(node, f"{value!r} is not a name", "letters, digits, '.', '_', '-'; up to 128")


def flag(fields: Fields, node: Node) -> bool:
    if isinstance(node, Text) and node.plain and node.value in ("true", "false"):
        return node.value == "true"
    raise Wrong(node, "true or false was expected")


def whole(low: int, high: int) -> Callable[[Fields, Node], int]:
    def read(fields: Fields, node: Node) -> int:
        if isinstance(node, Text) and node.plain and re.fullmatch(r"0|[1-9]\d{0,9}", node.value):
            value = int(node.value)
            if low <= value <= high:
                return value
        raise Wrong(node, f"a whole number from {low} to {high} was expected")

    return read


def seconds(fields: Fields, node: Node) -> int:
    found = _DURATION.match(node.value) if isinstance(node, Text) and node.value else None
    if found:
        days, hours, minutes, rest = (int(part or 0) for part in found.groups())
        value = days * 86400 + hours * 3600 + minutes * 60 + rest
        if value <= _LONGEST:
            return value
    raise Wrong(node, "a length of time was expected", "such as 90s, 30m, 2h or 1h30m; at most 30d")


def some_seconds(fields: Fields, node: Node) -> int:
    if value := seconds(fields, node):
        return value
    raise Wrong(node, "a second at least was expected", "leave it out for no limit")


def size(fields: Fields, node: Node) -> int:
    found = _SIZE.match(node.value) if isinstance(node, Text) else None
    value = int(found.group(1)) * _UNITS[found.group(2)] if found else 0
    if 4096 <= value <= 1024**4:
        return value
    raise Wrong(node, "a size was expected", "such as 64MiB; from 4KiB to 1TiB")


def one_of(*words: str) -> Callable[[Fields, Node], str]:
    def read(fields: Fields, node: Node) -> str:
        value = text(fields, node)
        if value in words:
            return value
        raise Wrong(node, f"{value!r} is not one of {', '.join(words)}")

    return read


def many(item: Callable[[Fields, Node], T]) -> Callable[[Fields, Node], tuple[T, ...]]:
    """A list; a single value is a list of one."""

    def read(fields: Fields, node: Node) -> tuple[T, ...]:
        nodes = node.items if isinstance(node, Listing) else (node,)
        found = []
        for one in nodes:
            try:
                found.append(item(fields, one))
            except Wrong as error:
                fields.tell(error)
        return tuple(found)

    return read

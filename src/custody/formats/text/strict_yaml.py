"""Reads the text of a workflow file into values that remember where they stood.

Workflow files are written by anyone who can commit, so the reader takes only the plain part of YAML: no
anchors, aliases, tags or directives, no duplicate keys, one document, limited size and depth. Scalars stay
text; what a `5m` or a `true` means is decided by the field it is written in (`fields.py`), so nothing turns
into a date, an octal number or a truth value behind the author's back.

JSON files have their own small reader, because every fault must be told with its line and column and the
standard one forgets them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

LARGEST = 256 * 1024
MOST_FILES = 256  # in one revision
DEEPEST = 32


@dataclass(frozen=True, slots=True)
class Spot:
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Text:
    value: str
    at: Spot
    plain: bool = False  # written without quotes


@dataclass(frozen=True, slots=True)
class Listing:
    items: tuple[Node, ...]
    at: Spot


@dataclass(frozen=True, slots=True)
class Table:
    pairs: tuple[tuple[Text, Node], ...]
    at: Spot


Node = Text | Listing | Table


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with a workflow file."""

    file: str
    line: int
    column: int
    message: str
    hint: str = ""

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.file}:{self.line}:{self.column}: {self.message}{hint}"


class Faults:
    """Collects what is wrong, so that an author sees all of it at once."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.found: list[Fault] = []

    def add(self, at: Spot, message: str, hint: str = "") -> None:
        self.found.append(Fault(file=self.file, line=at.line, column=at.column, message=message, hint=hint))


class _Unreadable(Exception):
    """The text cannot be understood from here on."""

    def __init__(self, at: Spot, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.at, self.message, self.hint = at, message, hint


def read(data: bytes, faults: Faults) -> Node | None:
    """The file's one value, or nothing if it cannot be read at all. What is wrong is added to `faults`."""
    try:
        text = _decoded(data)
        node = _read_json(text) if faults.file.endswith(".json") else _read_yaml(text, faults)
        if node is not None:
            _refuse_duplicates(node, faults)
        return node
    except _Unreadable as error:
        faults.add(error.at, error.message, error.hint)
        return None


def _decoded(data: bytes) -> str:
    if len(data) > LARGEST:
        raise _Unreadable(Spot(1, 1), f"the file is larger than {LARGEST // 1024} KiB")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        at = Spot(before.count(b"\n") + 1, error.start - before.rfind(b"\n"))
        raise _Unreadable(at, "this is not UTF-8 text") from None


def _refuse_duplicates(node: Node, faults: Faults) -> None:
    if isinstance(node, Listing):
        for item in node.items:
            _refuse_duplicates(item, faults)
    if isinstance(node, Table):
        seen: dict[str, Spot] = {}
        for key, value in node.pairs:
            if key.value in seen:
                faults.add(key.at, f"{key.value!r} is given twice", f"first in line {seen[key.value].line}")
            seen.setdefault(key.value, key.at)
            _refuse_duplicates(value, faults)


# YAML: the parser's events, made into values.


def _read_yaml(text: str, faults: Faults) -> Node | None:
    events = _events(text)
    try:
        node = _document(events, faults)
        for event in events:
            if type(event).__name__ == "DocumentStartEvent":
                raise _Unreadable(_spot(event), "a second document begins here", "one file, one workflow")
        return node
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = Spot(mark.line + 1, mark.column + 1) if mark else Spot(1, 1)
        raise _Unreadable(at, f"not valid YAML: {error.problem or error.context}") from None
    except (YAMLError, ValueError) as error:
        raise _Unreadable(Spot(1, 1), f"not valid YAML: {str(error).splitlines()[0]}") from None


def _events(text: str) -> Iterator[Any]:
    return iter(YAML(typ="safe", pure=True).parse(text))


def _document(events: Iterator[Any], faults: Faults) -> Node | None:
    for event in events:
        match type(event).__name__:
            case "StreamStartEvent":
                continue
            case "DocumentStartEvent":
                if event.version or event.tags:
                    faults.add(_spot(event), "directives are not allowed")
                return _node(next(events), events, faults, 1)
    return None


def _node(event: Any, events: Iterator[Any], faults: Faults, depth: int) -> Node:
    at = _spot(event)
    if depth > DEEPEST:
        raise _Unreadable(at, f"nested more than {DEEPEST} deep")
    if getattr(event, "anchor", None):
        faults.add(at, "anchors and aliases are not allowed", "write it out")
    if getattr(event, "tag", None):
        faults.add(at, f"tags such as {event.tag!r} are not allowed")
    match type(event).__name__:
        case "SequenceStartEvent":
            return Listing(tuple(_items(events, faults, depth)), at)
        case "MappingStartEvent":
            return Table(tuple(_pairs(events, faults, depth)), at)
        case "ScalarEvent":
            return Text(event.value, at, plain=event.style is None)
        case _:  # an alias, already refused
            return Text("", at)


def _items(events: Iterator[Any], faults: Faults, depth: int) -> Iterator[Node]:
    while type(event := next(events)).__name__ != "SequenceEndEvent":
        yield _node(event, events, faults, depth + 1)


def _pairs(events: Iterator[Any], faults: Faults, depth: int) -> Iterator[tuple[Text, Node]]:
    while type(event := next(events)).__name__ != "MappingEndEvent":
        key = _node(event, events, faults, depth + 1)
        value = _node(next(events), events, faults, depth + 1)
        if isinstance(key, Text):
            yield key, value
        else:
            faults.add(key.at, "a key must be plain text")


def _spot(event: Any) -> Spot:
    return Spot(event.start_mark.line + 1, event.start_mark.column + 1)


# JSON.

_JSON = json.JSONDecoder(strict=True)
_SPACE = re.compile(r"[ \t\r\n]*")
_WORD = re.compile(r"-?(?:0|[1-9]\d{0,18})(?:\.\d{1,18})?(?:[eE][+-]?\d{1,3})?(?![\w.])|true\b|false\b|null\b")


def _read_json(text: str) -> Node:
    if text.startswith("\ufeff"):
        raise _Unreadable(Spot(1, 1), "the file begins with a byte order mark", "save it as plain UTF-8")
    node, end = _Json(text).value(_skip(text, 0), 1)
    end = _skip(text, end)
    if end < len(text):
        raise _Unreadable(_place(text, end), "not valid JSON: something follows the value")
    return node


class _Json:
    def __init__(self, text: str) -> None:
        self._text = text

    def value(self, start: int, depth: int) -> tuple[Node, int]:
        at = _place(self._text, start)
        if depth > DEEPEST:
            raise _Unreadable(at, f"nested more than {DEEPEST} deep")
        match self._text[start : start + 1]:
            case "{":
                return self._table(start, depth, at)
            case "[":
                return self._listing(start, depth, at)
            case '"':
                text, end = self._string(start)
                return Text(text, at), end
        word = _WORD.match(self._text, start)
        if not word:
            raise _Unreadable(at, "not valid JSON: a value was expected")
        return Text(word.group(), at, plain=True), word.end()

    def _listing(self, start: int, depth: int, at: Spot) -> tuple[Node, int]:
        items: list[Node] = []
        end = _skip(self._text, start + 1)
        while self._text[end : end + 1] != "]" or items:
            item, end = self.value(end, depth + 1)
            items.append(item)
            end, more = self._separator(end, "]")
            if not more:
                return Listing(tuple(items), at), end
        return Listing((), at), end + 1

    def _table(self, start: int, depth: int, at: Spot) -> tuple[Node, int]:
        pairs: list[tuple[Text, Node]] = []
        end = _skip(self._text, start + 1)
        while self._text[end : end + 1] != "}" or pairs:
            key_at = _place(self._text, end)
            if self._text[end : end + 1] != '"':
                raise _Unreadable(key_at, "not valid JSON: a key in quotes was expected")
            key, end = self._string(end)
            end = self._expect(_skip(self._text, end), ":")
            value, end = self.value(_skip(self._text, end), depth + 1)
            pairs.append((Text(key, key_at), value))
            end, more = self._separator(end, "}")
            if not more:
                return Table(tuple(pairs), at), end
        return Table((), at), end + 1

    def _separator(self, end: int, closing: str) -> tuple[int, bool]:
        """Behind a comma, or behind the closing bracket."""
        end = _skip(self._text, end)
        if self._text[end : end + 1] == closing:
            return end + 1, False
        return _skip(self._text, self._expect(end, ",")), True

    def _expect(self, end: int, sign: str) -> int:
        if self._text[end : end + 1] != sign:
            raise _Unreadable(_place(self._text, end), f"not valid JSON: {sign!r} was expected")
        return end + 1

    def _string(self, start: int) -> tuple[str, int]:
        try:
            text, end = _JSON.raw_decode(self._text, start)
            text.encode("utf-8")  # half a character cannot be written down again
            return text, end
        except json.JSONDecodeError as error:
            raise _Unreadable(_place(self._text, error.pos), f"not valid JSON: {error.msg}") from None
        except UnicodeEncodeError:
            raise _Unreadable(_place(self._text, start), "not valid JSON: half a character") from None


def _skip(text: str, start: int) -> int:
    found = _SPACE.match(text, start)
    return found.end() if found else start


def _place(text: str, position: int) -> Spot:
    return Spot(text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position))

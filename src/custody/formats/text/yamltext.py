"""YAML 1.2, read event by event, so that nothing is built that was not asked for.

The scanner and parser are ruamel.yaml's; what their events become is decided here. `readers.read_yaml` is the
way in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from custody.errors import BadInput
from custody.formats.names import shown
from custody.formats.text.faults import fault

NODES = 50_000  # the parser needs about a second for so many

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
# As in JSON. A number with leading zeros is more often an identifier, and stays text.
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,19})")
_FRACTION = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[+-]?\.(?:inf|nan)", re.IGNORECASE)


class YamlReader:
    """Reads one document."""

    def __init__(self, text: str, where: str, depth: int) -> None:
        self._text = text
        self._where = where
        self._depth = depth
        self._nodes = 0
        self._events = self._parsed()

    def read(self) -> Any:
        next(self._events)  # the stream begins
        start = next(self._events)
        if isinstance(start, StreamEndEvent):
            return None
        if not isinstance(start, DocumentStartEvent) or start.tags or start.version not in (None, (1, 2)):
            raise self._fault("yaml.directive", "a directive (%…) is not accepted", start)
        value = self._node(next(self._events), 1)
        next(self._events)  # the document ends
        after = next(self._events)
        if not isinstance(after, StreamEndEvent):
            raise self._fault("yaml.documents", "more than one document", after)
        return value

    def _parsed(self) -> Iterator[Event]:
        try:
            yield from YAML(typ="safe", pure=True).parse(self._text)
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            problem = shown(str(error.problem or error.context or "it cannot be read"), 200)
            line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
            raise fault("yaml.syntax", problem, self._where, line, column=column) from error
        except Exception as error:
            # Characters YAML does not have, for which ruamel knows no line; escapes beyond Unicode, which it
            # does not catch. Whatever it stumbles over is the text's fault.
            raise fault("yaml.syntax", shown(str(error).partition("\n")[0], 200), self._where) from error

    def _node(self, event: Event, depth: int) -> Any:
        self._check(event, depth)
        if isinstance(event, SequenceStartEvent):
            return self._sequence(depth)
        if isinstance(event, MappingStartEvent):
            return self._mapping(depth)
        if isinstance(event, ScalarEvent):
            return self._scalar(event)
        raise self._fault("yaml.syntax", "a value is missing", event)

    def _check(self, event: Event, depth: int) -> None:
        if isinstance(event, AliasEvent):
            raise self._fault("yaml.anchor", "an alias (*…) is not accepted", event)
        if isinstance(event, NodeEvent) and event.anchor is not None:
            raise self._fault("yaml.anchor", "an anchor (&…) is not accepted", event)
        if getattr(event, "ctag", None) is not None:
            raise self._fault("yaml.tag", "a tag (!…) is not accepted", event)
        if depth > self._depth and isinstance(event, (SequenceStartEvent, MappingStartEvent)):
            raise self._fault("yaml.depth", f"nested more than {self._depth} deep", event)
        self._nodes += 1
        if self._nodes > NODES:
            raise self._fault("yaml.size", f"more than {NODES} values", event)

    def _sequence(self, depth: int) -> list[Any]:
        values = []
        while not isinstance(event := next(self._events), SequenceEndEvent):
            values.append(self._node(event, depth + 1))
        return values

    def _mapping(self, depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        while not isinstance(event := next(self._events), MappingEndEvent):
            key = self._key(event, depth)
            if key in values:
                raise self._fault("yaml.duplicate_key", f"the key '{shown(key)}' comes twice", event)
            values[key] = self._node(next(self._events), depth + 1)
        return values

    def _key(self, event: Event, depth: int) -> str:
        self._check(event, depth + 1)
        key = self._scalar(event) if isinstance(event, ScalarEvent) else None
        if not isinstance(event, ScalarEvent) or not isinstance(key, str):
            raise self._fault("yaml.key", "a key must be text", event, "put it in quotes")
        if key == "<<" and event.style is None:
            raise self._fault("yaml.merge", "a merge key (<<) is not accepted", event)
        return key

    def _scalar(self, event: ScalarEvent) -> str | int | float | bool | None:
        text: str = event.value
        if event.style is not None:
            return self._text_of(text, event)
        if text in _WORDS:
            return _WORDS[text]
        if _WHOLE.fullmatch(text):
            return self._whole(text, event)
        if _FRACTION.fullmatch(text):
            return self._finite(float(text), event)
        if _NOT_FINITE.fullmatch(text):
            raise self._fault("yaml.number", "infinity and NaN are not accepted", event)
        return self._text_of(text, event)

    def _whole(self, text: str, event: Event) -> int:
        number = int(text)
        if not -(2**63) <= number < 2**63:
            raise self._fault("yaml.number", "the number does not fit in 64 bits", event, "put it in quotes")
        return number

    def _finite(self, number: float, event: Event) -> float:
        if number in (float("inf"), float("-inf")):
            raise self._fault("yaml.number", "the number is too large", event, "put it in quotes")
        return number

    def _text_of(self, text: str, event: Event) -> str:
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise self._fault("yaml.encoding", "half of a character (a lone surrogate)", event) from error
        return text

    def _fault(self, code: str, message: str, event: Event, hint: str = "") -> BadInput:
        mark = event.start_mark
        return fault(code, message, self._where, mark.line + 1, column=mark.column + 1, hint=hint)

"""Rows in, values out. JSON is text in both databases; times are integers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Protocol

from custody.model.errors import BadInput
from custody.model.event import DEEPEST, Event, unsealable
from custody.model.item import Item, Latest
from custody.model.job import HeldBy, Job, is_text
from custody.model.json_text import json_text
from custody.model.lease import Lease
from custody.model.quick import quick

Row = Sequence[Any]


class Tx(Protocol):
    """One transaction: named statements, and one time."""

    @property
    def now(self) -> int: ...

    def new_move(self) -> str:
        """A random id for a move, by which it can be found again after a lost answer."""
        ...

    def run(self, name: str, /, **values: Any) -> list[Row]:
        """The rows of a named statement."""
        ...


def dumps(value: Mapping[str, Any], where: str = "") -> str:
    """As JSON, the same for the same value; `where` is named if it cannot be."""
    if not value:
        return "{}"
    try:
        text = json_text(value)
        if is_text(text):
            return text
        problem = "it holds half a character"
    except (TypeError, ValueError, RecursionError) as error:
        problem = str(error)
    raise BadInput(f"this cannot be kept as JSON: {problem}", code="value.json", where=where)


_ODD_NUMBER = re.compile(r"[0-9]{16}|[0-9][eE]")  # perhaps: a text may hold as much


def event_text(detail: Mapping[str, Any]) -> str:
    """An event's detail as JSON; what could never be sealed is refused here, not left out there."""
    text = dumps(detail, "event detail")
    if _ODD_NUMBER.search(text) or text.count("[") + text.count("{") >= DEEPEST:
        why = unsealable(json.loads(text))
        if why:
            raise BadInput(
                f"this cannot be written into the history: {why}", code="event.value", where="event detail",
                hint="write a number beyond 2**53 as text",
            )  # fmt: skip
    return text


_DECODE = json.JSONDecoder().raw_decode  # a third of the price of json.loads: we wrote the text ourselves


def loads(text: str) -> dict[str, Any]:
    """The value; a text that someone has spoilt is handed on as it is, so that one bad row stops nobody's loop."""
    if text == "{}":
        return {}
    try:
        value = _DECODE(text)[0]
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {UNREADABLE: text}


UNREADABLE = "unreadable"


def job_from(row: Row) -> Job:
    """In the order of the fragment job_columns, which is that of the fields."""
    values = list(row)
    values[RUNNABLE] = row[RUNNABLE] == 1
    values[SUPERSEDES] = row[SUPERSEDES] > 0
    values[PAYLOAD], values[FACTS] = loads(row[PAYLOAD]), loads(row[FACTS])
    return _job(*values)


_job = quick(Job)  # every claimed job passes through here
_NAMES = [field.name for field in fields(Job)]
RUNNABLE, PAYLOAD, FACTS, SUPERSEDES = map(_NAMES.index, ("runnable", "payload", "facts", "supersedes"))


_event = quick(Event)  # every event that is sealed or verified passes through here


def event_from(row: Row) -> Event:
    id_, subject, seq, type_, outcome, agent, at, detail, token, move = row
    return _event(id_, subject, seq, type_, outcome, agent, at, loads(detail), token, move)


def item_from(row: Row) -> Item:
    id_, types, collection, seq, changed, fingerprint, detail, place = row
    return Item(id_, frozenset(types.split()), seq, changed, collection, fingerprint, loads(detail), place)


def latest_from(rows: Sequence[Row]) -> dict[str, Latest]:
    return {type_: Latest(type_, seq, outcome, seen) for type_, seq, outcome, seen in rows}


def hold_from(row: Row) -> HeldBy:
    return HeldBy(*row)


def lease_from(row: Row) -> Lease:
    return Lease(*row)

"""Rows in, values out. JSON is text in both databases; times are integers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Protocol

from custody.errors import BadInput
from custody.formats.text.compact_json import depth_of, json_text
from custody.kernel.model.event import DEEPEST, Event, unsealable
from custody.kernel.model.item import Item, Latest
from custody.kernel.model.job import HeldBy, Job, is_text
from custody.kernel.model.lease import Lease
from custody.kernel.model.quick import quick

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


DEEP = 20
"""So deep a payload, or a fact, may be nested: as deep as what comes from outside may."""
LONGEST = 16 << 20
_LONG_NUMBER = re.compile(r"[0-9]{19}")  # perhaps: a text may hold as much


def kept_text(value: Mapping[str, Any], where: str) -> str:
    """What a job keeps, as JSON: of a depth, a size and with numbers that nobody who shows it can be broken with."""
    text = dumps(value, where)
    if len(text) > LONGEST:
        problem, code = f"it has more than {LONGEST} characters", "value.size"
    elif depth_of(text, DEEP + 1) > DEEP:
        problem, code = f"it is nested more than {DEEP} deep", "value.depth"
    elif _LONG_NUMBER.search(text) and _has_long_number(json.loads(text)):
        problem, code = "it holds a whole number that does not fit in 64 bits", "value.number"
    else:
        return text
    raise BadInput(f"this cannot be kept: {problem}", code=code, where=where, hint="keep a file, and say where it is")


def _has_long_number(value: Any) -> bool:
    if isinstance(value, int):
        return not -(2**63) <= value < 2**63
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(_has_long_number(part) for part in parts)


_ODD_NUMBER = re.compile(r"[0-9]{16}|[0-9][eE]")  # perhaps: a text may hold as much


def event_text(detail: Mapping[str, Any]) -> str:
    """An event's detail as JSON; what could never be sealed is refused here, not left out there."""
    text = dumps(detail, "event detail")
    if _ODD_NUMBER.search(text) or text.count("[") + text.count("{") >= DEEPEST:
        why = unsealable(json.loads(text))
        if why:
            raise BadInput(
                f"this cannot be written into the history: {why}",
                code="event.value",
                where="event detail",
                hint="write a number beyond 2**53 as text",
            )
    return text


_DECODE = json.JSONDecoder().raw_decode  # a third of the price of json.loads: we wrote the text ourselves


def loads(text: str) -> dict[str, Any]:
    """The value; a text that someone has spoilt is handed on as it is, so that one bad row stops nobody's loop."""
    if text == "{}":
        return {}
    if depth_of(text, DEEPEST + 1) > DEEPEST:  # from when that was not refused: whoever shows it would break
        return {TOO_DEEP: f"{len(text)} characters, nested too deep to be shown"}
    try:
        value = _DECODE(text)[0]
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {UNREADABLE: text}


UNREADABLE = "unreadable"
TOO_DEEP = "…"


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
    return _event(
        id_, subject, seq, type_, outcome=outcome, agent=agent, at=at, detail=loads(detail), token=token, move=move
    )


def item_from(row: Row) -> Item:
    id_, types, collection, seq, changed, fingerprint, detail, place = row
    return Item(
        id=id_,
        types=frozenset(types.split()),
        seq=seq,
        changed=changed,
        collection=collection,
        fingerprint=fingerprint,
        detail=loads(detail),
        place=place,
    )


def latest_from(rows: Sequence[Row]) -> dict[str, Latest]:
    return {type_: Latest(type_, seq, outcome, seen) for type_, seq, outcome, seen in rows}


def hold_from(row: Row) -> HeldBy:
    return HeldBy(*row)


def lease_from(row: Row) -> Lease:
    return Lease(*row)

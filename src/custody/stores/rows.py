"""Rows in, values out. JSON is text in both databases; times are integers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from custody.model.event import Event
from custody.model.item import Item, Latest
from custody.model.job import HeldBy, Job
from custody.model.lease import Lease

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


def dumps(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True) if value else "{}"


def loads(text: str) -> dict[str, Any]:
    value: dict[str, Any] = {} if text == "{}" else json.loads(text)
    return value


def job_from(row: Row) -> Job:
    """In the order of the fragment job_columns."""
    (id_, kind, key, state, runnable, ended, lane, place, collection, priority, unmet, due, payload, facts, attempts,
     crashes, retries, last_passed, parent, open_, when_empty, line, task, position, supersedes, token, seq, move,
     holder, until, suspect, revoked, code, created, changed) = row  # fmt: skip
    return Job(
        id_, kind, key, state, bool(runnable), ended, lane, place, collection, priority, unmet, due, loads(payload),
        loads(facts), attempts, crashes, retries, last_passed, parent, open_, when_empty, line, task, position,
        bool(supersedes), token, seq, move, holder, until, bool(suspect), revoked, code, created, changed,
    )  # fmt: skip


def event_from(row: Row) -> Event:
    id_, subject, seq, type_, outcome, agent, at, detail, token, move = row
    return Event(id_, subject, seq, type_, outcome, agent, at, loads(detail), token, move)


def item_from(row: Row) -> Item:
    id_, types, collection, seq, changed, fingerprint, detail = row
    return Item(id_, frozenset(types.split()), seq, changed, collection, fingerprint, loads(detail))


def latest_from(rows: Sequence[Row]) -> dict[str, Latest]:
    return {type_: Latest(type_, seq, outcome) for type_, seq, outcome in rows}


def hold_from(row: Row) -> HeldBy:
    return HeldBy(*row)


def lease_from(row: Row) -> Lease:
    return Lease(*row)

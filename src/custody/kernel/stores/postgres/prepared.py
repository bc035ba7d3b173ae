"""Statements sent past the driver's cursor.

A cursor reads the statement's text, keeps results and counts uses; for a statement of a few rows, as nearly all are,
that takes longer than the rest of the way to the server. `run` has the driver adapt values and rows as a cursor would.
`ask` is for the few that are asked for one at a time, by many: values travel as text, and come back as text.

Statements are prepared by us, at their first use. The driver has the server forget all that is prepared when it sees a
rollback or a change of tables; so rollbacks do not go through it. In a session that is not ours alone nothing is
prepared: the next statement may be asked in another one.
"""

from __future__ import annotations

import os
import re
import select
import socket
import time
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import psycopg
from psycopg import errors
from psycopg.adapt import PyFormat
from psycopg.pq import DiagnosticField, ExecStatus
from psycopg.pq.abc import PGresult

from custody.kernel.stores.postgres.connection import Connection, swallowed
from custody.kernel.stores.rows import Row

WHOLE_NUMBER = 20  # the server's number for the type bigint; all other types it finds out by itself
GONE = "26000"
"""The statement is prepared no longer: somebody between us and the server has had all of them forgotten."""

_PLACE = re.compile(r"%\((\w+)\)s")
_INSERT = re.compile(r"insert into \w+ \([^)]*\)\s+values")


def run(db: Connection, text: str, values: Mapping[str, Any]) -> list[Row]:
    """The rows of this statement. The text is the driver's."""
    own_text, places = _numbered(text)
    adapting = db.adapting
    sent = adapting.dump_sequence([values[place] for place in places], [PyFormat.AUTO] * len(places))
    if not db.own:
        db.pgconn.send_query_params(own_text, sent, adapting.types, adapting.formats)
        result = _answer(db)
    else:
        asked = (text, adapting.types)
        name = db.plans.get(asked)
        if name is None:
            name = f"statement {len(db.plans)}".encode()
            db.pgconn.send_prepare(name, own_text, adapting.types)
            _checked(_answer(db))
            db.plans[asked] = name
        db.pgconn.send_query_prepared(name, sent, adapting.formats)
        result = _answer(db)
        if _state(result) == GONE:
            db.plans.clear()  # and whatever this is part of is done again
    _checked(result)
    if must_write(text) and not result.command_tuples:
        raise swallowed()
    if result.status == ExecStatus.COMMAND_OK:
        return []
    adapting.set_pgresult(result)
    rows: list[Row] = adapting.load_rows(0, result.ntuples, tuple)
    adapting.set_pgresult(None)
    return rows


def say(db: Connection, words: bytes, until: float | None = None) -> list[tuple[str, ...]]:
    """Words that are not prepared; the rows of the last of them, as text. `until` ends the waiting."""
    db.pgconn.send_query(words)
    result = _answer(db, until)
    _checked(result)
    return _texts(result)


def ask(db: Connection, name: str, text: str, values: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The rows of this statement, every value as text. The text is the driver's; its name is ours."""
    own_text, places = _numbered(text)
    sent = [None if values[place] is None else str(values[place]).encode() for place in places]
    if not db.own:
        db.pgconn.send_query_params(own_text, sent, _kinds(values, places))
        result = _answer(db)
        _checked(result)
        return _texts(result)
    for _ in range(2):
        if name not in db.prepared:
            kinds = _kinds(values, places)
            db.pgconn.send_prepare(name.encode(), own_text, kinds)
            _checked(_answer(db))
            db.prepared.add(name)
        db.pgconn.send_query_prepared(name.encode(), sent)
        result = _answer(db)
        if _state(result) != GONE:
            break
        db.prepared.clear()
    _checked(result)
    return _texts(result)


@cache
def must_write(text: str) -> bool:
    """Does this statement insert a row, or put one in its place, whatever is there?"""
    begins, _, conflict = text.lower().partition("on conflict")
    return bool(_INSERT.match(begins)) and "do nothing" not in conflict and " where " not in " ".join(conflict.split())


@cache
def _numbered(text: str) -> tuple[bytes, tuple[str, ...]]:
    """`%(name)s` as `$1`, and the names in that order."""
    places = tuple(dict.fromkeys(_PLACE.findall(text)))
    numbers = {place: f"${number}" for number, place in enumerate(places, 1)}
    return _PLACE.sub(lambda found: numbers[found[1]], text).replace("%%", "%").encode(), places


def _kinds(values: Mapping[str, Any], places: Iterable[str]) -> list[int]:
    return [WHOLE_NUMBER if isinstance(values[place], int) else 0 for place in places]


SILENCE_SECONDS = 3.0
"""After which whoever waits for an answer asks whether the server is still the one to wait for."""


class Silence:
    """How long nothing was heard. A server that stands still looks as one that is waiting for a lock: the time alone
    says nothing, so somebody else is asked, again and again."""

    def __init__(self, db: Connection) -> None:
        self._db, self._since = db, time.monotonic()

    def heard(self) -> None:
        self._since = time.monotonic()

    def go_on_at_once(self) -> None:
        self._since -= SILENCE_SECONDS
        self.go_on()

    def go_on(self) -> None:
        if self._db.silent is not None and time.monotonic() - self._since >= SILENCE_SECONDS:
            self._db.silent(self._db)
            self._since = time.monotonic()


def hang_up(db: Connection) -> None:
    """End a conversation in which nobody answers: whoever waits for the answer sees that it is lost."""
    with socket.socket(fileno=os.dup(db.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


class NoAnswer(psycopg.OperationalError):
    """It did not come in the time that was given for it."""


def _answer(db: Connection, until: float | None = None) -> PGresult:
    """The last result, waited for so that a signal is heard meanwhile."""
    wire = db.pgconn
    ear = select.poll()
    while wire.flush():
        ear.register(wire.socket, select.POLLIN | select.POLLOUT)
        _hear(db, ear, until)
        wire.consume_input()
    ear.register(wire.socket, select.POLLIN)
    result = None
    while True:
        while wire.is_busy():
            _hear(db, ear, until)
            wire.consume_input()
        if (another := wire.get_result()) is None:
            break
        result = another
    if result is None:
        raise psycopg.OperationalError("the connection is lost")
    return result


def _hear(db: Connection, ear: select.poll, until: float | None) -> None:
    if until is None and ear.poll(SILENCE_SECONDS * 1000):
        return
    silence = Silence(db)
    if until is None:
        silence.go_on_at_once()
    while not ear.poll(100):
        if until is not None and time.monotonic() > until:
            raise NoAnswer("no answer in time")
        silence.go_on()


def _checked(result: PGresult) -> None:
    if result.status in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
        return
    raise errors.error_from_result(result)


def _state(result: PGresult) -> str:
    return (result.error_field(DiagnosticField.SQLSTATE) or b"").decode()


def _texts(result: PGresult) -> list[tuple[str, ...]]:
    return [tuple(_row(result, number)) for number in range(result.ntuples)]


def _row(result: PGresult, number: int) -> Iterable[str]:
    for column in range(result.nfields):
        value = result.get_value(number, column)
        yield "" if value is None else value.decode()

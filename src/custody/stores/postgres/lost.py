"""Finding out what became of a transaction whose answer never came.

A transaction tells us its id before it does anything. If the connection breaks while the commit is under way,
nobody can know from here whether it happened; but the server knows how the transaction with that id ended. So
the verb connects again and asks: *committed* makes the value it had computed the answer, *aborted* lets it run
again, and while the old session still lingers it is ended first. No caller ever sees "perhaps", unless the server
stays away for longer than `PATIENCE`.

A server that has crashed meanwhile gives the ids of transactions that never reached its disk a second time. So
after a crash *committed* may be said of a stranger, and counts only if something that our transaction wrote is
there. What leaves no trace (a renewal, a tick, a number drawn) is simply done again.

A statement that is a transaction by itself has no id that we know. For it the old session is ended, and when it is
over, the verb looks for its move.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import psycopg
from psycopg import errors

from custody.model.errors import CustodyError, Unavailable
from custody.model.event import item_subject
from custody.stores.postgres.connection import Connection, Session
from custody.stores.postgres.pool import Pool
from custody.stores.postgres.wire import CUT

T = TypeVar("T")

PATIENCE = 30.0
"""Seconds for which a lost commit is asked about before the verb gives up."""
MOST_TRACES = 100


@dataclass(frozen=True, slots=True)
class Traces:
    """What only this transaction can have written: its moves, and its events of what makes no moves."""

    moves: set[str] = field(default_factory=set)
    events: set[tuple[str, int]] = field(default_factory=set)

    def note(self, name: str, values: Mapping[str, Any]) -> None:
        moves = values.get("move") or values.get("moves")
        if moves and len(self.moves) < MOST_TRACES:
            self.moves.add(moves.split(CUT, 1)[0])
        elif name == "insert_event" and len(self.events) < MOST_TRACES:
            self.events.add((values["subject"], values["seq"]))
        elif name == "make_item" and len(self.events) < MOST_TRACES:
            self.events.add((item_subject(values["id"]), 1))
        elif name == "append_many" and len(self.events) < MOST_TRACES:
            self.events.add((item_subject(values["items"][0]), values["seqs"][0]))

    def are_there(self, db: Connection, at: int) -> bool:
        sought = {
            "moves": list(self.moves), "subjects": [subject for subject, _ in self.events],
            "seqs": [seq for _, seq in self.events], "at": at,
        }  # fmt: skip
        return bool(db.execute(_TRACES, sought).fetchall())


_TRACES = """
    select 1 from event
    where id > (select coalesce(max(id), 0) - 1000000 from event) and move = any(%(moves)s::text[])
    union all select 1 from job where move = any(%(moves)s::text[])
    union all select 1 from event join unnest(%(subjects)s::text[], %(seqs)s::bigint[]) as sought (subject, seq)
        using (subject, seq) where at = %(at)s
    limit 1"""


@dataclass(frozen=True, slots=True)
class Begun:
    """A transaction that is under way: its id, its time, and the session it runs in."""

    id: str
    time: int
    session: Session


def was_committed(pool: Pool, begun: Begun, traces: Traces, at: int) -> bool:
    how = _ask_until_known(pool, lambda db: how_it_ended(db, begun, lambda: traces.are_there(db, at)))
    return how == "committed"


def found_out(pool: Pool, session: Session, look: Callable[[], T | None]) -> T | None:
    """What was done in a session that we lost, as `look` finds it once that is over; None if nothing was. A server
    that is away again meanwhile is waited for: it would be wrong to say only that it does not answer."""
    _ask_until_known(pool, lambda db: None if lingers(db, session) else "over")
    try:
        return waited_for(look, PATIENCE)
    except Unavailable as error:
        raise _unknown() from error


def waited_for(look: Callable[[], T], seconds: float) -> T:
    """What is seen as soon as the server answers, if it does within that time."""
    stop_at = time.monotonic() + seconds
    while True:
        try:
            return look()
        except Unavailable:
            if time.monotonic() > stop_at:
                raise
            time.sleep(0.01)


def how_it_ended(db: Connection, begun: Begun, left_traces: Callable[[], bool]) -> str | None:
    """Whether it was "committed" or "aborted"; None while it has not ended."""
    try:
        how: str | None = db.execute("select pg_xact_status(%s::xid8)", (begun.id,)).fetchall()[0][0]
    except errors.InvalidParameterValue:  # "in the future": it never reached the disk, and its id is free again
        return "aborted"
    if db.session.life != begun.session.life:
        return "committed" if how == "committed" and left_traces() else "aborted"
    if how == "in progress":
        lingers(db, begun.session)
        return None
    return how


def lingers(db: Connection, session: Session) -> bool:
    """Is a lost session still there? It may not have noticed that we are gone: it is ended, with its locks."""
    if db.session.life != session.life:
        return False
    ended = "select pg_terminate_backend(pid) from pg_stat_activity where pid = %s and backend_start::text = %s"
    return bool(db.execute(ended, (session.pid, session.since)).fetchall())


def _ask_until_known(pool: Pool, ask: Callable[[Connection], str | None]) -> str:
    stop_at = time.monotonic() + PATIENCE
    while time.monotonic() < stop_at:
        pool.drop_spare()
        try:
            with pool.connection() as db:
                if (answer := ask(db)) is not None:
                    return answer
        except (CustodyError, psycopg.OperationalError):
            pass  # still away
        time.sleep(0.01)
    raise _unknown()


def _unknown() -> Unavailable:
    return Unavailable(
        f"the connection was lost during a commit and PostgreSQL stayed away for {PATIENCE:.0f} s",
        code="store.unknown",
        hint="look whether it was done before doing it again",
    )

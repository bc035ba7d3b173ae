"""Finding out what became of a transaction whose answer never came, or came with a doubt.

A transaction tells us its id before it does anything. If the connection breaks while the commit is under way,
nobody can know from here whether it happened; but the server knows how the transaction with that id ended. So
the verb connects again and asks: *committed* makes the value it had computed the answer, *aborted* lets it run
again. A statement that is a transaction by itself has no id that we know: when its session is over, the verb looks for
its move.

That it is there is not yet an answer. A commit that waits for a standby becomes visible when its wait is cancelled,
when its session ends, or when the server crashes, though no standby has it. So what was found by looking is answered
only after a **barrier**: the transaction that looked commits, too, and waits for the standby itself. What it saw comes
before it in the log, and so has arrived when it has. A commit that came with a warning (that is how a cancelled wait is
told) is taken for unconfirmed and goes the same way. If the barrier does not come through in time, the verb says that
it does not know.

A server that has crashed meanwhile gives the ids of transactions that never reached its disk a second time. So
after a crash *committed* may be said of a stranger, and counts only if something that our transaction wrote is
there. What leaves no trace (a renewal, a tick, a number drawn) is simply done again.

A session that lingers is ended by us only when it is proved to be ours, and only after a while: behind a pooler never,
since there a session outlives our use of it, and is somebody else's by the time we would end it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import psycopg
from psycopg import errors

from custody.errors import CustodyError, Unavailable
from custody.kernel.model.event import item_subject
from custody.kernel.stores.postgres.columns import CUT
from custody.kernel.stores.postgres.connection import Connection, Session
from custody.kernel.stores.postgres.pool import Pool
from custody.kernel.stores.postgres.prepared import say
from custody.kernel.stores.postgres.transaction_words import CONFIRMED_COMMIT, STILL_WAITS

T = TypeVar("T")

PATIENCE = 30.0
"""Seconds for which a lost commit is asked about before the verb gives up."""
LINGER_SECONDS = 2.0
"""For which a lost session is left to notice by itself that we are gone."""
FIRST_PAUSE, LONGEST_PAUSE = 0.01, 0.25
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
            "moves": list(self.moves),
            "subjects": [subject for subject, _ in self.events],
            "seqs": [seq for _, seq in self.events],
            "at": at,
        }
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
    has_standby: bool = False
    own: bool = True  # the session is nobody else's


class Moved(Exception):
    """Behind the pooler there is another server than before, or it was started anew, or its database is another one:
    the connection has to be made, and checked, anew."""


def begin(db: Connection) -> Begun:
    transaction, server_time, pid, standby, *life = say(db, db.words.begin)[0]
    session = db.session
    if life:
        session = _as_it_is_now(session, int(pid), life[0])
    elif int(pid) != session.pid:
        raise Moved
    return Begun(id=transaction, time=int(server_time), session=session, has_standby=standby == "1", own=db.own)


def _as_it_is_now(session: Session, pid: int, life: str) -> Session:
    if life != session.life:
        raise Moved
    return Session(pid=pid, since="", name=session.name, system=session.system, timeline=session.timeline, life=life)


class _NotYet(Exception):
    """It has not ended."""


def still_waits(pool: Pool, db: Connection) -> bool:
    """For `?require=sync`, after a commit: is a standby still waited for? When the names of standbys are taken away,
    whoever waits is let go without a warning. A session hears of new settings only between two messages, so this is
    a message of its own; and before whoever waits is let go, it has been told."""
    return not pool.address.synchronous or say(db, STILL_WAITS)[0][0] == "1"


def was_committed(pool: Pool, begun: Begun, traces: Traces, at: int) -> bool:
    """Whether it is there, and on every disk it has to be on."""

    def look(db: Connection, now: Begun, patient: bool) -> bool | None:
        how = how_it_ended(db, now, begun, lambda: traces.are_there(db, at))
        if how is None:
            if begun.own and not patient:
                end(db, begun.session, begun.id)
            raise _NotYet
        return True if how == "committed" else None

    return bool(_confirmed(pool, look))


def found_out(pool: Pool, session: Session, found: Callable[[Connection, Begun], T | None]) -> T | None:
    """What was done in a session of our own that we lost, as `found` sees it once that is over; None if nothing was."""

    def look(db: Connection, now: Begun, patient: bool) -> T | None:
        if lingers(db, now, session):
            if not patient:
                end(db, session)
            raise _NotYet
        return found(db, now)

    return _confirmed(pool, look)


def _confirmed(pool: Pool, look: Callable[[Connection, Begun, bool], T | None]) -> T | None:
    """What `look` saw, once a commit of our own has confirmed it. A server that is away is waited for: it would be
    wrong to say only that it does not answer."""
    began, pause = time.monotonic(), FIRST_PAUSE
    stop_at = began + PATIENCE
    while time.monotonic() < stop_at:
        pool.drop_spare()
        try:
            with pool.connection() as db:
                now = begin(db)
                if pool.address.synchronous and not now.has_standby:
                    raise _NotYet
                seen = look(db, now, time.monotonic() < began + LINGER_SECONDS)
                if seen is None:
                    say(db, b"rollback")
                    return None
                if _barrier(db, stop_at) and still_waits(pool, db):
                    return seen
        except (CustodyError, psycopg.OperationalError, _NotYet, Moved):
            pass  # still away, or at it
        time.sleep(pause)
        pause = min(1.5 * pause, LONGEST_PAUSE)
    raise unknown()


def _barrier(db: Connection, stop_at: float) -> bool:
    """Nothing can end the wait for a standby but the standby: so we leave it, with the connection, when time is up."""
    db.warnings.clear()
    try:
        say(db, CONFIRMED_COMMIT, stop_at)
    except psycopg.Error:
        db.close()
        return False
    return "WARNING" not in db.warnings


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


def how_it_ended(db: Connection, now: Begun, begun: Begun, left_traces: Callable[[], bool]) -> str | None:
    """Whether it was "committed" or "aborted"; None while it has not ended."""
    try:
        how: str | None = db.execute("select pg_xact_status(%s::xid8)", (begun.id,)).fetchall()[0][0]
    except errors.InvalidParameterValue:  # "in the future": it never reached the disk, and its id is free again
        return "aborted"
    if now.session.life != begun.session.life:
        return "committed" if how == "committed" and left_traces() else "aborted"
    return None if how == "in progress" else how


def lingers(db: Connection, now: Begun, session: Session) -> bool:
    """Is a lost session still there? It may not have noticed that we are gone."""
    if now.session.life != session.life:
        return False
    there = "select 1 from pg_stat_get_activity(%s::int) as one where backend_start::text = %s"
    return bool(db.execute(there, (session.pid, session.since)).fetchall())


def end(db: Connection, session: Session, transaction: str = "") -> None:
    """End a session that lingers, with its locks; if it is ours beyond doubt, is still in that transaction, and does
    not wait for a standby: that commit would become visible, and be nowhere else."""
    same = "and backend_xid::text = (%s::numeric %% 4294967296)::text" if transaction else ""
    sought = (session.pid, session.since, session.name, *([transaction] if transaction else []))
    db.execute(f"{_END} {same}", sought)


_END = """
    select pg_terminate_backend(pid) from pg_stat_activity
    where pid = %s and backend_start::text = %s and application_name = %s and wait_event is distinct from 'SyncRep'"""


def not_on_a_standby() -> Unavailable:
    return Unavailable(
        "this was done, and it is not known whether a standby has it: PostgreSQL has stopped waiting for one"
        " (synchronous_standby_names is empty), and the store's address asks for it (require=sync)",
        code="store.unknown",
        hint="set synchronous_standby_names again; then ask once more with the same key",
    )


def unknown() -> Unavailable:
    return Unavailable(
        "it is not known whether this was done and is on every disk it has to be on: PostgreSQL, or its standby, stayed"
        f" away for {PATIENCE:.0f} s",
        code="store.unknown",
        hint="look whether it was done before doing it again",
    )

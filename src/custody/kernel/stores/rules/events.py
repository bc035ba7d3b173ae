"""Writing and reading events: appended, numbered without holes within their subject, never changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from custody.kernel.model.event import Event
from custody.kernel.stores.rows import Tx, event_from, event_text

PRIORITISED = "prioritised"


def write_event(
    tx: Tx,
    subject: str,
    seq: int,
    type_: str,
    outcome: str,
    agent: str,
    detail: Mapping[str, Any],
    token: int = 0,
    move: str = "",
) -> int:
    """Append one event; its number was taken from the subject's own row, in this transaction."""
    rows = tx.run(
        "insert_event",
        subject=subject,
        seq=seq,
        type=type_,
        outcome=outcome,
        agent=agent,
        detail=event_text(detail),
        token=token,
        move=move,
    )
    return int(rows[0][0])


def write_note(tx: Tx, subject: str, type_: str, agent: str, detail: Mapping[str, Any], outcome: str = "none") -> int:
    """Append an event to a subject that has no row of its own: a hold, a schedule, the store."""
    seq = tx.run("next_subject_seq", subject=subject)[0][0]
    return write_event(tx, subject, seq, type_, outcome=outcome, agent=agent, detail=detail)


def events_of(tx: Tx, subject: str, page: int = 1000) -> Iterator[Event]:
    after = 0
    while rows := tx.run("events", subject=subject, after=after, limit=page):
        for row in rows:
            yield event_from(row)
        after = rows[-1][2]


def last_move(tx: Tx, subject: str, seq: int) -> Event | None:
    """The event that brought a job where it is. Another place in the queue since then says nothing about that."""
    while seq > 0 and (rows := tx.run("events", subject=subject, after=seq - 1, limit=1)):
        event = event_from(rows[0])
        if event.type != PRIORITISED:
            return event
        seq -= 1
    return None

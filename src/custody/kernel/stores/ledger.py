"""The rows of the sealed history. What they mean is `custody.kernel.history`'s to know; here they are kept and
found."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from custody.errors import NotFound, Refused
from custody.kernel.model.event import Event
from custody.kernel.stores.rows import Row, Tx, event_from
from custody.kernel.stores.rules.events import write_note
from custody.kernel.stores.sql.database import Database

LATE = 3_600_000_000
"""Microseconds after which no transaction is still open: unsealed events are looked for only behind that."""
PAGE = 2_000
LEAF_COLUMNS = 7


class SqlLedger:
    def __init__(self, db: Database) -> None:
        self._db = db

    def unsealed(self, limit: int) -> list[Event]:
        """Events in no block yet. Cost depends on how many there are, not on how long the history is."""

        def look(tx: Tx) -> list[Event]:
            behind = tx.run("sealed_before", before=tx.now - LATE)
            after = behind[0][0] if behind else 0
            return [event_from(row) for row in tx.run("unsealed", after=after, limit=limit)]

        return self._db.read(look)

    def tips(self, subjects: Sequence[str]) -> dict[str, tuple[int, str]]:
        """Where each subject's chain ends."""

        rows = self._db.read(lambda tx: tx.run("tips", subjects=json.dumps(list(subjects))))
        return {subject: (seq, leaf) for subject, seq, leaf in rows}

    def last_block(self) -> Row | None:
        rows = self._db.read(lambda tx: tx.run("last_block"))
        return rows[0] if rows else None

    def block(self, number: int) -> Row:
        rows = self._db.read(lambda tx: tx.run("block", number=number))
        if not rows:
            raise NotFound(f"there is no block {number}", code="history.block")
        return rows[0]

    def write(self, block: dict[str, Any], leaves: Sequence[dict[str, Any]]) -> bool:
        """One block and its leaves, together. False when another sealer was first."""

        def work(tx: Tx) -> bool:
            if not tx.run("insert_block", **block):
                return False
            for at in range(0, len(leaves), PAGE):
                tx.run("insert_sealed", leaves=json.dumps(leaves[at : at + PAGE]))
            return True

        return self._db.write(work)

    def blocks(self) -> Iterator[Row]:
        after = 0
        while rows := self._blocks(after):
            yield from rows
            after = rows[-1][0]

    def _blocks(self, after: int) -> list[Row]:
        return self._db.read(lambda tx: tx.run("blocks", after=after, limit=PAGE))

    def sealed(self) -> Iterator[tuple[Row, Event | None]]:
        """Every leaf with its event, in the order of sealing."""
        block, position = 0, -1
        while rows := self._sealed(block, position):
            for row in rows:
                event = row[LEAF_COLUMNS:]
                yield row[:LEAF_COLUMNS], event_from(event) if event[0] is not None else None
            block, position = rows[-1][2], rows[-1][3]

    def _sealed(self, block: int, position: int) -> list[Row]:
        return self._db.read(lambda tx: tx.run("sealed_events", block=block, position=position, limit=PAGE))

    def without_leaf(self) -> Iterator[Event]:
        """Every event that is in no block, by subject: the whole history is looked through."""
        subject, seq = "", 0
        while rows := self._without_leaf(subject, seq):
            yield from (event_from(row) for row in rows)
            subject, seq = rows[-1][1], rows[-1][2]

    def _without_leaf(self, subject: str, seq: int) -> list[Row]:
        return self._db.read(lambda tx: tx.run("unsealed_in_order", subject=subject, seq=seq, limit=PAGE))

    def leaf(self, subject: str, seq: int) -> Row:
        rows = self._db.read(lambda tx: tx.run("leaf", subject=subject, seq=seq))
        if not rows:
            raise NotFound(
                f"{subject} number {seq} is not sealed", code="history.unsealed", hint="custody history seal --key FILE"
            )
        return rows[0]

    def leaves_of(self, block: int) -> list[str]:
        return [row[0] for row in self._db.read(lambda tx: tx.run("leaves_of_block", block=block))]

    def erase(self, subject: str, seq: int, who: str, detail: dict[str, Any], type_: str) -> None:
        """Drop an event's body, lawfully: its leaf stays, and an event says who erased it and why."""

        def work(tx: Tx) -> None:
            job = subject.removeprefix("job/")
            if subject.startswith("job/") and job.isascii() and job.isdigit() and tx.run("job", id=int(job)):
                raise Refused(
                    f"{subject} still exists, and its row is what its events say", hint="delete the job first"
                )
            tx.run("erase_salt", subject=subject, seq=seq)
            if not tx.run("erase_body", subject=subject, seq=seq):
                raise NotFound(f"{subject} has no event number {seq}", code="event.unknown")
            write_note(tx, f"erasure/{subject}", type_, who, detail=detail)

        self._db.write(work)

"""Grants: given and withdrawn by people, each with its event; asked for by those who work. Nothing is deleted."""

from __future__ import annotations

from custody.errors import BadInput
from custody.kernel.model.authority.grant import WHAT, Grant
from custody.kernel.stores.rows import Tx
from custody.kernel.stores.rules.events import write_note
from custody.kernel.stores.sql.database import Database

LONGEST = 500


class SqlGrants:
    def __init__(self, db: Database) -> None:
        self._db = db

    def grant(self, subject: str, what: str, value: str, who: str, why: str) -> Grant:
        """Say yes. What is granted already stays as it is, with who said so first."""
        return self._db.write(lambda tx: grant_in(tx, subject, what, value, who=who, why=why))

    def withdraw(self, subject: str, what: str, value: str, who: str, why: str) -> bool:
        """Say no again. False when it was not granted."""

        def work(tx: Tx) -> bool:
            done = bool(tx.run("withdraw", subject=subject, what=what, value=value))
            if done:
                write_note(tx, subject, "withdrawn", who, detail={"what": what, "value": value, "why": why})
            return done

        return self._db.write(work)

    def of(self, subject: str, what: str) -> list[str]:
        """What holds now, for whoever is about to act on it."""
        rows = self._db.glance(lambda tx: tx.run("grants_of", subject=subject))
        return [grant.value for grant in (Grant(*row) for row in rows) if grant.what == what]

    def list(self, subject: str = "", ended: bool = False) -> list[Grant]:
        """All that hold, of one subject or of all; with those that were withdrawn, if they are wanted."""
        found = [Grant(*row) for row in self._db.read(lambda tx: tx.run("grants"))]
        return [grant for grant in found if subject in ("", grant.subject) and (ended or grant.ended is None)]


def grant_in(tx: Tx, subject: str, what: str, value: str, *, who: str, why: str) -> Grant:
    """Inside the transaction that makes the subject: it is there with what it may have, or not at all."""
    if what not in WHAT:
        raise BadInput(f"{what!r} cannot be granted", code="grant.what", where=subject, hint=", ".join(WHAT))
    if not 0 < len(value) <= LONGEST or not value.isprintable():
        raise BadInput(f"{value[:100]!r} cannot be granted", code="grant.value", where=subject)
    if not why.strip():
        raise BadInput("say why, for the history", code="grant.why", where=subject)
    rows = tx.run("grant", subject=subject, what=what, value=value, by=who, why=why)
    if rows:
        write_note(tx, subject, "granted", who, detail={"what": what, "value": value, "why": why})
    else:
        rows = tx.run("granted", subject=subject, what=what, value=value)
    return Grant(*rows[0])


def withdraw_all(tx: Tx, subject: str, who: str, why: str) -> None:
    """Inside the transaction that ends the subject itself: nothing it was given is for a later one of its name."""
    for _, _, what, value, *_ in tx.run("grants_of", subject=subject):
        tx.run("withdraw", subject=subject, what=what, value=value)
        write_note(tx, subject, "withdrawn", who, detail={"what": what, "value": value, "why": why})

"""Which spelling of an identifier is kept here.

Identifiers are kept in their one form (formats/identifiers.py). Those of before that were kept as they were spelled
stay: objects lie in storage under them, and sealed history names them. They are found by every spelling that is equal.
The table `spelling` lists them; a migration has put in all that may be such, and the first who looks says what they
are.
"""

from __future__ import annotations

from collections.abc import Sequence

from custody.formats.identifiers import one_form
from custody.kernel.applications import installed
from custody.kernel.stores.rows import Tx
from custody.kernel.stores.sql.database import Database

NAMES = ""
"""The owner of what is no local id."""


def kept(db: Database, name: str) -> str:
    """An item's id as it is kept: so spelled, in its one form, or as an equal one was spelled before. What is not there
    yet would be kept in its one form."""
    settle(db)

    def look(tx: Tx) -> str:
        plain = one_form(name)
        known = [each for each in dict.fromkeys((name, plain)) if _is_there(tx, each)]
        return next(iter([*known, *formers(tx, NAMES, plain)]), plain)

    return db.read(look)


def equals(tx: Tx, name: str) -> Sequence[str]:
    """All that is kept under names that are equal to this one; more than one only where there were before."""
    plain = one_form(name)
    return [*([plain] if _is_there(tx, plain) else []), *formers(tx, NAMES, plain)]


def formers(tx: Tx, owner: str, plain: str) -> Sequence[str]:
    """Spellings of before whose one form is this."""
    return [row[0] for row in tx.run("formers", owner=owner, normal=plain)]


def settle(db: Database) -> None:
    """Say of those that a migration found what their one form is; those that are in it need not be listed."""

    def work(tx: Tx) -> None:
        for owner, spelled in tx.run("formers_unread"):
            plain = one_form(spelled)
            if plain == spelled:
                tx.run("former_drop", owner=owner, spelled=spelled)
            else:
                tx.run("former_read", owner=owner, spelled=spelled, normal=plain)

    while db.read(lambda tx: tx.run("formers_unread")):
        db.write(work)


def _is_there(tx: Tx, name: str) -> bool:
    """An item, or anything that an application knows by this name."""
    return bool(tx.run("item", id=name)) or any(
        tx.run(part.is_named, name=name) for part in installed() if part.is_named
    )

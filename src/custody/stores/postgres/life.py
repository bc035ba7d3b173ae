"""All that a store keeps open in one process: after a fork the child has a new one, and leaves the old one alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress

from custody.stores.clock import Clock
from custody.stores.postgres.address import Address
from custody.stores.postgres.claiming import Front
from custody.stores.postgres.connection import ALIVE, Connection, Session
from custody.stores.postgres.direct import run, say
from custody.stores.postgres.notify import Messenger
from custody.stores.postgres.pool import Pool
from custody.stores.postgres.receipts import STORE, WENT_BACK, Receipts, WentBack, missing
from custody.stores.postgres.submitting import Order
from custody.stores.postgres.texts import texts
from custody.stores.postgres.together import Together
from custody.stores.postgres.transaction import Transactions
from custody.stores.rows import event_text
from custody.stores.submit import Submitted


class Life:
    def __init__(
        self,
        address: Address,
        clock: Clock | None,
        new_move: Callable[[], str],
        submit: Callable[[list[Order]], list[Submitted]],
        tell: Callable[[WentBack], None],
        seen: Mapping[str, int] | None = None,
    ) -> None:
        self._clock, self._tell = clock, tell
        self.receipts = Receipts()
        self.pool = Pool(address, seen, self._look_up)
        self.transactions = Transactions(self.pool, clock, new_move)
        self.messenger = Messenger(address, self.pool.way)
        self.submits = Together(submit)
        self.front = Front()

    def close(self) -> None:
        self.messenger.close()
        self.pool.close()

    def _look_up(self, db: Connection, before: Session) -> None:
        """Another server, or another timeline: is there what we were told is there?"""
        say(db, db.words.begin)
        lost = WentBack(tuple(missing(db, self.receipts.kept())), before, db.session)
        if lost.missing:
            _write(db, lost)
        say(db, b"commit")
        self.receipts.forget()
        if lost.missing:
            self._tell(lost)


def _write(db: Connection, lost: WentBack) -> None:
    words = texts(own_clock=False, locking=True)
    seq = run(db, words["next_subject_seq"], {"subject": STORE})[0][0]
    run(
        db, words["insert_event"],
        {"subject": STORE, "seq": seq, "type": WENT_BACK, "outcome": "failure", "agent": "engine",
         "detail": event_text(lost.detail()), "token": 0, "move": ""},
    )  # fmt: skip


def silence_inherited() -> None:
    """In a child: whatever is still done with a connection of the parent, by us, by the driver or at the end of the
    process, must not reach the parent's server. Not even a farewell: it would end the parent's session."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    try:
        for db in list(ALIVE):
            with suppress(Exception):
                os.dup2(nowhere, db.fileno(), inheritable=False)
                db.close()
    finally:
        os.close(nowhere)
    ALIVE.clear()

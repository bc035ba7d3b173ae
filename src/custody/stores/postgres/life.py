"""All that a store keeps open in one process: after a fork the child has a new one, and leaves the old one alone."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

from custody.stores.clock import Clock
from custody.stores.postgres.address import Address
from custody.stores.postgres.claiming import Front
from custody.stores.postgres.condition import Seen
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

AT_ONCE = 100_000
"""Numbers that are drawn in one statement."""


class Life:
    def __init__(
        self,
        address: Address,
        clock: Clock | None,
        new_move: Callable[[], str],
        submit: Callable[[list[Order]], list[Submitted]],
        tell: Callable[[WentBack], None],
        seen: Mapping[str, int] | None = None,
        condition: Seen | None = None,
    ) -> None:
        self._clock, self._tell = clock, tell
        self._telling = threading.Lock()
        self.receipts = Receipts()
        self.pool = Pool(address, seen, self._look_up, condition)
        self.transactions = Transactions(self.pool, clock, new_move, lambda: self.receipts.highest)
        self.messenger = Messenger(address, self.pool.way)
        self.submits = Together(submit)
        self.front = Front()

    def close(self) -> None:
        self.messenger.close()
        self.pool.close()

    def _look_up(self, db: Connection, before: Session, another: bool) -> None:
        """Is there what we were told is there? All of it is asked for when it is another server, one that was started
        anew, or in doubt; otherwise the newest, which goes first when history goes back."""
        asked = self.receipts.kept() if another else self.receipts.newest()
        if not asked:
            return
        say(db, db.words.look)
        found = missing(db, asked)
        say(db, b"commit")
        if found:
            with self._telling:
                self._tell_of(db, before)
        elif self.pool.doubted:  # only the numbers were set back, or somebody else has told of it
            pass_over(db, self.receipts.highest)

    def _tell_of(self, db: Connection, before: Session) -> None:
        """Looked up again: whoever connected at the same time may have told of it."""
        say(db, db.words.begin)
        lost = WentBack(tuple(missing(db, self.receipts.kept())), before, db.session)
        if lost.missing:
            pass_over(db, max(lost.highest, self.receipts.highest))
            _write(db, lost)
        say(db, b"commit")
        if lost.missing:
            self.receipts.forget(lost.missing)
            self._tell(lost)


def pass_over(db: Connection, highest: int) -> int:
    """Draw the numbers of jobs up to this one, so that none of them is given out again; answers the last one drawn.
    (To set the sequence would be quicker, and could set it back below what others draw meanwhile.)"""
    ((drawn,),) = db.execute("select nextval('job_id_seq')").fetchall()
    while drawn < highest:
        ((drawn,),) = db.execute(
            "select max(nextval('job_id_seq')) from generate_series(1, %s)", (min(highest - drawn, AT_ONCE),)
        ).fetchall()
    return int(drawn)


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

"""All that a store keeps open in one process: after a fork the child has a new one, and leaves the old one alone."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

from custody.kernel.stores.clock import Clock
from custody.kernel.stores.postgres.batching import Together
from custody.kernel.stores.postgres.connection import ALIVE, Connection, Session
from custody.kernel.stores.postgres.dialect import texts
from custody.kernel.stores.postgres.notify import Messenger
from custody.kernel.stores.postgres.pool import Pool
from custody.kernel.stores.postgres.prepared import run, say
from custody.kernel.stores.postgres.server.address import Address
from custody.kernel.stores.postgres.server.condition import Seen
from custody.kernel.stores.postgres.server.numbers import pass_over
from custody.kernel.stores.postgres.server.receipts import Receipts, WentBack, missing
from custody.kernel.stores.postgres.transaction import Transactions
from custody.kernel.stores.postgres.verbs.claim import Front
from custody.kernel.stores.postgres.verbs.submit import Order
from custody.kernel.stores.recovery.losses import STORE, WENT_BACK
from custody.kernel.stores.rows import event_text
from custody.kernel.stores.rules.submit import Submitted


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
        self._clock, self._new_move, self._tell = clock, new_move, tell
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
        """Looked up again: whoever connected at the same time may have told of it. A word of ours that is lost as well
        told of what nobody else may know: that is told anew, as far as it is not there again."""
        say(db, db.words.begin)
        unknown = missing(db, self.receipts.kept())
        words = [one for one in unknown if one[0] == STORE]
        behind = missing(db, self.receipts.behind(words))
        lost = WentBack(tuple([one for one in unknown if one not in words] + behind), before, db.session)
        word = self._new_move()
        if lost.missing:
            pass_over(db, max(lost.highest, self.receipts.highest))
            _write(db, lost, word)
        say(db, b"commit")
        self.receipts.told(word, lost.missing, words)
        if lost.missing:
            self._tell(lost)


def _write(db: Connection, lost: WentBack, word: str) -> None:
    words = texts(own_clock=False, locking=True)
    seq = run(db, words["next_subject_seq"], {"subject": STORE})[0][0]
    run(
        db,
        words["insert_event"],
        {
            "subject": STORE,
            "seq": seq,
            "type": WENT_BACK,
            "outcome": "failure",
            "agent": "engine",
            "detail": event_text(lost.detail()),
            "token": 0,
            "move": word,
        },
    )


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

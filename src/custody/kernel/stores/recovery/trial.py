"""Tries whether a store takes writes: neither settings nor rights tell of a full disk, or a server set to read only."""

from __future__ import annotations

import math
import secrets
import threading
import time

from custody.errors import CustodyError, Unavailable
from custody.kernel.stores.postgres.transaction import PostgresTx
from custody.kernel.stores.rows import Tx
from custody.kernel.stores.store import Store

ROWS, LETTERS = 64, 16_384
"""A megabyte: less may find room in what the database has left over."""
PAUSE = 1.0
"""Seconds after a refusal: it is over as soon as somebody has mended it."""


class _TakenBack(Exception):
    """The transaction ends with this, and nothing of it stays."""


def refusal(store: Store) -> CustodyError | None:
    """Look for rights, then write a megabyte and take it back; what the store says if it does not take it."""

    def work(tx: Tx) -> None:
        if isinstance(tx, PostgresTx):
            _must_have_numbers(tx)
        for _ in range(ROWS):
            tx.run("try_to_write", item=f"~trial/{secrets.token_hex(8)}", folder=secrets.token_hex(LETTERS // 2))
        raise _TakenBack

    try:
        store.db.write(work)
    except _TakenBack:
        return None
    except CustodyError as error:
        return error
    return None


def _must_have_numbers(tx: PostgresTx) -> None:
    """Drawing one would use it up, each time."""
    ((may,),) = tx.db.execute("select has_sequence_privilege('job_id_seq', 'usage')").fetchall()
    if not may:
        raise Unavailable(
            "PostgreSQL: permission denied for sequence job_id_seq",
            code="store.rights",
            hint="grant the store's role its tables and sequences",
        )


class Trial:
    """Tries it when it is asked, at most every so often: whoever may ask is no reason to write all the time."""

    def __init__(self, store: Store, every: float = 10.0) -> None:
        self._store, self._every = store, every
        self._lock = threading.Lock()
        self._tried = -math.inf
        self._refusal: CustodyError | None = None

    def refusal(self) -> CustodyError | None:
        """What keeps the store from being written to, as far as was tried; whether it answers is asked each time."""
        with self._lock:
            pause = self._every if self._refusal is None else PAUSE
            if time.monotonic() - self._tried >= pause:
                self._refusal = refusal(self._store)
                self._tried = time.monotonic()
                return self._refusal
        try:
            self._store.db.read(lambda tx: tx.now)
        except CustodyError as error:
            return error
        return self._refusal

"""Tries whether a store takes writes: neither settings nor rights tell of a full disk, or a server set to read only."""

from __future__ import annotations

import secrets

from custody.errors import CustodyError
from custody.kernel.stores.rows import Tx
from custody.kernel.stores.store import Store

ROWS, LETTERS = 64, 16_384
"""A megabyte: less may find room in what the database has left over."""


class _TakenBack(Exception):
    """The transaction ends with this, and nothing of it stays."""


def refusal(store: Store) -> CustodyError | None:
    """Write a megabyte and take it back; what the store says if it does not take it."""

    def work(tx: Tx) -> None:
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

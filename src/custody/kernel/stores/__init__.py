"""Where things are kept. `open_store(url)` is the only chooser."""

from __future__ import annotations

from collections.abc import Callable

from custody.errors import BadInput, CustodyError
from custody.kernel.stores.clock import Clock, SystemClock
from custody.kernel.stores.shown_url import shown
from custody.kernel.stores.store import RandomMoves, Store

__all__ = ["Clock", "Store", "SystemClock", "open_store"]


def open_store(
    url: str,
    clock: Clock | None = None,
    new_move: Callable[[], str] | None = None,
    *,
    patience: float = 0.0,
    told: Callable[[CustodyError], None] = lambda error: None,
    existing: bool = False,
) -> Store:
    """sqlite:///file.db, sqlite:////absolute/file.db, sqlite://:memory: or postgresql://…

    A server that is starting or being promoted is waited for, so many seconds unless the address says otherwise;
    `told` hears what is waited for. With `existing` none is made where there is none."""
    moves = new_move or RandomMoves()
    if url.startswith("sqlite:"):
        from custody.kernel.stores.sqlite.database import SqliteDatabase
        from custody.kernel.stores.sqlite.file_address import file_of

        return Store.over(url, SqliteDatabase(file_of(url), clock or SystemClock(), moves, existing))
    if url.startswith(("postgresql:", "postgres:")):
        from custody.kernel.stores.postgres.database import PostgresDatabase

        return Store.over(
            url, PostgresDatabase(url=url, clock=clock, new_move=moves, patience=patience, told=told, existing=existing)
        )
    raise BadInput(
        f"cannot tell what kind of store {shown(url)} is",
        code="store.url",
        hint="sqlite:///custody.db or postgresql://user@host/database",
    )

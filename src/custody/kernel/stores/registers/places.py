"""Folders that were told before items had places: they wait until the roots of the installation are known."""

from __future__ import annotations

from collections.abc import Callable

from custody.kernel.stores import Store
from custody.kernel.stores.rows import Tx

PAGE = 500


def settle_places(store: Store, place_of: Callable[[str], str | None]) -> int:
    """Make places of those that lie below a root; says how many. The others stay, for `unplaced`."""
    settled, after = 0, ""
    while rows := store.db.read(lambda tx, after=after: tx.run("unplaced", after=after, limit=PAGE)):  # type: ignore[misc]
        found = [(item, place) for item, folder in rows if (place := place_of(folder))]
        if found:
            store.db.write(lambda tx, found=found: _settle(tx, found))  # type: ignore[misc]
        settled, after = settled + len(found), rows[-1][0]
    return settled


def unplaced(store: Store, limit: int = PAGE) -> list[tuple[str, str]]:
    """Items whose folder is not used any more, as it lies below no root."""
    return [(item, folder) for item, folder in store.db.read(lambda tx: tx.run("unplaced", after="", limit=limit))]


def _settle(tx: Tx, found: list[tuple[str, str]]) -> None:
    for item, place in found:
        tx.run("set_place", id=item, place=place)
        tx.run("drop_unplaced", item=item)

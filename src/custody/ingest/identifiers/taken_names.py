"""The names that deposits go by: each is one object's and one collection's, from the moment a job has it.

A minter counts, and a depositor may bring a name along; neither knows of the other, nor of what another job was given
and has not stored yet. So a name is taken here, in one transaction on one row, before anything is done under it:

    minted          nobody may have it: no object, no item, no other job; else the minter is asked for the next one
    brought along   nobody else's collection may have it
    first version   one job at a time makes it, and finds nothing in storage under that name

Equal spellings of a name are one name, in its one form (formats/identifiers.py). What was named before that was so
keeps its spelling and is found by every equal one; where two objects were made of one name then, they stay two.

Who may use a name is asked by collection. Names are never given back; but one that was brought along by a job that came
to nothing, and of which nothing was ever handed to storage, may be brought along to another collection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from custody.kernel.stores import Store
from custody.kernel.stores.rows import Tx, item_from
from custody.kernel.stores.rules import spellings


@dataclass(frozen=True, slots=True)
class Name:
    collection: str  # empty: not known, because its job was gone before this was written down
    request: str
    minted: bool
    writer: str

    @property
    def may_pass_on(self) -> bool:
        """Could another collection have it, if its job came to nothing?"""
        return not self.minted and not self.writer


class Names:
    def __init__(self, store: Store) -> None:
        self._db = store.db

    def find(self, ark: str) -> Name | None:
        return self._db.read(lambda tx: _find(tx, ark))

    def equals(self, ark: str) -> Sequence[str]:
        """The names in use that are equal to this one; more than one only where equal ones were given out before."""
        spellings.settle(self._db)
        return self._db.read(lambda tx: spellings.equals(tx, ark))

    def take_new(self, ark: str, collection: str, request: str) -> bool:
        """Give this request a name that nobody has; the same request again has it already."""

        def work(tx: Tx) -> bool:
            if tx.run("inv_object", ark=ark) or tx.run("item", id=ark):
                return False
            if any(each != ark for each in spellings.equals(tx, ark)):
                return False
            tx.run("inv_take", ark=ark, collection=collection, request=request, minted=1)
            found = _find(tx, ark)
            return found is not None and (found.collection, found.request) == (collection, request)

        spellings.settle(self._db)  # or what was named before would not be seen to be equal
        return self._db.write(work)

    def take(self, ark: str, collection: str, request: str, over: Name | None = None) -> bool:
        """Go by a name that was brought along or is known; False when it is another collection's. `over`: whose it was,
        when that came to nothing."""

        def work(tx: Tx) -> bool:
            tx.run("inv_take", ark=ark, collection=collection, request=request, minted=0)
            tx.run("inv_settle_in", ark=ark, collection=collection)
            if over is not None and over.may_pass_on:
                tx.run("inv_take_over", ark=ark, collection=collection, request=request, before=over.request)
            found = _find(tx, ark)
            return found is not None and found.collection == collection and not _is_elsewhere(tx, ark, collection)

        return self._db.write(work)

    def begin(
        self, ark: str, *, owner: str, collection: str, request: str, instead_of: str = ""
    ) -> tuple[str, bool] | None:
        """Say whose work the first version is (ours if nobody has begun, or only one that came to nothing), and whether
        it is recorded. None when the name is another collection's."""

        def work(tx: Tx) -> tuple[str, bool] | None:
            recorded = tx.run("inv_object", ark=ark)
            if recorded and (recorded[0][1], recorded[0][2]) != (owner, collection):
                return None
            tx.run("inv_take", ark=ark, collection=collection, request=request, minted=0)
            tx.run("inv_settle_in", ark=ark, collection=collection)
            tx.run("inv_begin", ark=ark, collection=collection, request=request, before=instead_of)
            found = _find(tx, ark)
            return (found.writer, bool(recorded)) if found and found.collection == collection else None

        return self._db.write(work)


def _find(tx: Tx, ark: str) -> Name | None:
    rows = tx.run("inv_name", ark=ark)
    if not rows:
        return None
    collection, request, minted, writer = rows[0]
    return Name(collection, request, bool(minted), writer)


def _is_elsewhere(tx: Tx, ark: str, collection: str) -> bool:
    """Is there an item of that name in another collection, whoever told of it?"""
    rows = tx.run("item", id=ark)
    return bool(rows) and item_from(rows[0]).collection not in ("", collection)

"""Open kinds: what may be asked for from outside. Workers say so with each sign of life, and it stays known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from custody.kernel.stores.rows import Tx
from custody.kernel.stores.rules.events import write_note
from custody.kernel.stores.sql.database import Database


@dataclass(frozen=True, slots=True)
class OpenKind:
    kind: str  # or a prefix with * at its end
    since: int
    seen: int  # when a worker last offered it


class SqlKinds:
    def __init__(self, db: Database) -> None:
        self._db = db

    def list(self) -> Sequence[OpenKind]:
        return [OpenKind(*row) for row in self._db.glance(lambda tx: tx.run("open_kinds"))]

    def forget(self, kind: str, who: str, why: str = "") -> bool:
        """Nobody may ask for it from now on, until a worker offers it again. False when it was not known."""

        def work(tx: Tx) -> bool:
            if not tx.run("forget_kind", kind=kind):
                return False
            write_note(tx, f"kind/{kind}", "forgotten", who, detail={"why": why} if why else {})
            return True

        return self._db.write(work)


def offer(tx: Tx, kinds: Sequence[str]) -> None:
    for kind in sorted(kinds):  # in one order, so that two workers that beat at once do not wait for each other
        tx.run("offer_kind", kind=kind)

"""Every verb of a database meets its trouble: one that is added is named in verbs.py, or this fails."""

from __future__ import annotations

from typing import Any

import pytest

from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import NewItem
from custody.kernel.stores import open_store
from custody.kernel.stores.sql.database import Database
from faults.verbs import VerbDatabase

PLAIN = {
    "acknowledged",
    "bell",
    "changed_elsewhere",
    "close",
    "listen",
    "must_serve_several",
    "new_move",
    "now",
    "submit_in",
    "troubles",
}
"""What neither writes nor reads rows, or is part of a verb that does."""


class Counting(VerbDatabase):
    def __init__(self, db: Database) -> None:
        super().__init__(db)
        self.met: list[str] = []

    def verb(self, act: Any) -> Any:
        self.met.append("verb")
        return act()

    def seen(self, act: Any) -> Any:
        self.met.append("look")
        return act()


def verbs() -> set[str]:
    return {name for name in vars(Database) if not name.startswith("_")}


def test_no_verb_of_a_database_is_handed_through_unnamed() -> None:
    named = {name for name in vars(VerbDatabase) if not name.startswith("_")}
    assert verbs() <= named | {"bell", "dialect"}
    assert not hasattr(VerbDatabase, "__getattr__"), "what is not named must fail, not pass"


CALLS: dict[str, tuple[Any, ...]] = {
    "write": (lambda tx: None,),
    "read": (lambda tx: None,),
    "glance": (lambda tx: None,),
    "submit": ([], "move", None),
    "claim": (["a|b||"], "ann", 1, 1, "move"),
    "renew": ([], 1),
    "settle": ([],),
    "append": (NewEvent("x", "told"), "ann"),
    "record": ([NewItem("y")], [], "ann"),
    "look": (["x"], []),
    "at_once": ("submit_single", "move"),
}


def test_every_verb_that_reads_or_writes_is_called_below() -> None:
    assert set(CALLS) == verbs() - PLAIN - {"dialect"}


@pytest.mark.parametrize("name", CALLS)
def test_every_verb_meets_what_goes_wrong(name: str) -> None:
    with open_store("sqlite://:memory:") as store:
        store.db.record([NewItem("x")], [], "ann")
        db = Counting(store.db)
        getattr(db, name)(*CALLS[name])
        assert db.met == ["look" if name in ("read", "glance", "look") else "verb"]

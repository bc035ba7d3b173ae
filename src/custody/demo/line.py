"""Story three: what has been stored is looked after by robots, and everything that happens is sealed and witnessed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from custody.engine.kinds import Chore, Kind
from custody.history.keeping import Keeping
from custody.history.keys import load_key, make_key
from custody.robots.cycle import chores, kinds, subscribe
from custody.robots.ready import fixity, formats
from custody.stores import Store

NAME = "custody.demo"
ROBOTS = (fixity, formats)
SEAL_SECONDS = 5.0


@dataclass
class Line:
    store: Store
    keeping: Keeping

    @classmethod
    def open(cls, store: Store, home: Path) -> Line:
        key = home / "history.key"
        signer = load_key(key, NAME) if key.exists() else make_key(key, NAME)
        (home / "history.public").write_text(f"{signer.public}\n")
        return cls(store, Keeping((signer.public,), (home / "witness.txt",), signer, SEAL_SECONDS))

    def begin(self) -> None:
        subscribe(self.store, ROBOTS)

    def kinds(self) -> Sequence[Kind]:
        return kinds(self.store, ROBOTS)

    def chores(self) -> Sequence[Chore]:
        return (*chores(self.store, ROBOTS), Chore("seal the history", SEAL_SECONDS, self.seal))

    def seal(self) -> None:
        self.keeping.seal(self.store.ledger, self.store.now())

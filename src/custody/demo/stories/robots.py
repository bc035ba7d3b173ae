"""Story three: what has been stored is looked after by robots, and everything that happens is sealed and witnessed.

One of them keeps a catalogue, which is an archive with a workflow of its own: a line through all four.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from custody.border.roots import Roots, roots
from custody.demo.stories.catalogue import Catalogue
from custody.ingest.config import IngestConfig, node_roots
from custody.kernel.engine.kinds import Chore, Kind
from custody.kernel.history.keys import load_key, make_key
from custody.kernel.history.sealer import Sealer
from custody.kernel.stores import Store
from custody.robots.programs.sandboxed import YARD, Yard
from custody.robots.ready import fixity, formats
from custody.robots.robot import Robot
from custody.robots.runner import kinds, subscribe
from custody.robots.sweep import chores

NAME = "custody.demo"
ROBOTS = (fixity, formats)
SEAL_SECONDS = 5.0


@dataclass
class Line:
    store: Store
    keeping: Sealer
    catalogue: Catalogue
    roots: Roots
    home: Path

    @classmethod
    def open(cls, store: Store, home: Path) -> Line:
        key = home / "history.key"
        signer = load_key(key, NAME) if key.exists() else make_key(key, NAME)
        (home / "history.public").write_text(f"{signer.public}\n")
        keeping = Sealer((signer.public,), (home / "witness.txt",), signer, SEAL_SECONDS)
        return cls(
            store=store,
            keeping=keeping,
            catalogue=Catalogue(store, home),
            roots=roots(node_roots(IngestConfig(), home)),
            home=home,
        )

    @property
    def robots(self) -> Sequence[Robot]:
        return (*ROBOTS, self.catalogue.robot())

    def begin(self) -> None:
        self.catalogue.begin()
        subscribe(self.store, self.robots)

    def kinds(self) -> Sequence[Kind]:
        return kinds(self.store, self.robots, yard=Yard(self.home / YARD, self.roots))

    def chores(self) -> Sequence[Chore]:
        return (*chores(self.store, self.robots), Chore("seal the history", SEAL_SECONDS, self.seal))

    def seal(self) -> None:
        self.keeping.seal(self.store.ledger, self.store.now())

"""The stories of the demo: set up once, told again from where they stopped however often it is killed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from custody.demo.depositor import misbehave, write_manifests, write_objects
from custody.demo.standins.web_server import FileServer
from custody.ingest.adapters import Adapters
from custody.ingest.config import IngestConfig, open_world
from custody.ingest.kinds import kinds
from custody.ingest.states import BATCH_KIND
from custody.ingest.submission.submission import Submission, submit
from custody.kernel.engine.kinds import Kind
from custody.kernel.model.authority.acting import system
from custody.kernel.stores import Store

PROFILE = """\
description = "{description}"
owner = "ark:/99999/demo"

[identifier]
shoulder = "fk4"

[notification]
addresses = ["depositor@localhost"]
confirm = true

[fetch]
schemes = ["http"]
ports = [{port}]
hosts = ["127.0.0.1"]
networks = ["127.0.0.0/8"]
"""
SETTINGS = """# The demo's own configuration: commands given in this folder find everything.
store = "sqlite:///custody.db"
"""
OBJECTS = 12
MAPS = 3
CONFIG = IngestConfig(threshold=0.0)


@dataclass
class Deposits:
    """Story one: a batch of twelve objects, of which three go wrong; and a collection that is frozen."""

    store: Store
    home: Path
    server: FileServer
    world: Adapters

    @classmethod
    def open(cls, store: Store, home: Path, port: int) -> Deposits:
        source = home / "depositor"
        server = FileServer(source, port).start()
        if not (source / "batch.checkm").exists():
            write_objects(source, OBJECTS)
            write_manifests(source, server.url, OBJECTS)
        if not (home / "custody.toml").exists():
            (home / "custody.toml").write_text(SETTINGS)
        profiles = home / "profiles"
        profiles.mkdir(parents=True, exist_ok=True)
        for name, description in (("papers", "Papers of the Demo Society"), ("maps", "Maps and plans")):
            (profiles / f"{name}.toml").write_text(PROFILE.format(description=description, port=server.port))
        return cls(store, home, server, open_world(store, CONFIG, home))

    def followed_at(self, web: str) -> None:
        """Mails link to the depositor's page at this address."""
        self.world = replace(self.world, links=replace(self.world.links, web=web))

    def begin(self) -> None:
        """Hand in the deposits, unless an earlier start did."""
        if not self.store.queue.by_key(BATCH_KIND, "demo-papers"):
            misbehave(self.server)
        else:
            self._remember_faults()
        batch = Submission("papers", f"{self.server.url}/batch.checkm", filename="batch.checkm", submitter="m.ruiz")
        submit(self.store, batch, "demo-papers", system("m.ruiz"))
        self.store.queue.hold("collection", "maps", "k.lee", "the map room is moving house")
        for number in range(1, MAPS + 1):
            plan = self.home / "depositor" / f"object-{number}" / "page-1.txt"
            payload = self.world.staging.put_file(plan).url
            one = Submission(
                profile="maps",
                payload=payload,
                type="file",
                filename=f"plan-{number}.txt",
                submitter="t.jensen",
                title=f"Plan {number}",
            )
            submit(self.store, one, f"demo-map-{number}", system("t.jensen"))

    def _remember_faults(self) -> None:
        """A restarted demo's web server still lacks the file, until someone has mended it."""
        if not (self.home / "depositor" / "mended").exists():
            misbehave(self.server)
            self.server.faults = {path: found for path, found in self.server.faults.items() if found.fault == "gone"}

    def kinds(self) -> Sequence[Kind]:
        return kinds(self.world)

    def mend(self) -> None:
        """The depositor puts the missing file back."""
        (self.home / "depositor" / "mended").touch()
        self.server.mend()

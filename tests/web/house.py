"""A served archive for tests: deposits that went well and badly, tokens for every role, a client for each."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fastapi import FastAPI
from starlette.testclient import TestClient

from custody.engine import Backoff, Serving, Settings, Worker
from custody.ingest.manifest.form import Row
from custody.ingest.serving import kinds
from custody.ingest.states import MACHINES
from custody.model.job import NewJob
from custody.model.machine import Machines
from custody.model.schedule import Schedule
from custody.web import bulk
from custody.web.app import Options, build_app
from custody.web.caller import ROLES
from custody.web.site import Site
from custody.web.tokens import Tokens
from ingest.bench import Archive, archive

SECRET = b"a secret of thirty-two bytes, no less"
TABLES = Machines(MACHINES)
TITLES = (
    "Field notebook",
    "Map <script>alert(1)</script>",
    "=cmd()|' /C calc'!A0",
    "Lettres à une sœur",
    "Tide tables",
)


@dataclass
class House:
    archive: Archive
    app: FastAPI
    secrets: dict[str, str] = field(default_factory=dict)
    papers: int = 0  # a batch with failures
    maps: int = 0  # a batch that is held

    @property
    def site(self) -> Site:
        site: Site = self.app.state.site
        return site

    def client(self, who: str = "", **headers: str) -> TestClient:
        """With the token of a role (admin, reader/papers …); without one as somebody unknown."""
        made = TestClient(
            self.app, base_url="http://127.0.0.1", client=("127.0.0.1", 50000), raise_server_exceptions=False,
            follow_redirects=False,
        )  # fmt: skip
        if who:
            made.headers["Authorization"] = f"Bearer {self.token(who)}"
        made.headers.update(headers)
        return made

    def token(self, who: str) -> str:
        """`role`, or `role/collection`."""
        if who not in self.secrets:
            role, _, collection = who.partition("/")
            made = Tokens(self.archive.store).create(who.replace("/", "-"), [role], [collection or "*"])
            self.secrets[who] = made[1]
        return self.secrets[who]

    def worker(self) -> Worker:
        serving = Serving((*kinds(self.archive.world, Backoff(first=0.01)), *bulk.kinds(self.archive.store, TABLES)))
        return Worker(self.archive.store, serving, Settings(threads=2), self.site.options.telling)

    def work(self) -> None:
        """Until nothing can be done, and nothing becomes due by itself."""
        store = self.archive.store
        while True:
            self.worker().run_until_quiet()
            waiting = [job.due for job in store.queue.every() if job.due]
            if not waiting:
                return
            time.sleep(max(0.0, (min(waiting) - store.now()) / 1e6))

    def depositors_page(self) -> str:
        return self.site.links.path(self.archive.batch(self.papers), self.archive.store.now())


def fill(house: House) -> None:
    """Five objects, one of which is missing and one not as promised; a frozen collection; a schedule; an odd job."""
    home = house.archive
    rows = []
    for number, title in enumerate(TITLES, start=1):
        data = f"{title} {number}".encode() * 20
        row = home.object_row(f"o{number}/a.txt", data, **({"digest": "0" * 64} if number == 4 else {}))
        url = home.object_manifest(f"o{number}.checkm", [row])
        rows.append(Row(number, url, f"o{number}.checkm", local_ids=(f"loc{number}",), title=title))
    home.server.misbehave("/o2/a.txt", "gone")
    house.papers = home.submit(home.batch_manifest("b.checkm", rows), filename="b.checkm", submitter="m.ruiz")
    home.store.queue.hold("collection", "maps", "k.lee", "the map room is moving house")
    house.maps = home.submit(home.put("plan.txt", b"a plan"), "maps", type="file", filename="plan.txt", submitter="t")
    home.store.schedules.put(Schedule("nightly", "0 3 * * *", "ingest/clean"), "ada")
    house.work()
    home.store.queue.submit([NewJob("parcel", {"name": "wrap me"}, lane="a", collection="papers")], "ada")
    home.store.leases.claim("minter", "somebody", 600)


@contextmanager
def open_house(folder: Path, demo: bool = False, filled: bool = True, **options: object) -> Iterator[House]:
    url = f"sqlite:///{folder / 'custody.db'}"
    with archive(folder, url) as home:
        settings = Options(SECRET, demo=demo, machines=TABLES, world=home.world, **options)  # type: ignore[arg-type]
        house = House(home, build_app(home.store, settings))
        if filled:
            fill(house)
        yield house


EVERY_ROLE = ROLES

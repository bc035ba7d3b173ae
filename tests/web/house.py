"""A served archive for tests: all four applications with something in them, tokens for every role, clients."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fastapi import FastAPI
from starlette.testclient import TestClient

from custody.border.roots import roots
from custody.border.sandbox.sandbox import Available, Sandboxes
from custody.channels import jobs as work
from custody.channels import snowflake
from custody.channels.blobs.local import Files
from custody.channels.crawl.coverage import Coverage, Gap
from custody.channels.kinds import ChannelConfig, settings_of
from custody.channels.messages.reader import readers
from custody.channels.table import Table
from custody.formats.checkm.form import Row
from custody.ingest.config import IngestConfig, node_roots
from custody.ingest.kinds import kinds
from custody.ingest.states import MACHINES
from custody.kernel.access.rights import ROLES
from custody.kernel.access.tokens import Tokens
from custody.kernel.engine import Backoff, Serving, Settings, Worker
from custody.kernel.history.keys import make_key
from custody.kernel.history.sealer import Sealer
from custody.kernel.model.authority.acting import system
from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import NewItem
from custody.kernel.model.job import Filter, Job, NewJob
from custody.kernel.model.machine import Machines
from custody.kernel.model.schedule import Schedule
from custody.robots import runner
from custody.robots.programs.sandboxed import Yard
from custody.robots.ready import fixity, formats
from custody.web.access.rate_limits import Rate
from custody.web.app import Options, build_app
from custody.web.operations import bulk, verification
from custody.web.pages.all_sections import SECTIONS
from custody.web.site import Site
from custody.workflows.archives.table import Archives
from custody.workflows.kinds import kinds as workflow_kinds
from custody.workflows.kinds import reconcile_all
from custody.workflows.makers import TASK_KIND
from custody.workflows.tasks.runner import Runner
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

ROBOTS = (fixity, formats)
CHANNEL, EMPTY_CHANNEL, THREAD = 629_000_000_000_000_001, 629_000_000_000_000_002, 629_000_000_000_000_003
BEGAN = snowflake.parse(CHANNEL) + (1 << 40)  # the first message's id
WORKFLOW = """\
- name: index
  script: wc -l *.txt
  outputs: [index.txt]
- name: build
  depends: [index]
  cancels: [PREV]
  script: cat *.txt
"""
LOG = "\n".join(f"line {number} of the log" for number in range(1, 1201)) + "\n\x1b[31mred <b>end</b>\x1b[0m\n"


@dataclass
class House:
    archive: Archive
    app: FastAPI
    secrets: dict[str, str] = field(default_factory=dict)
    papers: int = 0  # a batch with failures
    maps: int = 0  # a batch that is held
    task: int = 0  # a task of an archive that has printed something

    @property
    def site(self) -> Site:
        site: Site = self.app.state.site
        return site

    def client(self, who: str = "", **headers: str) -> TestClient:
        """With the token of a role (admin, reader/papers …); without one as somebody unknown."""
        made = TestClient(
            self.app,
            base_url="http://127.0.0.1",
            client=("127.0.0.1", 50000),
            raise_server_exceptions=False,
            follow_redirects=False,
        )
        if who:
            made.headers["Authorization"] = f"Bearer {self.token(who)}"
        made.headers.update(headers)
        return made

    def token(self, who: str) -> str:
        """`role`, `role/collection` or `role@collection`; several with + between them. A hook is the book's, or that
        archive's."""
        if who not in self.secrets:
            given, _, collection = who.partition("/")
            roles, name = re.split(r"\+(?=[a-z])", given), who.replace("/", "-").replace("+", "-")
            archives = [collection or "book"] if "hook" in roles else []
            made = Tokens(self.archive.store).create(name, roles, [collection or "*"], archives=archives)
            self.secrets[who] = made[1]
        return self.secrets[who]

    def agent(self, who: str) -> str:
        """As the history names whoever has the token of a role."""
        caller = self.site.tokens.caller(self.token(who))
        assert caller is not None
        return f"{caller.name} (token:{caller.token})"

    def worker(self) -> Worker:
        store, options = self.archive.store, self.site.options
        own = (*bulk.kinds(store, TABLES), *verification.kinds(store, options.keeping))
        commits = workflow_kinds(self.shop)[:1]
        robots = runner.kinds(store, ROBOTS, yard=Yard(self.archive.home / "yard", options.roots))
        serving = Serving((*kinds(self.archive.world, Backoff(first=0.01)), *own, *commits, *robots))
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

    @property
    def shop(self) -> Runner:
        assert self.site.options.shop is not None
        return self.site.options.shop

    def table(self, channel: int) -> Table:
        assert self.site.options.readers is not None
        return self.site.options.readers(channel).table

    def seal(self) -> None:
        self.site.options.keeping.seal(self.archive.store.ledger, self.archive.store.now())

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
    home.store.schedules.put(Schedule("nightly", "0 3 * * *", "ingest/clean"), system("ada"))
    house.work()
    home.store.queue.submit([NewJob("parcel", {"name": "wrap me"}, lane="a", collection="papers")], system("ada"))
    home.store.leases.claim("minter", "somebody", 600)
    mirror_something(house)
    keep_a_book(house)
    house.seal()


def mirror_something(house: House) -> None:
    """A channel with a known gap and a message to be looked at again, and one that cannot be read any more."""
    store, table = house.archive.store, house.table(CHANNEL)
    messages = [message(number) for number in range(120)]
    messages[3]["content"] = "<script>alert(2)</script>"
    last = int(messages[-1]["id"])
    gap = Gap(int(messages[40]["id"]), int(messages[60]["id"]))
    table.upsert([raw for raw in messages if not gap.low < int(raw["id"]) < gap.high], Coverage(last, (gap,)).mark())
    table.upsert([messages[5] | {"content": "corrected", "edited_timestamp": "2020-01-01T00:00:00Z"}], table.mark)
    table.delete([int(messages[6]["id"])], "2026-01-01T00:00:00+00:00")
    for number, name, mirrored in ((CHANNEL, "harbour-talk", "yes"), (EMPTY_CHANNEL, "closed", "unreadable")):
        item = NewItem(work.item_id(number), frozenset({"channel"}), detail={"title": name, "mirrored": mirrored})
        told = "synced" if mirrored == "yes" else "unreadable"
        event = NewEvent(item.id, told, "success" if mirrored == "yes" else "failure", detail={"why": "no rights"})
        store.records.put([item], [event], "ada")
    thread = {"title": "a quiet corner", "mirrored": "yes", "parent": str(CHANNEL)}
    store.records.put([NewItem(work.item_id(THREAD), frozenset({"channel"}), detail=thread)])
    store.queue.submit([work.review_job(CHANNEL, int(messages[8]["id"]))], system("ada"))


def message(number: int) -> dict[str, object]:
    raw: dict[str, object] = {"id": str(BEGAN + (number << 32)), "content": f"message {number}", "type": 0}
    return raw | {"author": {"username": "ann"}, "attachments": [], "edited_timestamp": None}


def keep_a_book(house: House) -> None:
    """A git archive with two revisions; a task of the first has run and left a log and a file."""
    if not shutil.which("git"):
        return
    home, store = house.archive.home, house.archive.store
    write_book(home, 1)
    Archives(store).add("book", "git", str(home / "book.git"), "ada")
    reconcile_all(store)
    write_book(home, 2)
    reconcile_all(store)
    house.work()
    first = next(job for job in store.queue.every(Filter(kind=TASK_KIND)) if job.task == "index")
    house.task = first.id
    leave(house, first)


def leave(house: House, job: Job) -> None:
    folder = house.shop.folder(job)
    (folder / "outputs").mkdir(parents=True)
    (folder / "outputs" / "index.txt").write_text("3 chapters\n")
    (folder / "attempt-1.log").write_text(LOG)


def write_book(home: Path, chapter: int) -> None:
    desk, bare = home / "desk", home / "book.git"
    if not bare.exists():
        git("init", "-q", "--bare", "-b", "main", str(bare))
        git("clone", "-q", str(bare), str(desk))
    (desk / "_workflows").mkdir(exist_ok=True)
    (desk / "_workflows" / "book.yaml").write_text(WORKFLOW)
    (desk / f"{chapter}.txt").write_text("It was a dark and stormy night.\n")
    git("-C", str(desk), "add", ".")
    git("-C", str(desk), "commit", "-q", "-m", f"Chapter {chapter} <em>")
    git("-C", str(desk), "push", "-q", "origin", "HEAD:main")


def git(*words: str) -> None:
    who = {f"GIT_{part}_{what}": "ann@localhost" for part in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {**os.environ, **who, "GIT_CONFIG_GLOBAL": os.devnull}
    subprocess.run(["git", *words], check=True, env=environment, capture_output=True)


@contextmanager
def open_house(
    folder: Path, demo: bool = False, filled: bool = True, tree: str = "", **options: object
) -> Iterator[House]:
    """On SQLite; with a tree (its address) the deposits are there."""
    url = f"sqlite:///{folder / 'custody.db'}"
    with archive(folder, f"zookeeper://{tree}?with={url}" if tree else url) as home:
        blobs, form = Files(folder / "channels"), settings_of(ChannelConfig())
        signer = make_key(folder / "history.key", "house")
        shop = Runner(
            home.store,
            Sandboxes(folder / "sandboxes"),
            folder,
            folder / "tasks",
            Available(False),
            folder / "client",
            folder / "secrets",
        )
        given = {
            "rate": Rate(1e6, 10**6),
            "unknown_rate": Rate(1e6, 10**6),  # tests ask more often than people
            "machines": TABLES,
            "world": home.world,
            "sections": SECTIONS,
            "shop": shop,
            "open_kinds": ("parcel",),
            "readers": readers(home.store, blobs, form, ChannelConfig()),
            "roots": roots(node_roots(IngestConfig(), folder)),
            "keeping": Sealer((signer.public,), (folder / "witness.txt",), signer),
        } | options
        settings = Options(SECRET, demo=demo, **given)  # type: ignore[arg-type]
        house = House(home, build_app(home.store, settings))
        runner.subscribe(home.store, ROBOTS)
        if filled:
            fill(house)
        yield house


EVERY_ROLE = tuple(ROLES)

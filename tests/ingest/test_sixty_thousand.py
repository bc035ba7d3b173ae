"""A manifest of sixty thousand rows on ZooKeeper: it runs through, and no folder becomes too long to be listed.

Batches, fan-out, reports, making room and the history are the real ones; what a job does on its way is not: sixty
thousand downloads and stored objects would be the file system's benchmark, not the tree's. Jobs are moved by us, all
eight steps of each, with nothing to do in them; or, as that takes minutes, by another service of the fleet, which takes
them from the first queue to the last in one move.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from custody.formats.checkm.form import BATCH_OF_MANIFESTS, Row
from custody.formats.checkm.writer import write
from custody.ingest.kinds import kinds
from custody.ingest.states import JOB_KIND
from custody.ingest.zookeeper import tree
from custody.ingest.zookeeper.client.multi import Create, Delete, Op
from custody.ingest.zookeeper.client.session import Verdict
from custody.ingest.zookeeper.queue import TreeQueue
from custody.ingest.zookeeper.rows import Limits
from custody.kernel.engine import Serving, Settings, Worker
from custody.kernel.engine.kinds import Kind
from custody.kernel.model.job import FanOut
from custody.kernel.model.outcome import Passed
from custody.kernel.stores import Store
from faults.conftest import quick
from faults.processes import until
from ingest.bench import Archive, archive
from prove.plugin import Scaled, Tell
from rig.need import need
from rig.zookeeper import ZooKeeper

AS_SHIPPED = 60_000
PARTS = 6
COMPLETED = b'{"status":"Completed","last_modified":"2026-11-15 12:00:00 +0000","last_successful_status":"Notify"}'


@pytest.fixture
def roomy() -> Iterator[ZooKeeper]:
    """A server with memory for as many nodes as thirty thousand jobs have."""
    need("zookeeper")
    server = ZooKeeper(megabytes=2_048)
    server.start()
    yield server
    server.remove()


@dataclass
class Folders:
    """How many children each folder has, counted with every `multi` that was done; and the most it ever had."""

    now: Counter[str] = field(default_factory=Counter)
    most: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, ops: Sequence[Op]) -> None:
        with self.lock:
            for op in ops:
                if isinstance(op, Create | Delete):
                    folder = op.path.rpartition("/")[0]
                    self.now[folder] += 1 if isinstance(op, Create) else -1
                    self.most[folder] = max(self.most[folder], self.now[folder])

    def watch(self, store: Store) -> None:
        session: Any = store.queue._at.session  # type: ignore[attr-defined]
        send = session.commit_many

        def commit_many(moves: Iterable[Sequence[Op]]) -> list[Verdict]:
            sent: list[Sequence[Op]] = []
            verdicts: list[Verdict] = send(sent.append(ops) or ops for ops in moves)  # type: ignore[func-returns-value]
            for ops, verdict in zip(sent, verdicts, strict=True):
                if verdict.done:
                    self.count(ops)
            return verdicts

        session.commit_many = commit_many


@contextmanager
def asking(hosts: str, pause: float) -> Iterator[Counter[str]]:
    """What the server itself says, asked again and again by someone who knows nothing of us."""
    most, stop = Counter[str](), threading.Event()
    zk = KazooClient(hosts)
    zk.start()

    def ask() -> None:
        while not stop.wait(pause):
            batches = [tree.home(name) for name in zk.get_children("/batches")]
            lists = [f"{batch}/states/{name}" for batch in batches for name in tree.BATCH_LISTS]
            for path in (*tree.FOLDERS, tree.JOBS, *lists):
                stat = zk.exists(path)
                most[path] = max(most[path], stat.numChildren if stat else 0)

    asker = threading.Thread(target=ask)
    asker.start()
    try:
        yield most
    finally:
        stop.set()
        asker.join(60)
        zk.stop()
        zk.close()


def light(kind: Kind) -> Kind:
    """The same place in the table, and nothing to do there; a size is told, as provisioning asks for it."""
    told = {"space_needed": 10} if kind.state == "estimating" else {}
    is_step = kind.kind == JOB_KIND and kind.handler is not None
    return replace(kind, handler=lambda work: Passed(keep=told)) if is_step else kind


def long_manifest(home: Archive, rows: int) -> str:
    listed = (Row(n, f"https://depositor.example/{n}.checkm", f"{n}.checkm", title=f"No. {n}") for n in range(rows))
    return home.world.staging.put((line.encode() for line in write(BATCH_OF_MANIFESTS, listed)), "long.checkm").url


@contextmanager
def working(home: Archive, on_jobs: bool) -> Iterator[None]:
    serving = Serving(tuple(light(kind) for kind in kinds(home.world) if on_jobs or kind.kind != JOB_KIND))
    worker = Worker(home.store, serving, Settings(threads=2, poll=0.1))
    thread = threading.Thread(target=worker.run_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join(60)


@contextmanager
def another_service(hosts: str, folders: Folders) -> Iterator[None]:
    """It knows nothing of us: whatever is pending, it completes, so many in one go."""
    zk, stop = KazooClient(hosts), threading.Event()
    zk.start()

    def complete() -> None:
        while not stop.wait(0.05):
            entries = sorted(zk.get_children("/jobs/states/pending"))
            for start in range(0, len(entries), 100):
                folders.count(complete_these(zk, entries[start : start + 100]))

    thread = threading.Thread(target=complete, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)
        zk.stop()
        zk.close()


def complete_these(zk: Any, entries: Sequence[str]) -> Sequence[Op]:
    """What was made and taken away by it."""
    jobs = [entry[3:] for entry in entries]
    asked = [zk.get_async(f"/jobs/{job}/bid") for job in jobs]
    move, done = zk.transaction(), list[Op]()
    for job, entry, answer in zip(jobs, entries, asked, strict=True):
        lists = f"/batches/{answer.get()[0].decode()}/states"
        move.set_data(f"/jobs/{job}/status", COMPLETED)
        done += [Delete(f"/jobs/states/pending/{entry}"), Create(f"/jobs/states/completed/{entry}")]
        done += [Delete(f"{lists}/batch-processing/{job}"), Create(f"{lists}/batch-completed/{job}")]
    for op in done:
        move.create(op.path) if isinstance(op, Create) else move.delete(op.path)
    assert not [answer for answer in move.commit() if isinstance(answer, Exception)]
    return done


def reported(home: Archive) -> list[tuple[int, str]]:
    """Every row that some report told of, and how it ended."""
    told: list[tuple[int, str]] = []
    for name in home.mails():
        message = message_from_bytes((home.home / "outbox" / name).read_bytes(), _class=EmailMessage, policy=SMTP)
        (report,) = [part for part in message.iter_attachments() if part.get_filename() == "report.json"]
        told += [(job["row"], job["state"]) for job in json.loads(report.get_content())["jobs"]]
    return sorted(told)


@pytest.mark.proves("G17")
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("who", ["we", "another service"])
def test_a_manifest_of_sixty_thousand_rows_runs_through_and_every_folder_can_be_listed(
    who: str, roomy: ZooKeeper, tell: Tell, scaled: Scaled[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = scaled(120, 12_000 if who == "we" else AS_SHIPPED, AS_SHIPPED)
    limits = Limits()
    if rows < AS_SHIPPED:  # everything smaller in proportion
        limits = Limits(jobs=rows // 2)
        monkeypatch.setattr(TreeQueue, "fan_out", FanOut(at_once=min(100, rows // 24), most=rows // PARTS))
    hosts, folders = roomy.fresh_root(), Folders()
    with quick() as folder:
        url = f"zookeeper://{hosts}?with=sqlite:///{folder}/custody.db"
        with archive(Path(folder), url, limits=limits) as home, asking(hosts, 0.05 + rows / 100_000) as asked:
            folders.watch(home.store)
            begun, used = time.monotonic(), time.process_time()
            home.submit(long_manifest(home, rows), type="batch-manifest")
            with working(home, who == "we"), nullcontext() if who == "we" else another_service(hosts, folders):
                until(lambda: len(home.mails()) == PARTS, 60 + rows / 5, "every part has been reported")
            seconds, used = time.monotonic() - begun, time.process_time() - used
            assert reported(home) == [(row + 5, "completed") for row in range(1, rows + 1)]
            jobs = max(folders.most[path] for path in (tree.JOBS, tree.OUR_JOBS))
            most = limits.jobs + rows // PARTS  # one batch may have to be made to its end in a full tree
            assert rows // 3 < jobs <= most, "no more at once than may be, in waves"
            assert asked[tree.JOBS] <= most + 1, "as the server sees it, with the folder of the queues"
    largest = max(*folders.most.values(), *asked.values())
    told = f"{rows} jobs in {PARTS} batches completed, moved by {who}, in {seconds:.0f} s ({used:.0f} s of CPU)"
    tell(f"{told}: {largest} children at most, {jobs} jobs at once", children=largest)


LARGEST = 40_000


@pytest.mark.proves("G17")
def test_the_largest_folder_there_may_be_is_listed_by_the_servers_own_client(
    zookeeper: ZooKeeper, scaled: Scaled[int], tell: Tell
) -> None:
    """Its answers end at a megabyte; names as long as those of our queues."""
    count = scaled(2_000, LARGEST, LARGEST)
    root = zookeeper.fresh_root()
    zk = KazooClient(root)
    zk.start()
    try:
        for start in range(0, count, 500):
            move = zk.transaction()
            for number in range(start, min(count, start + 500)):
                move.create(f"/05-jid{number:010d}")
            assert not [answer for answer in move.commit() if isinstance(answer, Exception)]
    finally:
        zk.stop()
        zk.close()
    said = zookeeper.own_client("ls", f"/{root.partition('/')[2]}")
    (listed,) = [line for line in said.splitlines() if line.startswith("[05-jid")]
    assert listed.count("05-jid") == count
    tell(f"{count} children listed by ZooKeeper's own client", listed=count)

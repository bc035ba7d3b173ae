"""The queue design as a table of cases: for every "A → B" of it, the whole tree before and after, on a real ZooKeeper.

The tree before is written by another service (peer.py); the move is made by our engine with a step that only says how
it went; the tree after must be the tree before with exactly these changes. Times are `now`. What is ours, below
/custody, is left out here. Where a case differs from the design, `docs/why/ingest.md` says why.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from custody.formats.checkm.form import Row
from custody.ingest.actions import ask_for_update
from custody.ingest.batch import cleanup
from custody.ingest.states import BATCH, BATCH_KIND, JOB, JOB_KIND, MACHINES
from custody.ingest.submission.submission import Submission, row_jobs, submit
from custody.ingest.zookeeper import open_tree, repair
from custody.ingest.zookeeper.store import open_session, read_address
from custody.ingest.zookeeper.tree import id_of
from custody.kernel.engine import Kind, Serving, Settings, Work, Worker
from custody.kernel.model.authority.acting import system
from custody.kernel.model.job import Filter
from custody.kernel.model.machine import Machines
from custody.kernel.model.outcome import Failed, Outcome, Passed
from custody.kernel.operations.jobs import Operator
from custody.kernel.stores import Store
from custody.kernel.stores.fsck import recount
from ingest.peer import Peer

BID, JID, OTHER = "bid0000000000", "jid0000000001", "jid0000000002"
GONE = None
Tree = dict[str, Any]


@dataclass
class Bench:
    store: Store
    peer: Peer
    url: str

    @property
    def operator(self) -> Operator:
        return Operator(self.store, Machines(MACHINES), "ada")

    def work(self, kind: str, state: str, step: Callable[[Work], Outcome]) -> None:
        """One worker that knows one step."""
        machine = JOB if kind == JOB_KIND else BATCH
        serving = Serving((Kind(kind, step, state=state, machine=machine, tries=1),))
        Worker(self.store, serving, Settings(threads=1)).run_until_idle()

    def tree(self) -> Tree:
        """Every node and what is in it, without what is ours; locks are those that are held."""
        found: Tree = {}
        todo = ["/batches", "/batch-uuids", "/jobs", "/locks"]
        while todo:
            path = todo.pop()
            data, _ = self.peer.zk.get(path)
            found[path] = _value(data.decode())
            todo += [f"{path}/{name}" for name in self.peer.zk.get_children(path)]
        return found


def _value(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    if isinstance(value, dict) and "last_modified" in value:
        value["last_modified"] = "now"
    return value


@pytest.fixture
def bench(zookeeper_hosts: str, tmp_path: Path) -> Iterator[Bench]:
    url = f"zookeeper://{zookeeper_hosts}?with=sqlite:///{tmp_path / 'custody.db'}"
    with open_tree(url, session_seconds=10) as store:
        peer = Peer(zookeeper_hosts)
        yield Bench(store, peer, url)
        peer.close()
        assert recount(store) == []
    with open_session(read_address(url)) as session:
        assert repair.find(session) == [], "nothing is left for the orphan report"


def batch_status(status: str, message: str = "") -> Tree:
    return {"status": status, "last_modified": "now", "message": message}


def job_status(status: str, last: str | None, retries: int = 0, message: str = "") -> Tree:
    return {
        "status": status,
        "last_modified": "now",
        "last_successful_status": last,
        "retry_count": retries,
        "message": message,
    }


@dataclass(frozen=True)
class JobCase:
    """A job in a state; what happens; what is different then."""

    name: str
    state: str
    last: str | None
    act: Callable[[Bench], None]
    changes: Mapping[str, Any]
    priority: int = 10
    holds: tuple[str, ...] = ()
    payload: Mapping[str, Any] = field(default_factory=dict)


def step(state: str, outcome: Outcome, keep: Mapping[str, Any] | None = None) -> Callable[[Bench], None]:
    def run(work: Work) -> Outcome:
        if keep:
            work.keep(**keep)
        return outcome

    return lambda bench: bench.work(JOB_KIND, state, run)


def moves(state: str, to: str, status: Tree, priority: int = 10, lists: tuple[str, str] | None = None) -> Tree:
    """The status, and the entry in the queue; and, when it ends or begins again, that on the batch's list."""
    changed: Tree = {
        f"/jobs/{JID}/status": status,
        f"/jobs/states/{state}/{priority:02d}-{JID}": GONE,
        f"/jobs/states/{to}/{priority:02d}-{JID}": "",
    }
    if lists:
        changed |= {f"/batches/{BID}/states/{lists[0]}/{JID}": GONE, f"/batches/{BID}/states/{lists[1]}/{JID}": ""}
    return changed


FAIL = ("batch-processing", "batch-failed")
COMPLETE = ("batch-processing", "batch-completed")
RESUME = ("batch-failed", "batch-processing")
BROKEN = Failed("broken", "it did not work")
ARK = "ark:/99999/fk4555"
MANIFEST = "file:///work/mrt-manifest.txt"


def resume(bench: Bench) -> None:
    bench.operator.resume(id_of(JID), "mended")


def release(bench: Bench) -> None:
    bench.operator.release(id_of(JID), "go on")


def delete(bench: Bench) -> None:
    bench.operator.delete(id_of(JID), "not wanted")


JOB_CASES = [
    JobCase(
        "Pending --> Failed",
        "Pending",
        None,
        step("pending", BROKEN),
        moves("pending", "failed", job_status("Failed", None, message="it did not work"), 5, FAIL),
        priority=5,
    ),
    JobCase(
        "Pending --> Held",
        "Pending",
        None,
        step("pending", Passed()),
        moves(
            "pending",
            "held",
            job_status("Held", None, message="collection papers is held by another service: it holds the collection"),
            5,
        ),
        priority=5,
        holds=("papers",),
    ),
    JobCase(
        "Pending --> Estimating",
        "Pending",
        None,
        step("pending", Passed()),
        moves("pending", "estimating", job_status("Estimating", "Pending"), 5),
        priority=5,
    ),
    JobCase(
        "Held --> Pending",
        "Held",
        None,
        release,
        moves("held", "pending", job_status("Pending", None, message="go on"), 5),
        priority=5,
    ),
    JobCase(
        "Estimating --> Provisioning",
        "Estimating",
        "Pending",
        step("estimating", Passed(keep={"space_needed": 1_000_000_000}, priority=10)),
        {
            f"/jobs/{JID}/status": job_status("Provisioning", "Estimating"),
            f"/jobs/{JID}/priority": 10,
            f"/jobs/{JID}/space_needed": 1_000_000_000,
            f"/jobs/states/estimating/05-{JID}": GONE,
            f"/jobs/states/provisioning/10-{JID}": "",
        },
        priority=5,
    ),
    JobCase(
        "Estimating --> Provisioning, of unknown size",
        "Estimating",
        "Pending",
        step("estimating", Passed(keep={"space_needed": None}, priority=99)),
        {
            f"/jobs/{JID}/status": job_status("Provisioning", "Estimating"),
            f"/jobs/{JID}/priority": 99,
            f"/jobs/{JID}/space_needed": -1,
            f"/jobs/states/estimating/95-{JID}": GONE,
            f"/jobs/states/provisioning/99-{JID}": "",
        },
        priority=95,
    ),
    JobCase(
        "Provisioning --> Downloading",
        "Provisioning",
        "Estimating",
        step("provisioning", Passed()),
        moves("provisioning", "downloading", job_status("Downloading", "Provisioning")),
    ),
    JobCase(
        "Downloading --> Processing",
        "Downloading",
        "Provisioning",
        step("downloading", Passed(keep={"space_needed": 1_000_000_000})),
        moves("downloading", "processing", job_status("Processing", "Downloading"))
        | {f"/jobs/{JID}/space_needed": 1_000_000_000},
    ),
    JobCase(
        "Downloading --> Failed",
        "Downloading",
        "Provisioning",
        step("downloading", BROKEN),
        moves("downloading", "failed", job_status("Failed", "Provisioning", message="it did not work"), 10, FAIL),
    ),
    JobCase(
        "Processing --> Storing",
        "Processing",
        "Downloading",
        step("processing", Passed(keep={"storage_manifest": MANIFEST, "storage_node": "main"}), {"primary": ARK}),
        moves("processing", "storing", job_status("Storing", "Processing"))
        | {
            f"/jobs/{JID}/identifiers": {"primary_id": ARK, "local_id": ["loc002"]},
            f"/jobs/{JID}/store": {"manifest_url": MANIFEST, "mode": "add/main/ark%3A%2F99999%2Ffk4555"},
            f"/jobs/{JID}/inventory": {"manifest_url": MANIFEST, "mode": "add"},
        },
    ),
    JobCase(
        "Processing --> Failed",
        "Processing",
        "Downloading",
        step("processing", BROKEN),
        moves("processing", "failed", job_status("Failed", "Downloading", message="it did not work"), 10, FAIL),
    ),
    JobCase(
        "Storing --> Recording",
        "Storing",
        "Processing",
        step("storing", Passed()),
        moves("storing", "recording", job_status("Recording", "Storing")),
    ),
    JobCase(
        "Storing --> Failed",
        "Storing",
        "Processing",
        step("storing", BROKEN),
        moves("storing", "failed", job_status("Failed", "Processing", message="it did not work"), 10, FAIL),
    ),
    JobCase(
        "Recording --> Notify",
        "Recording",
        "Storing",
        step("recording", Passed()),
        moves("recording", "notify", job_status("Notify", "Recording")),
    ),
    JobCase(
        "Recording --> Failed",
        "Recording",
        "Storing",
        step("recording", BROKEN),
        moves("recording", "failed", job_status("Failed", "Storing", message="it did not work"), 10, FAIL),
    ),
    JobCase(
        "Notify --> Completed",
        "Notify",
        "Recording",
        step("notify", Passed()),
        moves("notify", "completed", job_status("Completed", "Notify"), 10, COMPLETE),
    ),
    JobCase(
        "Notify --> Failed",
        "Notify",
        "Recording",
        step("notify", BROKEN),
        moves("notify", "failed", job_status("Failed", "Recording", message="it did not work"), 10, FAIL),
    ),
    JobCase(
        "Failed --> Downloading",
        "Failed",
        "Provisioning",
        resume,
        moves("failed", "downloading", job_status("Downloading", "Provisioning", 1, "mended"), 10, RESUME),
    ),
    JobCase(
        "Failed --> Processing",
        "Failed",
        "Downloading",
        resume,
        moves("failed", "processing", job_status("Processing", "Downloading", 1, "mended"), 10, RESUME),
    ),
    JobCase(
        "Failed --> Storing",
        "Failed",
        "Processing",
        resume,
        moves("failed", "storing", job_status("Storing", "Processing", 1, "mended"), 10, RESUME),
    ),
    JobCase(
        "Failed --> Recording",
        "Failed",
        "Storing",
        resume,
        moves("failed", "recording", job_status("Recording", "Storing", 1, "mended"), 10, RESUME),
    ),
    JobCase(
        "Failed --> Notify",
        "Failed",
        "Recording",
        resume,
        moves("failed", "notify", job_status("Notify", "Recording", 1, "mended"), 10, RESUME),
    ),
    JobCase(
        "Failed --> DELETED",
        "Failed",
        "Downloading",
        delete,
        moves(
            "failed",
            "deleted",
            job_status("Deleted", "Downloading", message="not wanted"),
            10,
            ("batch-failed", "batch-deleted"),
        ),
    ),
    JobCase(
        "Held --> DELETED",
        "Held",
        None,
        delete,
        moves(
            "held",
            "deleted",
            job_status("Deleted", None, message="not wanted"),
            10,
            ("batch-processing", "batch-deleted"),
        ),
    ),
]


@pytest.mark.parametrize("case", JOB_CASES, ids=lambda case: case.name)
def test_job(bench: Bench, case: JobCase) -> None:
    bench.peer.create_batch({"profile": "papers", "submitter": "ada", "payload_url": "http://127.0.0.1/x"})
    bench.peer.zk.set(f"/batches/{BID}/status", json.dumps(batch_status("Processing")).encode())
    job = bench.peer.create_job(
        BID, {"profile": "papers", "localID": "loc002"}, case.state, case.priority, last_successful_status=case.last
    )
    assert job == JID
    bench.peer.create_job(BID, {"profile": "papers"}, "Held", 5)  # so that the batch is not done with it
    for which in ("batch-processing", "batch-failed", "batch-completed", "batch-deleted"):
        bench.peer.zk.ensure_path(f"/batches/{BID}/states/{which}")
    for name in case.holds:
        bench.peer.zk.create(f"/locks/collections/{name}")
    before = bench.tree()
    case.act(bench)
    assert bench.tree() == changed(before, case.changes)


def changed(before: Tree, changes: Mapping[str, Any]) -> Tree:
    for path, value in changes.items():
        if value is GONE:
            assert path in before, f"{path} was not there"
    kept = {path: value for path, value in before.items() if changes.get(path, "") is not GONE}
    return {**kept, **{path: value for path, value in changes.items() if value is not GONE}}


# Batches


@dataclass(frozen=True)
class BatchCase:
    name: str
    status: str
    jobs: Mapping[str, str | None]  # the state of each, and what it passed last
    act: Callable[[Bench], None]
    changes: Mapping[str, Any]
    holds: tuple[str, ...] = ()


def batch_step(state: str, outcome: Outcome) -> Callable[[Bench], None]:
    return lambda bench: bench.work(BATCH_KIND, state, lambda work: outcome)


def spawn(work: Work) -> Outcome:
    rows = [
        Row(1, "file1.checkm", "file1.checkm", local_ids=("loc001",)),
        Row(2, "file2.checkm", "file2.checkm", local_ids=("loc002",)),
        Row(3, "file3.checkm", "file3.checkm", local_ids=("loc003",), primary="ark123"),
    ]
    jobs = list(row_jobs(work.job.id, work.payload, iter(rows), "object-manifest", 5))
    work.spawn(jobs[:2], fanned=2)
    work.spawn(jobs[2:], fanned=3)
    return Passed(keep={"jobs": 3})


def born(number: int, local_id: str, primary: str = "") -> Tree:
    name = f"jid000000000{number}"
    configuration = {
        "profile": "papers",
        "payload_url": f"file{number}.checkm",
        "type": "object-manifest",
        "submitter": "ada",
        "filename": f"file{number}.checkm",
        "localID": local_id,
        "row": number,
        "line": number,
        "batchID": "",
        "jobID": "made of the batch's and the row",
        **({"objectID": primary} if primary else {}),
    }
    return {
        f"/jobs/{name}": "",
        f"/jobs/{name}/bid": BID,
        f"/jobs/{name}/configuration": configuration,
        f"/jobs/{name}/identifiers": {"primary_id": primary, "local_id": [local_id]},
        f"/jobs/{name}/priority": 5,
        f"/jobs/{name}/space_needed": 0,
        f"/jobs/{name}/status": job_status("Pending", None),
        f"/jobs/states/pending/05-{name}": "",
        f"/batches/{BID}/states/batch-processing/{name}": "",
    }


LISTS = {
    f"/batches/{BID}/states{name}": ""
    for name in ("", "/batch-processing", "/batch-failed", "/batch-completed", "/batch-deleted")
}


def status_is(status: str, message: str = "") -> Tree:
    return {f"/batches/{BID}/status": batch_status(status, message)}


def report_is(failed: list[str], completed: list[str]) -> Tree:
    return {
        f"/batches/{BID}/status-report": {
            "last_modified": "now",
            "failed_jobs": failed,
            "successful_jobs": completed,
        }
    }


def last_job_fails(bench: Bench) -> None:
    bench.work(JOB_KIND, "notify", lambda work: BROKEN)


def ask(bench: Bench) -> None:
    # What it told is kept by the report itself; here another service is said to have told it.
    batch = bench.store.queue.get(id_of(BID))
    object.__setattr__(batch, "facts", {"told": "staged:…"})
    ask_for_update(bench.store, batch, "ada")


def release_batch(bench: Bench) -> None:
    bench.operator.release(id_of(BID))


def delete_batch(bench: Bench) -> None:
    cleanup.delete_batch(bench.store, bench.store.queue.get(id_of(BID)), "ada", "no more attempts")


BATCH_CASES = [
    BatchCase(
        "Pending to Held",
        "Pending",
        {},
        batch_step("pending", Passed()),
        status_is("Held", "collection papers is held by another service: it holds the collection"),
        holds=("papers",),
    ),
    BatchCase(
        "Pending --> Processing",
        "Pending",
        {},
        lambda bench: bench.work(BATCH_KIND, "pending", spawn),
        status_is("Processing") | LISTS | born(1, "loc001") | born(2, "loc002") | born(3, "loc003", "ark123"),
    ),
    BatchCase(
        "Pending --> Failed",
        "Pending",
        {},
        batch_step("pending", BROKEN),
        status_is("Failed", "it did not work") | LISTS,
    ),
    BatchCase("Held --> Pending", "Held", {}, release_batch, status_is("Pending")),
    BatchCase(
        "Processing --> Reporting",
        "Processing",
        {"Completed": "Notify", "Notify": "Recording"},
        last_job_fails,
        status_is("Reporting")
        | {
            f"/jobs/{OTHER}/status": job_status("Failed", "Recording", message="it did not work"),
            f"/jobs/states/notify/05-{OTHER}": GONE,
            f"/jobs/states/failed/05-{OTHER}": "",
            f"/batches/{BID}/states/batch-processing/{OTHER}": GONE,
            f"/batches/{BID}/states/batch-failed/{OTHER}": "",
        },
    ),
    BatchCase(
        "Reporting --> Completed",
        "Reporting",
        {"Completed": "Notify"},
        batch_step("reporting", Passed()),
        status_is("Completed") | report_is([], [JID]),
    ),
    BatchCase(
        "Reporting --> Failed",
        "Reporting",
        {"Failed": "Pending", "Completed": "Notify"},
        batch_step("reporting", Failed("batch.incomplete", "1 of 2 objects failed")),
        status_is("Failed", "1 of 2 objects failed") | report_is([JID], [OTHER]),
    ),
    BatchCase("Failed --> UpdateReporting", "Failed", {"Failed": "Pending"}, ask, status_is("UpdateReporting")),
    BatchCase(
        "UpdateReporting --> Completed",
        "UpdateReporting",
        {"Completed": "Notify"},
        batch_step("update-reporting", Passed()),
        status_is("Completed") | report_is([], [JID]),
    ),
    BatchCase(
        "UpdateReporting --> Failed",
        "UpdateReporting",
        {"Failed": "Pending"},
        batch_step("update-reporting", Failed("batch.incomplete", "1 of 1 objects failed")),
        status_is("Failed", "1 of 1 objects failed") | report_is([JID], []),
    ),
]


def plant(bench: Bench, case_status: str, jobs: Mapping[str, str | None]) -> None:
    bench.peer.create_batch({"profile": "papers", "submitter": "ada", "payload_url": "http://127.0.0.1/x"})
    bench.peer.zk.set(f"/batches/{BID}/status", json.dumps(batch_status(case_status)).encode())
    for state, last in jobs.items():
        bench.peer.create_job(BID, {"profile": "papers"}, state, 5, last_successful_status=last)
    if jobs:
        for path in LISTS:
            bench.peer.zk.ensure_path(path)


@pytest.mark.parametrize("case", BATCH_CASES, ids=lambda case: case.name)
def test_batch(bench: Bench, case: BatchCase) -> None:
    plant(bench, case.status, case.jobs)
    for name in case.holds:
        bench.peer.zk.create(f"/locks/collections/{name}")
    before = bench.tree()
    case.act(bench)
    after = bench.tree()
    for value in after.values():
        if isinstance(value, dict) and "jobID" in value:
            assert value["jobID"].startswith("jid-")
            value["jobID"] = "made of the batch's and the row"
    assert after == changed(before, case.changes)


def test_a_submission_is_one_batch_with_all_its_nodes_and_nothing_else(bench: Bench) -> None:
    before = bench.tree()
    given = Submission("papers", "http://127.0.0.1/x", "file", submitter="ada", title="A title", creator="An author")
    number, _ = submit(bench.store, given, None, system("ada"))
    after = bench.tree()
    uuid = after[f"/batches/{BID}/submission"]["batchID"]
    assert number == id_of(BID)
    assert after == changed(
        before,
        status_is("Pending")
        | {
            f"/batches/{BID}": "",
            f"/batches/{BID}/submission": {
                "batchID": uuid,
                "profile": "papers",
                "payload_url": "http://127.0.0.1/x",
                "type": "file",
                "submitter": "ada",
                "title": "A title",
                "creator": "An author",
            },
            f"/batch-uuids/{uuid}": BID,
        },
    )


@pytest.mark.parametrize("kind", [BATCH_KIND, JOB_KIND])
def test_acquiring_makes_the_lock_that_every_service_looks_for_and_settling_takes_it_away(
    bench: Bench, kind: str
) -> None:
    plant(bench, "Pending" if kind == BATCH_KIND else "Processing", {} if kind == BATCH_KIND else {"Pending": None})
    lock = f"/batches/{BID}/lock" if kind == BATCH_KIND else f"/jobs/{JID}/lock"
    seen: list[tuple[bytes, bool]] = []

    def look(work: Work) -> Outcome:
        data, stat = bench.peer.zk.get(lock)
        seen.append((data, stat.ephemeralOwner != 0))
        return BROKEN

    bench.work(kind, "pending", look)
    assert seen == [(b"", True)]
    assert bench.peer.zk.exists(lock) is None


@pytest.mark.parametrize(
    ("status", "jobs"),
    [
        ("Failed", {"Failed": "Pending", "Completed": "Notify", "Deleted": "Pending"}),
        ("Held", {}),
        ("Completed", {"Completed": "Notify"}),
    ],
    ids=["Failed --> DELETED", "Held --> Deleted", "Completed --> Automatic Cleanup, Job: Completed --> DELETED"],
)
def test_a_deleted_batch_leaves_nothing_but_its_history(
    bench: Bench, status: str, jobs: Mapping[str, str | None]
) -> None:
    before = bench.tree()
    plant(bench, status, jobs)
    count = len(jobs)
    delete_batch(bench)
    assert bench.tree() == before
    for job in (id_of(f"jid000000000{number}") for number in range(1, count + 1)):
        events = bench.store.records.events(f"job/{job}")
        assert not events or events[-1].type == "deleted"
    assert bench.store.records.events(f"job/{id_of(BID)}")[-1].type == "deleted"
    assert list(bench.store.queue.every(Filter(kind=BATCH_KIND))) == []

"""Whatever a deposit waits for, `why` names it and says what would clear it: one case for each blocker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from custody.errors import Unavailable
from custody.ingest import why
from custody.ingest.kinds import kinds
from custody.ingest.states import JOB_KIND
from custody.ingest.steps import identify
from custody.ingest.storage.working_disk import WorkingDisk
from custody.kernel.engine import Backoff, Serving, Settings, Worker
from custody.kernel.model.job import Job
from ingest.bench import Archive, archive, custody
from ingest.test_end_to_end import objects


@pytest.fixture(params=["sqlite", "zookeeper"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Archive]:
    """On SQL and on ZooKeeper: each answers in its own way. PostgreSQL answers in the words of SQLite."""
    url = f"sqlite:///{tmp_path / 'custody.db'}"
    if request.param == "zookeeper":
        url = f"zookeeper://{request.getfixturevalue('zookeeper_hosts')}?with={url}"
    with archive(tmp_path, url) as made:
        yield made


@pytest.fixture(autouse=True)
def patiently(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits a moment for another job waits long enough to be asked about, however slow the machine."""
    monkeypatch.setattr(identify, "LOCKED_SECONDS", 600)


SLOWLY = Backoff(first=600, most=600)


def run(home: Archive) -> None:
    """A worker that waits long before it tries again."""
    serving = Serving(tuple(kinds(home.world, SLOWLY)))
    Worker(home.store, serving, Settings(threads=2)).run_until_quiet()


def one_file(home: Archive, **more: object) -> int:
    return home.submit(home.put("a.txt", b"abc"), type="file", filename="a.txt", **more)


def the_job(home: Archive, batch: int) -> Job:
    return home.jobs(batch)[0]


def at(home: Archive, state: str, batch: int) -> Job:
    """Its job, when it has come to this state and nobody has it; only the steps before are worked on."""
    steps = [kind for kind in kinds(home.world, SLOWLY) if kind.state != state or kind.kind != JOB_KIND]
    Worker(home.store, Serving(tuple(steps)), Settings(threads=2)).run_until_quiet()
    job = the_job(home, batch)
    assert (job.state, job.holder) == (state, None)
    return job


def nobody_works(home: Archive) -> Job:
    return home.batch(one_file(home))


def others_go_first(home: Archive) -> Job:
    prefixes = "\n".join(kind.prefix for kind in kinds(home.world))
    home.store.sign_of_life("w1", "host", 1, "", prefixes)
    one_file(home)
    return home.batch(one_file(home))


def collection_held(home: Archive) -> Job:
    home.store.queue.hold("collection", "papers", "lee", "rights unclear")
    batch = home.batch(one_file(home))
    run(home)
    return home.batch(batch.id)


def collection_let_go(home: Archive) -> Job:
    batch = collection_held(home)
    home.store.queue.lift("collection", "papers", "lee")
    return batch


def batch_held(home: Archive) -> Job:
    batch = one_file(home)
    home.store.queue.hold("batch", str(batch), "lee", "look first")
    run(home)
    return the_job(home, batch)


def job_held(home: Archive) -> Job:
    job = at(home, "pending", one_file(home))
    home.operator.hold(job.id, "look first")
    return home.batch(job.id)


def held_and_prioritised(home: Archive) -> Job:
    job = job_held(home)
    home.operator.prioritise(job.id, 3, "urgent")
    return home.batch(job.id)


def queue_held(home: Archive) -> Job:
    home.store.queue.hold("kind", JOB_KIND, "lee", "new version")
    batch = one_file(home)
    run(home)
    return the_job(home, batch)


def node_held(home: Archive) -> Job:
    home.store.queue.hold("lane", "node/main", "lee", "new disks")
    batch = one_file(home)
    run(home)
    return the_job(home, batch)


def no_room(home: Archive) -> Job:
    disk = WorkingDisk(home.world.disk.root, "", threshold=0.999999)
    home.world = replace(home.world, disk=disk)
    batch = one_file(home)
    run(home)
    return the_job(home, batch)


def never_room(home: Archive) -> Job:
    files = [home.object_row("a.txt", b"abc", size=1 << 52)]
    batch = home.submit(home.object_manifest("o.checkm", files), type="object-manifest")
    run(home)
    return the_job(home, batch)


def jobs_open(home: Archive) -> Job:
    batch = home.submit(home.batch_manifest("b.checkm", objects(home, 3)))
    at(home, "downloading", batch)
    return home.batch(batch)


def name_locked(home: Archive) -> Job:
    home.store.leases.claim("localid/ark:/99999/owner/l1", "somebody", 600)
    batch = one_file(home, local_id="l1")
    serving = Serving(tuple(kinds(home.world, SLOWLY)))
    worker = Worker(home.store, serving, Settings(threads=1))
    while not [event for event in _events(home, batch) if event == "waited"]:
        worker.run_until_idle()
    return the_job(home, batch)


def _events(home: Archive, batch: int) -> list[str]:
    return [event.type for job in home.jobs(batch) for event in home.store.records.events(job.subject)]


def backing_off(home: Archive) -> Job:
    batch = one_file(home)
    home.server.misbehave("/a.txt", "busy")
    run(home)
    return the_job(home, batch)


def being_worked_on(home: Archive) -> Job:
    batch = home.batch(one_file(home))
    home.store.queue.claim_jobs([batch.id], "w1", 600)
    return home.batch(batch.id)


def failed(home: Archive) -> Job:
    batch = one_file(home)
    home.server.misbehave("/a.txt", "gone")
    run(home)
    return the_job(home, batch)


def failed_and_prioritised(home: Archive) -> Job:
    job = failed(home)
    home.operator.prioritise(job.id, 3)
    home.operator.prioritise(job.id, 2, "more urgent")
    return home.batch(job.id)


def rejected(home: Archive) -> Job:
    staged = home.world.staging.put([b"x"], "a.txt").url
    batch = home.submit(staged, type="file", filename="a.txt", digest_type="md5", digest_value="0" * 32)
    run(home)
    return the_job(home, batch)


def completed(home: Archive) -> Job:
    batch = one_file(home)
    run(home)
    return home.batch(batch)


def batch_failed(home: Archive) -> Job:
    job = failed(home)
    return home.batch(job.parent or 0)


def batch_unreadable(home: Archive) -> Job:
    batch = home.submit(home.batch_manifest("b.checkm", []), type="batch-manifest")
    run(home)
    return home.batch(batch)


@dataclass(frozen=True)
class Case:
    make: Callable[[Archive], Job]
    code: str
    text: str
    clears: str


CASES = [
    Case(nobody_works, "no-worker", "no worker for it has been seen", "custody worker run"),
    Case(others_go_first, "queue", "1 go first", "a worker becomes free"),
    Case(
        collection_held, "held", "collection papers is held by lee: rights unclear", "is lifted and the job is released"
    ),
    Case(collection_let_go, "held", "it is held: collection papers was held by lee: rights", "an operator releases it"),
    Case(batch_held, "held", "is held by lee: look first", "is lifted and the job is released"),
    Case(job_held, "held", "it is held by ada: look first", "an operator releases it"),
    Case(held_and_prioritised, "held", "it is held by ada: look first", "an operator releases it"),
    Case(
        queue_held, "paused", "the kind ingest/job is paused by lee: new version", "custody hold lift kind ingest/job"
    ),
    Case(node_held, "paused", "the lane node/main is paused by lee: new disks", "custody hold lift lane node/main"),
    Case(no_room, "space", "there is no room for it: it needs 3 bytes", "makes room on the working disk"),
    Case(never_room, "ended", "space.never: it needs 4503599627370496 bytes; the whole", "custody job resume"),
    Case(jobs_open, "open", "3 of its jobs have not ended", "the last of them ends"),
    Case(name_locked, "due", "another job is looking up local id l1", "the time comes"),
    Case(backing_off, "due", "try 1 failed, http.503: a.txt could not be fetched", "the time comes"),
    Case(being_worked_on, "leased", "w1 is working on it", "it settles"),
    Case(failed, "ended", "it has ended: failed, http.404: a.txt could not be fetched", "custody job resume"),
    Case(failed_and_prioritised, "ended", "failed, http.404: a.txt could not be fetched", "custody job resume"),
    Case(rejected, "ended", "it has ended: rejected, digest.mismatch", "a new submission is required"),
    Case(completed, "ended", "it has ended: completed", "nothing left to do"),
    Case(batch_failed, "ended", "1 of 1 objects failed", "custody batch report"),
    Case(batch_unreadable, "ended", "it has ended: failed, manifest.faulty: line 6", "a new submission is required"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.make.__name__)
def test_a_deposit_says_what_it_waits_for(home: Archive, case: Case) -> None:
    job = case.make(home)
    reasons = why.why(home.store, job, home.world.disk)
    assert [reason.code for reason in reasons] == [case.code]
    assert case.text in reasons[0].text
    assert case.clears in reasons[0].clears


def test_why_is_answered_from_the_tree_alone_while_the_database_is_away(
    zookeeper_hosts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with archive(tmp_path, f"zookeeper://{zookeeper_hosts}?with=sqlite:///{tmp_path / 'custody.db'}") as home:
        batch = one_file(home)
        home.operator.hold(batch, "look first")

        def away(work: object) -> object:
            raise Unavailable("the database is away")

        monkeypatch.setattr(home.store.db, "read", away)
        (reason,) = home.store.queue.why(batch)
        assert (reason.code, reason.text) == ("held", "it is held: look first")


def test_the_jobs_of_a_batch_are_counted_by_what_they_wait_for(home: Archive) -> None:
    home.store.queue.hold("lane", "node/main", "lee", "new disks")
    home.store.leases.claim("localid/ark:/99999/owner/loc2", "somebody", 600)
    batch = home.submit(home.batch_manifest("b.checkm", objects(home, 4)))
    worker = home.worker(threads=2)
    while [job.state for job in home.jobs(batch)].count("storing") < 3:
        worker.run_until_idle()
    waiting = why.of_children(home.store, home.batch(batch), home.world.disk)
    assert (waiting[0].count, waiting[0].reason.code) == (3, "paused")
    assert sum(each.count for each in waiting) == 4


def test_the_commands_tell_it_in_words(tmp_path: Path) -> None:
    custody(tmp_path, "init")
    settings = (tmp_path / "custody.toml").read_text().replace("threshold = 0.05 ", "threshold = 0.9999999 ")
    (tmp_path / "custody.toml").write_text(settings)
    (tmp_path / "letter.txt").write_text("Dear sister")
    custody(tmp_path, "batch", "submit", "letter.txt", "--profile", "example")
    custody(tmp_path, "worker", "run", "--until-idle", "--no-log")
    assert "job 2: there is no room for it: it needs 11 bytes" in custody(tmp_path, "job", "why", "2").stdout
    told = custody(tmp_path, "batch", "why", "1").stdout
    assert "batch 1: 1 of its jobs have not ended" in told
    assert "1 job, such as 2: there is no room for it" in told

"""One fleet of several services: another one, which knows only the tree, works beside us, is killed, and hands in work."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from custody.errors import LeaseLost, Refused
from custody.formats.checkm.form import Row
from custody.ingest.states import BATCH, BATCH_KIND, JOB, JOB_KIND
from custody.ingest.submission.submission import row_jobs
from custody.ingest.zookeeper import lists, repair, store
from custody.ingest.zookeeper.client.session import Session
from custody.ingest.zookeeper.queue import TreeQueue
from custody.ingest.zookeeper.rows import Limits, Seen, pages
from custody.ingest.zookeeper.tree import id_of, name_of
from custody.kernel.engine.judge import judge
from custody.kernel.engine.kinds import Kind
from custody.kernel.model.job import Change, Claim, FanOut, Filter, Job, NewJob
from custody.kernel.model.outcome import Passed
from custody.kernel.model.suspicion import ALONE, CLEAN, NEAR
from ingest import peer as other_service
from ingest.bench import CONFIG, Archive, archive
from ingest.peer import Peer
from ingest.test_end_to_end import objects, ocfl_is_valid

PATIENCE = 90.0


def tree_url(hosts: str, folder: Path) -> str:
    return f"zookeeper://{hosts}?with=sqlite:///{folder / 'custody.db'}"


@contextmanager
def peers(hosts: str) -> Iterator[Peer]:
    made = Peer(hosts)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def working(home: Archive) -> Iterator[None]:
    """Our part of the fleet, at work beside the test."""
    home.store.queue.mend_seconds = 0.3  # type: ignore[attr-defined]
    worker = home.worker(threads=2, poll=0.05)
    thread = threading.Thread(target=worker.run_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join(60)


def wait_for_end(home: Archive, batch: int) -> Job:
    end = time.monotonic() + PATIENCE
    while (found := home.batch(batch)).ended is None:
        assert time.monotonic() < end, f"stuck: {found.state} {home.store.queue.children(batch)}"
        time.sleep(0.05)
    return found


def orphans(url: str) -> list[str]:
    with store.open_session(store.read_address(url)) as session:
        return [orphan.text for orphan in repair.find(session)]


def start_peer(hosts: str, folder: Path, *states: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, other_service.__file__, hosts, str(folder), *states])


@pytest.mark.kills
@pytest.mark.parametrize("external", [("recording",), ("storing", "recording")], ids=" and ".join)
def test_another_service_does_its_steps_and_being_killed_it_loses_nothing(
    zookeeper_hosts: str, tmp_path: Path, external: tuple[str, ...]
) -> None:
    url, recorded = tree_url(zookeeper_hosts, tmp_path), tmp_path / "recorded"
    recorded.mkdir()
    with archive(tmp_path, url, config=replace(CONFIG, external=external)) as home:
        batch = home.submit(home.batch_manifest("batch.checkm", objects(home, 8)))
        service = start_peer(zookeeper_hosts, recorded, *external)
        kills = 0
        try:
            with working(home):
                while home.batch(batch).ended is None and kills < 4:
                    before = len(list(recorded.iterdir()))
                    end = time.monotonic() + 5
                    while len(list(recorded.iterdir())) == before and time.monotonic() < end:
                        time.sleep(0.005)
                    service.send_signal(signal.SIGKILL)  # it has just begun with one
                    service.wait()
                    kills += 1
                    service = start_peer(zookeeper_hosts, recorded, *external)
                found = wait_for_end(home, batch)
        finally:
            service.kill()
            service.wait()
        jobs = home.jobs(batch)
        assert found.state == "completed"
        assert {job.state for job in jobs} == {"completed"}
        assert {name_of(job.id) for job in jobs} == {path.name for path in recorded.iterdir()}, (
            "each was recorded there"
        )
        assert kills >= 1
        assert len({job.facts["primary"] for job in jobs}) == 8
        home.run()
        assert home.letters() == [f"batch-{batch}-report-1@localhost.eml"]
        for job in jobs:
            events = home.store.records.events(job.subject)
            unseen = [event.detail["count"] for event in events if event.type == "unobserved"]
            assert sum(unseen) >= len(external), "what the other service did is counted, and not made up"
            assert [event.detail["from"] for event in events if event.type == "passed"].count("recording") == 0
        if external == ("recording",):
            assert ocfl_is_valid(home.home / "storage")
    assert orphans(url) == []


def test_a_batch_that_another_service_made_is_worked_by_us(zookeeper_hosts: str, tmp_path: Path) -> None:
    url = tree_url(zookeeper_hosts, tmp_path)
    with archive(tmp_path, url) as home, peers(zookeeper_hosts) as service:
        half = service.zk.create("/batches/bid", sequence=True)  # and one that it has only begun to make
        submission = {
            "batchID": "bid-5a51ad0c-6c3a-4d2e-9f27-6f2d2f1f2a11",
            "profile": "papers",
            "submitter": "eve",
            "payload_url": home.batch_manifest("batch.checkm", objects(home, 3)),
            "type": "batch-manifest",
            "responseForm": "xml",
            "DCformat": "kept as it is",
        }
        name = service.create_batch(submission)
        home.run()
        assert service.get(f"/batches/{name}/status")["status"] == "Completed"
        assert service.get(f"/batches/{name}/submission") == submission
        jobs = service.zk.get_children(f"/batches/{name}/states/batch-completed")
        assert len(jobs) == 3
        for job in jobs:
            status = service.get(f"/jobs/{job}/status")
            assert (status["status"], status["last_successful_status"]) == ("Completed", "Notify")
            assert service.get(f"/jobs/{job}/identifiers")["primary_id"].startswith("ark:/")
        report = service.get(f"/batches/{name}/status-report")
        assert (report["failed_jobs"], report["successful_jobs"]) == ([], sorted(jobs))
        assert home.report(id_of(name))["counts"] == {"completed": 3, "failed": 0, "deleted": 0}
        service.zk.delete(half)
    assert orphans(url) == []


def claim_one(home: Archive, state: str) -> Claim:
    (claim,) = home.store.queue.claim([f"{JOB_KIND}|{state}||"], "us", 10, 1)
    return claim


def passed(home: Archive, claim: Claim) -> Change:
    kind = Kind(JOB_KIND, lambda work: Passed(), state=claim.job.state, machine=JOB)
    return judge(kind, claim, Passed(), facts={}, chance=0.5, move=home.store.new_move())


def plant_job(service: Peer, state: str = "Recording", last: str = "Storing", priority: int = 5) -> str:
    batch = service.create_batch({"profile": "papers", "payload_url": "http://127.0.0.1/x"})
    status = {"status": "Processing", "last_modified": other_service.now(), "message": ""}
    service.zk.set(f"/batches/{batch}/status", json.dumps(status).encode())
    return service.create_job(batch, {"profile": "papers"}, state, priority, last_successful_status=last)


def expire(home: Archive) -> None:
    """End our session behind our back, as the server does when it has not heard of us for too long."""
    zk = home.store.queue._at.session.zk  # type: ignore[attr-defined]
    sid = zk.client_id
    again = KazooClient(",".join(f"{host}:{port}" for host, port in zk.hosts), client_id=sid, timeout=30)
    again.start()
    again.stop()  # closing it ends the session for both
    again.close()
    end = time.monotonic() + 60
    while not zk.connected or zk.client_id == sid:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_what_one_service_has_locked_the_other_leaves_alone(zookeeper_hosts: str, tmp_path: Path) -> None:
    with archive(tmp_path, tree_url(zookeeper_hosts, tmp_path)) as home, peers(zookeeper_hosts) as service:
        first, second = plant_job(service), plant_job(service)
        assert service.take("recording") == first
        claim = claim_one(home, "recording")
        assert name_of(claim.id) == second
        assert service.take("recording") is None
        assert "another service" in home.store.queue.why(id_of(first))[0].text
        assert home.store.queue.settle([passed(home, claim)])[0].done
        assert service.get(f"/jobs/{second}/status")["status"] == "Notify"


def late_after_a_move(service: Peer, name: str) -> None:
    """The other service takes it over and finishes."""
    assert service.take("recording") == name
    service.move(name, "Notify")
    service.unlock(name)


def late_while_it_works(service: Peer, name: str) -> None:
    """The other service has only taken it over."""
    assert service.take("recording") == name


@pytest.mark.parametrize("meanwhile", [late_after_a_move, late_while_it_works])
def test_whoever_lost_its_session_can_say_nothing_more(zookeeper_hosts: str, tmp_path: Path, meanwhile: Any) -> None:
    with archive(tmp_path, tree_url(zookeeper_hosts, tmp_path)) as home, peers(zookeeper_hosts) as service:
        name = plant_job(service)
        claim = claim_one(home, "recording")
        expire(home)
        meanwhile(service, name)
        before = service.get(f"/jobs/{name}/status"), service.zk.get_children(f"/jobs/{name}")
        assert home.store.queue.renew([claim], 10) == {claim.id: "lost"}
        answer = home.store.queue.settle([passed(home, claim)])[0]
        assert (answer.done, answer.code) == (False, "lease.lost")
        with pytest.raises(LeaseLost):
            home.store.queue.keep(claim, {"primary": "ark:/1"}, {"primary": "ark:/1"}, [], "us")
        assert (service.get(f"/jobs/{name}/status"), service.zk.get_children(f"/jobs/{name}")) == before


def test_what_a_vanished_worker_left_is_taken_over_alone_and_its_late_word_is_refused(
    zookeeper_hosts: str, tmp_path: Path
) -> None:
    with archive(tmp_path, tree_url(zookeeper_hosts, tmp_path)) as home, peers(zookeeper_hosts) as service:
        plant_job(service)
        queue = home.store.queue
        first = claim_one(home, "recording")
        late = passed(home, first)
        assert queue.claim_expired([f"{JOB_KIND}|recording||"], "other", 10) == [], "its holder lives"
        expire(home)
        assert queue.claim([f"{JOB_KIND}|recording||"], "other", 10, 5) == [], "not as if nothing had happened"
        (taken,) = queue.claim_expired([f"{JOB_KIND}|recording||"], "other", 10)
        assert (taken.job.suspect, taken.job.crashes, taken.job.attempts) == (1, 0, 2)
        assert taken.token > first.token
        assert not queue.settle([late])[0].done
        assert queue.settle([passed(home, taken)])[0].done
        assert queue.get(taken.id).state == "notify"


def test_what_its_holder_said_of_it_is_known_to_whoever_takes_it_over(zookeeper_hosts: str, tmp_path: Path) -> None:
    with archive(tmp_path, tree_url(zookeeper_hosts, tmp_path)) as home, peers(zookeeper_hosts) as service:
        plant_job(service)
        queue = home.store.queue
        claim = claim_one(home, "recording")
        assert queue.suspect([claim], ALONE) == 1
        assert queue.renew([claim], 10) == {}, "its token is as good as before"
        expire(home)
        (taken,) = queue.claim_expired([f"{JOB_KIND}|recording||"], "other", 10)
        assert (taken.job.suspect, taken.job.crashes) == (NEAR, 2)
        assert queue.suspect([claim], CLEAN) == 0, "the first has no say any more"
        queue.release([taken])
        (again,) = queue.claim([f"{JOB_KIND}|recording||"], "third", 10)
        assert (again.job.suspect, again.job.crashes) == (NEAR, 2)
        assert queue.settle([passed(home, again)])[0].done


def test_a_lost_answer_is_found_out_by_the_moves_own_mark(zookeeper_hosts: str, tmp_path: Path) -> None:
    with archive(tmp_path, tree_url(zookeeper_hosts, tmp_path)) as home, peers(zookeeper_hosts) as service:
        plant_job(service)
        claim = claim_one(home, "recording")
        change = passed(home, claim)
        queue = home.store.queue
        assert queue.settle([change])[0].done
        assert queue.settle([change])[0].done, "said again, it is found to be done"
        queue.tick()
        told = [event.type for event in home.store.records.events(f"job/{claim.id}")]
        assert told.count("passed") == 1


def test_a_job_with_a_priority_of_99_that_is_to_wait_longer_stays_in_two_digits(
    zookeeper_hosts: str, tmp_path: Path
) -> None:
    with archive(tmp_path, tree_url(zookeeper_hosts, tmp_path)) as home, peers(zookeeper_hosts) as service:
        name = plant_job(service, "Recording", "Storing", 99)
        home.operator.prioritise(id_of(name), 250)
        assert service.zk.get_children("/jobs/states/recording") == [f"99-{name}"]
        home.operator.prioritise(id_of(name), 3)
        assert service.zk.get_children("/jobs/states/recording") == [f"03-{name}"]
        assert service.take("recording") == name


def test_a_submission_of_many_rows_becomes_several_batches_and_no_folder_grows_beyond_its_limit(
    zookeeper_hosts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TreeQueue, "fan_out", FanOut(at_once=4, most=10))
    with (
        archive(tmp_path, tree_url(zookeeper_hosts, tmp_path), limits=Limits(jobs=12)) as home,
        peers(zookeeper_hosts) as service,
    ):
        row = home.object_row("a.txt", b"a")
        url = home.object_manifest("o.checkm", [row])
        rows = [Row(number, url, f"o{number}.checkm", local_ids=(f"loc{number}",)) for number in range(1, 25)]
        home.submit(home.batch_manifest("batch.checkm", rows))
        most = 0
        stop = threading.Event()

        def watch() -> None:
            nonlocal most
            while not stop.is_set():
                most = max(most, len(service.zk.get_children("/jobs")) - 1)
                time.sleep(0.005)

        watcher = threading.Thread(target=watch)
        watcher.start()
        home.run()
        stop.set()
        watcher.join()
        assert 8 <= most <= 12 + 2 * 4, "the limit, and a piece for each that was just being added"
        names = [f"loc{number}" for number in range(1, 25)]
        assert len(set(home.world.inventory.arks_of("ark:/99999/owner", names).values())) == 24
        subjects = [f"job/{id_of(f'bid{number:010d}')}" for number in range(3)]
        ends = [[event for event in home.store.records.events(subject)] for subject in subjects]
        assert [[e.detail["completed"] for e in told if e.detail.get("from") == "reporting"] for told in ends] == [
            [10],
            [10],
            [4],
        ]
        assert len(home.mails()) == 3


def test_batches_that_are_half_made_in_a_full_tree_do_not_wait_for_each_other_for_ever(
    zookeeper_hosts: str, tmp_path: Path
) -> None:
    with archive(tmp_path, tree_url(zookeeper_hosts, tmp_path), limits=Limits(jobs=12, last=6)) as home:
        queue = home.store.queue
        numbers = [home.submit("https://depositor.example/x.checkm") for _ in range(2)]
        claims = {claim.id: claim for claim in queue.claim([f"{BATCH_KIND}|pending||"], "us", 60, 2)}
        first, second = (claims[number] for number in numbers)
        rows = [Row(n, f"https://depositor.example/{n}", f"{n}.checkm") for n in range(1, 11)]

        def make(batch: Claim, start: int, stop: int) -> None:
            jobs = list(row_jobs(batch.id, batch.job.payload, iter(rows[start:stop]), "object-manifest", 5))
            queue.keep(batch, {"fanned": stop}, {"fanned": stop}, jobs, "us")

        make(first, 0, 4)
        make(second, 0, 4)
        make(first, 4, 8)
        with pytest.raises(Refused, match="no more than 12 may be"):
            make(second, 4, 8)
        assert queue.full(second.id)
        assert not queue.full(first.id), "the first is made to its end: nothing else could ever make room"
        make(first, 8, 10)
        made = Kind(BATCH_KIND, lambda work: Passed(), state="pending", machine=BATCH)
        assert queue.settle([judge(made, first, Passed(), facts={}, chance=0.5, move=home.store.new_move())])[0].done
        assert queue.full(second.id), "now there is one that will end, and that is waited for"
        queue.release([second])


def test_what_the_history_could_not_take_is_refused_with_its_move_and_keeps_nobody_waiting(
    zookeeper_hosts: str, tmp_path: Path
) -> None:
    with archive(tmp_path, tree_url(zookeeper_hosts, tmp_path)) as home, peers(zookeeper_hosts) as service:
        names = [plant_job(service), plant_job(service)]
        queue = home.store.queue
        first, second = queue.claim([f"{JOB_KIND}|recording||"], "us", 10, 2)
        odd = replace(passed(home, first), detail={"size": 1 << 60})
        refused, done = queue.settle([odd, passed(home, second)])
        assert (refused.done, refused.code, done.done) == (False, "event.value", True)
        assert service.get(f"/jobs/{names[0]}/status")["status"] == "Recording"
        # and should another version of this program have let one through, the others still arrive
        entry = {"move": "odd", "happened": [_happened(first.id, {"state": "recording", "size": 1 << 60})]}
        service.zk.create("/custody/moves/m", json.dumps(entry).encode(), sequence=True)
        service.zk.create("/custody/moves/m", b'{"move": "odd", "happened": [1]}', sequence=True)
        assert queue.settle([passed(home, first)])[0].done
        queue.tick()
        told = {claim.id: home.store.records.events(claim.job.subject) for claim in (first, second)}
        assert [event.type for event in told[second.id]] == ["passed"]
        assert "unwritable" in told[first.id][0].detail
        assert told[first.id][-1].detail["state"] == "notify"
        assert service.zk.get_children("/custody/moves") == []
        (unread,) = home.store.records.events("tree")
        assert (unread.type, unread.detail["data"]) == ("unreadable", '{"move": "odd", "happened": [1]}')


def test_looking_for_batches_in_one_state_reads_no_others(
    zookeeper_hosts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tree may be full of batches that have ended: what is asked often must not read all of each."""
    whole: list[str] = []

    def noted(session: Session, names: Iterator[str]) -> Iterator[Seen]:
        return pages(session, (whole.append(name) or name for name in names))  # type: ignore[func-returns-value]

    monkeypatch.setattr(lists, "pages", noted)
    with archive(tmp_path, tree_url(zookeeper_hosts, tmp_path)) as home:
        waits, held = (home.submit(f"{home.server.url}/{name}.txt", type="file") for name in "ab")
        home.operator.hold(held, "look first")
        assert [job.id for job in home.store.queue.every(Filter(kind=BATCH_KIND, state="held"))] == [held]
        assert list(home.store.queue.every(Filter(ended="failed"))) == []
        assert whole == [name_of(held)]
        assert [job.id for job in home.store.queue.every(Filter(kind=BATCH_KIND))] == [waits, held]


def test_whatever_lies_among_the_moves_keeps_nobody_from_the_history_and_is_not_lost(
    zookeeper_hosts: str, tmp_path: Path
) -> None:
    """No such entry is ever made by us: but one that stopped the follower would in time stop the fleet."""
    with archive(tmp_path, tree_url(zookeeper_hosts, tmp_path)) as home, peers(zookeeper_hosts) as service:
        job, queue = id_of(plant_job(service)), home.store.queue
        queue.submit([NewJob("letter", {"to": "one"}, key="report")])
        then = [{"kind": "letter", "payload": {"to": "another"}, "key": "report"}]
        entries = [
            {"move": "m1", "happened": [_happened(job, {}) | {"token": "none"}]},
            {"move": "m2", "happened": [_happened(job, {"why": "a second report"})], "then": then},
            {"move": "m3", "happened": [_happened(job, {"why": "the last"})]},
        ]
        odd = [b"", b"no JSON", b"\0\xff", b'{"happened": []}', b'{"move": "m", "happened": [1]}']
        for data in (*odd, *(json.dumps(entry).encode() for entry in entries)):
            service.zk.create("/custody/moves/m", data, sequence=True)
        queue.tick()
        assert service.zk.get_children("/custody/moves") == []
        unread = [event.detail["data"] for event in home.store.records.events("tree")]
        assert unread == ["", "no JSON", "\ufffd\ufffd", odd[3].decode(), odd[4].decode(), json.dumps(entries[0])]
        second, last = home.store.records.events(f"job/{job}")
        assert "was used before" in second.detail["unwritable"]
        assert last.detail["why"] == "the last"


def _happened(job: int, detail: dict[str, Any]) -> dict[str, Any]:
    return {"job": job, "type": "told", "outcome": "none", "agent": "x", "detail": detail, "token": 0, "status": 0}

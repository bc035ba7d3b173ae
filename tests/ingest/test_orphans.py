"""`custody doctor --zookeeper`: every orphan that operators know by name is found, and put right."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from custody.cli import main
from custody.ingest.zookeeper import repair, store
from custody.ingest.zookeeper.tree import id_of
from ingest.bench import CONFIG, archive
from ingest.peer import Peer
from ingest.test_mixed_fleet import peers, plant_job, tree_url

Break = Callable[[Peer, str, str], None]


def in_no_queue(peer: Peer, batch: str, job: str) -> None:
    """Stopped after deleting the old entry, before creating the new one."""
    peer.zk.delete(f"/jobs/states/recording/05-{job}")


def in_two_queues(peer: Peer, batch: str, job: str) -> None:
    peer.zk.create(f"/jobs/states/notify/05-{job}")


def under_an_old_priority(peer: Peer, batch: str, job: str) -> None:
    peer.zk.set(f"/jobs/{job}/priority", b"7")


def on_two_lists(peer: Peer, batch: str, job: str) -> None:
    peer.zk.create(f"/batches/{batch}/states/batch-failed/{job}", makepath=True)


def on_no_list(peer: Peer, batch: str, job: str) -> None:
    peer.zk.delete(f"/batches/{batch}/states/batch-processing/{job}")


def entry_without_job(peer: Peer, batch: str, job: str) -> None:
    peer.zk.create("/jobs/states/pending/05-jid0000000777")


def listed_without_job(peer: Peer, batch: str, job: str) -> None:
    peer.zk.create(f"/batches/{batch}/states/batch-processing/jid0000000777")


def half_made_job(peer: Peer, batch: str, job: str) -> None:
    peer.zk.create("/jobs/jid0000000888/bid", batch.encode(), makepath=True)


def job_without_batch(peer: Peer, batch: str, job: str) -> None:
    other = plant_job(peer)
    peer.zk.delete(f"/batches/{peer.zk.get(f'/jobs/{other}/bid')[0].decode()}", recursive=True)


def half_made_batch(peer: Peer, batch: str, job: str) -> None:
    peer.zk.create("/batches/bid", sequence=True)


def taken_and_left(peer: Peer, batch: str, job: str) -> None:
    """Stopped after taking a batch, before its first job."""
    other = peer.create_batch({"profile": "papers", "payload_url": "http://127.0.0.1/x"})
    peer.zk.create(f"/batches/{other}/states")


def uuid_without_batch(peer: Peer, batch: str, job: str) -> None:
    peer.zk.create("/batch-uuids/bid-1234", b"bid0000000777")


def batch_without_uuid(peer: Peer, batch: str, job: str) -> None:
    other = peer.create_batch({"profile": "papers", "batchID": "bid-5678", "payload_url": "http://127.0.0.1/x"})
    peer.zk.delete("/batch-uuids/bid-5678")
    assert other


def lock_of_nobody(peer: Peer, batch: str, job: str) -> None:
    peer.zk.create(f"/jobs/{job}/lock")


def record_without_job(peer: Peer, batch: str, job: str) -> None:
    peer.zk.create("/custody/jobs/jid0000000999/facts", b"{}", makepath=True)


CASES: dict[Break, str] = {
    in_no_queue: "job.misplaced",
    in_two_queues: "job.misplaced",
    under_an_old_priority: "job.misplaced",
    on_two_lists: "job.misplaced",
    on_no_list: "job.misplaced",
    entry_without_job: "entry.no-job",
    listed_without_job: "entry.no-job",
    half_made_job: "job.half-made",
    job_without_batch: "job.no-batch",
    half_made_batch: "batch.half-made",
    taken_and_left: "batch.left",
    uuid_without_batch: "uuid.no-batch",
    batch_without_uuid: "batch.no-uuid",
    lock_of_nobody: "lock.no-owner",
    record_without_job: "record.no-job",
}


@pytest.mark.parametrize(("harm", "code"), CASES.items(), ids=[harm.__name__ for harm in CASES])
def test_each_orphan_is_found_and_put_right(zookeeper_hosts: str, tmp_path: Path, harm: Break, code: str) -> None:
    url = tree_url(zookeeper_hosts, tmp_path)
    with store.open_tree(url, 10), peers(zookeeper_hosts) as service:
        job = plant_job(service)
        batch = service.zk.get(f"/jobs/{job}/bid")[0].decode()
        with store.open_session(store.read_address(url)) as session:
            assert repair.find(session) == []
            harm(service, batch, job)
            found = repair.find_twice(session, seconds=0.01)
            assert {orphan.code for orphan in found} == {code}
            assert repair.mend(session, found) == []
            assert repair.find(session) == []
        assert service.get(f"/jobs/{job}/status")["status"] == "Recording", "and nothing else was touched"


def test_what_lies_behind_a_lock_of_nobody_is_put_right_with_it(zookeeper_hosts: str, tmp_path: Path) -> None:
    url = tree_url(zookeeper_hosts, tmp_path)
    with store.open_tree(url, 10), peers(zookeeper_hosts) as service:
        job = plant_job(service)
        in_no_queue(service, "", job)
        lock_of_nobody(service, "", job)
        with store.open_session(store.read_address(url)) as session:
            found = repair.find(session)
            assert [orphan.code for orphan in found] == ["lock.no-owner", "job.misplaced"]
            assert repair.mend(session, found) == []
            assert repair.find(session) == []


def test_what_is_locked_is_under_way_and_left_alone(zookeeper_hosts: str, tmp_path: Path) -> None:
    url = tree_url(zookeeper_hosts, tmp_path)
    with store.open_tree(url, 10), peers(zookeeper_hosts) as service:
        job = plant_job(service)
        in_no_queue(service, "", job)
        with store.open_session(store.read_address(url)) as session:
            found = repair.find(session)
            assert len(found) == 1
            service.zk.create(f"/jobs/{job}/lock", ephemeral=True)
            assert repair.mend(session, found) == found, "someone took it in between: its repair is refused"
            assert repair.find(session) == []


def test_a_worker_mends_what_another_service_left_half_moved(zookeeper_hosts: str, tmp_path: Path) -> None:
    url = tree_url(zookeeper_hosts, tmp_path)
    with (
        archive(tmp_path, url, config=replace(CONFIG, external=("recording",))) as home,
        peers(zookeeper_hosts) as service,
    ):
        job = plant_job(service)
        status = service.get(f"/jobs/{job}/status") | {"status": "Notify", "last_successful_status": "Recording"}
        service.zk.set(f"/jobs/{job}/status", json.dumps(status).encode())
        queue = home.store.queue
        queue.mend_seconds = 0.0  # type: ignore[attr-defined]
        queue.tick()
        assert service.zk.exists(f"/jobs/states/recording/05-{job}"), "seen once, it may be under way"
        queue.tick()
        assert service.zk.get_children("/jobs/states/notify") == [f"05-{job}"]
        assert queue.get(id_of(job)).state == "notify"


def test_the_command_tells_repairs_and_is_content(
    zookeeper_hosts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = tree_url(zookeeper_hosts, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(repair, "PATIENCE", 0.01)
    with store.open_tree(url, 10), peers(zookeeper_hosts) as service:
        in_no_queue(service, "", plant_job(service))

        def doctor(*words: str) -> tuple[int, str]:
            with pytest.raises(SystemExit) as ended:
                main(["doctor", "--zookeeper", f"zookeeper://{zookeeper_hosts}", *words])
            assert isinstance(ended.value.code, int)
            return ended.value.code, capsys.readouterr().out

        code, said = doctor()
        assert code == 1
        assert "jid0000000001 (recording) is not at /jobs/states/recording/05-jid0000000001" in said
        assert "--repair" in said
        code, said = doctor("--repair")
        assert (code, "mended" in said) == (0, True)
        assert doctor() == (0, "fine     the tree has no orphans\n")

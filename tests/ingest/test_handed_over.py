"""What is handed over in the tree can be used on another machine: by whoever stores, and by whoever records."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from custody.config import find
from custody.demo.standins.storage_node import StorageStandIn
from custody.demo.standins.web_server import FileServer
from custody.formats import checkm
from custody.formats.checkm.form import STORAGE
from custody.ingest.condition.findings import findings
from custody.ingest.steps import steps
from custody.ingest.zookeeper.tree import name_of
from ingest.bench import CONFIG, PROFILE, archive
from ingest.peer import Peer
from ingest.test_end_to_end import tar_of
from ingest.test_mixed_fleet import peers, tree_url

EXTERNAL = ("storing", "recording")
SERVICE = '\n[storage]\nnode = "far"\nservice = "{url}"\n'


def store_elsewhere(peer: Peer, service: str) -> dict[str, str]:
    """What a service on another machine can do with what it is handed, and no more: it sees none of our disks."""
    name = peer.take("storing")
    assert name is not None
    handed = peer.get(f"/jobs/{name}/store")
    manifest = urlopen(handed["manifest_url"]).read()
    (copy := Path("manifest")).write_bytes(manifest)
    with copy.open("rb") as source:
        for row in checkm.read(source, check_name=lambda name: None, kinds=(STORAGE,)):
            assert hashlib.sha256(urlopen(row.url).read()).hexdigest() == row.digest
    about = {"url": handed["manifest_url"], "name": "system/mrt-manifest.txt"}
    about["sha256"] = hashlib.sha256(manifest).hexdigest()
    body = {"manifest": about, "created": "2026-01-01T00:00:00+00:00", "message": name}
    body["deletes"] = handed.get("delete", "").splitlines()  # type: ignore[assignment]
    headers = {"Content-Type": "application/json", "Idempotency-Key": name}
    urlopen(Request(f"{service}/{handed['mode']}", json.dumps(body).encode(), headers)).close()
    peer.move(name, "Recording")
    peer.unlock(name)
    return handed


def record_elsewhere(peer: Peer) -> tuple[dict[str, str], set[str]]:
    """As deployed: the storage service is asked what it holds."""
    name = peer.take("recording")
    assert name is not None
    handed = peer.get(f"/jobs/{name}/inventory")
    held = json.loads(urlopen(handed["manifest_url"]).read())
    peer.move(name, "Notify")
    peer.unlock(name)
    return handed, {file for file in held["files"] if file.startswith("producer/")}


def test_a_service_on_another_machine_can_store_and_record_what_it_is_handed(
    zookeeper_hosts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    window = FileServer(tmp_path / "work").start()
    config = replace(CONFIG, external=EXTERNAL, files=f"{window.url}/")
    with (
        StorageStandIn(tmp_path / "far") as storage,
        archive(tmp_path, tree_url(zookeeper_hosts, tmp_path), SERVICE.format(url=storage.url), config) as home,
        peers(zookeeper_hosts) as peer,
    ):
        first = home.submit(home.put("1.tar.gz", tar_of({"a.txt": b"a", "b.txt": b"b"})), filename="1.tar.gz")
        home.run()
        ark = home.jobs(first)[0].facts["primary"]
        assert "delete" not in store_elsewhere(peer, storage.url)
        told, files = record_elsewhere(peer)
        address = f"{storage.url}/manifest/far/{ark.replace(':', '%3A').replace('/', '%2F')}"
        assert told == {"manifest_url": address, "mode": ""}
        assert files == {"producer/a.txt", "producer/b.txt"}

        more = tar_of({"c.txt": b"c", "mrt-delete.txt": b"a.txt\n\nproducer/b.txt\n"})
        second = home.submit(home.put("2.tar.gz", more), filename="2.tar.gz", update=True, primary_id=ark)
        home.run()
        handed = store_elsewhere(peer, storage.url)
        assert handed["manifest_url"].startswith(f"{window.url}/")
        assert handed["mode"] == f"update/far/{address.rpartition('/')[2]}"
        assert handed["delete"] == "producer/a.txt\nproducer/b.txt\n"
        assert record_elsewhere(peer)[1] == {"producer/c.txt", "producer/mrt-delete.txt"}
        home.run()
        assert [home.batch(batch).state for batch in (first, second)] == ["completed"] * 2
    window.stop()


def test_a_list_of_files_to_take_out_that_no_node_could_hold_fails_its_job(
    zookeeper_hosts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "MOST_DELETES", 100)
    config = replace(CONFIG, external=EXTERNAL)
    with archive(tmp_path, tree_url(zookeeper_hosts, tmp_path), config=config) as home, peers(zookeeper_hosts) as peer:
        names = "".join(f"file-{number}.txt\n" for number in range(10)).encode()
        box = home.put("1.tar.gz", tar_of({"a.txt": b"a", "mrt-delete.txt": names}))
        batch = home.submit(box, filename="1.tar.gz", update=True)
        home.run()
        (job,) = home.jobs(batch)
        assert (job.state, job.code) == ("failed", "delete.too_large")
        assert not peer.zk.exists(f"/jobs/{name_of(job.id)}/store")


def test_the_doctor_says_what_others_could_not_use(tmp_path: Path) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "papers.toml").write_text(PROFILE.format(port=80, more=""))
    store = "zookeeper://127.0.0.1:1?with=sqlite:///custody.db"
    (tmp_path / "custody.toml").write_text(f'store = "{store}"\n[ingest]\nexternal = ["storing", "recording"]\n')
    config = find(tmp_path / "custody.toml")
    assert config is not None
    told = [finding.what for finding in findings(config.ingest, tmp_path, store)]
    assert [what for what in told if what.startswith("others")] == [
        "others do storing and recording, and are handed file:// addresses",
        "others do recording, and are handed our own manifest for papers",
    ]
    alone = findings(config.ingest, tmp_path, "sqlite:///custody.db")
    assert not [finding for finding in alone if finding.what.startswith("others")]

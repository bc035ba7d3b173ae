"""Deposits become preserved objects: real HTTP, real OCFL root, real mail, on every store."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from custody.errors import BadInput, Refused, StateConflict
from custody.formats.checkm.form import Row
from custody.ingest.actions import ask_for_update
from custody.ingest.description import system_files
from custody.kernel.model.job import Fold, fold
from ingest.bench import Archive


def objects(home: Archive, count: int) -> list[Row]:
    """One manifest per object, two files each; the rows of the batch."""
    rows = []
    for number in range(1, count + 1):
        files = [home.object_row(f"o{number}/{name}", f"{number} {name}".encode() * 50) for name in ("a.txt", "b.txt")]
        url = home.object_manifest(f"o{number}.checkm", files)
        rows.append(Row(number, url, f"o{number}.checkm", local_ids=(f"loc{number}",), title=f"Object {number}"))
    return rows


def ocfl_is_valid(root: Path) -> bool:
    from ocfl.storage_root import StorageRoot

    checked = StorageRoot(root=str(root))
    found: bool = checked.validate(check_digests=True)
    return found


def test_a_single_file_becomes_an_object_that_is_an_item(home: Archive) -> None:
    url = home.put("letter.txt", b"Dear sister")
    batch = home.submit(url, type="file", filename="letter.txt", title="A letter", local_id="l1")
    home.run()
    (job,) = home.jobs(batch)
    ark = job.facts["primary"]
    assert home.batch(batch).state == "completed"
    assert home.world.inventory.get(ark).title == "A letter"
    assert home.world.inventory.arks_of("ark:/99999/owner", ["l1"]) == {"l1": ark}
    item = home.store.records.item(ark)
    assert item.types == {"object"}
    assert [event.type for event in home.store.records.events(f"item/{ark}")] == ["changed", "ingested"]
    stored = (home.world.nodes["main"].file(ark, "producer/letter.txt")).read_bytes()  # type: ignore[attr-defined]
    assert stored == b"Dear sister"
    assert ocfl_is_valid(home.home / "storage")


def test_a_batch_with_faults_reports_each_row_once_and_the_update_report_is_the_difference(home: Archive) -> None:
    rows = objects(home, 20)
    faults = {3: "gone", 8: "truncated", 15: "liar"}
    for number, fault in faults.items():
        home.server.misbehave(f"/o{number}/a.txt", fault)  # type: ignore[arg-type]
    home.server.misbehave("/o5/a.txt", "busy", times=2)
    home.server.misbehave("/o6/a.txt", "redirect", times=1)
    home.server.misbehave("/o7/a.txt", "no-head")
    wrong = home.object_row("o11/a.txt", b"11 a.txt" * 50, digest=hashlib.sha256(b"other").hexdigest())
    home.object_manifest("o11.checkm", [wrong])
    batch = home.submit(home.batch_manifest("batch.checkm", rows))
    home.run()

    states = {job.payload["row"]: (job.state, job.code) for job in home.jobs(batch)}
    failed = {row: code for row, (state, code) in states.items() if state == "failed"}
    assert set(failed) == {3, 8, 11, 15}
    assert failed[3] == "http.404"
    assert failed[11] == "digest.mismatch"
    assert home.batch(batch).state == "failed"
    report = json.loads(json.dumps(home.report(batch)))
    assert len({line["job"] for line in report["jobs"]}) == len(report["jobs"]) == 20
    assert report["counts"] == {"completed": 16, "failed": 4, "deleted": 0}
    assert all(line["reason"] for line in report["jobs"] if line["state"] == "failed")
    assert home.letters() == [f"batch-{batch}-report-1@localhost.eml"]

    # When the causes of three are mended and those are resumed, the update tells just that
    home.server.mend()
    for job in home.jobs(batch):
        if job.payload["row"] in faults:
            home.operator.resume(job.id, "the server was mended")
    with pytest.raises(Refused, match="have not ended"):
        ask_for_update(home.store, home.batch(batch), "ada")
    home.run()
    assert home.batch(batch).state == "failed", "resuming alone sends no report"
    ask_for_update(home.store, home.batch(batch), "ada")
    home.run()
    changes = json.loads(json.dumps(home.report(batch)))["changes"]
    mended = {str(job.id) for job in home.jobs(batch) if job.payload["row"] in faults}
    assert set(changes["newly_completed"]) == mended
    assert len(changes["still_unresolved"]) == 1
    assert home.letters() == [f"batch-{batch}-report-{n}@localhost.eml" for n in (1, 2)]
    assert {job.retries for job in home.jobs(batch) if job.payload["row"] in faults} == {1}
    assert ocfl_is_valid(home.home / "storage")

    # And the bytes in storage are those of the inventory, and every job's history folds to its row
    for job in home.jobs(batch):
        assert fold(home.store.records.all_events(job.subject)) == Fold.of(job)
        if job.state == "completed":
            for file in home.world.inventory.files(job.facts["primary"], job.facts["version"]):
                path = home.world.nodes["main"].file(job.facts["primary"], file.name)  # type: ignore[attr-defined]
                assert hashlib.sha256(path.read_bytes()).hexdigest() == file.sha256
    leftover = {number for number, _ in home.world.disk.folders()}
    assert leftover == {job.id for job in home.jobs(batch) if job.state == "failed"}, "failed jobs keep their folders"


def test_failing_in_pending_is_final_and_says_so(home: Archive) -> None:
    url = home.object_manifest("bad.checkm", [home.object_row("x/a.txt", b"x", name="../../etc/passwd")])
    batch = home.submit(url, type="object-manifest", filename="bad.checkm")
    home.run()
    (job,) = home.jobs(batch)
    assert (job.state, job.code) == ("rejected", "name.unsafe")
    with pytest.raises(StateConflict, match="cannot resume"):
        home.operator.resume(job.id)


def test_a_digest_is_read_as_manifests_write_it_and_a_bad_one_is_refused_at_once(home: Archive) -> None:
    staged = home.world.staging.put([b"letter"], "letter.txt").url
    right = hashlib.sha256(b"letter").hexdigest().upper()
    batch = home.submit(staged, type="file", filename="letter.txt", digest_type="SHA-256", digest_value=right)
    home.run()
    assert home.batch(batch).state == "completed"
    with pytest.raises(BadInput, match="is not a sha-256 digest"):
        home.submit(staged, type="file", filename="letter.txt", digest_type="sha-256", digest_value="abc")
    with pytest.raises(BadInput, match="unknown digest algorithm"):
        home.submit(staged, type="file", filename="letter.txt", digest_type="crc", digest_value="abc")


def test_a_payload_that_is_not_what_the_depositor_says_is_rejected(home: Archive) -> None:
    staged = home.world.staging.put([b"what came"], "letter.txt").url
    right = hashlib.md5(b"what was sent").hexdigest()
    batch = home.submit(staged, type="file", filename="letter.txt", digest_type="md5", digest_value=right)
    home.run()
    (job,) = home.jobs(batch)
    assert (job.state, job.code) == ("rejected", "digest.mismatch")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"", "manifest"),
        (b"#%checkm_0.7\nnot | a\n#%eof\n", "manifest"),
        (b"\xff\xfe\x00", "manifest"),
    ],
)
def test_a_manifest_that_cannot_be_read_fails_the_batch_and_its_end_is_told(
    home: Archive, text: bytes, code: str
) -> None:
    batch = home.submit(home.put("batch.checkm", text), type="batch-manifest")
    home.run()
    found = home.batch(batch)
    assert found.state == "failed"
    assert (found.code or "").startswith(code)
    assert home.store.records.events(found.subject)[-1].detail["reason"]


def test_a_batch_without_rows_ends_and_says_so(home: Archive) -> None:
    batch = home.submit(home.batch_manifest("batch.checkm", []), type="batch-manifest")
    home.run()
    assert home.batch(batch).state == "failed"


def test_a_held_collection_holds_batches_until_they_are_released(home: Archive) -> None:
    home.store.queue.hold("collection", "maps", "lee", "moving house")
    batch = home.submit(home.put("m.txt", b"map"), "maps", type="file", filename="m.txt")
    home.run()
    assert home.batch(batch).state == "held"
    with pytest.raises(Refused, match="moving house"):
        home.operator.release(batch)
    home.store.queue.lift("collection", "maps", "lee")
    home.operator.release(batch)
    home.run()
    assert home.batch(batch).state == "completed"


def test_a_hold_set_after_the_jobs_were_made_holds_those_that_are_pending(home: Archive) -> None:
    batch = home.submit(home.batch_manifest("batch.checkm", objects(home, 3)))
    worker = home.worker(threads=1)
    while not home.jobs(batch):
        worker.run_until_idle(most=1)
    home.store.queue.hold("collection", "papers", "lee", "wait")
    home.run()
    assert {job.state for job in home.jobs(batch)} == {"held"}
    assert home.batch(batch).state == "processing"
    home.store.queue.lift("collection", "papers", "lee")
    for job in home.jobs(batch):
        home.operator.release(job.id)
    home.run()
    assert home.batch(batch).state == "completed"


def test_the_same_key_gives_the_same_batch(home: Archive) -> None:
    url = home.put("a.txt", b"a")
    first = home.submit(url, key="k1", type="file", filename="a.txt")
    assert home.submit(url, key="k1", type="file", filename="a.txt") == first
    home.run()
    assert len(home.jobs(first)) == 1


def test_a_second_deposit_under_the_same_local_id_is_a_new_version(home: Archive) -> None:
    for text in (b"first", b"second"):
        home.submit(home.put("a.txt", text), type="file", filename="a.txt", local_id="same")
        home.run()
    ark = home.world.inventory.arks_of("ark:/99999/owner", ["same"])["same"]
    assert ark is not None
    assert [version.version for version in home.world.inventory.versions(ark)] == [1, 2]
    assert [event.type for event in home.store.records.events(f"item/{ark}")] == ["changed", "ingested"] * 2


def test_two_deposits_of_one_local_id_at_once_share_one_identifier(home: Archive) -> None:
    batches = [
        home.submit(home.put(f"{n}.txt", b"%d" % n), type="file", filename=f"{n}.txt", local_id="same")
        for n in range(6)
    ]
    home.run()
    arks = {job.facts["primary"] for batch in batches for job in home.jobs(batch)}
    assert len(arks) == 1
    assert {home.batch(batch).state for batch in batches} == {"completed"}
    assert len(home.world.inventory.versions(arks.pop())) == 6


def test_a_supplied_identifier_that_is_not_the_local_ids_fails(home: Archive) -> None:
    home.submit(home.put("a.txt", b"a"), type="file", filename="a.txt", local_id="mine")
    home.run()
    batch = home.submit(
        home.put("b.txt", b"b"), type="file", filename="b.txt", local_id="mine", primary_id="ark:/99999/fk4other"
    )
    home.run()
    (job,) = home.jobs(batch)
    assert (job.state, job.code) == ("failed", "identifier.mismatch")


def test_a_deleted_job_is_listed_as_deleted_and_lets_the_batch_report(home: Archive) -> None:
    batch = home.submit(home.batch_manifest("batch.checkm", objects(home, 3)))
    worker = home.worker(threads=1)
    home.store.queue.hold("batch", str(batch), "lee", "look first")
    while len(home.jobs(batch)) < 3:
        worker.run_until_idle(most=1)
    home.run()
    first, *others = home.jobs(batch)
    assert {job.state for job in home.jobs(batch)} == {"held"}
    home.store.queue.lift("batch", str(batch), "lee")
    for job in others:
        home.operator.release(job.id)
    home.run()
    assert home.batch(batch).state == "processing"
    with pytest.raises(StateConflict, match="held by now, not failed"):  # somebody moved it since one looked
        home.store.queue.delete(first.id, "lee", "not wanted", "failed")
    home.operator.delete(first.id, "not wanted")
    home.run()
    assert home.batch(batch).state == "completed"
    counts = home.report(batch)["counts"]
    assert counts == {"completed": 2, "failed": 0, "deleted": 1}


def tar_of(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


def test_a_container_becomes_one_object_with_its_files(home: Archive) -> None:
    url = home.put("box.tar.gz", tar_of({"a.txt": b"a", "deep/b.txt": b"b"}))
    batch = home.submit(url, filename="box.tar.gz", title="A box")
    home.run()
    (job,) = home.jobs(batch)
    assert job.state == "completed"
    names = {file.name for file in home.world.inventory.files(job.facts["primary"], 1)}
    assert {"producer/a.txt", "producer/deep/b.txt"} <= names
    assert not any("box.tar.gz" in name for name in names)


@pytest.mark.parametrize("name", ["../outside.txt", "/etc/passwd", "mrt-owner.txt"])
def test_a_container_that_would_do_harm_fails_and_names_the_member(home: Archive, name: str) -> None:
    batch = home.submit(home.put("box.tar.gz", tar_of({"a.txt": b"a", name: b"x"})), filename="box.tar.gz")
    home.run()
    (job,) = home.jobs(batch)
    assert job.state == "failed"
    assert name.rsplit("/", 1)[-1] in home.store.records.events(job.subject)[-1].detail["reason"]
    assert not (home.home / "outside.txt").exists()


def test_a_bag_is_recognised_and_a_broken_one_fails(home: Archive) -> None:
    digest = hashlib.sha256(b"hello").hexdigest()
    bag = {
        "bag/bagit.txt": b"BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n",
        "bag/manifest-sha256.txt": f"{digest}  data/hello.txt\n".encode(),
        "bag/data/hello.txt": b"hello",
    }
    good = home.submit(home.put("good.tar.gz", tar_of(bag)), filename="good.tar.gz")
    bad = home.submit(home.put("bad.tar.gz", tar_of(bag | {"bag/data/hello.txt": b"HELLO"})), filename="bad.tar.gz")
    home.run()
    (sound,), (broken,) = home.jobs(good), home.jobs(bad)
    assert sound.state == "completed"
    assert (broken.state, broken.code) == ("failed", "bag.digest")


def test_what_a_manifest_without_room_left_behind_is_not_stored(home: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is listed with the files of the next attempt otherwise, and then it is gone: that was every attempt's end."""
    write, troubles = system_files._write, [OSError(errno.ENOSPC, "No space left on device")]

    def no_room(path: Path, text: str) -> None:
        if path.name == system_files.MANIFEST and troubles:
            system_files._scratch(path).write_text(text[: len(text) // 2])
            raise troubles.pop()
        write(path, text)

    monkeypatch.setattr(system_files, "_write", no_room)
    batch = home.submit(home.put("letter.txt", b"Dear sister"), type="file", filename="letter.txt")
    home.run()
    (job,) = home.jobs(batch)
    assert (job.state, troubles) == ("completed", [])
    assert not [file.name for file in home.world.inventory.files(job.facts["primary"], 1) if ".new" in file.name]

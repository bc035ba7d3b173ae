"""The whole way, with everything that goes wrong on it: two hundred objects, real servers, real mail, real commands."""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from email.message import EmailMessage
from pathlib import Path

import pytest

from custody.cli.nouns.init import CONFIG as SETTINGS
from custody.demo.standins.web_server import Fault
from custody.formats.checkm.form import Row
from custody.ingest.config import IngestConfig
from custody.ingest.storage.ocfl.root import OcflRoot
from custody.kernel.model.job import Filter, Fold, fold
from ingest.bench import Archive, archive, custody
from ingest.test_end_to_end import ocfl_is_valid
from ingest.test_mixed_fleet import orphans
from rig.mail import Mailbox

OBJECTS = 200
HELD = 8


@dataclass(frozen=True)
class Trouble:
    """What goes wrong with some rows: once (then the object arrives all the same) or until it is mended."""

    rows: range
    fault: Fault
    times: int = 0
    code: str = ""
    """that the job fails with, as long as it is not mended"""


TROUBLES = (
    Trouble(range(3, 120, 20), "busy", times=2),
    Trouble(range(4, 200, 20), "redirect", times=1),
    Trouble(range(5, 120, 20), "truncated", times=1),
    Trouble(range(6, 200, 20), "no-head"),
    Trouble(range(7, 60, 20), "slow"),
    Trouble(range(8, 200, 20), "gone", code="http.404"),
    Trouble(range(9, 60, 20), "truncated", code="body.truncated"),
    Trouble(range(10, 60, 20), "liar", code="size.mismatch"),
    Trouble(range(11, 60, 20), "loop", code="url.too_many_redirects"),
)
WRONG_BYTES = range(12, 100, 20)  # the server has other bytes than the manifest says; code digest.mismatch
HUGE = range(13, 60, 20)  # larger than any disk: space.never, and no mending helps


def write_objects(home: Archive, count: int) -> list[Row]:
    rows = []
    for number in range(1, count + 1):
        data = f"object {number}\n".encode() * 200
        untold = number % 20 in (6, 17)  # the server is asked for the size
        more = {"size": 1 << 52} if number in HUGE else {"size": None} if untold else {}
        files = [home.object_row(f"o{number}/a.txt", data, **more)]
        if number % 4 == 0:
            files.append(home.object_row(f"o{number}/b.txt", b"b"))
        url = home.object_manifest(f"o{number}.checkm", files)
        rows.append(Row(number, url, f"o{number}.checkm", local_ids=(f"loc{number}",), title=f"Object {number}"))
        if number in WRONG_BYTES:
            home.put(f"o{number}/a.txt", data[::-1])
    return rows


def go_wrong(home: Archive) -> None:
    for trouble in TROUBLES:
        for row in trouble.rows:
            home.server.misbehave(f"/o{row}/a.txt", trouble.fault, trouble.times)


def mend(home: Archive) -> None:
    home.server.mend()
    for row in WRONG_BYTES:
        home.put(f"o{row}/a.txt", f"object {row}\n".encode() * 200)


@pytest.fixture(params=["sqlite", "postgres", "zookeeper"])
def home(request: pytest.FixtureRequest, smtp: Mailbox) -> Iterator[Archive]:
    """An archive that sends real mail; its files where fsync costs little: no power is cut here."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        url = f"sqlite:///{folder}/custody.db"
        if request.param == "postgres":
            url = request.getfixturevalue("postgres_url")
        if request.param == "zookeeper":
            url = f"zookeeper://{request.getfixturevalue('zookeeper_hosts')}?with={url}"
        config = IngestConfig(threshold=0.0, smtp=smtp.address, web="https://archive.example")
        with archive(Path(folder), url, config=config) as made:
            settings = SETTINGS.replace("threshold = 0.05", "threshold = 0.0")
            (made.home / "custody.toml").write_text(settings.replace("sqlite:///custody.db", url))
            yield made


def codes(home: Archive, batch: int) -> Counter[str]:
    return Counter(job.code or "" for job in home.jobs(batch) if job.state == "failed")


def attached(message: EmailMessage, name: str) -> str:
    (part,) = [part for part in message.iter_attachments() if part.get_filename() == name]
    content = part.get_content()
    return content if isinstance(content, str) else bytes(content).decode()


def test_a_batch_of_two_hundred_with_all_its_troubles(home: Archive, smtp: Mailbox) -> None:
    rows = write_objects(home, OBJECTS)
    go_wrong(home)
    home.store.queue.hold("collection", "maps", "lee", "moving house")
    maps = home.submit(home.batch_manifest("maps.checkm", [replace(row, local_ids=()) for row in rows[-HELD:]]), "maps")
    batch = home.submit(home.batch_manifest("batch.checkm", rows), filename="batch.checkm", submitter="m.ruiz")
    home.run()

    # The right ones are complete, the others failed with the reason that fits
    expected = Counter({trouble.code: len(trouble.rows) for trouble in TROUBLES if trouble.code})
    expected += Counter({"digest.mismatch": len(WRONG_BYTES), "space.never": len(HUGE)})
    assert codes(home, batch) == expected
    assert home.batch(maps).state == "held"
    failed = {job.payload["line"]: job for job in home.jobs(batch) if job.state == "failed"}
    assert {row + 5 for row in HUGE} <= set(failed), "rows are lines of the depositor's own manifest"

    # The report tells each job exactly once, with its row and its reason, and left the house as one mail
    (letter,) = smtp.letters
    report = json.loads(attached(letter.message, "report.json"))
    assert sorted(line["row"] for line in report["jobs"]) == [row + 5 for row in range(1, OBJECTS + 1)]
    assert len({line["job"] for line in report["jobs"]}) == OBJECTS
    told = {line["row"]: line for line in report["jobs"] if line["state"] == "failed"}
    assert set(told) == set(failed)
    assert all(line["reason"] and line["code"] == failed[row].code for row, line in told.items())
    assert report["counts"] == {"completed": OBJECTS - len(failed), "failed": len(failed), "deleted": 0}
    assert report["link"].startswith(f"https://archive.example/deposit/{batch}/")
    assert attached(letter.message, "report.csv").count("\r\n") == OBJECTS + 1

    # The causes are mended, all but one; an operator resumes by cause
    mend(home)
    left = "url.too_many_redirects"
    for row in next(trouble.rows for trouble in TROUBLES if trouble.code == left):
        home.server.misbehave(f"/o{row}/a.txt", "loop")
    done = custody(home.home, "job", "resume", "--cause", "http.404", "--why", "mended", "--store", home.store.url)
    assert f"{expected['http.404']} jobs resumed" in done.stdout, done.stderr
    for code in sorted(set(expected) - {"space.never", "http.404"}):
        every = list(home.operator.every(Filter(ended="failed", code=code), home.operator.resume))
        assert [problem for _, problem in every if problem] == []
    home.run()
    assert codes(home, batch) == Counter({left: expected[left], "space.never": len(HUGE)})
    assert len(smtp.letters) == 1, "resuming alone tells nobody"
    asked = custody(home.home, "batch", "report", str(batch), "--update", "--store", home.store.url)
    assert asked.returncode == 0, asked.stderr
    patience = time.monotonic() + 60  # in a tree, what another process moved is seen a moment later
    while len(smtp.letters) < 2 and time.monotonic() < patience:
        home.run()

    # The update tells the difference, and nothing else
    update = json.loads(attached(smtp.letters[-1].message, "report.json"))
    still = {str(job.id) for job in home.jobs(batch) if job.state == "failed"}
    mended = {str(job.id) for job in failed.values()} - still
    assert set(update["changes"]["newly_completed"]) == mended
    assert set(update["changes"]["still_unresolved"]) == still
    assert update["changes"]["newly_unresolved"] == []
    assert len({letter.message["Message-ID"] for letter in smtp.letters}) == len(smtp.letters) == 2

    # The frozen collection goes on when it is released
    home.store.queue.lift("collection", "maps", "lee")
    home.operator.release(maps, "the move is over")
    home.run()
    assert Counter(job.state for job in home.jobs(maps)) == Counter({"completed": HELD})
    check_everything_stored(home, batch, maps)


def check_everything_stored(home: Archive, *batches: int) -> None:
    """The bytes in storage are what the inventory says, the root is valid, every history folds to its row."""
    root = home.world.nodes["main"]
    assert isinstance(root, OcflRoot)
    assert ocfl_is_valid(root.path)
    for job in (job for batch in batches for job in home.jobs(batch)):
        assert fold(home.store.records.all_events(job.subject)) == Fold.of(job)
        if job.state == "completed":
            for file in home.world.inventory.files(job.facts["primary"], job.facts["version"]):
                stored = root.file(job.facts["primary"], file.name, job.facts["version"])
                assert hashlib.sha256(stored.read_bytes()).hexdigest() == file.sha256
    kept = {number for number, _ in home.world.disk.folders()}
    failed = {job.id for batch in batches for job in home.jobs(batch) if job.state == "failed"}
    assert kept <= failed, "no working folder is left of an object that arrived"
    if home.store.url.startswith("zookeeper:"):
        assert orphans(home.store.url) == []

"""Links planted in ingest's own folders lead nothing elsewhere: no upload, no working folder, no clearing away."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from custody.errors import CustodyError, NotFound, Refused, Unsafe
from custody.ingest.batch.mail import to_outbox
from custody.ingest.storage.working_disk import WorkingDisk
from custody.ingest.submission.staging import Staging
from rig.program import room


@pytest.fixture
def place() -> Iterator[Path]:
    folder = room("planted")
    folder.chmod(0o755)
    (folder / "elsewhere").mkdir()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def job(number: int = 7, parent: int = 3) -> Any:
    return SimpleNamespace(id=number, parent=parent)


def opened(place: Path) -> Staging:
    staging = Staging(place / "staging")
    staging.root.chmod(0o755)
    return staging


def test_nothing_is_staged_or_read_through_a_link(place: Path) -> None:
    staging = opened(place)
    made = staging.put([b"bytes"], "a.txt")
    folder = staging.path(made.url).parent
    shutil.move(folder, place / "elsewhere")
    folder.symlink_to(place / "elsewhere" / folder.name)
    for act in (
        lambda: staging.put([b"bytes"], "a.txt"),
        lambda: staging.path(made.url),
        lambda: staging.open(made.url),
    ):
        with pytest.raises(Refused, match="a link is in the way"):
            act()
    assert staging.sweep((), -1000) == 0, "what lies elsewhere is not ours to clear away"
    assert len(list((place / "elsewhere" / folder.name).iterdir())) == 1
    assert [path.name for path in staging.root.iterdir()] == [folder.name]


def test_a_link_in_the_place_of_staged_bytes_is_not_read(place: Path) -> None:
    staging = opened(place)
    made = staging.put([b"bytes"], "a.txt")
    file = staging.path(made.url)
    (place / "secret").write_text("not-for-them")
    file.unlink()
    file.symlink_to(place / "secret")
    with pytest.raises((NotFound, Refused)):
        staging.open(made.url)


def test_nothing_is_staged_where_others_may_write(place: Path) -> None:
    staging = opened(place)
    made = staging.put([b"bytes"], "a.txt")
    staging.path(made.url).parent.chmod(0o777)
    with pytest.raises(Unsafe) as refused:
        staging.put([b"bytes"], "b.txt")
    assert refused.value.code == "folder.closed"
    assert staging.open(made.url).read() == b"bytes"


@pytest.mark.parametrize("planted", ["batch-3", "batch-3/job-7"])
def test_no_working_folder_is_a_link(place: Path, planted: str) -> None:
    disk = WorkingDisk(place / "work", "")
    disk.root.chmod(0o755)
    (place / "elsewhere/job-7").mkdir()
    (place / "elsewhere/job-7/theirs").write_text("theirs")
    (disk.root / planted).parent.mkdir(exist_ok=True)
    (disk.root / planted).symlink_to(place / "elsewhere" / os.path.relpath(planted, "batch-3"))
    for act in (disk.folder, disk.used_by, disk.remove):
        with pytest.raises(Refused, match="a link is in the way"):
            act(job())
    assert list(disk.folders()) == [], "nothing that lies elsewhere is an orphan"
    with pytest.raises(CustodyError):
        disk.remove_folder(disk.root / "batch-3/job-7")
    assert (place / "elsewhere/job-7/theirs").exists()


def test_who_only_looks_may_look_where_others_may_write(place: Path) -> None:
    worker = WorkingDisk(place / "work", "")
    worker.root.chmod(0o755)
    (worker.root / "batch-3").mkdir()
    (worker.root / "batch-3").chmod(0o777)
    with pytest.raises(Unsafe):
        worker.folder(job())
    assert WorkingDisk(place / "work", "", make=False).folder(job()) == place / "work/batch-3/job-7"


def test_no_mail_is_written_through_a_link(place: Path) -> None:
    message = EmailMessage()
    message["Message-ID"] = "<1@here>"
    message.set_content("text")
    (place / "secret").write_text("theirs")
    outbox = place / "outbox"
    outbox.mkdir(mode=0o755)
    (outbox / f".1@here.{os.getpid()}.part").symlink_to(place / "secret")
    to_outbox(outbox)(message)
    assert (place / "secret").read_text() == "theirs"
    assert (outbox / "1@here.eml").read_bytes() == message.as_bytes()

"""What a collection takes, and what it refuses: sizes, numbers of files, names in old encodings; and who is told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path

import pytest

from border.containers import Z, zip_of
from custody.errors import BadInput
from custody.ingest.batch import batch as batches
from custody.ingest.profile import parse_profile
from custody.ingest.zookeeper.tree import shown
from ingest.bench import Archive, archive, custody
from ingest.test_end_to_end import tar_of

MORE = """
[limits]
object_size = 100_000
files = 3
"""
OLD = '\n[containers]\nencoding = "cp437"\n'


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Archive]:
    """An archive that takes only small objects."""
    with archive(tmp_path, f"sqlite:///{tmp_path / 'custody.db'}", MORE) as made:
        yield made


def submit_object(home: Archive, sizes: list[int], told: bool = True) -> int:
    rows = [home.object_row(f"o/{n}.txt", b"x" * size, name=f"{n}.txt") for n, size in enumerate(sizes)]
    rows = rows if told else [replace(row, size=None) for row in rows]
    return home.submit(home.object_manifest("o.checkm", rows), type="object-manifest")


@pytest.mark.parametrize(
    ("sizes", "told", "code"),
    [
        ([30_000, 30_000, 30_000], True, None),
        ([30_000, 30_000, 40_001], True, "object.too_large"),
        ([30_000, 30_000, 40_001], False, "object.too_large"),
        ([1, 1, 1, 1], True, "object.too_many"),
    ],
)
def test_an_object_that_is_too_much_for_its_collection_fails_and_says_so(
    small: Archive, sizes: list[int], told: bool, code: str | None
) -> None:
    batch = submit_object(small, sizes, told)
    small.run()
    (job,) = small.jobs(batch)
    assert job.code == code
    asked = [path for path in small.server.requests if path.startswith("/o/")]
    assert bool(asked) == (code is None or not told), "what is too much by its own word is not fetched"


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({"a": b"a", "b": b"b", "c": b"c"}, None),
        ({n: b"x" for n in "abcd"}, "container.too_large"),
        ({"a": b"x" * 100_001}, "container.too_large"),
    ],
)
def test_a_container_that_holds_too_much_fails_and_says_so(
    small: Archive, files: dict[str, bytes], code: str | None
) -> None:
    batch = small.submit(small.put("box.tar.gz", tar_of(files)), filename="box.tar.gz")
    small.run()
    assert small.jobs(batch)[0].code == code


def old_zip() -> bytes:
    return zip_of(Z(name="Größe.txt".encode("cp437")))


@pytest.mark.parametrize(("more", "code"), [("", "container.unsafe"), (OLD, None)])
def test_names_in_an_old_encoding_are_read_when_the_profile_names_it(
    tmp_path: Path, more: str, code: str | None
) -> None:
    with archive(tmp_path, f"sqlite:///{tmp_path / 'custody.db'}", more) as home:
        batch = home.submit(home.put("box.zip", old_zip()), filename="box.zip")
        home.run()
        (job,) = home.jobs(batch)
        assert job.code == code
        if code is None:
            names = [file.name for file in home.world.inventory.files(job.facts["primary"], 1)]
            assert "producer/Größe.txt" in names


@pytest.mark.parametrize("encoding", ["klingon", "base64", "rot13"])
def test_an_encoding_that_is_none_is_refused_with_the_profile(encoding: str) -> None:
    with pytest.raises(BadInput, match=r"containers\.encoding"):
        parse_profile(f'[containers]\nencoding = "{encoding}"', "papers")


# Who is told when nothing of a submission can be used


def mail(home: Archive) -> EmailMessage:
    (path,) = (home.home / "outbox").glob("*.eml")
    message = message_from_bytes(path.read_bytes(), policy=policy.default)
    assert isinstance(message, EmailMessage)
    return message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"#%checkm_0.7\nnot | a\n#%eof\n", "profile"),
        (None, "404"),
    ],
)
def test_a_depositor_is_told_once_that_a_submission_cannot_be_used(
    home: Archive, text: bytes | None, words: str
) -> None:
    url = home.put("batch.checkm", text) if text is not None else f"{home.server.url}/gone.checkm"
    batch = home.submit(url, type="batch-manifest", filename="batch.checkm")
    home.run()
    assert home.batch(batch).state == "failed"
    message = mail(home)
    assert message["Subject"] == f"FAIL: batch {shown(batch)} of papers could not be read"
    body = message.get_body(("plain",))
    assert body is not None
    told = str(body.get_content())
    assert "Nothing was deposited." in told
    assert words in told
    assert home.report(batch)["failure"]
    home.run()
    assert len(home.mails()) == 1


def test_a_server_that_is_away_is_tried_again_before_the_depositor_is_told(
    home: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "TRIES_BEFORE_FINAL", 5)
    url = home.put("batch.checkm", b"")
    home.server.misbehave("/batch.checkm", "busy")
    batch = home.submit(url, type="batch-manifest", filename="batch.checkm")
    home.run()
    events = [event.type for event in home.store.records.events(f"job/{batch}")]
    assert events.count("retried") == 4
    assert home.batch(batch).code == "http.503"
    assert len(home.mails()) == 1


def test_the_doctor_puts_right_what_a_crash_left_beside_a_storage_root(tmp_path: Path) -> None:
    custody(tmp_path, "init")
    (tmp_path / "letter.txt").write_text("Dear sister")
    custody(tmp_path, "batch", "submit", "letter.txt", "--profile", "example")
    custody(tmp_path, "worker", "run", "--until-idle", "--no-log")
    left = tmp_path / "storage-staging" / "0123456789abcdef" / "new"
    left.mkdir(parents=True)
    (left / "half").write_text("a version that was never finished")
    assert "storage node main: 1 unfinished versions were cleared away" in custody(tmp_path, "doctor").stdout
    assert not left.exists()

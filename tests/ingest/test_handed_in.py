"""A key that a depositor gave is theirs for good, and a list of rows is a manifest like any other."""

from __future__ import annotations

import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from custody.errors import BadInput, KeyConflict
from custody.ingest.batch.cleanup import delete_batch
from custody.ingest.submission import idempotency
from custody.ingest.submission.inline import manifest_of
from custody.ingest.submission.submission import Submission, submit
from custody.kernel.model.authority.acting import system
from custody.kernel.model.names.job_numbers import shown
from ingest.bench import Archive, custody


def test_a_key_that_comes_back_after_clean_up_deposits_nothing_again(home: Archive) -> None:
    url = home.put("a.txt", b"a")
    first = home.submit(url, key="k1", type="file", filename="a.txt")
    home.run()
    delete_batch(home.store, home.batch(first), "ada", "long ago", home.world)
    assert submit(home.store, Submission("papers", url, "file", "a.txt"), "k1", system("m")) == (first, False)
    home.run()
    assert list(home.store.queue.every()) == []
    assert len(home.world.inventory.list()) == 1
    with pytest.raises(KeyConflict, match=rf"for another request \({shown(first)}\)"):
        home.submit(url, key="k1", type="file", filename="another.txt")


def test_a_key_taken_by_a_submission_that_died_is_finished_by_the_next_or_by_clean_up(home: Archive) -> None:
    given = Submission("papers", home.put("a.txt", b"a"), "file", "a.txt")
    facts = {name: value for name, value in asdict(given).items() if value}
    assert idempotency.number_of(home.store, "k1", facts) is None, "died before the batch was made"
    first, new = submit(home.store, given, "k1", system("m"))
    assert new
    home.store.db.write(lambda tx: tx.run("handed_in_as", key="k1", batch=0, fingerprint=""))  # died after
    assert submit(home.store, given, "k1", system("m")) == (first, False)
    home.store.db.write(lambda tx: tx.run("handed_in_as", key="k1", batch=0, fingerprint=""))
    home.run()
    delete_batch(home.store, home.batch(first), "ada", "long ago", home.world)
    assert submit(home.store, given, "k1", system("m")) == (first, False)


def test_another_program_that_hands_in_the_same_is_no_conflict(home: Archive) -> None:
    given = {"type": "file", "filename": "a.txt"}
    first = home.submit("http://127.0.0.1/a", key="k", user_agent="curl", **given)
    assert home.submit("http://127.0.0.1/a", key="k", user_agent="requests", **given) == first


def test_many_who_come_at_once_with_one_key_get_one_batch(home: Archive) -> None:
    answers: list[tuple[int, bool]] = []
    start = threading.Barrier(8)

    def hand_in() -> None:
        start.wait()
        answers.append(submit(home.store, Submission("papers", "http://127.0.0.1/a", "file"), "k1", system("m")))

    threads = [threading.Thread(target=hand_in) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({number for number, _ in answers}) == 1
    assert sum(new for _, new in answers) == 1
    assert len(list(home.store.queue.every())) == 1


def test_the_command_says_that_it_was_there_before(tmp_path: Path) -> None:
    custody(tmp_path, "init")
    (tmp_path / "letter.txt").write_text("Dear sister")
    give = ("batch", "submit", "letter.txt", "--profile", "example", "--key", "k1")
    assert custody(tmp_path, *give).stdout == "batch 1\n"
    custody(tmp_path, "worker", "run", "--until-idle", "--no-log")
    assert custody(tmp_path, "batch", "delete", "1", "--yes", "--why", "tidy").returncode == 0
    again = custody(tmp_path, *give)
    assert again.stdout == "batch 1 (submitted before with this key)\n"
    assert "cleaned up since, and nothing was deposited again" in again.stderr


# Rows in the request


def test_the_rows_become_a_manifest_of_the_kind_that_their_names_say() -> None:
    files = manifest_of([{"url": "https://a.example/x/letter.pdf?v=2", "title": "A | letter", "local_id": "l1; l2"}])
    assert files.type == "single-file-batch-manifest"
    assert "https://a.example/x/letter.pdf?v=2 |  |  |  |  | letter.pdf |  | l1; l2 |  | A %7c letter" in files.text
    assert manifest_of([{"url": "https://a.example/o.checkm"}]).type == "batch-manifest"
    assert manifest_of([{"url": "https://a.example/o.zip"}, {"url": "https://a.example/p.tar"}]).type == (
        "container-batch-manifest"
    )
    short = manifest_of(["file1.checkm loc001", "file3.checkm loc003 ark:/99999/x"], "https://a.example/box/")
    assert "https://a.example/box/file3.checkm |  |  |  |  | file3.checkm | ark:/99999/x | loc003" in short.text


@pytest.mark.parametrize(
    ("rows", "base", "type_", "code", "words"),
    [
        ([], "", "", "batch.empty", "lists nothing"),
        (["a.checkm l1"], "", "", "submission.payload", "row 1"),
        (["a b c d"], "https://a.example/", "", "submission.row", "row 1"),
        (["  "], "https://a.example/", "", "submission.row", "row 1"),
        ([{"url": "https://a.example/x"}], "", "file", "submission.type", "rows are no file"),
        ([{"url": "https://a.example/x"}, {"url": "ftp://a.example/y"}], "", "", "manifest.url.scheme", "row 2"),
        ([{"url": "https://a.example/x", "name": "../x"}], "", "", "name.unsafe", "row 1"),
        ([{"url": "https://a.example/x", "name": "mrt-owner.txt"}], "", "object-manifest", "name.reserved", "row 1"),
        ([{"url": "https://a.example/x y"}], "", "", "manifest.unwritable", "row 1"),
        ([{"url": "https://a.example/x", "title": "a\nb"}], "", "", "manifest.unwritable", "row 1"),
        ([{"url": "https://a.example/x", "digest_type": "md5"}], "", "", "submission.digest", "row 1"),
        (
            [{"url": "https://a.example/x", "digest_type": "crc-32", "digest_value": "1"}],
            "",
            "",
            "digest.unknown",
            "row 1",
        ),
        ([{"url": "https://a.example/x", "primary_id": "doi:1"}], "", "", "identifier.bad", "row 1"),
        (
            [{"url": "https://a.example/x", "name": "a"}, {"url": "https://a.example/y", "name": "a"}],
            "",
            "object-manifest",
            "manifest.duplicate",
            "row 2",
        ),
    ],
)
def test_a_row_that_cannot_be_used_is_named_by_its_place(
    rows: list[Any], base: str, type_: str, code: str, words: str
) -> None:
    with pytest.raises(BadInput) as told:
        manifest_of(rows, base, type_)
    assert told.value.code == code
    assert words in f"{told.value.where}: {told.value.message}"

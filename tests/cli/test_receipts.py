"""What was acknowledged is written down outside of the store, and compared with it later."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from custody.cli import receipts
from rig.commands import Run


def test_a_receipt_names_the_job_and_the_move_that_made_it(custody: Run, tmp_path: Path) -> None:
    for key in ("", "", "one", "one"):
        custody("job", "submit", "parcel", "--receipts", "kept.jsonl", *(["--key", key] if key else []))
    kept = [json.loads(line) for line in (tmp_path / "kept.jsonl").read_text().splitlines()]
    assert [one["job"] for one in kept] == [1, 2, 3, 3]
    assert len({one["move"] for one in kept}) == 3, "a key that was used before has the receipt of its job"
    assert all(one["move"] for one in kept)
    said = custody("doctor", "--receipts", "kept.jsonl")
    assert said.code == 0, said.out
    assert "all of 4 receipts are known" in said.out


def test_a_job_with_the_same_number_is_not_taken_for_the_one_that_was_lost(custody: Run, tmp_path: Path) -> None:
    custody("job", "submit", "parcel", "--receipts", "kept.jsonl")
    (tmp_path / "custody.db").unlink()
    custody("job", "submit", "parcel")
    said = custody("doctor", "--receipts", "kept.jsonl")
    assert said.code == 1
    assert "1 of 1 receipt" in said.out
    assert "submit them again" in said.out


def test_what_is_no_receipt_is_named_with_its_line_and_the_others_are_judged(custody: Run, tmp_path: Path) -> None:
    custody("job", "submit", "parcel", "--receipts", "kept.jsonl")
    with (tmp_path / "kept.jsonl").open("a") as file:
        file.write('{"job": 7, "move": "gone"}\n{"job": 2, "mo')
    said = custody("doctor", "--receipts", "kept.jsonl")
    assert said.code == 1
    assert "kept.jsonl: 1 line cannot be read as a receipt (line 3)" in said.out
    assert "1 of 2 receipts are unknown to the store: jobs 7" in said.out
    custody("job", "submit", "parcel", "--receipts", "kept.jsonl")
    assert "2 of 3" not in custody("doctor", "--receipts", "kept.jsonl").out, "a torn line takes no other with it"
    assert "of 3 receipts" in custody("doctor", "--receipts", "kept.jsonl").out


def test_a_file_without_receipts_says_nothing(custody: Run, tmp_path: Path) -> None:
    custody("job", "submit", "parcel")
    (tmp_path / "empty").touch()
    said = custody("doctor", "--receipts", "empty")
    assert said.code == 1
    assert "has no receipts" in said.out


@pytest.mark.parametrize(
    "file", ["missing/kept", "folder", "/dev/full", "custody.db", "custody.db-wal", "copy.db", "sealed/kept"]
)
def test_what_could_not_be_written_down_is_not_submitted(custody: Run, tmp_path: Path, file: str) -> None:
    custody("job", "submit", "parcel")
    custody("store", "backup", "copy.db")
    (tmp_path / "folder").mkdir()
    (tmp_path / "sealed").symlink_to("/proc/self")
    said = custody("job", "submit", "parcel", "--receipts", file)
    assert said.code in (2, 3)
    assert file in said.err
    assert len(json.loads(custody("job", "list", "--json").out)) == 1


def test_a_receipt_that_cannot_be_written_after_all_says_that_the_job_was_taken(
    custody: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(receipts.os, "fsync", full)  # type: ignore[attr-defined]
        said = custody("job", "submit", "parcel", "--receipts", "kept")
    assert said.code == 2
    assert "job 1 was taken" in said.err
    assert "do not submit it again" in said.err
    assert "repeat" not in said.err


PROVES_NOTHING = {
    "empty": b"",
    "blank lines": b"\n  \n\t\n",
    "torn": b'{"job": 2, "mo',
    "zeros, as a crash leaves them": b"\0" * 500,
    "a letter": b"Dear Ada,\n",
    "another sort of list": b'{"id": 2, "name": "x"}\n',
    "no job": b'{"job": 0, "move": "abc"}\n',
    "below all jobs": b'{"job": -7, "move": "abc"}\n',
    "a flag for a number": b'{"job": true, "move": "abc"}\n',
    "a text for a number": b'{"job": "2", "move": "abc"}\n',
    "a fraction": b'{"job": 2.5, "move": "abc"}\n',
    "no end of a number": b'{"job": 1e999, "move": "abc"}\n',
    "without the move": b'{"job": 2, "move": ""}\n',
    "a number for a move": b'{"job": 2, "move": 7}\n',
    "no text at all": b"\xff\xfe\x00",
    "the store itself": b"SQLite format 3\0" + b"\0" * 4000,
}


@pytest.mark.parametrize("what", PROVES_NOTHING)
def test_a_file_that_proves_nothing_does_not_end_what_the_doctor_says(custody: Run, tmp_path: Path, what: str) -> None:
    """Neither alone nor beside one that has receipts."""
    custody("job", "submit", "parcel", "--receipts", "kept")
    custody("store", "backup", "copy.db")
    custody("job", "submit", "parcel")
    custody("store", "restore", "copy.db")
    (tmp_path / "bad").write_bytes(PROVES_NOTHING[what])
    for files in (["--receipts", "bad"], ["--receipts", "kept", "--receipts", "bad"]):
        said = custody("store", "restored", "--why", "a new disk", *files)
        assert said.code in (2, 3), said.out
        assert "bad" in said.err
        assert "receipt" in said.err
    assert "all of" not in custody("doctor", "--receipts", "bad").out
    doctor = custody("doctor")
    assert (doctor.code, "UNSAFE   history went back" in doctor.out) == (1, True)
    assert custody("event", "list", "store", "--json").out.count('"restored"') <= 1, "the copy's name, and no word"


@pytest.mark.parametrize("file", ["none", "folder", "/dev/null"])
def test_what_is_no_file_of_receipts_is_refused_in_words(custody: Run, tmp_path: Path, file: str) -> None:
    custody("job", "submit", "parcel")
    (tmp_path / "folder").mkdir()
    said = custody("store", "restored", "--why", "a new disk", "--receipts", file)
    assert said.code in (2, 3)
    assert file in said.err
    assert "Traceback" not in said.err


def test_who_has_no_receipts_is_told_what_to_say_instead(custody: Run, tmp_path: Path) -> None:
    custody("job", "submit", "parcel")
    (tmp_path / "empty").touch()
    said = custody("store", "restored", "--why", "a new disk", "--receipts", "empty")
    assert "no receipts" in said.err
    assert "--beyond" in said.err
    assert "without --receipts" in said.err
    assert custody("store", "restored", "--why", "a new disk", "--beyond", "9").code == 0
    assert "without --receipts" in " ".join(custody("store", "restored", "--help").out.split())

"""What was acknowledged is written down outside of the store, and compared with it later."""

from __future__ import annotations

import json
from pathlib import Path

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


def test_what_is_no_receipt_is_named_with_its_line(custody: Run, tmp_path: Path) -> None:
    custody("job", "submit", "parcel", "--receipts", "kept.jsonl")
    with (tmp_path / "kept.jsonl").open("a") as file:
        file.write("torn off {\n")
    said = custody("doctor", "--receipts", "kept.jsonl")
    assert said.code == 1
    assert "no receipt" in said.out

"""Standard output that cannot be written to: no traceback, no success, and what was done is told all the same."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

HOW = {"closed": ">&-", "full": ">/dev/full", "left": "| true"}
CODES = {"closed": 2, "full": 2, "left": 141}


def shell(folder: Path, words: str, how: str) -> tuple[int, str]:
    """How the command ended, and what it said on standard error."""
    command = f"{{ {sys.executable} -m custody {words}; echo $? >code; }} {HOW[how]}"
    if how == "left":  # it writes when nobody can be there any more
        command = f"{{ sleep 0.3; {sys.executable} -m custody {words}; echo $? >code; }} {HOW[how]}"
    said = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, timeout=120)
    return int((folder / "code").read_text()), said.stderr


def jobs(folder: Path) -> list[int]:
    said = subprocess.run(
        [sys.executable, "-m", "custody", "job", "list", "--json"], cwd=folder, capture_output=True, timeout=120
    )
    return [job["id"] for job in json.loads(said.stdout)]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("words", ["job submit parcel", "job submit list --json"])
def test_a_submit_that_could_not_be_told_is_no_success_and_says_which_job_it_made(
    tmp_path: Path, how: str, words: str
) -> None:
    code, said = shell(tmp_path, words, how)
    assert code == CODES[how]
    assert "Traceback" not in said
    assert re.search(r'job 1\b|"id": 1\b', said), said
    assert "look before you repeat it" in said
    assert jobs(tmp_path) == [1]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("words", ["job list", "job list --json", "store info", "--help", "job --help", "--version"])
def test_what_can_be_asked_for_again_is_left_quietly_when_its_reader_has_left_and_else_with_a_sentence(
    tmp_path: Path, how: str, words: str
) -> None:
    code, said = shell(tmp_path, words, how)
    assert code == CODES[how]
    lines = said.splitlines()
    assert len(lines) == (0 if how == "left" else 1), said
    assert all("standard output could not be written to" in line for line in lines)


@pytest.mark.parametrize("how", HOW)
def test_a_refusal_for_programs_that_could_not_be_told_is_told_on_standard_error(tmp_path: Path, how: str) -> None:
    code, said = shell(tmp_path, "job show 7 --json", how)
    assert code == CODES[how]
    assert "job.unknown" in said
    assert "look before" not in said


def test_a_token_is_not_shown_where_it_was_not_asked_for(tmp_path: Path) -> None:
    code, said = shell(tmp_path, "token create ada --role admin", "full")
    assert code == 2
    assert "revoke it" in said
    assert len(said) < 300


@pytest.mark.parametrize("where", ["2>&-", "2>/dev/full", ">&- 2>&- <&-"])
def test_a_worker_works_on_whoever_hears_it(tmp_path: Path, where: str) -> None:
    (tmp_path / "body.py").write_text(
        "from custody import Kind, Passed\nKINDS = [Kind('parcel', lambda work: Passed())]\n"
    )
    shell(tmp_path, "job submit parcel", "full")
    words = f"{sys.executable} -m custody worker run --load body.py --until-idle {where}"
    assert subprocess.run(["bash", "-c", words], cwd=tmp_path, timeout=120).returncode == 0
    said = subprocess.run(
        [sys.executable, "-m", "custody", "job", "show", "1", "--json"], cwd=tmp_path, capture_output=True, timeout=120
    )
    assert json.loads(said.stdout)["job"]["ended"] == "passed"


@pytest.mark.parametrize("where", [">&-", ">/dev/full"])
def test_a_service_whose_greeting_nobody_reads_serves_and_says_where_on_standard_error(
    tmp_path: Path, where: str
) -> None:
    words = f"exec {sys.executable} -m custody serve --demo --port 0 --no-log {where} 2>said"
    served = subprocess.Popen(["bash", "-c", words], cwd=tmp_path)
    try:
        stop_at = time.monotonic() + 60
        while "dashboard" not in ((tmp_path / "said").read_text() if (tmp_path / "said").exists() else ""):
            assert time.monotonic() < stop_at, (tmp_path / "said").read_text()
            assert served.poll() is None
            time.sleep(0.05)
        os.kill(served.pid, signal.SIGTERM)
        assert served.wait(60) == 0
    finally:
        served.kill()
        served.wait()
    assert "Traceback" not in (tmp_path / "said").read_text()

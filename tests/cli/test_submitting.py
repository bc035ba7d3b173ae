"""What `custody job submit` takes, and what it refuses before anything is made."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from custody.errors import BadInput
from custody.kernel.model.job import LONGEST_LANE, NewJob
from custody.kernel.model.names.job_keys import LONGEST_KEY
from custody.kernel.stores import open_store
from custody.kernel.stores.sqlite.file_guard import linked
from rig.commands import Run


def made(custody: Run) -> int:
    return len(json.loads(custody("job", "list", "--json").out))


@pytest.mark.parametrize(
    "words", [("--key", ""), ("--key", "k" * (LONGEST_KEY + 1)), ("--lane", "l" * (LONGEST_LANE + 1))]
)
def test_a_key_that_says_nothing_or_is_too_long_is_refused_and_so_is_a_lane(custody: Run, words: tuple[str]) -> None:
    custody("store", "migrate")
    said = custody("job", "submit", "greet", *words)
    assert said.code == 2, said.err
    assert words[0].strip("-") in said.err
    assert made(custody) == 0
    longest = (words[0], "x" * (LONGEST_KEY if words[0] == "--key" else LONGEST_LANE))
    assert custody("job", "submit", "greet", *longest).code == 0


def test_an_empty_key_is_refused_by_the_store_itself_and_longer_ones_of_before_are_read(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as store:
        with pytest.raises(BadInput) as refused:
            store.queue.submit_one(NewJob("greet", key=""))
        assert refused.value.code == "key.form"
        long = store.queue.submit_one(NewJob("greet", key="k" * 2000)).id
        assert store.queue.get(long).key == "k" * 2000


@pytest.mark.parametrize(("content", "told"), [(b'{"a": "\xff"}', "not UTF-8"), (b"[" * (1 << 21), "longer than")])
def test_a_payload_that_cannot_be_read_is_refused_in_words(
    custody: Run, tmp_path: Path, content: bytes, told: str
) -> None:
    custody("store", "migrate")
    (tmp_path / "payload").write_bytes(content)
    said = custody("job", "submit", "greet", "@payload")
    assert (said.code, made(custody)) == (2, 0)
    assert told in said.err


def test_a_payload_without_end_is_not_read_to_its_end(custody: Run) -> None:
    said = custody("job", "submit", "greet", "@/dev/full")
    assert said.code == 2
    assert "longer than" in said.err


@pytest.mark.parametrize("end", ["-wal", "-shm", "-journal"])
def test_no_copy_gets_a_name_that_sqlite_takes_for_its_own(custody: Run, tmp_path: Path, end: str) -> None:
    custody("job", "submit", "greet")
    said = custody("store", "backup", f"other.db{end}")
    assert said.code == 3
    assert not (tmp_path / f"other.db{end}").exists()


def test_a_link_is_no_second_name(tmp_path: Path) -> None:
    store = tmp_path / "custody.db"
    store.touch()
    (tmp_path / "link").symlink_to(store)
    os.link(store, tmp_path / "second")
    assert "(second)" in linked(str(store)).message


def test_what_was_acknowledged_and_could_not_be_said_is_not_to_be_repeated_blindly(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        words = [sys.executable, "-m", "custody", "job", "submit", "greet"]
        said = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path, timeout=60)
    assert said.returncode == 2, said.stderr
    assert "look before you repeat it" in said.stderr

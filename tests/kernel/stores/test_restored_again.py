"""Copies that are put back several times: each loss is told once, until somebody has said that it is known."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from custody.kernel.model.machine import PLAIN
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.recovery.losses import RESTORED, STORE, WENT_BACK, losses
from custody.web.queries.overview import Glance
from rig.commands import Run, Said


def submit(custody: Run, jobs: int) -> None:
    for _ in range(jobs):
        assert custody("job", "submit", "greet").code == 0


def told(said: Said) -> list[str]:
    """The jobs that are named, each as often as it is."""
    return sorted(re.findall(r"job/\d+", said.out))


def lost_jobs(custody: Run, grade: str = "UNSAFE") -> list[str]:
    lines = custody("doctor").out.split("\n")
    found = [n for n, line in enumerate(lines) if line.startswith(grade) and "history went back" in line]
    return sorted(job for n in found for job in re.findall(r"job/\d+", "\n".join(lines[n : n + 2])))


def needs(folder: Path) -> int:
    """How many losses the overview shows."""
    with open_store(f"sqlite:///{folder / 'custody.db'}") as store:
        return len(Glance(store, PLAIN, ()).went_back())


@pytest.fixture
def lost(custody: Run) -> Run:
    """Of five jobs a restore has lost three."""
    submit(custody, 2)
    custody("store", "backup", "copy.db")
    submit(custody, 3)
    assert told(custody("store", "restore", "copy.db")) == ["job/3", "job/4", "job/5"]
    return custody


def test_what_is_known_is_not_told_again_by_the_next_restore(lost: Run, tmp_path: Path) -> None:
    assert lost("store", "restored", "--why", "submitted again").code == 0
    again = lost("store", "restore", "copy.db")
    assert (again.code, told(again)) == (0, []), again.out
    assert "nothing of it is missing" in again.out
    assert json.loads(lost("store", "restore", "copy.db", "--json").out)["earlier"] == []
    assert lost_jobs(lost) == []
    assert lost_jobs(lost, "WARNING") == ["job/3", "job/4", "job/5"]
    assert lost("doctor").code == 0
    assert needs(tmp_path) == 0


def test_what_is_new_is_told_beside_what_is_known(lost: Run, tmp_path: Path) -> None:
    lost("store", "restored", "--why", "submitted again")
    submit(lost, 2)
    again = lost("store", "restore", "copy.db")
    assert (again.code, told(again)) == (1, ["job/6", "job/7"]), again.out
    assert "2 events, 2 jobs" in again.out, "the word that it is known is no event that is missing"
    assert lost_jobs(lost) == ["job/6", "job/7"]
    assert needs(tmp_path) == 1
    third = lost("store", "restore", "copy.db")
    assert (third.code, told(third)) == (1, ["job/6", "job/7"]), "nobody has said that these are known"
    lost("store", "restored", "--why", "these too")
    assert lost("doctor").code == 0


def test_what_was_there_again_and_is_lost_again_is_told_once(lost: Run, tmp_path: Path) -> None:
    assert lost("store", "restore", "custody.db.before-restore-1").code == 0
    again = lost("store", "restore", "copy.db")
    assert (again.code, told(again)) == (1, ["job/3", "job/4", "job/5"]), again.out
    assert lost_jobs(lost) == ["job/3", "job/4", "job/5"]
    assert needs(tmp_path) == 1


def test_more_than_are_named_are_told_once_too(custody: Run, tmp_path: Path) -> None:
    submit(custody, 1)
    custody("store", "backup", "copy.db")
    submit(custody, 25)
    custody("store", "restore", "copy.db")
    custody("store", "restore", "custody.db.before-restore-1")
    submit(custody, 1)
    again = custody("store", "restore", "copy.db")
    assert again.code == 1
    assert "26 jobs among them" in again.out
    assert len(told(again)) == len(lost_jobs(custody)) == 20
    assert needs(tmp_path) == 1


def test_that_it_was_known_once_says_nothing_of_its_next_loss(lost: Run) -> None:
    lost("store", "restored", "--why", "never mind")
    assert lost("store", "restore", "custody.db.before-restore-1").code == 0
    again = lost("store", "restore", "copy.db")
    assert (again.code, told(again)) == (1, ["job/3", "job/4", "job/5"])
    assert lost_jobs(lost) == ["job/3", "job/4", "job/5"]
    assert lost_jobs(lost, "WARNING") == [], "once, as what it is now"


def test_of_what_is_there_again_in_part_the_rest_is_told(lost: Run) -> None:
    """A copy with two of the three, and then the one without them again."""
    lost("store", "restore", "custody.db.before-restore-1")
    lost("store", "backup", "all.db")
    lost("store", "restore", "copy.db")
    assert lost("store", "restore", "all.db").code == 0
    submit(lost, 2)
    lost("store", "backup", "more.db")
    submit(lost, 1)
    lost("store", "restore", "copy.db")
    assert lost_jobs(lost) == [f"job/{n}" for n in (3, 4, 5, 6, 7, 8)]
    again = lost("store", "restore", "more.db")
    assert (again.code, told(again)) == (1, ["job/8"]), again.out
    assert lost_jobs(lost) == ["job/8"]
    lost("store", "restore", "copy.db")
    assert lost_jobs(lost) == [f"job/{n}" for n in (3, 4, 5, 6, 7, 8)], "and none of them twice"


def test_a_copy_that_tells_of_a_loss_itself_tells_it_once(lost: Run, tmp_path: Path) -> None:
    lost("store", "backup", "later.db")
    for copy in ("copy.db", "later.db", "copy.db", "later.db"):
        again = lost("store", "restore", copy)
        assert (again.code, told(again)) == (1, ["job/3", "job/4", "job/5"]), (copy, again.out)
        assert lost_jobs(lost) == ["job/3", "job/4", "job/5"]
    lost("store", "restored", "--why", "known")
    for copy in ("later.db", "copy.db", "later.db"):
        assert lost("store", "restore", copy).code == 0, copy
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as store:
        words = [(event.type, event.detail.get("noted", event.at)) for event in store.records.events(STORE)]
    assert len(words) == len(set(words)) == 9, "eight restores and one word"
    assert lost("doctor").code == 0
    assert needs(tmp_path) == 0


def test_that_something_is_known_says_nothing_of_what_only_the_copy_tells(lost: Run, tmp_path: Path) -> None:
    """Said in a store that does not know of that loss."""
    (tmp_path / "custody.db").rename(tmp_path / "unsaid.db")
    submit(lost, 1)
    lost("store", "restored", "--why", "of another store")
    again = lost("store", "restore", "unsaid.db", "--other")
    assert again.code == 1
    assert lost_jobs(lost) == ["job/1", "job/3", "job/4", "job/5"]


def test_the_history_has_each_word_once_with_the_time_of_its_first(lost: Run, tmp_path: Path) -> None:
    lost("store", "restored", "--why", "known")
    for _ in range(3):
        lost("store", "restore", "copy.db")
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as store:
        events = store.records.events(STORE)
        assert [event.type for event in events] == [WENT_BACK, RESTORED, *[WENT_BACK] * 3]
        assert [event.detail.get("missing") for event in events] == [3, None, 0, 0, 0]
        assert events[1].detail["why"] == "known"
        first = [event.detail.get("noted", event.at) for event in events]
        assert first == sorted(first)
        (loss,) = losses(store)
        assert (loss.at, loss.is_known) == (first[0], True)


def test_the_week_is_counted_from_the_loss_and_not_from_the_next_restore(lost: Run, tmp_path: Path) -> None:
    lost("store", "restore", "copy.db")
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as store:
        (loss,) = losses(store)
        assert loss.at < loss.event.at


def test_more_than_a_page_of_words_hides_no_loss(store: Store) -> None:
    for _ in range(1001):
        store.records.note(STORE, WENT_BACK, "engine", missing=0, subjects=[], timeline=2, before=1)
    store.records.note(STORE, WENT_BACK, "engine", missing=1, subjects=["job/7"], moves=["m"], timeline=2, before=1)
    (loss,) = losses(store)
    assert loss.subjects == ("job/7",)


def test_what_two_processes_noticed_is_told_once(store: Store) -> None:
    first, second = (["job/7", "job/8"], ["m", "n"]), (["job/8", "job/9"], ["n", "o"])
    for subjects, moves in (first, second, second):
        store.records.note(STORE, WENT_BACK, "engine", missing=2, subjects=subjects, moves=moves, timeline=2, before=1)
    assert [loss.subjects for loss in losses(store)] == [("job/7",), ("job/8", "job/9")]

"""A crash before and after every word that ingest says to the store: no job lost, doubled, minted or told twice."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from custody.stores import open_store
from faults.conftest import Tell, quick
from faults.crash import Memory, Point, Stage, play, points
from faults.deposits import Archive, deposit
from rig.postgres import Postgres
from stores.clock import HandClock
from stores.conftest import Emptied

DOUBLE = 16
SAMPLES = 4
MEMORY = Memory()


@pytest.fixture(scope="module")
def archive() -> Iterator[Archive]:
    with quick() as folder, deposit(folder) as made:
        yield made


def run(archive: Archive, stage: Stage, plan: Sequence[Point] = ()) -> Stage:
    archive.begin_anew()
    play(archive.play, stage, plan)
    assert archive.wrong(stage) == [], f"after {plan}"
    return stage


@pytest.fixture(scope="module")
def verbs(archive: Archive) -> int:
    """How many there are when nobody crashes."""
    return run(archive, MEMORY.stage()).verbs


def test_a_crash_at_any_point_of_a_deposit_loses_and_doubles_nothing(archive: Archive, verbs: int, tell: Tell) -> None:
    assert verbs > 50
    for point in points(verbs):
        run(archive, MEMORY.stage(), [point])
    tell(f"{2 * verbs} crashes of a deposit in memory")


def pairs(verbs: int, count: int, seed: str) -> list[list[Point]]:
    """Two crashes: one on the way, one on the way again."""
    chance = random.Random(seed)
    return [[chance.choice(points(verbs)), chance.choice(points(verbs))] for _ in range(count)]


def test_a_crash_during_recovery_changes_nothing_either(archive: Archive, verbs: int) -> None:
    for plan in pairs(verbs, DOUBLE, "twice"):
        run(archive, MEMORY.stage(), plan)


def test_the_same_on_a_file(archive: Archive, quick_folder: Path, verbs: int) -> None:
    for number, plan in enumerate(pairs(verbs, SAMPLES, "on a file")):
        clock = HandClock()
        with open_store(f"sqlite:///{quick_folder}/{number}.db", clock) as store:
            run(archive, Stage(store.db, clock), plan)


@pytest.fixture
def emptied(postgres: Postgres) -> Iterator[Emptied]:
    database = Emptied(postgres)
    yield database
    database.close()


def test_the_same_on_postgresql(emptied: Emptied, archive: Archive, verbs: int) -> None:
    for plan in pairs(verbs, SAMPLES, "on postgresql"):
        clock = HandClock()
        with open_store(emptied.url, clock) as store:
            run(archive, Stage(store.db, clock), plan)
        emptied.empty()

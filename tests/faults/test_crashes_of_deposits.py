"""A crash before and after every word that ingest says to the store: no job lost, doubled, minted or told twice."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from custody.kernel.stores import open_store
from faults.conftest import quick
from faults.crash import Memory, Point, Stage, play, points
from faults.deposits import Archive, deposit
from kernel.stores.clock import HandClock
from kernel.stores.conftest import Emptied
from prove.plugin import Scaled, Tell
from rig.postgres import Postgres

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


@pytest.mark.proves("G2")
def test_a_crash_at_any_point_of_a_deposit_loses_and_doubles_nothing(
    archive: Archive, verbs: int, scaled: Scaled[int], tell: Tell
) -> None:
    """In the test run at every verb, before one and after the next; in a proof before and after each."""
    assert verbs > 50
    every = points(verbs)
    chosen = [point for place, point in enumerate(every) if place % 4 in (0, 3)] if scaled(1, 0, 0) else every
    for point in chosen:
        run(archive, MEMORY.stage(), [point])
    tell(f"{len(chosen)} crashes of a deposit in memory", stories=1, crashes=len(chosen))


def pairs(verbs: int, count: int, seed: str) -> list[list[Point]]:
    """Two crashes: one on the way, one on the way again."""
    chance = random.Random(seed)
    return [[chance.choice(points(verbs)), chance.choice(points(verbs))] for _ in range(count)]


@pytest.mark.proves("G2")
def test_a_crash_during_recovery_changes_nothing_either(
    archive: Archive, verbs: int, scaled: Scaled[int], tell: Tell
) -> None:
    chosen = pairs(verbs, scaled(12, 200, 5_000), "twice")
    for plan in chosen:
        run(archive, MEMORY.stage(), plan)
    tell("", double_crashes=len(chosen))


@pytest.mark.proves("G2")
def test_the_same_on_a_file(archive: Archive, quick_folder: Path, verbs: int, scaled: Scaled[int]) -> None:
    for number, plan in enumerate(pairs(verbs, scaled(3, 50, 500), "on a file")):
        clock = HandClock()
        with open_store(f"sqlite:///{quick_folder}/{number}.db", clock) as store:
            run(archive, Stage(store.db, clock), plan)


@pytest.fixture
def emptied(postgres: Postgres) -> Iterator[Emptied]:
    database = Emptied(postgres)
    yield database
    database.close()


@pytest.mark.proves("G2")
def test_the_same_on_postgresql(emptied: Emptied, archive: Archive, verbs: int, scaled: Scaled[int]) -> None:
    for plan in pairs(verbs, scaled(3, 50, 500), "on postgresql"):
        clock = HandClock()
        with open_store(emptied.url, clock) as store:
            run(archive, Stage(store.db, clock), plan)
        emptied.empty()

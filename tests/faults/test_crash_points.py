"""A crash before and after every verb of every story: it ends as if nothing had happened."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from custody.kernel.model.machine import Machines
from custody.kernel.stores import Store, open_store
from faults.audit import audit
from faults.crash import Crash, CrashingDatabase, Memory, Point, Stage, play, points
from faults.scenarios import SCENARIOS
from kernel.stores.clock import HandClock
from kernel.stores.conftest import Emptied
from prove.plugin import Scaled, Tell
from rig.postgres import Postgres

CORE = ("submit claim settle", "needs met in a diamond", "cancelled while someone works on it")
each_scenario = pytest.mark.parametrize("name", SCENARIOS)


@dataclass(frozen=True)
class Ending:
    """How a story goes when nobody crashes."""

    verbs: int
    picture: dict[str, object]
    effects: frozenset[str]


MEMORY = Memory()


@cache
def ending(name: str) -> Ending:
    stage = play(SCENARIOS[name], MEMORY.stage())
    return Ending(stage.verbs, stage.picture(), frozenset(stage.effects))


def check(name: str, plan: Sequence[Point], stage: Stage) -> None:
    expected = ending(name)
    play(SCENARIOS[name], stage, plan)
    assert stage.picture() == expected.picture, f"after {plan}"
    assert audit(stage.store, Machines(stage.machines)) == [], f"after {plan}"
    assert set(stage.effects) == expected.effects, f"bodies run at least once, after {plan}"


@each_scenario
def test_a_story_ends_well_when_nobody_crashes(name: str) -> None:
    stage = play(SCENARIOS[name], MEMORY.stage())
    assert [job for job in stage.store.queue.every() if job.ended is None] == [], "every story runs to its end"
    assert stage.verbs >= 5
    assert audit(stage.store, Machines(stage.machines)) == []


@pytest.mark.proves("G2")
@each_scenario
def test_a_crash_at_any_point_changes_nothing(name: str, tell: Tell) -> None:
    everywhere = points(ending(name).verbs)
    for point in everywhere:
        check(name, [point], MEMORY.stage())
    tell("", stories=1, crashes=len(everywhere))


def pairs(name: str, most: int) -> list[tuple[Point, Point]]:
    """Two crashes: one on the way, one on the way again (DBOS lost work to a crash during recovery)."""
    # After the first crash there is the rest of the way to go, and what it takes to recover.
    all_pairs = list(product(points(ending(name).verbs), points(ending(name).verbs + 2)))
    return all_pairs if name in CORE or most >= len(all_pairs) else random.Random(name).sample(all_pairs, most)


@pytest.mark.proves("G2")
@each_scenario
def test_a_crash_during_recovery_changes_nothing_either(name: str, scaled: Scaled[int], tell: Tell) -> None:
    chosen = pairs(name, scaled(16, 500, 1_000_000))
    for first, second in chosen:
        check(name, [first, second], MEMORY.stage())
    tell("", double_crashes=len(chosen))


def test_there_are_enough_stories_and_points() -> None:
    assert len(SCENARIOS) >= 25
    assert sum(2 * ending(name).verbs for name in SCENARIOS) >= 400


def test_a_dead_process_does_nothing_more() -> None:
    stage = MEMORY.stage()
    database = CrashingDatabase(stage.db, Point(1, "after"))
    store = Store.over("dying", database)
    with pytest.raises(Crash):
        store.leases.claim("name", "ann", 30)
    with pytest.raises(Crash):
        store.leases.list()
    with pytest.raises(Crash):
        store.leases.claim("other", "ann", 30)
    assert [lease.name for lease in stage.store.leases.list()] == ["name"], "the first was executed, the second not"


def samples(each: int) -> Iterator[tuple[str, list[Point]]]:
    """A few crashes of every story, single and double, the same in every run; or every single one."""
    for place, name in enumerate(SCENARIOS):
        if each >= 2 * ending(name).verbs:
            yield from ((name, [point]) for point in points(ending(name).verbs))
            continue
        rng = random.Random(f"{name} elsewhere")
        for number in range(each):
            yield name, rng.sample(points(ending(name).verbs), 1 + (place + number) % 2)


@pytest.mark.proves("G2")
def test_the_same_on_a_file(quick_folder: Path, scaled: Scaled[int], tell: Tell) -> None:
    count = Counter[str]()
    for name, plan in samples(scaled(2, 1000, 1000)):
        clock = HandClock()
        database = open_store(f"sqlite:///{quick_folder}/{sum(count.values())}.db", clock).db
        check(name, plan, Stage(database, clock))
        database.close()
        count[name] += 1
    tell(f"{sum(count.values())} crashes on SQLite files", crashes=sum(count.values()))


@pytest.fixture(scope="module")
def emptied(postgres: Postgres) -> Iterator[Emptied]:
    database = Emptied(postgres)
    yield database
    database.close()


@pytest.mark.proves("G2")
def test_the_same_on_postgresql(emptied: Emptied, scaled: Scaled[int], tell: Tell) -> None:
    count = 0
    for name, plan in samples(scaled(1, 1000, 1000)):
        clock = HandClock()
        with open_store(emptied.url, clock) as store:
            check(name, plan, Stage(store.db, clock))
        emptied.empty()
        count += 1
    tell(f"{count} crashes on PostgreSQL", crashes=count)

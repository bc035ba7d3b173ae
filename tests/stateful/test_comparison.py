"""The model and every store, step by step."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from custody.kernel.stores import Store, open_store
from kernel.stores.clock import HandClock
from kernel.stores.conftest import Emptied
from prove.plugin import Scaled, Tell
from stateful.machine import Comparison

Chosen = Callable[[int, int, int, int], settings]
pytestmark = pytest.mark.proves("G14")


@pytest.fixture
def chosen(scaled: Scaled[tuple[int, int]], tell: Tell, seed: int) -> Chosen:
    """So many examples of so many steps; without a seed of one's own the same each time."""

    def settle(test: int, quick: int, long: int, steps: int) -> settings:
        examples, steps = scaled((test, steps), (quick, 50), (long, 50))
        tell(f"{examples} examples of {steps} steps", examples=examples)
        return settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            derandomize=not seed,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        )

    return settle


def test_sqlite_does_what_the_model_does(chosen: Chosen) -> None:
    class OnSqlite(Comparison):
        def fresh(self, clock: HandClock) -> Store:
            return open_store("sqlite://:memory:", clock)

    run_state_machine_as_test(OnSqlite, settings=chosen(150, 1400, 80_000, 40))


def test_postgresql_does_what_the_model_does(emptied: Emptied, chosen: Chosen) -> None:
    class OnPostgres(Comparison):
        def fresh(self, clock: HandClock) -> Store:
            emptied.empty()
            return open_store(emptied.url, clock)

    run_state_machine_as_test(OnPostgres, settings=chosen(15, 200, 5_000, 30))
    emptied.empty()


def test_a_sqlite_file_does_what_the_model_does(quick_folder: Path, chosen: Chosen) -> None:
    numbers = itertools.count()

    class OnFile(Comparison):
        def fresh(self, clock: HandClock) -> Store:
            return open_store(f"sqlite:///{quick_folder / str(next(numbers))}.db", clock)

    run_state_machine_as_test(OnFile, settings=chosen(15, 400, 15_000, 30))

"""The model and every store, step by step."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from custody.stores import Store, open_store
from stateful.machine import Comparison
from stores.clock import HandClock
from stores.conftest import Emptied

MORE = int(os.environ.get("CUSTODY_EXAMPLES", "0"))
"""Examples to try, at random; without it, a few hundred that are the same each time."""


def chosen(examples: int, steps: int) -> settings:
    return settings(
        max_examples=MORE or examples, stateful_step_count=steps, deadline=None, database=None,
        derandomize=not MORE, suppress_health_check=list(HealthCheck), print_blob=True,
    )  # fmt: skip


def test_sqlite_does_what_the_model_does() -> None:
    class OnSqlite(Comparison):
        def fresh(self, clock: HandClock) -> Store:
            return open_store("sqlite://:memory:", clock)

    run_state_machine_as_test(OnSqlite, settings=chosen(150, 40))


def test_postgresql_does_what_the_model_does(emptied: Emptied) -> None:
    class OnPostgres(Comparison):
        def fresh(self, clock: HandClock) -> Store:
            emptied.empty()
            return open_store(emptied.url, clock)

    run_state_machine_as_test(OnPostgres, settings=chosen(15, 30))
    emptied.empty()


def test_a_sqlite_file_does_what_the_model_does(quick_folder: Path) -> None:
    numbers = itertools.count()

    class OnFile(Comparison):
        def fresh(self, clock: HandClock) -> Store:
            return open_store(f"sqlite:///{quick_folder / str(next(numbers))}.db", clock)

    run_state_machine_as_test(OnFile, settings=chosen(15, 30))

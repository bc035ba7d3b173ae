"""A test that cannot fail is no test: every guard is taken away in turn, and the suite must turn red."""

from __future__ import annotations

import inspect
import time
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from custody.kernel.stores import Store, open_store
from custody.kernel.stores.fsck import recount
from kernel.stores.clock import HandClock
from prove.plugin import Scaled, Tell
from stateful.machine import Comparison
from stateful.mutants import MUTANTS, Caught, Mutant

MUTANT_IS_BROKEN = (KeyboardInterrupt, apsw.SQLError, NameError, AttributeError, TypeError)
"""A mutant that does not run at all is noticed by everything, and shows nothing."""


def run(caught: Caught, folder: Path, mutant: Mutant | None = None) -> None:
    """One test of the suite, on a store in memory, with the check at its end."""
    clock = HandClock()
    with open_store("sqlite://:memory:", clock) as store:
        if mutant and mutant.spoil:
            mutant.spoil(store)
        fixtures: dict[str, Any] = {
            "store": store,
            "clock": clock,
            "another": lambda: store,
            "quick_folder": folder,
        }
        asked = inspect.signature(caught.test).parameters
        caught.test(**{name: fixtures[name] for name in asked if name in fixtures}, **caught.given)
        assert recount(store) == []


def turns_red(caught: Caught, folder: Path, mutant: Mutant) -> bool:
    try:
        run(caught, folder, mutant)
    except MUTANT_IS_BROKEN:
        raise
    except BaseException:  # pytest's own failures are not Exceptions
        return True
    return False


@pytest.mark.proves("G3")
@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS.keys())
def test_the_suite_turns_red_when_a_guard_is_gone(
    mutant: Mutant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tell: Tell, scaled: Scaled[str]
) -> None:
    for number, caught in enumerate(mutant.by):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        run(caught, folder)  # green with it …

    mutant.patch(monkeypatch)
    began = time.monotonic()
    for number, caught in enumerate(mutant.by):
        assert turns_red(caught, tmp_path / f"{number}", mutant), f"{caught.test.__name__} notices nothing"
    seconds = time.monotonic() - began
    told = f"{mutant.failure}: found by {mutant.by[0].test.__name__} after {seconds:.2f} s"
    tell(scaled("", told, told), seconds_to_find=seconds)


def test_there_are_enough_mutants_and_each_names_its_failure() -> None:
    assert len(MUTANTS) >= 24
    assert all(mutant.failure and mutant.by for mutant in MUTANTS.values())


class OnSqlite(Comparison):
    def fresh(self, clock: HandClock) -> Store:
        return open_store("sqlite://:memory:", clock)


FOUND_BY_THE_MACHINE = (
    "a settle does not ask for the token",
    "an end tells nobody",
    "an accepted failure is counted twice",
    "a crash alone is not counted",
    "a deleted child is never counted out",
)


@pytest.mark.parametrize("name", FOUND_BY_THE_MACHINE)
def test_the_machine_finds_mutants_by_itself(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name].patch(monkeypatch)
    found = settings(
        max_examples=400,
        stateful_step_count=40,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(OnSqlite, settings=found)

"""Thousands of small worlds in which everything goes wrong, and nothing may be lost, doubled or left standing."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import pytest

from custody.kernel.stores.sql.statements import load
from faults.simulator import FAR, Simulation, Violation
from prove.plugin import Scaled, Tell
from prove.share import share

MUTANT_SEEDS = 150


def run(seed: int, **how: Any) -> Simulation:
    simulation = Simulation(seed, **how)
    try:
        simulation.run()
    finally:
        simulation.truth.close()
    return simulation


@dataclass(frozen=True)
class World:
    """What went on in one of them."""

    steps: int
    crashes: int
    bodies: int
    jumps: int
    seconds: float


def outline(seed: int) -> World:
    made = run(seed)
    return World(made.steps, made.crashes, made.handlers.bodies, made.jumps, made.elapsed)


def test_a_seed_gives_the_same_history_to_the_last_byte() -> None:
    first, again, other = Simulation(7), Simulation(7), Simulation(8)
    assert first.run() == again.run()
    assert first.run() != other.run()


@pytest.mark.slow
@pytest.mark.proves("G1", "G9")
def test_nothing_is_lost_doubled_or_left_standing_whatever_goes_wrong(
    tell: Tell, scaled: Scaled[int], seed: int
) -> None:
    began = time.monotonic()
    runs = list(share(outline, range(seed, seed + scaled(150, 5_000, 1_000_000))))
    seconds = time.monotonic() - began
    steps, crashes = sum(each.steps for each in runs), sum(each.crashes for each in runs)
    hours = sum(each.seconds for each in runs) / 3600
    bodies = sum(each.bodies for each in runs)
    tell(
        f"{len(runs)} simulations ({len(runs) / seconds:.0f} a second): {steps} steps, {crashes} crashes, "
        f"{bodies} bodies, {hours:.0f} virtual hours",
        seeds=len(runs),
        crashes=crashes,
        virtual_hours=hours,
        jumps=sum(each.jumps for each in runs),
    )
    assert crashes > 3 * len(runs)
    assert bodies > 10 * len(runs)
    assert sum(each.jumps for each in runs) > len(runs) / 2


@pytest.mark.proves("G9")
def test_clocks_that_jump_by_hours_and_days_or_stand_still_lose_and_double_nothing(
    tell: Tell, scaled: Scaled[int], seed: int
) -> None:
    worlds = [run(number, jumps=FAR) for number in range(seed, seed + scaled(15, 100, 10_000))]
    jumps = sum(world.jumps for world in worlds)
    tell(f"{jumps} jumps by hours and days", jumps=jumps, far_jumps=jumps)
    assert jumps > 3 * len(worlds)


# The simulation itself is tested by breaking the engine: each of these must be found.

MUTANTS: dict[str, tuple[str, str, str]] = {  # statements, what they say, and what they say instead
    "a settle without its token": (
        "settle settle_many",
        "job.token = :token and job.move = :claimed and|job.token = given.its_token and job.move = given.its_claim and",
        "",
    ),
    "a token that does not rise at a claim": ("claim", "token = token + 1,", ""),
    "a token that does not rise at a settle": ("settle settle_many", "token = job.token + 1", "token = job.token"),
    "taking over leases that have not ended": ("expired claim_expired", "and job.until <= :now", ""),
    "deaths that are not counted": ("claim_expired", "case suspect when 4 then 2 when 3 then 1 else 0 end", "0"),
    "an attempt charged for a graceful stop": ("release", "attempts = attempts - 1", "attempts = attempts"),
    "a wake-up lost": (
        "count_down count_down_many",
        "unmet = unmet - :by|unmet = unmet - given.its_by",
        "unmet = unmet",
    ),
    "a time that never comes": ("come_due", "unmet = unmet - 1,", ""),
    "a child that is not counted": ("child_ended", "open = open + :by", "open = open"),
    "a lost answer taken for a refusal": ("event_of_move", "move = :move", "move = :move and 1 = 0"),
    "a revoked job that may still pass": ("settle settle_many", "and (job.revoked is null or", "and (1 = 1 or"),
    "facts that are forgotten": ("keep", "facts = :facts,", ""),
}


def finds_it() -> tuple[int, str]:
    for seed in range(MUTANT_SEEDS):
        try:
            run(seed)
        except Violation as violation:
            return seed, str(violation)
    return -1, ""


@pytest.mark.proves("G3")
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_statement_is_found(
    mutant: str, monkeypatch: pytest.MonkeyPatch, tell: Tell, scaled: Scaled[str]
) -> None:
    names, sound, broken = MUTANTS[mutant]
    statements = load("sqlite")
    for name in names.split():
        said = [words for words in sound.split("|") if words in statements[name]]
        assert said, f"the statement {name} reads differently now: {statements[name]}"
        monkeypatch.setitem(statements, name, statements[name].replace(said[0], broken))
    began = time.monotonic()
    seed, found = finds_it()
    assert "python -m faults.simulator" in found, "the seed to replay it is told"
    seconds = time.monotonic() - began
    told = f"{mutant}: found by seed {seed} of the simulation after {seconds:.1f} s"
    tell(scaled("", told, told), seconds_to_find=seconds)

"""A hostile chat service, simulated: what was kept never shrinks but by a confirmed, permitted deletion.

The former rules stand beside these, as a check that the service is hostile enough; and each rule, switched off, shows.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from channels.former import Former, unkept
from channels.hostile import LIES, MINUTE, SINGLE, Life, Rules, Service, Shelf, World, amnesia, live, mass
from custody.channels.crawl import trust, walk
from custody.channels.snowflake import HIGHEST
from prove.plugin import Scaled, Tell
from prove.share import share

WORLDS = [("keep", False), ("tombstone", False), ("keep", True), ("tombstone", True)]


def lived(policy: str, large: bool, seed: int) -> Life:
    return live(seed, Rules(policy), large=large)


@pytest.mark.proves("P3")
@pytest.mark.parametrize(("policy", "large"), WORLDS)
def test_what_was_kept_stays_but_for_a_confirmed_and_permitted_deletion(
    policy: str, large: bool, scaled: Scaled[int], tell: Tell
) -> None:
    seeds = scaled(100, 1_500, 20_000) if large else scaled(400, 3_000, 20_000)
    told, erased, asked = Counter[str](), 0, 0
    for seed, life in enumerate(share(partial(lived, policy, large), range(seeds), few=1_000)):
        assert life.wrong == 0, f"seed {seed}: {life}"
        told.update(life.told)
        erased, asked = erased + life.erased, asked + life.asked
    assert set(told) == {*LIES, *SINGLE}, "every sort of answer was given"
    assert erased == 0 if policy == "keep" else erased > seeds // 10
    sorts = len(told) / len(WORLDS)
    tell(f"{seeds} lives ({policy}), {asked} questions, {erased} erased rightly", seeds=seeds, sorts=sorts)


@pytest.mark.proves("P3")
def test_the_former_rules_lose_much_of_it(scaled: Scaled[int], tell: Tell) -> None:
    """If they did not, the service would not be hostile enough."""
    runs, lost = 0, 0
    lives = scaled(60, 300, 3_000)
    for seed in range(lives):
        dice = random.Random(seed)
        world = World(dice)
        world.post(dice.randint(5, 40))
        service, former = Service(world, dice, limit=6), Former()
        for _ in range(40):
            service.time += MINUTE
            service.lying, service.denied = dice.choice((0.05, 0.2, 0.5)), (1, 0)
            world.change()
            former.sync(service)
        service.lying, world.hidden = 0.0, False
        for _ in range(4):
            former.sync(service)
        runs += bool(former.falsely)
        lost += unkept(world, former.held)
    assert runs > lives * 0.7
    assert lost > lives
    tell(f"the former rules erased falsely in {runs} of {lives} lives and lack {lost} messages", former=runs)


# --- Each rule, switched off ---


def _believing(page: trust.Page) -> tuple[trust.Span, ...]:
    claim = trust.claims(page)
    return () if claim is None else ((max(claim[0] + 1, 0), min(claim[1] - 1, page.ids[-1])),)


CONFIRMED, IDENTITY = trust.Doubt.confirmed, trust.identity
LEFT_OUT = {"lies": ("one less, anywhere", "its first answer for ever"), "singles": (SINGLE[0],), "lying": (0.5,)}
UNHEARD = {"lies": ("one less, anywhere",), "singles": ("nothing at all",), "lying": (0.9,)}
SHORTENED = {"lies": ("half of it", "one less, oldest", "one less, newest"), "singles": (), "lying": (0.5,)}
MISTAKEN = {
    "lies": ("some at random", "the last answer again", "as if asked for nothing"),
    "singles": (),
    "lying": (0.5,),
}
Off = tuple[object, str, Callable[..., Any], str, dict[str, Any]]
OFF: dict[str, Off] = {
    "ids outside the bounds are a bad answer": (trust, "_fault", lambda *_: "", "boasts", MISTAKEN),
    "another channel's messages are none of ours": (trust, "_foreign", lambda *_: False, "strangers", {}),
    "a page speaks for the span of its own ids": (trust.Page, "spans", _believing, "boasts", SHORTENED),
    "two claims from opposite sides are a proof": (walk, "agreed", lambda *_: None, "open", {}),
    "ids of the future are not read": (trust, "identity", lambda one, _=0: IDENTITY(one, HIGHEST), "strangers", {}),
    "one look is not enough": (
        trust.Doubt,
        "confirmed",
        lambda self: max((mark[0] for mark in self.marks), default=None),
        "slander",
        LEFT_OUT,
    ),
    "a refusal of that very message is needed": (
        trust.Doubt,
        "confirmed",
        lambda self: CONFIRMED(self, refused=False),
        "slander",
        UNHEARD,
    ),
    "two witnesses are ten minutes apart": (
        trust.Doubt,
        "confirmed",
        lambda self: CONFIRMED(self, apart=0),
        "slander",
        LEFT_OUT,
    ),
}


def _figure(name: str, how: dict[str, Any], rules: Rules, seeds: int) -> int:
    return sum(getattr(live(seed, rules, large=True, **how), name) for seed in range(seeds))


@pytest.mark.proves("P3")
@pytest.mark.parametrize("rule", OFF)
def test_a_rule_that_is_switched_off_shows_in_a_figure(rule: str, monkeypatch: pytest.MonkeyPatch, tell: Tell) -> None:
    where, name, instead, figure, how = OFF[rule]
    seeds = 25
    with_it = _figure(figure, how, Rules("tombstone"), seeds)
    monkeypatch.setattr(where, name, instead)
    without = _figure(figure, how, Rules("tombstone"), seeds)
    assert without > 1.5 * with_it, (figure, with_it, without)
    tell(f"{rule}: {figure} {with_it}, without it {without}", rules=1)


INSISTENT = {"lies": LEFT_OUT["lies"], "singles": (*SINGLE[:2], *SINGLE[5:]), "lying": (0.5, 0.7)}


@pytest.mark.proves("P3")
def test_nothing_is_erased_but_by_looks_beside_a_witness_and_a_page_of_its_neighbours(
    monkeypatch: pytest.MonkeyPatch, scaled: Scaled[int], tell: Tell
) -> None:
    """Under a service of which more than half is a lie, and without the brake. That it denies everything while it has
    an old answer for the witness is how it came to false erasures: in two of a hundred lives."""
    free, seeds = Rules("tombstone", brake=False), scaled(100, 1_000, 5_000)
    lives = list(share(partial(_insisted, free), range(seeds), few=1_000))
    assert sum(life.erased for life in lives) > seeds // 2
    with_it = sum(life.falsely for life in lives)
    monkeypatch.setattr(walk, "_left_out", lambda service, archive, ids: list(ids))
    without = _figure("falsely", INSISTENT, free, 100)
    assert with_it == 0 < without
    tell(f"erased falsely {with_it} in {seeds} lives, without the page {without} in 100", rules=1)


def _insisted(rules: Rules, seed: int) -> Life:
    return live(seed, rules, large=True, **INSISTENT)


@pytest.mark.proves("P3")
def test_looks_that_erase_come_in_another_sitting_than_those_that_confirm(tell: Tell) -> None:
    """A service that denies some messages for two sittings, pages and single answers alike, and then has them again."""
    with_it = sum(amnesia(seed, 0, 2) for seed in range(10))
    at_once = sum(amnesia(seed, 0, 2, apart=False) for seed in range(10))
    assert with_it == 0 < at_once
    tell(f"erased falsely {with_it}, in the sitting that confirms {at_once}", rules=1)


@pytest.mark.proves("P3")
def test_a_page_from_a_cache_brings_nothing_back_that_was_erased(tell: Tell) -> None:
    how: dict[str, Any] = {"lies": ("its first answer for ever",), "singles": (), "lying": (0.3,)}
    with_it = _figure("came_back", how, Rules("tombstone"), 25)
    without = _figure("came_back", how, Rules("tombstone", pages_revive=True), 25)
    assert with_it == 0 < without
    tell(f"a page revives nothing: came back {with_it}, without it {without}", rules=1)


@pytest.mark.proves("P3")
def test_a_witness_and_a_brake_stop_a_service_that_denies_everything(tell: Tell) -> None:
    how: dict[str, Any] = {"singles": ("404 of all",), "lying": (0.2,)}
    free = Rules("tombstone", brake=False)
    with_it, without = _figure("falsely", how, free, 30), _figure("falsely", how, replace(free, witness=False), 30)
    assert with_it == 0 < without
    braked = _figure("falsely", how, Rules("tombstone", witness=False), 30)
    assert braked < without / 2
    tell(f"witness: falsely erased {with_it}, without it {without}, then with the brake {braked}", rules=2)


def test_a_mass_of_denials_is_braked_also_where_no_page_of_the_newest_shows_it() -> None:
    erased, kept = mass(Rules("tombstone"), 0.5)
    assert (erased, kept) == (0, 400)
    assert mass(Rules("tombstone", brake=False), 0.5)[0] > 30
    assert mass(Rules("tombstone"), 1.0) == (0, 400), "nobody is left to be a witness"


def test_no_rule_sees_through_a_consistent_lie_but_days_of_grace_outlast_it() -> None:
    assert sum(amnesia(seed, 0, 30) > 0 for seed in range(10)) > 3
    assert sum(amnesia(seed, 3, 50) for seed in range(10)) == 0


# --- Where a round ends ---


def test_a_round_ends_where_the_other_side_shows_no_more_and_not_on_an_empty_page() -> None:
    dice = random.Random(1)
    world = World(dice)
    world.post(20)
    service, shelf = Service(world, dice, limit=5), Shelf(dice)
    while not walk.forward(service, shelf):
        pass
    newest = max(world.live)
    for one in sorted(world.live)[-6:]:
        del world.live[one]
    assert walk.again(service, shelf, newest - 1, walk.Found()) is None, (
        "the end was deleted, and is the end all the same"
    )
    service.lies, service.lying, middle = ("empty",), 1.0, sorted(world.live)[5]
    answers = iter([1.0, 0.0])
    service.dice = type("Dice", (), {"random": lambda _: 1 - next(answers), "choice": lambda _, some: some[0]})()
    assert walk.again(service, shelf, middle, walk.Found()) == middle, "an empty page ends nothing"

"""Tiers: a year of daily rounds in no time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.conftest import UNHURRIED
from custody.channels.blobs import Facts, Properties, Tier
from custody.channels.tiers import GIGABYTE, Price, Rules, judge, preview

START = datetime(2026, 1, 1, tzinfo=UTC)
RULES = Rules()
Reads = Callable[[int], bool]


def day(n: float) -> datetime:
    return START + timedelta(days=n)


def blob(tier: Tier = "Hot", **more: datetime) -> Properties:
    facts = Facts(tier=tier)
    return Properties("ch/7/leaf/a.jsonl", '"1"', GIGABYTE, facts, day(0), day(0), **more)  # type: ignore[arg-type]


def year(reads: Reads, stays_hot: bool = False, days: int = 365) -> list[tuple[int, Tier]]:
    """The moves of one blob that is written on day 0 and judged once a day."""
    one, moves = blob(), list[tuple[int, Tier]]()
    for n in range(days):
        if reads(n):
            one = replace(one, accessed=day(n))
        verdict = judge(one, day(n + 0.5), RULES, stays_hot)
        if verdict.moves:
            one = replace(one, facts=Facts(tier=verdict.tier), tier_changed=day(n + 0.5))
            moves.append((n, verdict.tier))
    return moves


def test_an_untouched_blob_moves_twice_in_a_year() -> None:
    assert year(lambda n: False) == [(15, "Cool"), (45, "Cold")]


def test_a_blob_that_is_read_every_week_stays_hot() -> None:
    assert year(lambda n: n % 7 == 0) == []


def test_a_cooled_blob_that_is_read_comes_back_after_its_minimum_stay() -> None:
    assert year(lambda n: n in (40, 44), days=60) == [(15, "Cool"), (45, "Hot")]


def test_a_read_long_past_does_not_bring_a_blob_back() -> None:
    assert year(lambda n: n == 20, days=64) == [(15, "Cool")]
    assert year(lambda n: n == 20, days=70) == [(15, "Cool"), (65, "Cold")]


def test_what_came_back_is_given_time_before_it_cools_again() -> None:
    assert year(lambda n: n == 40, days=100)[:3] == [(15, "Cool"), (45, "Hot"), (61, "Cool")]


def test_a_cold_blob_comes_back_only_after_ninety_days() -> None:
    assert year(lambda n: n in (50, 100, 130)) == [
        (15, "Cool"),
        (45, "Cold"),
        (135, "Hot"),
        (151, "Cool"),
        (181, "Cold"),
    ]


def test_indexes_and_the_last_leaf_never_move() -> None:
    assert year(lambda n: False, stays_hot=True) == []
    assert judge(blob("Cool"), day(31), RULES, stays_hot=True).tier == "Hot"


def test_a_blob_that_is_written_is_in_use() -> None:
    written = replace(blob(), modified=day(10))
    assert not judge(written, day(24), RULES).moves
    assert judge(written, day(26), RULES).moves


def test_a_verdict_says_why_and_until_when() -> None:
    hot = judge(blob(), day(3), RULES)
    assert (hot.moves, hot.why, hot.when) == (False, "used lately", day(15))
    kept = judge(replace(blob("Cool"), accessed=day(5)), day(6), RULES)
    assert (kept.moves, kept.when) == (False, day(30))
    assert "would be Hot" in kept.why


def test_the_same_round_twice_moves_nothing_twice() -> None:
    moved = replace(blob("Cool"), tier_changed=day(16))
    assert not judge(moved, day(16), RULES).moves
    assert not judge(moved, day(16.01), RULES).moves


@given(st.sets(st.integers(0, 364)))
@settings(UNHURRIED, max_examples=150)
def test_nothing_leaves_a_tier_before_its_minimum_stay(reads: set[int]) -> None:
    stays = {"Hot": 15, "Cool": 30, "Cold": 90}
    moves = [(0, "Hot"), *year(reads.__contains__)]
    for (since, tier), (until, _) in pairwise(moves):
        assert until - since >= stays[tier]


PRICES = {
    "Hot": Price(month=0.018, write=0.000005, read=0.0000004, retrieval=0),
    "Cool": Price(month=0.01, write=0.00001, read=0.000001, retrieval=0.01),
    "Cold": Price(month=0.0036, write=0.000018, read=0.00001, retrieval=0.03),
}


def test_a_preview_says_what_it_costs_and_saves() -> None:
    verdicts = [judge(one, day(16), RULES) for one in (blob(), blob(), replace(blob(), modified=day(10)))]
    found = preview(verdicts, PRICES, day(16), RULES)  # type: ignore[arg-type]
    assert (found.moves, found.size, found.early) == (2, 2 * GIGABYTE, 0)
    assert found.once == pytest.approx(0.00002)
    assert found.monthly == pytest.approx(-0.016)


def test_a_preview_shows_the_charge_for_leaving_too_early() -> None:
    impatient = Rules(stays={"Hot": timedelta(), "Cool": timedelta(), "Cold": timedelta()})
    one = replace(blob("Cool"), accessed=day(10))
    verdict = judge(one, day(10), impatient)
    assert verdict.moves
    found = preview([verdict], PRICES, day(10), RULES)  # type: ignore[arg-type]
    assert found.early == pytest.approx(0.01 * 20 / 30)
    assert found.once == pytest.approx(found.early + 0.000001 + 0.01)

"""Tiers: a year of daily rounds in no time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.conftest import UNHURRIED
from channels.desk import Desk, opened
from custody.channels import jobs
from custody.channels.blobs.port import Facts, Properties, Tier
from custody.channels.blobs.tier_moves import move, verdicts
from custody.channels.blobs.tiers import GIGABYTE, Price, Rules, judge, preview
from custody.channels.table import Settings, Table
from rig.azurite import Azurite

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


# --- The worker, over a year of real blobs ---


@pytest.fixture
def desk(memory_folder: Path) -> Iterator[Desk]:
    with opened(memory_folder, count=120) as desk:
        desk.mirror_all()
        yield desk


def leaves(desk: Desk) -> dict[str, Tier]:
    return {blob.name: blob.facts.tier for blob in desk.mirror.blobs.list(f"ch/{desk.channel.id}/leaf/")}


def pass_days(desk: Desk, days: int) -> dict[str, list[Tier]]:
    """A round a day; the tiers each blob was moved to."""
    moves = dict[str, list[Tier]]()
    before = {blob.name: blob.facts.tier for blob in desk.mirror.blobs.list("")}
    for _ in range(days):
        desk.clock.ahead += 86_400
        moved = jobs.tiers(desk.mirror)
        after = {blob.name: blob.facts.tier for blob in desk.mirror.blobs.list("")} if moved else before
        changed = {name: tier for name, tier in after.items() if tier != before[name]}
        assert moved == len(changed)
        assert not moved or jobs.tiers(desk.mirror) == 0, "a round done twice moves nothing twice"
        for name, tier in changed.items():
            moves.setdefault(name, []).append(tier)
        before = after
    return moves


def test_over_a_year_what_nobody_touches_becomes_cool_and_then_cold_once_each(desk: Desk) -> None:
    *old, last = leaves(desk)
    files = [blob.name for blob in desk.mirror.blobs.list("media/")]
    assert files
    moves = pass_days(desk, 365)
    assert moves == {name: ["Cool", "Cold"] for name in [*old, *files]}
    hot = {blob.name for blob in desk.mirror.blobs.list("") if blob.facts.tier == "Hot"}
    assert last in hot, "the last leaf is written to all the time"
    assert any(name.endswith("index.jsonl") for name in hot)
    assert desk.ids() == desk.theirs(), "and all of it can be read"
    told = [event for event in desk.store.records.events(f"item/channel/{desk.channel.id}") if event.type == "tiered"]
    assert [dict(event.detail) for event in told] == [{"Cool": len(moves)}, {"Cold": len(moves)}]


def test_a_cold_leaf_that_is_read_comes_back_and_the_others_stay(desk: Desk) -> None:
    pass_days(desk, 150)
    desk.mirror.table(desk.channel.id).search(desk.theirs()[0])
    first = next(iter(leaves(desk)))
    assert pass_days(desk, 3) == {first: ["Hot"]}
    assert pass_days(desk, 60) == {first: ["Cool", "Cold"]}


def test_an_edit_of_a_cold_message_keeps_its_leaf_where_it_is(desk: Desk) -> None:
    """A commit names the tier; without that, one edit would bring a leaf back as new."""
    pass_days(desk, 60)
    one = desk.theirs()[0]
    desk.standin.world.edit(desk.channel, one, day(60), "mended")
    desk.store.queue.submit_one(jobs.review_job(desk.channel.id, one))
    desk.run()
    assert next(iter(leaves(desk).values())) == "Cold"
    found = desk.mirror.table(desk.channel.id).search(one)
    assert found is not None
    assert len(found.versions) == 2


def test_a_channel_that_we_may_no_longer_read_cools_as_well(desk: Desk) -> None:
    desk.channel.unreadable = True
    desk.store.queue.submit_one(jobs.sync_job(desk.channel.id))
    desk.run()
    assert desk.state() == "unreadable"
    pass_days(desk, 60)
    assert next(iter(leaves(desk).values())) == "Cold"


def test_the_daily_round_clears_away_what_a_crash_left_behind_once_it_is_a_day_old(desk: Desk) -> None:
    blobs, here = desk.mirror.blobs, desk.channel.id
    left = [f"ch/{here}/leaf/left.jsonl", f"files/{here}/leaf/left.jsonl"]
    kept = {blob.name for blob in blobs.list("")}
    for name in left:
        blobs.commit(name, [])
    jobs.daily(desk.mirror)
    assert {blob.name for blob in blobs.list("")} == kept | set(left), "a writer may be about to name them"
    desk.clock.ahead += 86_400
    jobs.daily(desk.mirror)
    assert {blob.name for blob in blobs.list("")} == kept
    assert desk.events().count("swept") == 1
    assert desk.ids() == desk.theirs()


def test_tiers_move_in_azure_as_they_do_on_a_disk(azurite: Azurite) -> None:
    """Azurite's times are real, so the round is told that it is later than it is."""
    pytest.importorskip("azure.storage.blob")
    from custody.channels.blobs.azure import Azure

    blobs, eager = Azure.connect(azurite.connection_string, "t" + os.urandom(8).hex()), Rules(stays=NO_STAYS)
    table = Table(blobs, 7, Settings(capacity=4))
    table.upsert([{"id": str(number << 22)} for number in range(1, 13)])
    written = next(blobs.list("ch/7/")).modified

    def after(days: float, rules: Rules = RULES) -> dict[str, str]:
        before = {blob.name: blob.facts.tier for blob in blobs.list("")}
        move(blobs, verdicts(blobs, 7, written + timedelta(days=days), rules))
        return {blob.name: blob.facts.tier for blob in blobs.list("") if blob.facts.tier != before[blob.name]}

    *old, _ = [blob.name for blob in blobs.list("ch/7/leaf/")]
    assert len(old) >= 2
    assert after(14) == {}
    assert after(16) == dict.fromkeys(old, "Cool")
    assert after(17) == {}
    assert after(47) == dict.fromkeys(old, "Cold")
    assert after(300) == {}
    changed = next(blob.tier_changed for blob in blobs.list(old[0]))
    end = time.monotonic() + 60
    while True:  # its clock counts whole seconds, and the read must be later than the move
        again = Azure.connect(azurite.connection_string, blobs.container_name)
        again.read(old[0])
        read_at = next(again.list(old[0])).accessed
        if read_at and changed and read_at > changed:
            break
        assert time.monotonic() < end
        again.set_tags(old[0], {})
        time.sleep(0.1)
    assert after(1, eager) == {old[0]: "Hot"}


NO_STAYS: dict[Tier, timedelta] = {"Hot": timedelta(), "Cool": timedelta(), "Cold": timedelta()}

"""A channel that says nothing new is looked at all the same: edits, deletions and reactions are no news to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from channels.desk import Desk, opened
from custody.channels.crawl import look_around, rounds
from custody.channels.jobs import item_id, watch

DAY = 86_400


@pytest.fixture
def desk(memory_folder: Path) -> Iterator[Desk]:
    with opened(memory_folder, count=1_530) as desk:
        desk.mirror_all()
        yield desk


def night(desk: Desk) -> int:
    """A process that begins, looks around and works until nothing is left; answers how much it asked for."""
    asked = len(desk.standin.asked)
    desk.clock.ahead += DAY
    desk.mirror = replace(desk.mirror, looked={}, known=set())
    watch(desk.mirror)
    desk.run()
    return len(desk.standin.asked) - asked


def test_nightly_runs_find_what_changed_in_a_quiet_channel(desk: Desk) -> None:
    ids = desk.theirs()
    old, new, gone, late = ids[40], ids[-40], ids[60], ids[-60]
    for one in (old, new):
        desk.standin.world.edit(desk.channel, one, desk.clock(), "edited")
    for one in (gone, late):
        desk.standin.world.delete(desk.channel, one)
    desk.channel.edited[ids[70]] = {"reactions": [{"emoji": {"name": "x"}, "count": 3}]}
    night(desk)
    table = desk.mirror.table(desk.channel.id)
    for one in (old, new):
        found = table.search(one)
        assert found
        assert [found.message["content"], len(found.versions)] == ["edited", 2]
    assert desk.mirror.seen(desk.channel.id).search(ids[70]), "as it was last seen"
    assert desk.gone() == [], "one look is no proof"
    night(desk)
    assert desk.gone() == sorted((gone, late)), "the next night's is the second"


def test_the_past_has_its_turn_night_by_night_and_the_cost_of_a_night_is_bounded(desk: Desk) -> None:
    """Sixteen pages of past, four a night."""
    desk.mirror = replace(desk.mirror, round_pages=4)
    places, costs, before = list[int](), list[int](), len(desk.events())
    for _ in range(9):
        costs.append(night(desk))
        places.append(rounds.place(desk.mirror, desk.store.records.item(item_id(desk.channel.id)))[0])
    # the channel twice, active threads twice, archived ones twice; a page forward, two back, four of the past and
    # at its end one more from the other side
    assert max(costs) <= 2 + 2 + 2 + 1 + 2 + 4 + 1
    assert len(set(places)) >= 4, "it goes on where it stood"
    assert 0 in places, "and begins anew at its end"
    assert len(desk.events()) == before + 1, "and leaves no history but, once, that its server is sure"


def test_a_quiet_channel_is_looked_at_once_a_day_and_not_with_every_watch(desk: Desk) -> None:
    assert watch(desk.mirror) == 0
    desk.clock.ahead += 19 * 3_600
    assert watch(desk.mirror) == 0
    desk.clock.ahead += 2 * 3_600
    assert watch(desk.mirror) == 1
    desk.run()
    assert watch(desk.mirror) == 0
    desk.mirror = replace(desk.mirror, look_hours=0.0)
    desk.clock.ahead += 5 * DAY
    assert watch(desk.mirror) == 0, "unless that is not wanted"


def test_the_longest_unseen_are_looked_at_first_and_archived_threads_wait_for_their_round(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look_around, "MOST_QUIET", 2)
    world = desk.standin.world
    threads = [world.add_thread(desk.channel, number, 3) for number in (5, 9, 12)]
    threads[2].archived_at = desk.clock()
    for _ in range(2):
        watch(replace(desk.mirror, looked={}))
        desk.run()
    desk.clock.ahead += DAY
    asked = list[int]()
    for _ in range(2):
        found = [one.channel for one in look_around.around(desk.mirror)]
        assert len(found) <= 2
        asked += found
        watch(desk.mirror)
        desk.run()
    assert sorted(asked) == sorted([desk.channel.id, threads[0].id, threads[1].id])

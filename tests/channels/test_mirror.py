"""Channels through the engine: mirrored from the stand-in, killed, limited, edited, and never with a hole."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain, pairwise, repeat
from pathlib import Path
from typing import Any

import pytest

from channels.desk import Desk, opened
from custody.channels import jobs
from custody.channels.crawl import crawler
from custody.channels.crawl.crawler import Progress
from custody.channels.discord.client import Discord
from custody.channels.discord.shared_rate_limit import StoreSlots
from custody.channels.jobs import add_job, remove_job, review_job, sync_job, watch
from custody.channels.kinds import kinds
from custody.kernel.engine import Serving, Worker
from custody.kernel.history.keys import make_key
from custody.kernel.history.ledger import seal_once, verify_all


@pytest.fixture
def desk(memory_folder: Path) -> Iterator[Desk]:
    with opened(memory_folder) as desk:
        yield desk


def test_a_channel_that_is_added_is_mirrored_whole_and_is_an_item(desk: Desk) -> None:
    desk.mirror_all()
    assert desk.ids() == desk.theirs()
    assert desk.events() == ["changed", "added", "described", "synced"]
    assert desk.coverage().gaps == ()


def test_only_what_is_new_is_fetched_again_and_the_watch_finds_it(desk: Desk) -> None:
    desk.mirror_all()
    assert watch(desk.mirror) == 0
    asked = len(desk.standin.asked)
    desk.standin.world.post(desk.channel, 3)
    assert watch(desk.mirror) == 1
    desk.run()
    assert desk.ids() == desk.theirs()
    assert len(desk.standin.asked) - asked < 10, "not the whole channel again"


class Late:
    """A service whose first page is on its way while something else happens."""

    def __init__(self, discord: Discord, meanwhile: Callable[[], None]) -> None:
        self._discord, self._meanwhile = discord, [meanwhile]

    def messages(self, *given: Any, **named: Any) -> Any:
        page = self._discord.messages(*given, **named)
        if self._meanwhile:
            self._meanwhile.pop()()
        return page

    def __getattr__(self, name: str) -> Any:
        return getattr(self._discord, name)


def test_a_page_that_comes_late_does_not_undo_what_was_found_out_since(desk: Desk) -> None:
    """Whoever was paused beyond its lease, or has a review beside it, writes what it asked for before."""
    channel, (edited, deleted, twice) = desk.channel, desk.theirs()[3:6]
    world, mirror = desk.standin.world, desk.mirror
    world.edit(channel, twice, datetime(2026, 5, 1, tzinfo=UTC), "first")

    def others_go_on() -> None:
        world.edit(channel, edited, datetime(2026, 5, 1, tzinfo=UTC), "better")
        world.edit(channel, twice, datetime(2026, 5, 1, 0, 0, 1, tzinfo=UTC), "second")
        crawler.page(mirror, channel.id, mirror.table(channel.id), Progress())
        world.delete(channel, deleted)
        mirror.table(channel.id).delete([deleted], mirror.stamp())
        for one in (edited, twice):
            crawler.review(mirror, channel.id, one)
        desk.run()

    desk.store.queue.submit_one(add_job(channel.id))
    Worker(desk.store, Serving(tuple(kinds(mirror)))).run_until_idle(most=1)
    late = replace(mirror, discord=Late(mirror.discord, others_go_on))  # type: ignore[arg-type]
    crawler.page(late, channel.id, late.table(channel.id), Progress())
    table = mirror.table(channel.id)
    assert desk.ids() == desk.theirs(), "what was deleted does not come back"
    assert [content(line) for line in table.search(edited).versions][-1] == "better"  # type: ignore[union-attr]
    assert [content(line) for line in table.search(twice).versions] == ["first", "second"]  # type: ignore[union-attr]
    assert desk.coverage().covers(desk.theirs()[-1]), "nor is anything to be fetched again"


def content(line: bytes) -> str:
    return str(json.loads(line)["content"])


def test_what_was_erased_by_mistake_comes_back_when_it_is_looked_at(desk: Desk) -> None:
    desk.mirror_all()
    table, wrongly = desk.mirror.table(desk.channel.id), desk.theirs()[-3]
    table.delete([wrongly], desk.mirror.stamp())
    assert desk.ids() != desk.theirs()
    desk.store.queue.submit_one(sync_job(desk.channel.id))
    desk.run()
    assert desk.ids() == desk.theirs()


def test_edits_and_deletions_are_found_by_looking_back(desk: Desk) -> None:
    desk.mirror_all()
    newest = desk.theirs()[-5:]
    desk.standin.world.edit(desk.channel, newest[0], datetime(2026, 5, 1, tzinfo=UTC), "better")
    desk.standin.world.delete(desk.channel, newest[1])
    desk.store.queue.submit_one(sync_job(desk.channel.id))
    desk.run()
    found = desk.mirror.table(desk.channel.id).search(newest[0])
    assert found is not None
    assert found.message["content"] == "better"
    assert len(found.versions) == 2, "every version is kept"
    assert desk.events()[-1] == "synced"
    assert (newest[1] in desk.ids(), desk.gone()) == (True, []), "one look proves nothing"
    desk.clock.ahead += 660
    assert watch(desk.mirror) == 1, "a second look is due"
    desk.run()
    assert (newest[1] in desk.ids(), desk.gone()) == (True, [newest[1]]), "gone there, kept here"


def test_a_reviewed_message_is_brought_up_to_date_or_marked(desk: Desk) -> None:
    desk.mirror_all()
    old, gone = desk.theirs()[3], desk.theirs()[4]
    desk.standin.world.edit(desk.channel, old, datetime(2026, 5, 1, tzinfo=UTC), "now this")
    desk.standin.world.delete(desk.channel, gone)
    desk.store.queue.submit([review_job(desk.channel.id, old), review_job(desk.channel.id, gone)])
    desk.run()
    found = desk.mirror.table(desk.channel.id).search(old)
    assert found is not None
    assert found.message["content"] == "now this"
    assert (gone in desk.ids(), desk.gone()) == (True, [])
    desk.clock.ahead += 660
    desk.store.queue.submit_one(review_job(desk.channel.id, gone))
    desk.run()
    assert (gone in desk.ids(), desk.gone()) == (True, [gone])


def test_killed_at_any_page_the_next_worker_goes_on_without_a_hole(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        pass

    original, pages = Discord.messages, 0

    def flaky(self: Discord, *args: int, **more: int) -> object:
        nonlocal pages
        pages += 1
        if pages % 3 == 0:
            raise Killed
        return original(self, *args, **more)

    monkeypatch.setattr(Discord, "messages", flaky)
    desk.store.queue.submit_one(add_job(desk.channel.id))
    deaths = 0
    for _ in range(20):
        try:
            desk.run()
        except Killed:
            deaths += 1
            desk.clock.ahead += 31  # its lease ends
    assert deaths > 2
    assert desk.ids() == desk.theirs()


def test_a_channel_is_removed_from_our_own_table_even_after_a_kick(desk: Desk) -> None:
    desk.mirror_all()
    desk.store.queue.submit_one(remove_job(desk.channel.id))
    desk.run()
    assert desk.ids() == []
    assert desk.events()[-1] == "removed"
    assert list(jobs.mirrored(desk.store)) == []


def test_places_in_the_line_are_shared_by_all_who_use_the_store(desk: Desk) -> None:
    first, second = StoreSlots(desk.store, "x", per_second=10), StoreSlots(desk.store, "x", per_second=10)
    delays = [slots.take() for slots in (first, second) * 5]
    assert all(later - sooner > 0.05 for sooner, later in pairwise(delays[1:]))
    assert 0.7 < delays[-1] < 1.0
    second.pause(5)
    assert first.take() > 4.5


# --- Gaps, and channels that cannot be read ---


def test_newest_first_leaves_a_gap_that_is_written_down_and_then_closed(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, seen = Discord.messages, list[tuple[int, ...]]()

    def watched(self: Discord, *args: int, **more: int) -> object:
        coverage = desk.coverage()
        seen.append(tuple(gap.high for gap in coverage.gaps))
        assert set(desk.ids()) == {one for one in desk.theirs() if coverage.covers(one)}, "the mark says what is there"
        return original(self, *args, **more)

    monkeypatch.setattr(Discord, "messages", watched)
    desk.store.queue.submit_one(add_job(desk.channel.id, newest_first=True))
    desk.run()
    assert len({gaps for gaps in seen if gaps}) > 4, "a gap that shrinks page by page"
    assert (desk.ids(), desk.coverage().gaps) == (desk.theirs(), ())


@pytest.mark.parametrize("count", [100, 101, 1, 0, 200])
def test_newest_first_of_exactly_so_many(desk: Desk, count: int) -> None:
    desk.channel.count = count
    desk.store.queue.submit_one(add_job(desk.channel.id, newest_first=True))
    desk.run()
    assert (desk.ids(), desk.coverage().gaps) == (desk.theirs(), ())


def test_a_channel_that_hides_its_history_closes_no_gap_and_deletes_nothing(desk: Desk) -> None:
    pages = 0

    def hide(_: int, page: int) -> None:
        nonlocal pages
        pages = page
        desk.channel.no_history = page >= 3

    desk.standin.switches.between_pages = hide
    desk.store.queue.submit_one(add_job(desk.channel.id, newest_first=True))
    desk.run()
    assert pages >= 3
    assert (len(desk.ids()), len(desk.coverage().gaps), desk.state()) == (199, 1, "hidden")
    desk.standin.switches.between_pages = None
    desk.store.queue.submit_one(sync_job(desk.channel.id))
    desk.run()
    assert (len(desk.ids()), len(desk.coverage().gaps)) == (199, 1)
    assert desk.events().count("hidden") == 1, "it is said once"
    desk.channel.no_history = False
    desk.store.queue.submit_one(sync_job(desk.channel.id))
    desk.run()
    assert (desk.ids(), desk.coverage().gaps, desk.state()) == (desk.theirs(), (), "yes")
    assert "readable again" in desk.events()


@pytest.mark.parametrize(("how", "told"), [("unreadable", "unreadable"), ("deleted", "gone")])
def test_a_channel_that_is_taken_from_us_is_left_alone_and_what_we_have_stays(desk: Desk, how: str, told: str) -> None:
    desk.mirror_all()
    mine = desk.ids()
    if how == "deleted":
        del desk.standin.world.channels[desk.channel.id]
    desk.channel.unreadable = how == "unreadable"
    assert watch(desk.mirror) == 1
    desk.run()
    assert (desk.state(), desk.ids()) == (told, mine)
    asked = len(desk.standin.asked)
    assert watch(desk.mirror) == 0
    assert len(desk.standin.asked) == asked, "asking again and again would get us banned"


def test_removing_a_channel_after_a_kick_deletes_everything_of_ours_and_the_history_still_verifies(
    desk: Desk, tmp_path: Path
) -> None:
    signer = make_key(tmp_path / "key", "test")
    desk.mirror_all()
    assert {blob.name.split("/")[0] for blob in desk.mirror.blobs.list("")} == {"ch", "files", "media"}
    seal_once(desk.store.ledger, signer, desk.store.now())
    desk.channel.unreadable = True
    desk.store.queue.submit([sync_job(desk.channel.id), remove_job(desk.channel.id)])
    desk.run()
    assert list(desk.mirror.blobs.list("")) == []
    assert desk.events()[-1] == "removed"
    seal_once(desk.store.ledger, signer, desk.store.now())
    report = verify_all(desk.store.ledger, [signer.public], [])
    assert (report.sound, list(report.faults)) == (True, [])


def test_a_sync_that_runs_while_its_channel_is_removed_leaves_nothing_behind(desk: Desk) -> None:
    def remove_now(_: int, page: int) -> None:
        if page == 2:
            desk.store.queue.submit_one(remove_job(desk.channel.id))
            threading.Thread(target=Worker(desk.store, Serving(tuple(kinds(desk.mirror)))).run_until_idle).start()

    desk.standin.switches.between_pages = remove_now
    desk.mirror_all()
    assert list(desk.mirror.blobs.list("")) == []
    assert desk.state() == "removed"


def test_a_channel_is_mirrored_on_postgresql_as_well(memory_folder: Path, postgres_url: str) -> None:
    with opened(memory_folder, count=250, url=postgres_url) as desk:
        thread = desk.standin.world.add_thread(desk.channel, 9, 5)
        desk.mirror_all()
        assert (desk.ids(), desk.ids(thread.id)) == (desk.theirs(), desk.theirs(thread))
        desk.store.queue.submit_one(remove_job(desk.channel.id, "no longer wanted", [thread.id]))
        desk.run()
        assert list(desk.mirror.blobs.list("")) == []
        assert (desk.state(), desk.state(thread.id)) == ("removed", "removed")


def test_who_oversleeps_a_turn_takes_another(desk: Desk) -> None:
    """Late ones would come all at once, and the service counts what comes in a second."""
    taken = list[float]()

    class Line:
        def take(self) -> float:
            taken.append(0.001)
            return 0.001

        def pause(self, seconds: float) -> None:
            pass

    naps = chain([0.3], repeat(0.001))
    discord = replace(desk.mirror.discord, slots=Line(), sleep=lambda _: time.sleep(next(naps)))
    discord.channel(desk.channel.id)
    assert len(taken) >= 2, "one for each nap that was too long, and one more"


def test_a_whole_channel_that_hides_its_history_is_set_aside_and_loses_nothing(desk: Desk) -> None:
    desk.mirror_all()
    mine, desk.channel.no_history = desk.ids(), True
    desk.store.queue.submit_one(sync_job(desk.channel.id))
    desk.run()
    assert (desk.ids(), desk.state()) == (mine, "hidden")


def test_a_sync_or_review_asked_for_after_the_removal_brings_nothing_back(desk: Desk) -> None:
    desk.mirror_all()
    desk.store.queue.submit_one(remove_job(desk.channel.id))
    desk.run()
    desk.store.queue.submit([sync_job(desk.channel.id), review_job(desk.channel.id, desk.theirs()[0])])
    desk.run()
    assert list(desk.mirror.blobs.list("")) == []
    assert (desk.state(), desk.events()[-1]) == ("removed", "removed")

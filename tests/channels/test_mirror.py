"""Channels through the engine: mirrored from the stand-in, killed, limited, edited, and never with a hole."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import httpx2
import pytest

from custody.channels import work
from custody.channels.crawl import Coverage, differs
from custody.channels.discord import Discord
from custody.channels.files import Files
from custody.channels.serving import kinds
from custody.channels.shared import StoreSlots
from custody.channels.standins.discord import Standin
from custody.channels.standins.traffic import Switches
from custody.channels.standins.world import Channel, World
from custody.channels.table import Settings
from custody.channels.work import Mirror, add_job, item_id, remove_job, review_job, sync_job, watch
from custody.engine import Serving, Worker
from custody.stores import Store, open_store


@dataclass
class Desk:
    store: Store
    standin: Standin
    mirror: Mirror
    channel: Channel

    def run(self) -> None:
        """Until nothing is left, pauses that the service asks for included."""
        worker = Worker(self.store, Serving(tuple(kinds(self.mirror))))
        worker.run_until_idle()
        while self.store.queue.counts():
            time.sleep(0.05)
            worker.run_until_idle()

    def mirror_all(self) -> None:
        self.store.queue.submit_one(add_job(self.channel.id))
        self.run()

    def ids(self) -> list[int]:
        return [found.id for found in self.mirror.table(self.channel.id).between() if not found.deleted_at]

    def theirs(self) -> list[int]:
        world = self.standin.world
        numbers = range(self.channel.count)
        return sorted(int(raw["id"]) for number in numbers if (raw := world.message(self.channel, number)) is not None)

    def events(self) -> list[str]:
        return [event.type for event in self.store.records.events(f"item/{item_id(self.channel.id)}")]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    world = World(seed=5)
    channel = world.add(0, "general", 730)
    with open_store("sqlite://:memory:") as store:
        began = datetime(2026, 6, 1, tzinfo=UTC) - timedelta(seconds=time.monotonic())
        clock: Callable[[], datetime] = lambda: began + timedelta(seconds=time.monotonic())  # noqa: E731
        with Standin(world, clock, Switches()) as standin, httpx2.Client(timeout=10) as http:
            slots = StoreSlots(store, per_second=10_000)
            discord = Discord("token", http, slots, api=standin.api, media_hosts=standin.media_hosts)
            mirror = Mirror(store, discord, Files(tmp_path / "blobs"), Settings(capacity=16, differs=differs))
            yield Desk(store, standin, mirror, channel)


def test_a_channel_that_is_added_is_mirrored_whole_and_is_an_item(desk: Desk) -> None:
    desk.mirror_all()
    assert desk.ids() == desk.theirs()
    assert desk.events() == ["changed", "added", "synced"]
    assert Coverage.read(desk.mirror.table(desk.channel.id).mark).gaps == ()


def test_only_what_is_new_is_fetched_again_and_the_watch_finds_it(desk: Desk) -> None:
    desk.mirror_all()
    assert watch(desk.mirror) == 0
    asked = len(desk.standin.asked)
    desk.standin.world.post(desk.channel, 3)
    assert watch(desk.mirror) == 1
    desk.run()
    assert desk.ids() == desk.theirs()
    assert len(desk.standin.asked) - asked < 10, "not the whole channel again"


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
    assert newest[1] not in desk.ids()
    assert desk.events()[-1] == "synced"


def test_a_reviewed_message_is_brought_up_to_date_or_taken_out(desk: Desk) -> None:
    desk.mirror_all()
    old, gone = desk.theirs()[3], desk.theirs()[4]
    desk.standin.world.edit(desk.channel, old, datetime(2026, 5, 1, tzinfo=UTC), "now this")
    desk.standin.world.delete(desk.channel, gone)
    desk.store.queue.submit([review_job(desk.channel.id, old), review_job(desk.channel.id, gone)])
    desk.run()
    found = desk.mirror.table(desk.channel.id).search(old)
    assert found is not None
    assert found.message["content"] == "now this"
    assert gone not in desk.ids()


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
            _end_leases(desk.store)
    assert deaths > 2
    assert desk.ids() == desk.theirs()


def _end_leases(store: Store) -> None:
    """As if the leases of the killed worker had ended, without anyone's fault."""

    def work(tx: object) -> None:
        tx._db.execute("update job set until = 1, crashes = 0, suspect = 0 where holder is not null")  # type: ignore[attr-defined]

    store.db.write(work)


def test_a_channel_is_removed_from_our_own_table_even_after_a_kick(desk: Desk) -> None:
    desk.mirror_all()
    desk.store.queue.submit_one(remove_job(desk.channel.id))
    desk.run()
    assert desk.ids() == []
    assert desk.events()[-1] == "removed"
    assert list(work.mirrored(desk.store)) == []


def test_places_in_the_line_are_shared_by_all_who_use_the_store(desk: Desk) -> None:
    first, second = StoreSlots(desk.store, "x", per_second=10), StoreSlots(desk.store, "x", per_second=10)
    delays = [slots.take() for slots in (first, second) * 5]
    assert all(later - sooner > 0.05 for sooner, later in pairwise(delays[1:]))
    assert 0.7 < delays[-1] < 1.0
    second.pause(5)
    assert first.take() > 4.5

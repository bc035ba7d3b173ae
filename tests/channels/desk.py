"""A mirror at work: a stand-in for Discord, a store, a folder of blobs, and a worker that runs until nothing is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2

from custody.channels.blobs.local import Files
from custody.channels.blobs.port import Blobs
from custody.channels.crawl.coverage import Coverage
from custody.channels.crawl.kept import Kept
from custody.channels.discord.client import Discord
from custody.channels.discord.shared_rate_limit import StoreSlots
from custody.channels.jobs import Context, add_job, item_id
from custody.channels.kinds import kinds, table_settings
from custody.demo.standins.discord import Standin
from custody.demo.standins.discord_guild import Channel, World
from custody.demo.standins.discord_traffic import Switches
from custody.kernel.engine import Serving, Worker
from custody.kernel.stores import Store, open_store

BEGAN = datetime(2026, 6, 1, tzinfo=UTC)


class Running:
    """A clock that runs, and can be put forward."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self.ahead = 0.0

    def now(self) -> int:
        return int((self().timestamp()) * 1_000_000)

    def __call__(self) -> datetime:
        return BEGAN + timedelta(seconds=time.monotonic() - self._start + self.ahead)


@dataclass
class Desk:
    store: Store
    standin: Standin
    mirror: Context
    channel: Channel
    clock: Running

    def worker(self) -> Worker:
        return Worker(self.store, Serving(tuple(kinds(self.mirror))))

    def run(self) -> None:
        """Until nothing is left, pauses that the service asks for included."""
        worker = self.worker()
        worker.run_until_idle()
        end = time.monotonic() + 60
        while self.busy():
            assert time.monotonic() < end, self.busy()
            time.sleep(0.02)
            worker.run_until_idle()

    def busy(self) -> list[tuple[str, str, int]]:
        return [row for row in self.store.queue.counts() if row[1] != "failed"]

    def mirror_all(self) -> None:
        self.store.queue.submit_one(add_job(self.channel.id))
        self.run()

    def ids(self, channel: int = 0) -> list[int]:
        table = self.mirror.table(channel or self.channel.id)
        return [found.id for found in table.between() if not found.deleted_at]

    def gone(self, channel: int = 0) -> list[int]:
        """Messages that are kept, and known to be gone there."""
        return [one for one, _ in Kept(self.mirror, channel or self.channel.id).gone()]

    def theirs(self, channel: Channel | None = None) -> list[int]:
        return ids_of(self.standin.world, channel or self.channel)

    def coverage(self, channel: int = 0) -> Coverage:
        return Coverage.read(self.mirror.table(channel or self.channel.id).mark)

    def events(self, channel: int = 0) -> list[str]:
        return [event.type for event in self.store.records.events(f"item/{item_id(channel or self.channel.id)}")]

    def state(self, channel: int = 0) -> object:
        return self.store.records.item(item_id(channel or self.channel.id)).detail.get("mirrored")


def ids_of(world: World, channel: Channel) -> list[int]:
    """What a channel has now."""
    numbers = range(channel.count)
    return sorted(int(raw["id"]) for number in numbers if (raw := world.message(channel, number)) is not None)


@contextmanager
def opened(
    folder: Path, count: int = 730, blobs: Blobs | None = None, url: str = "sqlite://:memory:"
) -> Iterator[Desk]:
    world, clock = World(seed=5), Running()
    channel = world.add(0, "general", count)
    with (
        open_store(url, clock) as store,
        Standin(world, clock, Switches(bucket_limit=10_000, global_limit=100_000)) as standin,
    ):
        with httpx2.Client(timeout=60) as http:
            slots = StoreSlots(store, per_second=10_000)
            discord = Discord("token", http, slots, api=standin.api, media_hosts=standin.media_hosts)
            place = blobs or Files(folder / "blobs", clock)
            yield Desk(store, standin, Context(store, discord, place, table_settings(16)), channel, clock)


Opened = Callable[..., Desk]

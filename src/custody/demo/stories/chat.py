"""Story four: a chat channel of three thousand messages, mirrored from a stand-in that limits how fast one may ask."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2

from custody.channels.blobs.local import Files
from custody.channels.config import ChannelConfig
from custody.channels.discord.client import Discord
from custody.channels.discord.shared_rate_limit import StoreSlots
from custody.channels.jobs import Context, add_job, item_id
from custody.channels.kinds import chores, kinds, settings_of
from custody.demo.standins.discord import Standin
from custody.demo.standins.discord_guild import World
from custody.errors import NotFound
from custody.kernel.engine.kinds import Chore, Kind
from custody.kernel.model.authority.acting import system
from custody.kernel.stores import Store

MESSAGES = 3_000
CONFIG = ChannelConfig()
BEGAN = datetime(2026, 6, 1, tzinfo=UTC)


@dataclass
class Chat:
    store: Store
    standin: Standin
    mirror: Context
    channel: int

    @classmethod
    def open(cls, store: Store, home: Path) -> Chat:
        world = World(seed=7)
        channel = world.add(0, "harbour-talk", MESSAGES)
        start = time.monotonic()
        standin = Standin(world, lambda: BEGAN + timedelta(seconds=time.monotonic() - start))
        standin.__enter__()
        discord = Discord(
            "token", httpx2.Client(timeout=30), StoreSlots(store), api=standin.api, media_hosts=standin.media_hosts
        )
        blobs = Files((home / CONFIG.blobs).resolve())
        return cls(store, standin, Context(store, discord, blobs, settings_of(CONFIG)), channel.id)

    def begin(self) -> None:
        """Ask for the channel, unless an earlier start did."""
        try:
            self.store.records.item(item_id(self.channel))
        except NotFound:
            self.store.queue.submit_one(add_job(self.channel), system("demo"))

    def kinds(self) -> Sequence[Kind]:
        return kinds(self.mirror)

    def chores(self) -> Sequence[Chore]:
        return chores(self.mirror, every=10.0)

    def stop(self) -> None:
        self.standin.__exit__()

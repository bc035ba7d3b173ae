"""What a worker can do for channels, and how it is set up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from custody.channels import work
from custody.channels.crawl import differs
from custody.channels.discord import API, Discord
from custody.channels.files import Files
from custody.channels.shared import StoreSlots
from custody.channels.table import Settings
from custody.channels.work import Mirror
from custody.engine.kinds import Backoff, Chore, Kind
from custody.engine.work import Work
from custody.model.outcome import Outcome
from custody.stores import Store

WATCH_SECONDS = 30.0
STEPS: dict[str, Callable[[Work, Mirror], Outcome]] = {
    work.ADD: work.add,
    work.SYNC: work.sync,
    work.REVIEW: work.review,
    work.REMOVE: work.remove,
}


@dataclass(frozen=True, slots=True)
class ChannelConfig:
    """The [channels] part of custody.toml. Paths are relative to the file."""

    blobs: Path = Path("channels")
    token_file: Path = Path("discord.token")  # without it, channels are not mirrored
    api: str = API
    capacity: int = 1000  # messages in one leaf


def settings_of(config: ChannelConfig) -> Settings:
    """Fresh links to the same attachments are no new version of a message."""
    return Settings(capacity=config.capacity, differs=differs)


def open_mirror(store: Store, config: ChannelConfig, home: Path) -> Mirror | None:
    """The mirror, or None where no bot's token is configured."""
    token = home / config.token_file
    if not token.is_file():
        return None
    discord = Discord(token.read_text().strip(), slots=StoreSlots(store), api=config.api)
    return Mirror(store, discord, Files((home / config.blobs).resolve()), settings_of(config))


def kinds(mirror: Mirror) -> Sequence[Kind]:
    return tuple(_kind(mirror, name, step) for name, step in STEPS.items())


def _kind(mirror: Mirror, name: str, step: Callable[[Work, Mirror], Outcome]) -> Kind:
    # Waiting for a limit is no failure: it is tried again for as long as it takes.
    return Kind(name, lambda given: step(given, mirror), tries=1_000_000, backoff=Backoff(first=1, most=300))


def chores(mirror: Mirror, every: float = WATCH_SECONDS) -> Sequence[Chore]:
    return (Chore("watch channels", every, lambda: work.watch(mirror)),)

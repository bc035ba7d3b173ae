"""What a worker can do for channels, and how it is set up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from custody.channels import jobs
from custody.channels.blobs.local import Files
from custody.channels.blobs.port import Blobs
from custody.channels.config import API, ChannelConfig
from custody.channels.context import Context
from custody.channels.crawl import coverage
from custody.channels.discord import bot_token
from custody.channels.discord.client import MEDIA_HOSTS, Discord
from custody.channels.discord.rate_limits import Slots
from custody.channels.discord.shared_rate_limit import StoreSlots
from custody.channels.integrity import expected
from custody.channels.makers import MAKER_OF
from custody.channels.messages import versions
from custody.channels.table import Settings
from custody.errors import BadInput
from custody.kernel.engine.kinds import Backoff, Chore, Kind
from custody.kernel.engine.work import Work
from custody.kernel.model.outcome import Outcome
from custody.kernel.stores import Store

WATCH_SECONDS = 30.0
DAILY_SECONDS = 86_400.0
CRASHES = 50  # a sync goes on where a killed one stopped, so many may be killed before it is put aside
STEPS: dict[str, Callable[[Work, Context], Outcome]] = {
    jobs.ADD: jobs.add,
    jobs.SYNC: jobs.sync,
    jobs.REVIEW: jobs.review,
    jobs.FILES: jobs.files,
    jobs.REMOVE: jobs.remove,
}


def settings_of(config: ChannelConfig) -> Settings:
    return table_settings(config.capacity)


def table_settings(capacity: int) -> Settings:
    """How tables of messages are kept. Fresh links to the same attachments are no new version of a message."""
    return Settings(capacity=capacity, merge=versions.merged, joined=coverage.joined)


def open_blobs(config: ChannelConfig, home: Path, store: Store | None = None) -> Blobs:
    """The folder, or the container. With the store, one that is not there is made only if nothing was kept in it."""
    place = config.container or str((home / config.blobs).resolve())
    absent: Callable[[], None] = lambda: expected.refuse_empty(store, place) if store else None  # noqa: E731
    if not config.container:
        if not expected.is_made(Path(place)):
            absent()
        return Files(Path(place))
    from custody.channels.blobs.azure import Azure

    return Azure.connect(connection(config, home), config.container, absent)


def connection(config: ChannelConfig, home: Path) -> str:
    path = home / config.connection_file
    if not path.is_file():
        raise BadInput(
            "there is no connection string", code="azure.connection", where=str(path), hint="the storage account has it"
        )
    return path.read_text().strip()


def open_mirror(
    store: Store, config: ChannelConfig, home: Path, slots: Slots | None = None, anew: bool = False
) -> Context | None:
    """The mirror, or None where no bot's token is configured; `anew` also where the place of its blobs is lost. A token
    that is none yet is asked for again with every look: it is the channels' trouble, and stops nothing else."""
    file = home / config.token_file
    if not file.is_file():
        return None
    try:
        token = bot_token.read(file)
    except BadInput:
        token = ""
    discord = Discord(
        token,
        slots=slots or StoreSlots(store),
        api=config.api,
        media_hosts=_hosts(config),
        fresh_token=lambda: bot_token.read(file),
    )
    return _mirror(store, config, discord, open_blobs(config, home, None if anew else store))


def offline_mirror(store: Store, config: ChannelConfig, blobs: Blobs) -> Context:
    """For what is done without asking anybody: no token is needed."""
    discord = Discord("", slots=StoreSlots(store), api=config.api, media_hosts=_hosts(config))
    return _mirror(store, config, discord, blobs)


def _hosts(config: ChannelConfig) -> frozenset[str]:
    own = frozenset({urlsplit(config.api).netloc}) if config.api != API else frozenset()  # it keeps its files itself
    return MEDIA_HOSTS | own | frozenset(config.media_hosts)


def _mirror(store: Store, config: ChannelConfig, discord: Discord, blobs: Blobs) -> Context:
    return Context(
        store=store,
        discord=discord,
        blobs=blobs,
        settings=settings_of(config),
        largest_file=config.largest_file,
        private_threads=config.private_threads,
        look_back=config.look_back,
        round_days=config.round_days,
        look_hours=config.look_hours,
        round_pages=config.round_pages,
        deleted=config.deleted,
        policies=config.policies,
    )


def embedded(store: Store, config: ChannelConfig, home: Path) -> Context | None:
    """The mirror, if it is the engine that coordinates channels here and not another."""
    return open_mirror(store, config, home) if config.queues == "store" else None


def kinds(mirror: Context) -> Sequence[Kind]:
    return tuple(_kind(mirror, name, step) for name, step in STEPS.items())


def _kind(mirror: Context, name: str, step: Callable[[Work, Context], Outcome]) -> Kind:
    # Waiting for a limit is no failure: it is tried again for as long as it takes.
    return Kind(
        name,
        lambda given: step(given, mirror),
        tries=1_000_000,
        crashes=CRASHES,
        backoff=Backoff(first=1, most=300),
        maker=MAKER_OF[name],
    )


def chores(mirror: Context, every: float = WATCH_SECONDS) -> Sequence[Chore]:
    return (
        Chore("watch channels", every, lambda: jobs.watch(mirror)),
        daily(mirror),
    )


def daily(mirror: Context) -> Chore:
    return Chore("tiers of channels", DAILY_SECONDS, lambda: jobs.daily(mirror))

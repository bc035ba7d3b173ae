"""What a worker can do for channels, and how it is set up."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from custody.channels import jobs
from custody.channels.blobs.local import Files
from custody.channels.blobs.port import Blobs
from custody.channels.context import Context
from custody.channels.crawl import coverage
from custody.channels.discord import bot_token
from custody.channels.discord.client import API, MEDIA_HOSTS, Discord
from custody.channels.discord.rate_limits import Slots
from custody.channels.discord.shared_rate_limit import StoreSlots
from custody.channels.integrity import expected
from custody.channels.makers import MAKER_OF
from custody.channels.messages import versions
from custody.channels.messages.deletions import Policy
from custody.channels.table import Settings
from custody.errors import BadInput
from custody.kernel.engine.kinds import Backoff, Chore, Kind
from custody.kernel.engine.work import Work
from custody.kernel.model.outcome import Outcome
from custody.kernel.stores import Store

WATCH_SECONDS = 30.0
DAILY_SECONDS = 86_400.0
COORDINATORS = ("store", "azure", "temporal")
CRASHES = 50  # a sync goes on where a killed one stopped, so many may be killed before it is put aside
STEPS: dict[str, Callable[[Work, Context], Outcome]] = {
    jobs.ADD: jobs.add,
    jobs.SYNC: jobs.sync,
    jobs.REVIEW: jobs.review,
    jobs.FILES: jobs.files,
    jobs.REMOVE: jobs.remove,
}


@dataclass(frozen=True, slots=True)
class ChannelConfig:
    """The [channels] part of custody.toml. Paths are relative to the file."""

    blobs: Path = Path("channels")
    container: str = ""  # an Azure container instead of the folder
    connection_file: Path = Path("azure.connection")  # the storage account's connection string, kept out of this file
    queues: str = "store"  # or "azure": Azure Storage queues of the same account; or "temporal"
    temporal: str = "127.0.0.1:7233"  # the address of Temporal's server
    namespace: str = "default"
    heartbeat: float = 10.0  # seconds without a sign of life before Temporal gives a page to another worker
    pages_per_workflow: int = 500  # then it goes on as a new one
    token_file: Path = Path("discord.token")  # without it, channels are not mirrored
    api: str = API
    capacity: int = 1000  # messages in one leaf
    private_threads: bool = False
    look_back: int = 2  # pages of the newest that are looked at again after each sync
    round_days: float = 30.0  # after which every message is looked at again; 0: never
    look_hours: float = 20.0  # after which a channel that says nothing new is looked at again; 0: never
    round_pages: int = 10  # of its past that are seen again with each such look
    media_hosts: Sequence[str] = ()  # places besides the service's own from which files are fetched
    deleted: str = "keep"  # what becomes of messages that are gone there: or "tombstone", "honour after N days"
    policies: Mapping[str, str] = field(default_factory=dict)  # the same for a channel or a guild, by its number
    largest_file: int = 100 << 20  # bytes; a larger one is listed as lost, with the reason
    mirror: Sequence[str] = ()  # channels that `custody channel run` adds by itself
    remove: Sequence[str] = ()  # and those that it removes
    prices: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # of the tiers, for previews

    def __post_init__(self) -> None:
        if self.queues not in COORDINATORS:
            raise BadInput(
                f"queues is {self.queues!r}", code="config.value", where="channels.queues", hint=", ".join(COORDINATORS)
            )
        Policy.read(self.deleted, "channels.deleted")
        for number, told in self.policies.items():
            Policy.read(str(told), f"channels.policies.{number}")
        looks = 1 <= self.look_back <= 100 and 0 <= self.round_pages <= 1_000
        if not looks or not 0 <= self.round_days <= 3_650 or not 0 <= self.look_hours <= 8_760:
            hint = "look_back 1 to 100 pages, round_pages 0 to 1,000, round_days 0 to 3,650, look_hours 0 to 8,760"
            raise BadInput("this cannot be", code="config.value", where="channels", hint=hint)
        if odd := [one for one in self.media_hosts if not re.fullmatch(r"[A-Za-z0-9.-]+(:[0-9]{1,5})?", str(one))]:
            hint = "names as they stand in a link, with the port if there is one: files.example.org:8080"
            raise BadInput(f"{odd[0]!r} is no host", code="config.value", where="channels.media_hosts", hint=hint)


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

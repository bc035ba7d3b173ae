"""The [channels] part of custody.toml."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from custody.errors import BadInput
from custody.opening import Folder

API = "https://discord.com/api/v10"
COORDINATORS = ("store", "azure", "temporal")


@dataclass(frozen=True, slots=True)
class Policy:
    """What is done with a message that is gone there: nothing, or it is erased after so many days."""

    erases: bool = False
    days: float = 0.0

    @classmethod
    def read(cls, text: str, where: str = "") -> Policy:
        if text == "keep":
            return cls()
        if text == "tombstone":
            return cls(True)
        found = re.fullmatch(r"honour after (\d{1,4}) days?", text)
        if found is None:
            hint = "keep, tombstone, or honour after N days"
            raise BadInput(f"deleted is {text!r}", code="channel.deleted", where=where, hint=hint)
        return cls(True, float(found[1]))

    def __str__(self) -> str:
        return ("tombstone" if not self.days else f"honour after {self.days:.0f} days") if self.erases else "keep"


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


def folders(config: ChannelConfig, home: Path) -> Iterator[Folder]:
    """Who may write to what [channels] names; a container is no folder."""
    if not config.container:
        yield Folder("channels.blobs", home / config.blobs, "ours", kept=True)
    yield Folder("channels.connection_file", home / config.connection_file, "read")
    yield Folder("channels.token_file", home / config.token_file, "read")

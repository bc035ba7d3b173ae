"""The world outside a step: everything that ingest touches besides its own job.

Small protocols, so that a step can be tested by calling it, and each part replaced by configuration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from custody.border.http.fetch import Fetcher
from custody.errors import BadInput
from custody.ingest.batch.links import Links
from custody.ingest.batch.mail import Mail
from custody.ingest.description.metadata import Description
from custody.ingest.identifiers.taken_names import Names
from custody.ingest.profile import Profile
from custody.ingest.storage.inventory import Inventory
from custody.ingest.storage.ocfl.change import Change, Stored
from custody.ingest.storage.working_disk import WorkingDisk
from custody.ingest.submission.staging import Staging
from custody.kernel.stores import Store


class Minter(Protocol):
    @property
    def goes_on(self) -> bool:
        """Whether the same request again gives the next name, and not the same one."""
        ...

    def mint(self, request: str, description: Description, target: str) -> str:
        """A new identifier for what is described; the same request again may give the same one."""
        ...


class Storage(Protocol):
    def relative(self, identifier: str) -> str | None:
        """Where an object is below a root of this machine; None if it is elsewhere."""
        ...

    def holds(self, identifier: str) -> bool:
        """Whether there is anything under this name."""
        ...

    def store(self, identifier: str, change: Change) -> Stored:
        """Make the next version of an object; the same request again answers the version it made."""
        ...


@dataclass(frozen=True, slots=True)
class Adapters:
    store: Store
    profiles: Mapping[str, Profile]
    fetchers: Mapping[str, Fetcher]  # by profile: each has its own policy
    minters: Mapping[str, Minter]  # by profile
    nodes: Mapping[str, Storage]  # storage nodes, by name
    staging: Staging
    disk: WorkingDisk
    inventory: Inventory
    names: Names
    mail: Mail
    links: Links  # to the depositor's page
    sender: str = "custody@localhost"  # whom mail is from
    keep_days: int = 30  # so long completed batches stay
    files: str = ""  # where storage services see our working folder
    secrets: Mapping[str, Sequence[str]] = field(default_factory=dict)  # callback secrets, by profile
    external: frozenset[str] = frozenset()  # states that another service works on

    def profile(self, name: str) -> Profile:
        try:
            return self.profiles[name]
        except KeyError:
            known = ", ".join(sorted(self.profiles)) or "none"
            raise BadInput(f"there is no profile {name!r}", code="profile.unknown", hint=f"known: {known}") from None

    def node(self, name: str) -> Storage:
        try:
            return self.nodes[name]
        except KeyError:
            raise BadInput(
                f"it is stored on {name!r}, which is not configured",
                code="storage.node",
                hint=f"configured: {', '.join(sorted(self.nodes)) or 'none'}",
            ) from None

    def place(self, node: str, identifier: str) -> str:
        """Where an object is, as its item says it: worked out from its name, whatever its job may say."""
        relative = self.nodes[node].relative(identifier) if node in self.nodes else None
        return "" if relative is None else f"{node}:{relative}"

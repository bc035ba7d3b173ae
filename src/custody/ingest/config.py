"""The [ingest] part of custody.toml."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from custody.errors import BadInput
from custody.opening import Folder, Table


@dataclass(frozen=True, slots=True)
class IngestConfig(Table):
    """The [ingest] part of custody.toml. Paths are relative to the file."""

    profiles: Path = Path("profiles")
    staging: Path = Path("staging")
    work: Path = Path("work")
    files: str = ""  # the address at which storage services see that folder of this machine
    place: str = ""  # the name of this machine's working disk; empty when all machines share it
    threshold: float = 0.05  # of the working disk is kept free
    nodes: Mapping[str, Path] = field(default_factory=lambda: {"main": Path("storage")})
    shared: Sequence[str] = ()  # names of those that everybody on this machine may read; the others are the owner's
    outbox: Path = Path("outbox")
    smtp: str = ""  # host:port; empty: mail goes to the outbox folder
    smtp_user: str = ""  # for a server that asks who we are; then the way to it is encrypted
    smtp_password_file: str = ""
    sender: str = "custody@localhost"
    keep_days: int = 30  # completed batches are cleaned up after so many; 0: never
    external: Sequence[str] = ()  # of storing and recording, what another service on the same tree does
    web: str = ""  # where depositors reach `custody serve`; empty: mails have no link to their page
    link_days: int = 90  # so long a link in a mail is good
    secret: Path = Path("custody.secret")  # signs those links: the same file on every machine

    def working_place(self) -> str:
        return self.place

    def signing_secret(self) -> Path:
        return self.secret

    def collections(self, home: Path) -> Iterator[str]:
        """Those that something can be handed in to."""
        return (path.stem for path in (home / self.profiles).glob("*.toml"))

    def roots(self, home: Path) -> Mapping[str, Path]:
        """The storage nodes of this machine: what ingest stores lies below one."""
        return {name: (home / path).resolve() for name, path in self.nodes.items()}


def external_states(config: IngestConfig) -> frozenset[str]:
    """The states that are left to others. Who does not store cannot record: the version is not known here."""
    chosen = frozenset(config.external)
    if not chosen <= {"storing", "recording"} or chosen == {"storing"}:
        raise BadInput(
            f"ingest.external cannot be {', '.join(sorted(chosen))}",
            code="config.external",
            hint='["recording"], or ["storing", "recording"]',
        )
    return chosen


def folders(config: IngestConfig, home: Path) -> Iterator[Folder]:
    """Who may write to what [ingest] names."""
    yield Folder("ingest.secret", home / config.secret, "read", kept=True)
    yield Folder("ingest.staging", home / config.staging, "ours", kept=True)
    yield Folder("ingest.work", home / config.work, "ours", kept=True)
    yield Folder("ingest.outbox", home / config.outbox, "ours", kept=True)
    for name, path in config.nodes.items():
        is_shared = name in config.shared
        yield Folder("ingest.nodes", home / path, "ours", kept=not is_shared, shared=name if is_shared else "")
    for path in config.nodes.values():
        yield Folder("ingest.nodes", home / path.with_name(f"{path.name}-staging"), "ours", kept=True)
    yield Folder("ingest.profiles", home / config.profiles, "read")

"""From a configuration to the world that the steps work in."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from ipaddress import ip_network
from pathlib import Path
from typing import TypeVar

from custody.border.http.fetch import Fetcher
from custody.border.http.policy import Policy
from custody.border.http.urls import read_url
from custody.border.roots import Root
from custody.errors import BadInput, CustodyError
from custody.formats.noid import Noid
from custody.ingest.adapters import Adapters, Minter
from custody.ingest.batch.links import DAYS, read_links
from custody.ingest.batch.mail import Mail, by_smtp, check_address, to_outbox
from custody.ingest.identifiers.ezid import Ezid
from custody.ingest.identifiers.taken_names import Names
from custody.ingest.profile import Profile, kept_apart, read_profile
from custody.ingest.storage.http_node import HttpNode, Window
from custody.ingest.storage.inventory import Inventory
from custody.ingest.storage.nodes import open_nodes
from custody.ingest.storage.working_disk import WorkingDisk
from custody.ingest.submission.staging import Staging
from custody.kernel.stores import Store
from custody.kernel.stores.rows import Tx

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class IngestConfig:
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
    link_days: int = DAYS  # so long a link in a mail is good
    secret: Path = Path("custody.secret")  # signs those links: the same file on every machine


def node_roots(config: IngestConfig, home: Path, across: Collection[str] = ()) -> Iterator[Root]:
    """The storage nodes of this machine as roots: what ingest stores lies below one, by the node's name."""
    for name, path in config.nodes.items():
        yield Root(name, (home / path).resolve(), name in across)


def read_profiles(folder: Path) -> dict[str, Profile]:
    """Every profile of a folder, by name."""
    if not folder.is_dir():
        raise BadInput(
            f"there is no folder {folder}", code="profile.folder", hint="`custody init` makes one with an example"
        )
    return {path.stem: read_profile(path) for path in sorted(folder.glob("*.toml"))}


class Lately(Mapping[str, T]):
    """What is made of each profile. One whose file came after we started is read when it is first asked for: a deposit
    that was taken in must not fail because a worker is older than its collection."""

    def __init__(self, folder: Path, profiles: Mapping[str, Profile], make: Callable[[Profile], T]) -> None:
        self._folder, self._make = folder, make
        self._made = {name: make(profile) for name, profile in profiles.items()}

    def __getitem__(self, name: str) -> T:
        if name not in self._made:
            if name not in {path.stem for path in self._folder.glob("*.toml")}:  # never a path that somebody made up
                raise KeyError(name)
            self._made[name] = self._make(read_profile(self._folder / f"{name}.toml"))
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._made))

    def __len__(self) -> int:
        return len(self._made)


def open_world(store: Store, config: IngestConfig, home: Path) -> Adapters:
    """Everything that the steps touch, as configured."""
    folder = home / config.profiles
    profiles = read_profiles(folder)
    of_each = partial(Lately, folder, profiles)
    return Adapters(
        store=store,
        profiles=of_each(lambda profile: profile),
        fetchers=of_each(_fetcher),
        minters=of_each(lambda profile: _minter(store, profile, home)),
        nodes=open_nodes(
            config.nodes, profiles, home, Window((home / config.work).resolve(), config.files), shared=config.shared
        ),
        staging=Staging(home / config.staging),
        disk=WorkingDisk((home / config.work).resolve(), config.place, config.threshold),
        inventory=Inventory(store),
        names=Names(store),
        mail=_mail(config, home),
        links=read_links(home / config.secret, config.web, config.link_days),
        sender=_sender(config.sender),
        files=config.files,
        keep_days=config.keep_days,
        secrets=of_each(lambda profile: _secrets(profile, home)),
        external=external_states(config),
    )


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


def open_services(config: IngestConfig, home: Path) -> Mapping[str, HttpNode]:
    """The storage services that profiles name; none where there are no profiles yet."""
    folder = home / config.profiles
    profiles = read_profiles(folder) if folder.is_dir() else {}
    found = open_nodes({}, profiles, home, Window((home / config.work).resolve(), config.files))
    return {name: node for name, node in found.items() if isinstance(node, HttpNode)}


def policy_of(profile: Profile) -> Policy:
    """What may be fetched for a collection."""
    fetch = profile.fetch
    return Policy(
        schemes=frozenset(fetch.schemes),
        ports=frozenset(fetch.ports),
        hosts=fetch.hosts,
        networks=tuple(ip_network(each) for each in fetch.networks),
        ca_file=fetch.ca_file or None,
        max_bytes=profile.limits.file_size,
    )


def _fetcher(profile: Profile) -> Fetcher:
    """Callbacks go by the same rules: one that could never be sent is told now, not by every job of the collection."""
    policy = policy_of(profile)
    try:
        if profile.callback.url:
            read_url(profile.callback.url, policy)
    except CustodyError as error:
        raise BadInput(
            error.message,
            code=error.code,
            where=f"{profile.name}: callback.url",
            hint="callbacks go by what [fetch] allows: schemes, hosts, ports and networks",
        ) from error
    return Fetcher(policy)


def _minter(store: Store, profile: Profile, home: Path) -> Minter:
    identifier = profile.identifier
    if identifier.minter == "ezid":
        password = kept_apart(f"{profile.name}: identifier.ezid_password_file", home / identifier.ezid_password_file)
        shoulder = f"ark:/{identifier.naan}/{identifier.shoulder}"
        return Ezid(identifier.ezid_url, identifier.ezid_user, password.strip(), shoulder)
    counter = f"noid/{identifier.naan}/{identifier.shoulder}/{identifier.template}"
    take, key = partial(_next_number, store, counter), cache(partial(_key_of, store, counter))
    return Noid(
        naan=identifier.naan, shoulder=identifier.shoulder, template=identifier.template, next_number=take, key=key
    )


def _next_number(store: Store, counter: str) -> int:
    """A number that no one else gets, now or ever."""

    def take(tx: Tx) -> int:
        return int(tx.run("bump", name=counter, by=1)[0][0]) - 1

    return store.db.write(take)


def _key_of(store: Store, counter: str) -> bytes:
    """What puts this store's names in an order of their own: made once, by whoever mints first."""

    def make(tx: Tx) -> int:
        tx.run("seed", name=f"{counter}/key", value=secrets.randbits(63))
        return int(tx.run("counter", name=f"{counter}/key")[0][0])

    return store.db.write(make).to_bytes(8)


def _sender(address: str) -> str:
    """Told at the start: a report that cannot be written would be missed much later."""
    try:
        return check_address(address)
    except BadInput as error:
        raise BadInput(
            error.message, code=error.code, where="ingest.sender", hint="the address alone, such as archive@example.org"
        ) from error


def _mail(config: IngestConfig, home: Path) -> Mail:
    if not config.smtp:
        return to_outbox(home / config.outbox)
    host, _, port = config.smtp.partition(":")
    if not (port or "25").isdigit():
        raise BadInput(f"{config.smtp!r} is no mail server", code="config.smtp", where="ingest.smtp", hint="host:port")
    user, password = config.smtp_user, ""
    if user:
        password = kept_apart("ingest.smtp_password_file", home / config.smtp_password_file)
    return by_smtp(host, int(port or 25), user=user, password=password.strip(), starttls=bool(user))


def _secrets(profile: Profile, home: Path) -> Sequence[str]:
    if not profile.callback.secret_file:
        return ()
    text = kept_apart(f"{profile.name}: callback.secret_file", home / profile.callback.secret_file)
    return [line.strip() for line in text.splitlines() if line.strip()]

"""The way out of a sandbox, as values: where it may lead, who has said so, and how much may go through.

    data.example.org            its port 443, which is TLS
    data.example.org:8443       another port
    http://data.example.org     plain HTTP, port 80 unless another is said
    *.example.org               every host one label below
    *                           any public host: said by an operator with --anything only

A definition or a label *asks*; an operator *grants*; what leads to an address that is not public needs the
configuration besides (`[network] inner`). The proxy (proxy.py) holds everybody to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from custody.errors import BadInput, CustodyError, Refused
from custody.formats import shell

if TYPE_CHECKING:
    from custody.border.http.addresses import Network

PORT = 3128
"""Where the proxy listens inside, on 127.0.0.1."""
_PROXY, _NOT = f"http://127.0.0.1:{PORT}", "localhost,127.0.0.1,::1"
VARIABLES: Mapping[str, str] = {
    "http_proxy": _PROXY,
    "https_proxy": _PROXY,
    "HTTP_PROXY": _PROXY,
    "HTTPS_PROXY": _PROXY,
    "no_proxy": _NOT,
    "NO_PROXY": _NOT,
}
TLS, HTTP = 443, 80
MOST_CONNECTIONS = 200  # each is a thread and two descriptors of its proxy
ANY = "*"
_HINT = "HOST, HOST:PORT, http://HOST or *.DOMAIN"
_MIB = 1 << 20
NEWS_SECONDS = 1.0
"""How often a worker looks up what is granted, while something runs."""
FRESH_SECONDS = 5.0
"""For so long something passes after it was last looked up: then nothing, until it is looked up again."""
Asked = bool | Sequence[str]
"""What a definition says: nothing, all that is granted, or these."""


@dataclass(frozen=True, slots=True)
class Place:
    """A host and a port; or all that one pattern means."""

    host: str
    port: int = TLS
    plain: bool = False  # plain HTTP is spoken there

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http://' if self.plain else ''}{host}:{self.port}"

    def covers(self, other: Place) -> bool:
        if (self.port, self.plain) != (other.port, other.plain):
            return False
        if self.host.startswith("*."):
            return other.host.partition(".")[2] == self.host[2:]
        return self.host in (ANY, other.host)


def read_place(text: str) -> Place:
    """The one reading of what is asked for or granted."""
    from custody.border.http.urls import read_authority  # deadmen of sandboxes without a way out do without it

    plain = text.startswith("http://")
    rest = text.removeprefix("http://")
    usual = HTTP if plain else TLS
    if rest == ANY or rest.startswith("*:"):
        _, number, _ = read_authority(f"any{rest[1:]}", text)
        return Place(ANY, number or usual, plain)
    wild = rest.startswith("*.")
    try:
        host, number, literal = read_authority(rest.removeprefix("*."), text)
    except (BadInput, Refused) as error:
        raise BadInput(f"{text[:100]!r} is no host: {_wrong(rest)}", code="network.host", hint=_HINT) from error
    if not literal and "." not in host:
        raise BadInput(f"{text[:100]!r} is no host with its domain", code="network.host", hint=_HINT)
    if wild and literal:
        raise BadInput(f"{text[:100]!r} is no domain", code="network.host", hint=_HINT)
    return Place(f"*.{host}" if wild else host, number or usual, plain)


def _wrong(text: str) -> str:
    """What is the matter with it, in words for whoever has typed it."""
    host, _, port = text.partition(":")
    if "://" in text:
        return "only http:// is said, as TLS is what is meant without it"
    if any(mark in text for mark in ",; \t"):
        return "one host at a time"
    if "@" in text:
        return "no user is said"
    if any(mark in text for mark in "/?#"):
        return "a host has no path"
    if not text.isascii():
        return "a name in another script is written in its xn-- form"
    if host.endswith("."):
        return "without the dot at its end"
    if text.count(":") > 1 and "[" not in text:
        return "an address, which is not granted; name a host"
    if ":" in text and not (port.isdigit() and 0 < int(port[:6]) < 65536 and port[0] != "0"):
        return "a port is a number from 1 to 65535"
    if "*" in host:
        return "a * stands for the first label, or for all"
    return "it is empty" if not host else "its name cannot be read"


def lacking(asked: Asked, granted: Sequence[str]) -> list[str]:
    """What is asked for and not granted; `*` stands for `true`, where nothing is granted at all."""
    if not asked:
        return []
    given = [read_place(each) for each in granted]
    if asked is True:
        return [] if given else [ANY]
    wanted = [read_place(each) for each in asked]
    return [str(place) for place in wanted if not any(grant.covers(place) for grant in given)]


def waits_for(asked: Asked, granted: Sequence[str], subject: str) -> str:
    """What is told of one that waits: what it asks for, and what an operator would say. Empty: it may begin."""
    missing = lacking(asked, granted)
    if not missing:
        return ""
    name = subject.partition("/")[2]
    if missing == [ANY] and asked is True:
        return f"it asks for the network, and nothing of it is granted to {name}: `{command(subject)}`"
    *some, last = missing
    hosts = f"{', '.join(some)} and {last}" if some else last
    commands = "; ".join(command(subject, value) for value in missing)
    return f"it asks for {hosts}, and nobody has granted that to {name}: `{commands}`"


def command(subject: str, value: str = "HOST") -> str:
    """The words by which it is granted, as a shell takes them."""
    sort, _, name = subject.partition("/")
    anything = " --anything" if value.removeprefix("http://").partition(":")[0] == ANY else ""
    return shell.command(f"{sort} grant{anything}", name, "network", value, why="…")


def read_named(text: str) -> Place:
    """A place as it is granted or asked for from now on: one that a grant can open."""
    place = read_place(text)
    must_be_named(place)
    return place


def must_be_named(place: Place) -> None:
    """Refuse what no grant opens: an address can be anybody's tomorrow, and `localhost` is the machine itself."""
    if ":" in place.host or place.host.rpartition(".")[2].isdigit():
        raise Refused(
            f"{place}: an address stands in place of a host's name",
            code="network.address",
            hint="name a host, not an address; an inner one can be named in the machine's list of hosts",
        )
    if place.host.rpartition(".")[2] == "localhost":
        raise Refused(
            f"{place} is the machine itself, which no grant opens", code="network.address", hint="name another host"
        )


def check_grant(value: str, anything: bool = False) -> str:
    """What is written down for it; the same for all ways to say the same."""
    place = read_named(value)
    if place.host == ANY and not anything:
        raise Refused(
            "that is every host there is",
            code="network.anything",
            where=value,
            hint="name the hosts; or, if it is meant so, say --anything",
        )
    return str(place)


@dataclass(frozen=True, slots=True)
class Rules:
    """The [network] part of custody.toml: for every sandbox of this machine that has a way out."""

    inner: Sequence[str] = ()  # networks that are not public and can be granted all the same, e.g. ["10.1.0.0/16"]
    connections: int = 16  # at once, of one sandbox
    megabytes_out: int = 100  # of one run: what it sends
    megabytes_in: int = 10_240  # of one run: what it gets
    connect: float = 30.0  # seconds
    silence: float = 120.0  # seconds, after which a connection that carries nothing is cut

    def __post_init__(self) -> None:
        self.networks()
        for name in ("connections", "megabytes_out", "megabytes_in", "connect", "silence"):
            if isinstance(getattr(self, name), bool) or not 0 < getattr(self, name) < 1 << 40:
                raise BadInput(f"network.{name} must be a number above nothing", code="config.value")
        if self.connections > MOST_CONNECTIONS:
            raise BadInput(f"network.connections is at most {MOST_CONNECTIONS}", code="config.value")

    def networks(self) -> list[Network]:
        hint = 'such as inner = ["10.1.0.0/16"]'
        if not isinstance(self.inner, list | tuple) or not all(isinstance(each, str) for each in self.inner):
            raise BadInput("network.inner must be a list of networks, each a text", code="config.value", hint=hint)
        if not self.inner:
            return []
        from ipaddress import ip_network

        from custody.border.http.addresses import never_opened

        try:
            found = [ip_network(each) for each in self.inner]
        except ValueError as error:
            raise BadInput(f"network.inner: {error}", code="config.value", hint=hint) from error
        for network in found:
            if closed := never_opened(network):
                raise BadInput(
                    f"network.inner: {network} holds {closed}, which is never opened",
                    code="config.value",
                    hint="the machine itself, link-local addresses and a cloud's metadata stay closed: "
                    f"name the networks that are meant, {hint}",
                )
        return found

    @property
    def bytes_out(self) -> int:
        return self.megabytes_out * _MIB

    @property
    def bytes_in(self) -> int:
        return self.megabytes_in * _MIB


@dataclass(frozen=True, slots=True)
class Egress:
    """The way out of one sandbox."""

    subject: str  # archive/NAME or robot/NAME: to whom it was granted
    granted: tuple[str, ...]
    asked: tuple[str, ...] = ()  # none: all that is granted
    rules: Rules = field(default_factory=Rules)
    fresh: float = FRESH_SECONDS  # from its start, until somebody has looked up again what is granted

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def egress_from(told: Mapping[str, Any]) -> Egress:
    rules = Rules(**told["rules"] | {"inner": tuple(told["rules"]["inner"])})
    return Egress(
        subject=told["subject"],
        granted=tuple(told["granted"]),
        asked=tuple(told["asked"]),
        rules=rules,
        fresh=told["fresh"],
    )


@dataclass(frozen=True, slots=True)
class Leave:
    """How long a way out may be used from now on. Times are those of `time.monotonic`."""

    lease: float  # then it is closed, whatever lives on
    looked: float  # when what is granted was last looked up
    granted: Sequence[str] | None = None  # where it may lead, if that has changed


class Permit:
    """What was granted to one archive or robot, looked up when it matters: at the start, and while something runs."""

    def __init__(self, subject: str, read: Callable[[], Sequence[str]], rules: Rules) -> None:
        self.subject, self._read, self._rules = subject, read, rules
        self._last: Sequence[str] | None = None
        self._looked = self._tried = time.monotonic() - FRESH_SECONDS

    def waits_for(self, asked: Asked) -> str:
        """Why it cannot begin now, and what to do; empty if it can."""
        return waits_for(asked, self._read(), self.subject) if asked else ""

    def egress(self, asked: Asked) -> Egress | None:
        """The way out of one that asks like this; None if it asks for none."""
        if not asked:
            return None
        return Egress(self.subject, tuple(self._read()), () if asked is True else tuple(asked), self._rules)

    def leave(self, lease: float) -> Leave:
        """Look again at what is granted, and say how long the way out may be used. A store that is away says nothing:
        then nothing passes until it is back, or the lease has ended."""
        granted = None
        if (now := time.monotonic()) - self._tried >= NEWS_SECONDS:
            self._tried = now
            with suppress(CustodyError):
                found = list(self._read())
                granted = None if found == self._last else found
                self._last, self._looked = found, now
        return Leave(lease, self._looked, granted)

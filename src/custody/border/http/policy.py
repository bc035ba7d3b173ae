"""What may be fetched, from where, how much and how long: values, one per collection's profile.

The defaults are for strangers on the public network. There is no switch that turns certificate checks off:
a private authority is named by `ca_file`.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_network

from custody.border.http.addresses import Network

LOOPBACK: tuple[Network, ...] = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
_HERE = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class Policy:
    """Limits for fetching. Sizes in bytes, times in seconds."""

    schemes: frozenset[str] = frozenset({"https"})  # `http` only where a profile says so
    ports: frozenset[int] = frozenset({80, 443})
    hosts: tuple[str, ...] = ()  # if any are given, only these; `*.example.org` means below
    networks: tuple[Network, ...] = ()  # allowed besides public addresses
    forbidden: tuple[Network, ...] = ()  # never, even if public: our own, a local NAT64 prefix
    ca_file: str | None = None  # the only authority trusted, instead of the system's

    max_bytes: int = 1 << 40
    header_bytes: int = 64 << 10
    redirects: int = 5

    connect_seconds: float = 10
    answer_seconds: float = 30  # from the request until its header has arrived
    slow_bytes: int = 1 << 10  # a body must bring this many bytes a second …
    slow_seconds: float = 60  # … on average over this long
    total_seconds: float = 24 * 3600  # one file with all its tries
    idle_seconds: float = 20  # a connection unused for longer is not used again
    lookup_seconds: float = 60  # an address that was looked up and judged is used for this long

    tries: int = 4
    backoff_seconds: float = 0.5  # doubled after each try
    patience_seconds: float = 60  # the longest wait between tries, also if a server asks for more

    per_host: int = 8  # connections at once to one host

    @classmethod
    def local(cls, *ports: int) -> Policy:
        """For the demo and the tests: this machine only, on these ports."""
        return cls(schemes=frozenset({"http", "https"}), ports=frozenset(ports), networks=LOOPBACK, hosts=_HERE)

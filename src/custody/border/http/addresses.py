"""Which network addresses we may connect to for somebody else.

A depositor names a host; we connect. So the address is allowed only if it is *public unicast*: for IPv4
everything outside the table below, for IPv6 only the part that is handed out to the public, less the table.
Python's own `is_global` is no filter: it calls 224.0.0.1 and the NAT64 and 6to4 forms of 127.0.0.1 global.

A policy may allow networks (loopback for the demo, a campus network) and forbid others (the archive's own
public addresses, a local NAT64 prefix); forbidding wins.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from custody.errors import BadInput, Refused, Unavailable

LOG = logging.getLogger("custody.border")

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# A host name and a port become addresses, written as text.
Resolver = Callable[[str, int], Sequence[str]]

_SPECIAL_V4 = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this host
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # behind a carrier's NAT; also Alibaba's metadata at 100.100.100.200
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # Azure's wire server: a public number answered by the host itself
        "169.254.0.0/16",  # link-local; metadata of most clouds
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments; Oracle's metadata
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # AMT
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)
# Loopback, mapped, NAT64, unique local, link-local and multicast addresses all lie outside this one.
_PUBLIC_V6 = IPv6Network("2000::/3")
_SPECIAL_V6 = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID, AMT …
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: an IPv4 address in disguise
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
        "3ffe::/16",  # the 6bone, given back
    )
)

NEVER: tuple[Network, ...] = tuple(
    ip_network(network)
    for network in (
        "0.0.0.0/8",  # this host
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link-local; metadata of most clouds
        "100.100.100.200/32",  # Alibaba's metadata
        "168.63.129.16/32",  # Azure's wire server
        "192.0.0.192/32",  # Oracle's metadata
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
        "::/96",  # nothing, loopback, IPv4 in an old disguise
        "::ffff:0:0/96",  # IPv4 in disguise, as are the next four
        "64:ff9b::/96",
        "64:ff9b:1::/48",
        "2001::/32",
        "2002::/16",
        "fd00:ec2::254/128",  # Amazon's metadata
        "fd20:ce::254/128",  # Google's metadata
        "fe80::/10",  # link-local
        "ff00::/8",  # multicast
    )
)
"""What no configuration opens for a sandbox: the machine itself, its neighbours on the wire, a cloud's metadata."""


def never_opened(network: Network) -> Network | None:
    """What stands against opening this network as a whole. One address of it that stays closed does not."""
    for closed in NEVER:
        if closed.version == network.version and network.overlaps(closed):
            single = closed.num_addresses == 1
            if not single or network.num_addresses == 1:
                return closed
    return None


def allowed(address: Address, networks: Sequence[Network] = (), forbidden: Sequence[Network] = ()) -> bool:
    """May we connect to it? `networks` are allowed besides the public ones, `forbidden` are not at all."""
    # What the kernel would connect to: ::ffff:127.0.0.1 reaches 127.0.0.1.
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return False
    if any(address in network for network in forbidden):
        return False
    return is_public(address) or any(address in network for network in networks)


def is_public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _SPECIAL_V4)
    if address.scope_id is not None or address not in _PUBLIC_V6:
        return False
    return not any(address in network for network in _SPECIAL_V6)


def system_resolver(host: str, port: int) -> list[str]:
    """Ask the system, once. The answers keep its order of preference."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except socket.gaierror as error:
        if error.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)):
            raise BadInput("no such host", code="url.unknown_host", where=host) from error
        raise Unavailable("the host's address could not be found", code="dns.unavailable", where=host) from error
    except (UnicodeError, OSError) as error:
        raise Unavailable("the host's address could not be found", code="dns.unavailable", where=host) from error
    return [str(entry[4][0]) for entry in found]


def vouched(
    host: str, answers: Sequence[str], networks: Sequence[Network] = (), forbidden: Sequence[Network] = ()
) -> list[str]:
    """The addresses to connect to, each at most once. *All* answers must be allowed: a name that also leads
    inside is refused, whichever answer came first."""
    if not answers:
        raise BadInput("no such host", code="url.unknown_host", where=host)
    addresses = [_parsed(host, answer) for answer in answers]
    for address in addresses:
        if not allowed(address, networks, forbidden):
            raise forbidden_address(host, str(address))
    return [str(address) for address in dict.fromkeys(addresses)]


def forbidden_address(host: str, address: str) -> Refused:
    """Say that it is refused, and not where it leads: whoever names hosts would come to know our own names and numbers.
    The log of this machine has it."""
    if host != address:
        LOG.warning("refused: %s leads to %s, which is not a public address", host, address)
    return Refused(
        "not a public address" if host == address else "it leads to no public address",
        code="url.forbidden_address",
        where=host,
        hint="an administrator can allow a network for a collection",
    )


def _parsed(host: str, answer: str) -> Address:
    try:
        return ip_address(answer)
    except ValueError as error:
        raise forbidden_address(host, answer) from error

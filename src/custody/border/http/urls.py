"""Reading a URL that somebody else wrote.

Parsers of URLs disagree, and what one takes for a path another takes for a host. So there is one reading
here, strict and by hand, made before anything is sent; the request is built from its parts, never from the
text. What has several readings is refused.

Whether the host's *addresses* are allowed is decided in `addresses.py`, after the one lookup.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from urllib.parse import quote, urljoin

from custody.border.http.policy import Policy
from custody.errors import BadInput, Refused
from custody.formats import names

URL_BYTES = 8192
_PORTS = {"http": 80, "https": 443}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_SPLIT = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)(\?[^#]*)?(#.*)?", re.DOTALL)
_AUTHORITY = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::([0-9]*))?")
_LABEL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
# RFC 3986's characters of a path or query, with % for what is encoded already.
_KEPT = "!$&'()*+,/:;=?@[]-._~%"
_HINT = "give it as https://host/path, with anything unusual percent-encoded"


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes. `literal` is the address if the host is one."""

    scheme: str
    host: str
    port: int
    path: str
    literal: str | None = None

    @property
    def authority(self) -> str:
        """For the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> tuple[str, str, int]:
        """Connections are shared within one."""
        return self.scheme, self.host, self.port

    @property
    def shown(self) -> str:
        """For messages and logs: without the query, which often holds somebody's key."""
        path, question, _ = self.path.partition("?")
        return names.shown(f"{self.scheme}://{self.authority}{path}{question and '?…'}", 200)

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


def read_url(text: str, policy: Policy) -> Target:
    """The one reading of a URL, or a refusal."""
    _check_characters(text)
    if named := _SCHEME.match(text):
        _check_scheme(named[1].lower(), text, policy)
    match = _SPLIT.fullmatch(text)
    if match is None:
        raise _syntax(text, "does not begin with a scheme and a host")
    scheme, authority, path, query, fragment = match.groups()
    if fragment is not None:
        raise _syntax(text, "has a fragment (#…), which names no file")
    host, port, literal = read_authority(authority, text)
    target = Target(
        scheme=scheme.lower(),
        host=host,
        port=port or _PORTS[scheme.lower()],
        path=_request_path(path, query),
        literal=literal,
    )
    _check_policy(target, policy)
    return target


def follow(target: Target, location: str, policy: Policy) -> Target:
    """Where a redirect leads, judged as if it had been asked for, and never from https down to http."""
    _check_characters(location)
    # The fragment of a redirect is for browsers. Only the joining is left to the library, not the reading.
    try:
        joined = urljoin(target.url, location.partition("#")[0])
    except ValueError as error:
        raise _syntax(location, "cannot be read") from error
    following = read_url(joined, policy)
    if target.scheme == "https" and following.scheme == "http":
        raise Refused(
            "the server leads from https to http",
            code="url.downgrade",
            where=target.shown,
            to=following.shown,
        )
    return following


def masked(text: str) -> str:
    """A URL that was not understood, without what may be a password or a key."""
    head = text.partition("?")[0]
    return names.shown(re.sub(r"[^/\\]*@", "…@", head) + ("?…" if "?" in text else ""), 200)


def _check_characters(text: str) -> None:
    if len(text) > URL_BYTES:
        raise _syntax(text, f"is longer than {URL_BYTES} characters")
    for character in text:
        if character in ' \\"<>' or not character.isprintable():
            raise _syntax(text, f"has the character U+{ord(character):04X}")


def _check_scheme(scheme: str, text: str, policy: Policy) -> None:
    if scheme not in _PORTS or scheme not in policy.schemes:
        raise Refused(
            f"{names.shown(scheme, 20)}: is not a scheme we fetch from",
            code="url.forbidden_scheme",
            where=masked(text),
            hint=f"use {' or '.join(sorted(policy.schemes))}",
        )


def read_authority(authority: str, text: str) -> tuple[str, int | None, str | None]:
    """Host, port if one is said, and the address if the host is one; `text` is what the refusal speaks of."""
    if "@" in authority:
        raise Refused(
            "the URL carries a user name or password",
            code="url.credentials",
            where=masked(text),
            hint="a key in a URL ends up in logs; give the server another way to recognise us",
        )
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        raise _syntax(text, "has no readable host")
    host, port = match.groups()
    number = None
    if port is not None:
        if not port or len(port) > 5 or port[0] == "0" or int(port) > 65535:
            raise _syntax(text, "has no readable port")
        number = int(port)
    name, literal = _read_host(host, text)
    return name, number, literal


def _read_host(host: str, text: str) -> tuple[str, str | None]:
    if host.startswith("["):
        try:
            address = IPv6Address(host[1:-1])
        except AddressValueError as error:
            raise _syntax(text, "has no readable IPv6 address") from error
        if address.scope_id is not None:
            raise _syntax(text, "has an address with a zone")
        return str(address), str(address)
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        # 127.1, 0177.0.0.1, 2130706433, 0x7f.1: some resolvers read these as addresses, others as names.
        try:
            return str(IPv4Address(host)), str(IPv4Address(host))
        except AddressValueError as error:
            raise Refused(
                "a number in place of a host's name: what one program takes for a name is an address to another",
                code="url.forbidden_address",
                where=names.shown(host),
                address=names.shown(host),
                hint="write the host's name",
            ) from error
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        hint = "a name in another script is written in its xn-- form" if not host.isascii() else _HINT
        raise _syntax(text, "has no readable host name", hint)
    return host.lower(), None


def _request_path(path: str, query: str | None) -> str:
    return quote(path or "/", safe=_KEPT) + quote(query or "", safe=_KEPT)


def _check_policy(target: Target, policy: Policy) -> None:
    if target.port not in policy.ports:
        raise Refused(
            f"port {target.port} is not one we connect to",
            code="url.forbidden_port",
            where=target.shown,
            hint="an administrator can allow a port for a collection",
        )
    if policy.hosts and not any(_matches(target.host, pattern) for pattern in policy.hosts):
        raise Refused(
            f"{target.host} is not a host this collection takes files from",
            code="url.forbidden_host",
            where=target.shown,
            hint="an administrator can add it to the collection's profile",
        )


def _matches(host: str, pattern: str) -> bool:
    """`library.example.org`, or `*.example.org` for every host below it."""
    pattern = pattern.lower()
    return host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern


def _syntax(text: str, fault: str, hint: str = _HINT) -> BadInput:
    return BadInput(f"the URL {fault}", code="url.syntax", where=masked(text), hint=hint)

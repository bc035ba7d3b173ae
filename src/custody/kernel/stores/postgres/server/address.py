"""A store's URL, taken apart: what is for the driver, and what is for us."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from custody.errors import BadInput

PATIENCE = 5.0
"""Seconds for which a verb waits for a server that certainly has done nothing yet, unless the address says more."""
LONGEST = 3600.0
OURS = ("unsafe", "notify", "pooler", "schema", "listen", "patience", "require")


@dataclass(frozen=True, slots=True)
class Address:
    conninfo: str = field(repr=False)  # it may hold a password
    unsafe: bool = False  # a forgetful server is admitted, for tests that crash no machine
    notify: bool = True
    pooler: str = ""  # yes: take it for one; no: refuse one; otherwise it is found out
    schema: str = ""
    listen: str = field(default="", repr=False)  # where wake-ups are heard, if not here
    patience: float | None = None
    synchronous: bool = False  # a server without a synchronous standby is refused

    @classmethod
    def of(cls, url: str) -> Address:
        try:
            parts = urlsplit(url)
        except ValueError as error:
            raise unreadable(error) from None
        given = parse_qsl(parts.query, keep_blank_values=True)
        ours = {name: value for name, value in given if name in OURS}
        theirs = urlencode([(name, value) for name, value in given if name not in OURS], quote_via=quote)
        return cls(
            urlunsplit(parts._replace(query=theirs)),
            unsafe=_one_of(ours, "unsafe", "0", "1") == "1",
            notify=_one_of(ours, "notify", "1", "0") == "1",
            pooler=_one_of(ours, "pooler", "", "yes", "no"),
            schema=_schema(ours.get("schema", "")),
            listen=ours.get("listen", ""),
            patience=_seconds(ours["patience"]) if "patience" in ours else None,
            synchronous=_one_of(ours, "require", "", "sync") == "sync",
        )

    @property
    def waits(self) -> float:
        """How long a verb waits for a server that is away."""
        return PATIENCE if self.patience is None else self.patience

    def to_listen(self) -> Address:
        """Where wake-ups are heard: a session of our own, so no pooler."""
        if not self.listen:
            return self
        there = Address.of(self.listen)
        return replace(there, unsafe=self.unsafe, pooler="no", schema=self.schema, listen="")


def unreadable(error: Exception) -> BadInput:
    """An address that the driver cannot read: what it quotes of it may be a password, so none of that is told."""
    said = re.sub(r"[\"'].*[\"']", "…", str(error), flags=re.DOTALL).strip()
    return BadInput(
        f"cannot read the store's address: {said}",
        code="store.url",
        hint="postgresql://user:password@host/database; in a password write @ : / ? # % as %40 %3A %2F %3F %23 %25",
    )


def _one_of(given: Mapping[str, str], name: str, *values: str) -> str:
    value = given.get(name, values[0])
    if value not in values:
        hint = " or ".join(f"{name}={known}" for known in values if known)
        raise BadInput(f"{name}={value} in the store's address", code="store.url", hint=hint)
    return value


def _schema(name: str) -> str:
    if name.startswith("pg_"):
        raise BadInput(
            f"schema={name} in the store's address: it is PostgreSQL's own; a temporary one ends with its session",
            code="store.url",
            hint="a schema of your own: create schema custody",
        )
    return name


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= LONGEST:
        hint = f"patience=30, in seconds, up to {LONGEST:.0f}"
        raise BadInput(f"patience={text} in the store's address", code="store.url", hint=hint)
    return seconds

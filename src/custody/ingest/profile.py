"""Collection profiles: one TOML file per collection, read once into values that are right.

    description = "Letters of the Huygens family"
    owner = "ark:/99999/j2rn30xp"
    collections = ["ark:/99999/m5rn35s8"]
    priority = 5

    [identifier]
    minter = "local"            # or "ezid"
    naan = "99999"
    shoulder = "fk4"
    take_over = false           # true: objects come along that were named elsewhere on this shoulder

    [storage]
    node = "main"

    [notification]
    addresses = ["letters@archive.example"]

    [fetch]
    hosts = ["*.archive.example"]

    [containers]
    encoding = "cp437"          # of names in old zip files

Every mistake in a file is told at once, each with its key. Passwords and secrets are never in a profile;
it names the file that has them. Whether a collection is held is not a setting either: holds have a who, a
why and a since, and live in the store.
"""

from __future__ import annotations

import dataclasses
import difflib
import ipaddress
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_type_hints
from urllib.parse import urlsplit

from custody.errors import BadInput, CustodyError
from custody.formats.identifiers import ark
from custody.formats.noid import Noid
from custody.ingest.batch.mail import check_address, check_addresses

_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_HOST = re.compile(r"(\*\.)?[a-z0-9-]+(\.[a-z0-9-]+)*")
_SIZE = re.compile(r"(?P<number>[0-9]{1,15}) ?(?P<unit>[KMGT]i?B|B)?")
_UNITS = {unit: 1000**power for power, unit in enumerate(["B", "KB", "MB", "GB", "TB"])} | {
    unit: 1024**power for power, unit in enumerate(["KiB", "MiB", "GiB", "TiB"], start=1)
}


@dataclass(frozen=True, slots=True)
class Identifier:
    """Which identifiers the objects get."""

    minter: str = "local"
    naan: str = "99999"
    shoulder: str = "fk4"
    template: str = "eedeeedk"
    take_over: bool = False
    """objects come along that were named elsewhere on a shoulder on which we mint"""
    target: str = ""
    """where the identifier leads; {ark} stands for it"""
    ezid_url: str = ""
    ezid_user: str = ""
    ezid_password_file: str = ""


@dataclass(frozen=True, slots=True)
class Storage:
    node: str = "main"
    service: str = ""
    """an HTTP storage service; empty is the OCFL root of the node"""
    token_file: str = ""


@dataclass(frozen=True, slots=True)
class Notification:
    addresses: tuple[str, ...] = ()
    confirm: bool = False
    """a mail when a batch is queued, before the report"""


@dataclass(frozen=True, slots=True)
class Callback:
    url: str = ""
    secret_file: str = ""


@dataclass(frozen=True, slots=True)
class ObjectLimits:
    object_size: int = 1 << 40
    file_size: int = 1 << 40
    files: int = 1_000_000
    large: int = 100 << 30
    """an object of this size runs later"""
    downloads: int = 16
    """at once, for one object"""


@dataclass(frozen=True, slots=True)
class Fetching:
    """Which URLs may be fetched for this collection."""

    schemes: tuple[str, ...] = ("https",)
    hosts: tuple[str, ...] = ()
    """none is any public host"""
    ports: tuple[int, ...] = (80, 443)
    networks: tuple[str, ...] = ()
    """networks that are not public and yet allowed"""
    ca_file: str = ""


@dataclass(frozen=True, slots=True)
class Containers:
    """How zip and tar files are read."""

    encoding: str = ""
    """of names that do not say theirs, such as cp437 or shift_jis; empty: such names are refused"""


@dataclass(frozen=True, slots=True)
class Profile:
    name: str
    description: str = ""
    owner: str = ""
    collections: tuple[str, ...] = ()
    priority: int | None = None
    """none: from the number of objects in the batch"""
    object_type: str = "MRT-curatorial"
    object_role: str = "MRT-content"
    aggregate: str = ""
    identifier: Identifier = field(default_factory=Identifier)
    storage: Storage = field(default_factory=Storage)
    notification: Notification = field(default_factory=Notification)
    callback: Callback = field(default_factory=Callback)
    limits: ObjectLimits = field(default_factory=ObjectLimits)
    fetch: Fetching = field(default_factory=Fetching)
    containers: Containers = field(default_factory=Containers)


def read_profile(path: Path) -> Profile:
    """A profile; its name is the file's."""
    try:
        return parse_profile(path.read_text(encoding="utf-8"), path.stem, where=str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"the profile cannot be read: {error}", code="profile.file", where=str(path)) from error


def kept_apart(key: str, file: Path) -> str:
    """A secret that is named where it is needed, and stands in a file of its own."""
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(
            f"the file cannot be read: {error}",
            code="profile.secret",
            where=key,
            hint="put the secret into that file, readable for the workers' user only",
        ) from error


def parse_profile(text: str, name: str, *, where: str = "profile") -> Profile:
    try:
        given = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # TOML, or a number of thousands of digits
        raise BadInput(f"not TOML: {error}", code="profile.toml", where=where) from error
    problems: list[str] = []
    profile: Profile = _filled(Profile, given, "", problems, fixed={"name": name})
    if not problems:
        problems += _problems(profile)
    if problems:
        raise BadInput(
            "; ".join(problems), code="profile.invalid", where=where, hint="no job of this collection can run"
        )
    return profile


def _filled(form: type[Any], given: Mapping[str, Any], above: str, problems: list[str], fixed: Any = None) -> Any:
    """A dataclass from a TOML table, by the types of its fields."""
    types = get_type_hints(form)
    values = dict(fixed or {})
    for key, value in given.items():
        shown = above + key
        if key not in types or key in values:
            near = difflib.get_close_matches(key, types.keys() - values.keys(), 1)
            problems.append(f"{shown}: unknown key" + (f", did you mean {near[0]}?" if near else ""))
        elif dataclasses.is_dataclass(types[key]):
            if isinstance(value, dict):
                values[key] = _filled(types[key], value, f"{shown}.", problems)
            else:
                problems.append(f"{shown}: must be a table, [{shown}]")
        else:
            try:
                values[key] = _CASTS[str(types[key])](value)
            except (TypeError, ValueError) as error:
                problems.append(f"{shown}: {error}")
    return form(**values)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("must be text")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError("must be true or false")
    return value


def _whole(value: object) -> int:
    """A number, or a size such as "20 GiB"."""
    if isinstance(value, str) and (found := _SIZE.fullmatch(value)):
        return int(found["number"]) * int(_UNITS[found["unit"] or "B"])
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError('must be a whole number, or a size such as "20 GiB"')
    return value


def _many(cast: Callable[[object], Any]) -> Callable[[object], tuple[Any, ...]]:
    def read(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise TypeError("must be a list")
        return tuple(cast(each) for each in value)

    return read


_CASTS: dict[str, Callable[[object], Any]] = {
    str(str): _text,
    str(bool): _flag,
    str(int): _whole,
    str(int | None): _whole,
    str(tuple[str, ...]): _many(_text),
    str(tuple[int, ...]): _many(_whole),
}


# -- what the values must be -------------------------------------------------------------------------


def _problems(profile: Profile) -> list[str]:
    """Every rule, with the key it is about."""
    identifier, storage, fetch = profile.identifier, profile.storage, profile.fetch
    rules: list[tuple[str, Callable[[], object]]] = [
        ("name", lambda: _matches(_NAME, profile.name)),
        ("owner", lambda: profile.owner and ark(profile.owner)),
        ("collections", lambda: [ark(each) for each in profile.collections]),
        ("priority", lambda: _between(profile.priority or 0, 0, 99)),
        ("identifier.minter", lambda: _one_of(identifier.minter, "local", "ezid")),
        ("identifier", lambda: Noid(identifier.naan, identifier.shoulder, identifier.template, int)),
        ("identifier.ezid_url", lambda: _ezid(identifier)),
        ("storage.node", lambda: _matches(_NAME, storage.node)),
        ("storage.service", lambda: storage.service and _url(storage.service)),
        ("notification.addresses", lambda: _addresses(profile.notification.addresses)),
        ("callback.url", lambda: profile.callback.url and _url(profile.callback.url)),
        ("callback.secret_file", lambda: _together(profile.callback)),
        ("limits.downloads", lambda: _between(profile.limits.downloads, 1, 64)),
        ("containers.encoding", lambda: profile.containers.encoding and _encoding(profile.containers.encoding)),
        ("fetch.schemes", lambda: [_one_of(each, "http", "https") for each in fetch.schemes]),
        ("fetch.hosts", lambda: [_matches(_HOST, each) for each in fetch.hosts]),
        ("fetch.ports", lambda: [_between(each, 1, 65535) for each in fetch.ports]),
        ("fetch.networks", lambda: [ipaddress.ip_network(each) for each in fetch.networks]),
    ]
    problems = []
    for key, rule in rules:
        try:
            rule()
        except CustodyError as error:
            problems.append(f"{key}: {error.message}")
        except ValueError as error:
            problems.append(f"{key}: {error}")
    return problems


def _matches(form: re.Pattern[str], value: str) -> str:
    if not form.fullmatch(value):
        raise ValueError(f"{value!r} is not of the form {form.pattern}")
    return value


def _between(value: int, least: int, most: int) -> int:
    if not least <= value <= most:
        raise ValueError(f"{value} is not between {least} and {most}")
    return value


def _one_of(value: str, *choices: str) -> str:
    if value not in choices:
        raise ValueError(f"{value!r} is not {' or '.join(choices)}")
    return value


def _encoding(value: str) -> str:
    try:
        b"a".decode(value)
    except (LookupError, UnicodeError):
        raise ValueError(f"{value!r} is no encoding of text") from None
    return value


def _url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"{value!r} is not an http(s) URL")
    if parts.username or parts.password:
        raise ValueError("a user name or password in a URL is not allowed here")
    return value


def _ezid(identifier: Identifier) -> None:
    if identifier.minter == "ezid":
        _url(identifier.ezid_url)
        if not (identifier.ezid_user and identifier.ezid_password_file):
            raise ValueError("the minter ezid needs ezid_user and ezid_password_file")


def _addresses(given: tuple[str, ...]) -> None:
    for each in given:
        check_address(each)
    check_addresses(",".join(given))  # and not too many


def _together(callback: Callback) -> None:
    if callback.url and not callback.secret_file:
        raise ValueError("a callback is signed: name the file that has its secret")

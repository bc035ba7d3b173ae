"""custody.toml: one file that says where things are. Every mistake in it is named with its key."""

from __future__ import annotations

import builtins
import tomllib
import types
from collections import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

from custody.errors import BadInput
from custody.kernel.stores.sqlite.file_address import MEMORY, must_stay

if TYPE_CHECKING:  # a process without a configuration does without the applications, and their memory
    from custody.border.egress.allowance import Rules
    from custody.channels.kinds import ChannelConfig
    from custody.ingest.config import IngestConfig
    from custody.kernel.history.sealer import HistoryConfig
    from custody.web.access.oidc import LoginConfig
    from custody.workflows.kinds import WorkflowConfig

NAME = "custody.toml"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StorageConfig:
    """The [storage] part: folders below which items may lie, besides the storage nodes of ingest."""

    roots: Mapping[str, Path] = field(default_factory=dict)
    across: Sequence[str] = ()  # names of those below which other file systems are mounted


@dataclass(frozen=True, slots=True)
class FilesConfig:
    """The [files] part: who besides the owner may read what is made here. Decided when a command begins: `modes.py`."""

    group_readable: bool = False  # the group of each folder; what sandboxes write stays closed


@dataclass(frozen=True, slots=True)
class Config:
    home: Path  # the file's folder: paths in it are relative to this
    store: str = field(repr=False)  # its address may hold a password
    ingest: IngestConfig
    workflows: WorkflowConfig
    channels: ChannelConfig
    history: HistoryConfig
    login: LoginConfig
    network: Rules
    access: AccessConfig
    storage: StorageConfig
    files: FilesConfig


@dataclass(frozen=True, slots=True)
class AccessConfig:
    """The [access] part: what may be asked for from outside."""

    open_kinds: Sequence[str] = ()  # besides those that workers have offered (--exec, --load)


def find(given: Path | None) -> Config | None:
    """The configuration that was named, or the one in this folder."""
    if given is not None:
        return read(given)
    here = Path(NAME)
    return read(here) if here.is_file() else None


def read(path: Path) -> Config:
    from custody.border.egress.allowance import Rules
    from custody.channels.kinds import ChannelConfig
    from custody.ingest.config import IngestConfig
    from custody.kernel.history.sealer import HistoryConfig
    from custody.web.access.oidc import LoginConfig

    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"cannot read it: {error.strerror}", where=str(path), code="config.file") from error
    except (ValueError, RecursionError) as error:  # TOML, its encoding, or a number of thousands of digits
        raise BadInput(f"this is not TOML: {error}", where=str(path), code="config.toml") from error
    known = {"store", "ingest", "workflows", "channels", "history", "login", "network", "access", "storage", "files"}
    unknown = set(values) - known
    if unknown:
        raise BadInput(f"unknown key {', '.join(sorted(unknown))}", where=str(path), code="config.key")
    for key, value in values.items():
        if not isinstance(value, str if key == "store" else dict):
            raise BadInput(
                f"{key} must be {'a text' if key == 'store' else f'a table, [{key}]'}",
                where=str(path),
                code="config.value",
            )
    must_stay(values.get("store", ""))
    home = path.resolve().parent
    return Config(
        home=home,
        store=absolute(values.get("store", ""), home),
        ingest=_part(IngestConfig, values.get("ingest", {}), "ingest", str(path)),
        workflows=_workflows(values.get("workflows", {}), str(path)),
        channels=_part(ChannelConfig, values.get("channels", {}), "channels", str(path)),
        history=_part(HistoryConfig, values.get("history", {}), "history", str(path)),
        login=_part(LoginConfig, values.get("login", {}), "login", str(path)),
        network=_part(Rules, values.get("network", {}), "network", str(path)),
        access=_access(values.get("access", {}), str(path)),
        storage=_part(StorageConfig, values.get("storage", {}), "storage", str(path)),
        files=_part(FilesConfig, values.get("files", {}), "files", str(path)),
    )


def _workflows(given: Mapping[str, Any], where: str) -> WorkflowConfig:
    from custody.workflows.kinds import WorkflowConfig

    found = _part(WorkflowConfig, given, "workflows", where)
    for key in ("branches", "checkout_files", "checkout_bytes", "checkout_depth"):
        if getattr(found, key) < 1:
            raise BadInput(f"workflows.{key} must be 1 or more", where=where, code="config.value")
    return found


def _access(given: Mapping[str, Any], where: str) -> AccessConfig:
    from custody.web.operations.makers import MAKERS

    access = _part(AccessConfig, given, "access", where)
    for kind in access.open_kinds:
        MAKERS.must_be_free(kind, f"{where}: access.open_kinds")
    return access


def absolute(url: str, home: Path) -> str:
    """The address of a store for whoever stands elsewhere: a relative SQLite path is one below `home`."""
    tree, mark, database = url.partition("?with=")
    if mark:
        return f"{tree}{mark}{absolute(database, home)}"
    relative = url.removeprefix("sqlite:///")
    names_a_file = relative.strip() not in ("", MEMORY)  # else it is refused, as it stands
    if url.startswith("sqlite:///") and names_a_file and not relative.startswith("/"):
        return f"sqlite:///{home / relative}"
    return url or f"sqlite:///{home / 'custody.db'}"


def _part(form: type[T], given: Mapping[str, Any], name: str, where: str) -> T:
    """One table of the file as values; a key that means nothing is named."""
    known = get_type_hints(form)
    for key, value in given.items():
        if key not in known:
            raise BadInput(
                f"unknown key {name}.{key}", where=where, code="config.key", hint=f"known: {', '.join(sorted(known))}"
            )
        _must_fit(f"{name}.{key}", value, known[key], where)
    values: dict[str, Any] = {key: Path(value) if known[key] is Path else value for key, value in given.items()}
    for key in {"nodes", "roots"} & values.keys():
        values[key] = {each: Path(path) for each, path in given[key].items()}
    return form(**values)


def _must_fit(key: str, value: Any, hint: Any, where: str) -> None:
    """Of the type that is declared, all the way down: nothing is made to fit, and no flag is a number."""
    if not _fits(value, hint):
        raise BadInput(f"{key} must be {_words(hint)}, not {value!r}", where=where, code="config.value")


def _fits(value: Any, hint: Any) -> bool:
    parts = get_args(hint)
    match get_origin(hint) or hint:
        case types.UnionType:
            return any(_fits(value, part) for part in parts)
        case abc.Sequence | builtins.tuple:
            return isinstance(value, list) and all(_fits(each, parts[0]) for each in value)
        case abc.Mapping:
            return isinstance(value, dict) and all(_fits(each, parts[1]) for each in value.values())
        case plain:
            return type(value) in _SORTS[plain][0]


def _words(hint: Any) -> str:
    parts = get_args(hint)
    match get_origin(hint) or hint:
        case types.UnionType:
            return " or ".join(_words(part) for part in parts)
        case abc.Sequence | builtins.tuple:
            return f"a list of {_many(parts[0])}"
        case abc.Mapping:
            return f"a table of {_many(parts[1])}"
        case plain:
            return _SORTS[plain][1]


def _many(hint: Any) -> str:
    return f"{_words(hint).removeprefix('a ')}s" if hint in _SORTS else _words(hint).removeprefix("a ")


_SORTS: dict[Any, tuple[tuple[type, ...], str]] = {
    Path: ((str,), "a path"),
    str: ((str,), "a text"),
    float: ((float, int), "a number"),
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
}


def profile_names(found: Config | None) -> Sequence[str]:
    """The collections that deposits can be handed in to."""
    return sorted(path.stem for path in (found.home / found.ingest.profiles).glob("*.toml")) if found else ()

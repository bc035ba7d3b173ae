"""custody.toml: one file that says where things are. Every mistake in it is named with its key."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from custody.model.errors import BadInput

if TYPE_CHECKING:  # a process without a configuration does without the applications, and their memory
    from custody.border.egress import Rules
    from custody.channels.serving import ChannelConfig
    from custody.history.keeping import HistoryConfig
    from custody.ingest.setup import IngestConfig
    from custody.web.oidc import LoginConfig
    from custody.workflows.serving import WorkflowConfig

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
    from custody.border.egress import Rules
    from custody.channels.serving import ChannelConfig
    from custody.history.keeping import HistoryConfig
    from custody.ingest.setup import IngestConfig
    from custody.web.oidc import LoginConfig
    from custody.workflows.serving import WorkflowConfig

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
    home = path.resolve().parent
    return Config(
        home,
        absolute(values.get("store", ""), home),
        _part(IngestConfig, values.get("ingest", {}), "ingest", str(path)),
        _part(WorkflowConfig, values.get("workflows", {}), "workflows", str(path)),
        _part(ChannelConfig, values.get("channels", {}), "channels", str(path)),
        _part(HistoryConfig, values.get("history", {}), "history", str(path)),
        _part(LoginConfig, values.get("login", {}), "login", str(path)),
        _part(Rules, values.get("network", {}), "network", str(path)),
        _access(values.get("access", {}), str(path)),
        _part(StorageConfig, values.get("storage", {}), "storage", str(path)),
        _part(FilesConfig, values.get("files", {}), "files", str(path)),
    )


def _access(given: Mapping[str, Any], where: str) -> AccessConfig:
    from custody.web.makers import MAKERS

    access = _part(AccessConfig, given, "access", where)
    if not isinstance(access.open_kinds, list | tuple) or not all(isinstance(kind, str) for kind in access.open_kinds):
        raise BadInput("access.open_kinds must be a list of texts", where=where, code="config.value")
    for kind in access.open_kinds:
        MAKERS.must_be_free(kind, f"{where}: access.open_kinds")
    return access


def absolute(url: str, home: Path) -> str:
    """The address of a store for whoever stands elsewhere: a relative SQLite path is one below `home`."""
    tree, mark, database = url.partition("?with=")
    if mark:
        return f"{tree}{mark}{absolute(database, home)}"
    relative = url.removeprefix("sqlite:///")
    if url.startswith("sqlite:///") and not relative.startswith("/"):
        return f"sqlite:///{home / relative}"
    return url or f"sqlite:///{home / 'custody.db'}"


def _part(form: type[T], given: Mapping[str, Any], name: str, where: str) -> T:
    """One table of the file as values; a key that means nothing is named."""
    known = {field.name: field.default for field in fields(form)}  # type: ignore[arg-type]
    for key in given:
        if key not in known:
            raise BadInput(
                f"unknown key {name}.{key}", where=where, code="config.key", hint=f"known: {', '.join(sorted(known))}"
            )
    values: dict[str, Any] = {
        key: Path(value) if isinstance(known[key], Path) and isinstance(value, str) else value
        for key, value in given.items()
    }
    for key, value in values.items():
        _of_its_sort(f"{name}.{key}", value, known[key], where)
    for key in {"nodes", "roots"} & values.keys():
        values[key] = _paths(f"{name}.{key}", given[key], where)
    for key in {"across", "shared"} & values.keys():
        _names(f"{name}.{key}", values[key], where)
    return form(**values)


def _paths(key: str, given: Any, where: str) -> dict[str, Path]:
    if not isinstance(given, dict) or not all(isinstance(path, str) for path in given.values()):
        raise BadInput(f"{key} must be a table of paths", where=where, code="config.value")
    return {name: Path(path) for name, path in given.items()}


def _names(key: str, given: Any, where: str) -> None:
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        raise BadInput(f"{key} must be a list of names", where=where, code="config.value")


def _of_its_sort(key: str, value: Any, default: Any, where: str) -> None:
    """As its default is; where that says nothing, whoever uses it has to."""
    for sort, words in _SORTS.items():
        if isinstance(default, sort) and not isinstance(value, sort if sort is not float else (float, int)):
            raise BadInput(f"{key} must be {words}, not {value!r}", where=where, code="config.value")


_SORTS: dict[type, str] = {
    Path: "a path", str: "a text", float: "a number", bool: "true or false", int: "a whole number",
}  # fmt: skip

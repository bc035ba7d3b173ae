"""custody.toml: one file that says where things are. Every mistake in it is named with its key."""

from __future__ import annotations

import builtins
import tomllib
import types
from collections import abc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from custody.application import broken, conflict, installed, load
from custody.errors import BadInput
from custody.kernel.stores.sqlite.file_address import MEMORY, must_stay
from custody.opening import Table

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
class AccessConfig:
    """The [access] part: what may be asked for from outside."""

    open_kinds: Sequence[str] = ()  # besides those that workers have offered (--exec, --load)


TABLES: Mapping[str, str] = {
    "history": "custody.kernel.history.config:HistoryConfig",
    "login": "custody.kernel.access.login:LoginConfig",
    "network": "custody.border.egress.allowance:Rules",
    "access": "custody.config:AccessConfig",
    "storage": "custody.config:StorageConfig",
    "files": "custody.config:FilesConfig",
}
"""Those of no application; each is imported when the file has it, or when somebody asks for it."""


@dataclass(frozen=True, slots=True)
class Config:
    """What the file says. Each table is an attribute: `config.history`; `config.ingest`, where ingest is installed."""

    home: Path  # the file's folder: paths in it are relative to this
    store: str = field(repr=False)  # its address may hold a password
    tables: Mapping[str, Any] = field(default_factory=dict)  # those that the file has; of the others, what is usual

    def __getattr__(self, name: str) -> Any:
        if name in Config.__slots__ or name not in (forms := known_tables()):
            raise AttributeError(f"there is no table {name}")
        if name not in self.tables:
            self.tables[name] = load(forms[name])()  # type: ignore[index]  # the same again the next time
        return self.tables[name]

    @property
    def place(self) -> str:
        """The name of this machine's working disk, whichever application has one; unless the file says so, none."""
        return next((place for table in _telling(self.tables) if (place := table.working_place())), "")

    @property
    def secret(self) -> Path:
        """Where the installation's secret is, whichever application names it."""
        named = (path for table in _telling(self.tables) if (path := table.signing_secret()))
        return self.home / next(named, Path("custody.secret"))

    def collections(self) -> Sequence[str]:
        """Names in which rights can be given though nothing has come in: those that deposits can be handed in to."""
        return sorted(name for table in _telling(self._all()) for name in table.collections(self.home))

    def roots(self) -> Mapping[str, tuple[str, Path]]:
        """Folders below which applications keep items, by name; with the application that does."""
        tables = {name: table for name, table in self._all().items() if isinstance(table, Table)}
        return {root: (name, path) for name, table in tables.items() for root, path in table.roots(self.home).items()}

    def _all(self) -> Mapping[str, Any]:
        """The table of each application that has one."""
        return {each.name: getattr(self, each.name) for each in installed() if each.config}


def _telling(tables: Mapping[str, Any]) -> Iterator[Table]:
    return (table for table in tables.values() if isinstance(table, Table))


def known_tables() -> Mapping[str, str]:
    """Every table that the file may have, and its form."""
    for each in installed():
        if each.name in TABLES or each.name in dir(Config):
            raise conflict(f"the table [{each.name}]", each.name, "the program itself")
    return {**{each.name: each.config for each in installed() if each.config}, **TABLES}


def find(given: Path | None) -> Config | None:
    """The configuration that was named, or the one in this folder."""
    if given is not None:
        return read(given)
    here = Path(NAME)
    return read(here) if here.is_file() else None


def read(path: Path) -> Config:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"cannot read it: {error.strerror}", where=str(path), code="config.file") from error
    except (ValueError, RecursionError) as error:  # TOML, its encoding, or a number of thousands of digits
        raise BadInput(f"this is not TOML: {error}", where=str(path), code="config.toml") from error
    forms = known_tables()
    _must_be_known(values, forms, str(path))
    for key, value in values.items():
        if not isinstance(value, str if key == "store" else dict):
            raise BadInput(
                f"{key} must be {'a text' if key == 'store' else f'a table, [{key}]'}",
                where=str(path),
                code="config.value",
            )
    must_stay(values.get("store", ""))
    home = path.resolve().parent
    read_ = {name: _part(load(forms[name]), values[name], name, str(path)) for name in forms if name in values}
    if "access" in read_:
        _check_access(read_["access"], str(path))
    return Config(home, absolute(values.get("store", ""), home), read_)


def _must_be_known(values: Mapping[str, Any], forms: Mapping[str, str], where: str) -> None:
    """The table of an application that cannot be imported is not read; the doctor tells of it."""
    unknown = set(values) - {"store", *forms, *(each.name for each in broken())}
    if unknown:
        applications = ", ".join(each.name for each in installed())
        raise BadInput(
            f"unknown key {', '.join(sorted(unknown))}",
            where=where,
            code="config.key",
            hint=f"known: {', '.join(sorted({'store', *forms}))}; applications that are installed: {applications}",
        )


def _check_access(access: AccessConfig, where: str) -> None:
    from custody.installation import makers

    for kind in access.open_kinds:
        makers().must_be_free(kind, f"{where}: access.open_kinds")


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
    try:
        return form(**values)
    except BadInput as error:
        error.where = error.where or where
        raise


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

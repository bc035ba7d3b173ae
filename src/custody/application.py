"""What an application is: one value that says what it brings, and where; and which applications are installed.

Nothing that it names is imported before somebody asks for it: a reference is a text, `package.module:name`. This file
is read by everything that begins, also by `custody --help`, so it does without `dataclasses` and `typing`.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

TYPE_CHECKING = False  # `typing` alone takes as long as help
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any, NoReturn

    from custody.errors import BadInput

Ref = str
"""`package.module:name`, imported when it is asked for."""
GROUP = "custody.applications"
"""The group of entry points by which a package offers its application: name = package.app:APPLICATION."""
OURS = ("ingest", "workflows", "robots", "channels")
"""In the order of the dashboard; each is `custody.NAME.app:APPLICATION`."""
OWN = "custody"
"""The distribution of ours."""


class _Frozen:
    """A value: set once, compared and shown by what it holds."""

    __slots__: tuple[str, ...] = ()

    def _set(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __hash__(self) -> int:
        return hash((type(self), getattr(self, self.__slots__[0])))

    def __repr__(self) -> str:
        told = ", ".join(f"{name}={value!r}" for name in self.__slots__ if (value := getattr(self, name)))
        return f"{type(self).__name__}({told})"


class Noun(_Frozen):
    """A noun of the command line: `custody NOUN VERB`."""

    __slots__ = ("line", "commands", "after")  # noqa: RUF023 in the order in which they are told
    line: str  # of the help
    commands: Ref  # a typer.Typer
    after: str  # stands in the help after this noun; after those of the application before it, if it says nothing

    def __init__(self, line: str, commands: Ref, *, after: str = "") -> None:
        self._set(line=line, commands=commands, after=after)


class Application(_Frozen):
    """What an application brings. `app.py` of its package has one statement: `APPLICATION = Application(…)`."""

    __slots__ = (  # noqa: RUF023 in the order in which they are told
        "name",
        "nouns",
        "kinds",
        "part",
        "config",
        "folders",
        "machines",
        "makers",
        "open",
        "section",
        "stores",
        "scopes",
        "acts",
        "may_import",
    )
    name: str
    nouns: Mapping[str, Noun]
    kinds: tuple[str, ...]
    part: Ref
    config: Ref
    folders: Ref
    machines: Ref
    makers: Ref
    open: Ref
    section: Ref
    stores: Mapping[str, Ref]
    scopes: Mapping[str, Ref]
    acts: Mapping[str, str]
    may_import: Ref

    def __init__(
        self,
        *,
        name: str,  # its table in custody.toml, and the folder of its templates
        nouns: Mapping[str, Noun] | None = None,  # of the command line, each with its line of help
        kinds: tuple[str, ...] = (),  # prefixes of the kinds of jobs that only it makes: data, never renamed
        part: Ref = "",  # kernel.applications.Part: its tables and statements, and words that are its own
        config: Ref = "",  # a frozen dataclass: its table; an `opening.Table` if it says something to others
        folders: Ref = "",  # (config, home) -> Iterable[opening.Folder]: who may write to what it names
        machines: Ref = "",  # Mapping[kind, Machine]
        makers: Ref = "",  # Sequence[Maker]: who may make its jobs, and what they look like
        open: Ref = "",  # (store, config or None, Here) -> Opened
        section: Ref = "",  # web.sections.Section
        stores: Mapping[str, Ref] | None = None,  # schemes of addresses of stores -> opening.Scheme
        scopes: Mapping[str, Ref] | None = None,  # what may be held besides what every queue knows -> opening.Scope
        acts: Mapping[str, str] | None = None,  # types of events that a command of its own records -> the command
        may_import: Ref = "",  # (file) -> None: refuses a Python file that `worker run --load` must not import
    ) -> None:
        self._set(
            name=name,
            nouns=nouns or {},
            kinds=kinds,
            part=part,
            config=config,
            folders=folders,
            machines=machines,
            makers=makers,
            open=open,
            section=section,
            stores=stores or {},
            scopes=scopes or {},
            acts=acts or {},
            may_import=may_import,
        )


class Broken(_Frozen):
    """An application that is installed and cannot be imported."""

    __slots__ = ("name", "distribution", "why")  # noqa: RUF023 in the order in which they are told
    name: str
    distribution: str
    why: str

    def __init__(self, name: str, distribution: str, why: str) -> None:
        self._set(name=name, distribution=distribution, why=why)


_known: list[tuple[tuple[Application, ...], tuple[Broken, ...]]] = []


def installed() -> tuple[Application, ...]:
    """Ours, then those of others by name; found once for a process. Two that both want one name are refused."""
    return _found()[0]


def broken() -> tuple[Broken, ...]:
    """Those that are installed and cannot be imported: their work waits, so nobody may start as if all were well."""
    return _found()[1]


def named(name: str) -> Application:
    """One that is known to be there."""
    return next(each for each in installed() if each.name == name)


def of_kind(kind: str) -> Application | None:
    """The application that alone makes jobs of this kind."""
    return next((each for each in installed() if kind.startswith(each.kinds)), None)


def load(ref: Ref) -> Any:
    """What a reference names."""
    module, _, name = ref.partition(":")
    return getattr(import_module(module), name)


def forget() -> None:
    """Look again when somebody asks: for those who install something while they run."""
    _known.clear()


def _found() -> tuple[tuple[Application, ...], tuple[Broken, ...]]:
    if not _known:
        _known.append(_look())
    return _known[0]


def _look() -> tuple[tuple[Application, ...], tuple[Broken, ...]]:
    found: dict[str, tuple[Application, str]] = {}
    faulty: list[Broken] = []
    for name, ref, distribution in (*((each, f"custody.{each}.app:APPLICATION", OWN) for each in OURS), *_offered()):
        try:
            application = load(ref)
        except Exception as error:
            faulty.append(Broken(name, distribution, f"{type(error).__name__}: {error}"))
            continue
        if not isinstance(application, Application) or application.name != name:
            faulty.append(Broken(name, distribution, f"{ref} is no application of that name"))
            continue
        for other, whose in found.values():
            _must_differ((application, distribution), (other, whose))
        found[name] = application, distribution
    return tuple(application for application, _ in found.values()), tuple(faulty)


def _must_differ(one: tuple[Application, str], other: tuple[Application, str]) -> None:
    mine, theirs = dict(_claims(one[0])), dict(_claims(other[0]))
    both = [what for what in mine if what in theirs]
    both += [
        f"the kinds {kind}"
        for kind in one[0].kinds
        for rival in other[0].kinds
        if kind.startswith(rival) or rival.startswith(kind)
    ]
    if both:
        raise conflict(both[0], f"{one[0].name} ({one[1]})", f"{other[0].name} ({other[1]})")


def _claims(application: Application) -> Iterator[tuple[str, None]]:
    """What no two may have."""
    yield f"the name {application.name}", None
    yield from ((f"the noun {noun}", None) for noun in application.nouns)
    yield from ((f"the scheme {scheme}", None) for scheme in application.stores)
    yield from ((f"the scope {scope}", None) for scope in application.scopes)


def conflict(what: str, one: str, other: str) -> BadInput:
    """Refused before anything begins: which of the two would be served must not hang on an order."""
    from custody.errors import BadInput

    return BadInput(
        f"two applications want {what}: {one} and {other}", code="application.conflict", hint="uninstall one of them"
    )


def _offered() -> Sequence[tuple[str, Ref, str]]:
    """What other distributions offer, by name. Their files are looked through here: `importlib.metadata` would take
    eight times as long as help does."""
    seen: set[str] = set()
    found: dict[tuple[str, Ref], str] = {}
    for folder in dict.fromkeys(sys.path):
        for distribution in _distributions(folder or "."):
            if distribution not in seen:  # the first of a name is the one that is imported
                seen.add(distribution)
                for name, ref in _entries(os.path.join(folder or ".", distribution, "entry_points.txt")):
                    found.setdefault((name, ref), distribution.partition("-")[0])
    ours = {f"custody.{each}.app:APPLICATION" for each in OURS}
    return sorted((name, ref, whose) for (name, ref), whose in found.items() if ref not in ours)


def _distributions(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if name.endswith((".dist-info", ".egg-info"))]
    except OSError:  # not a folder, or not there
        return []


def _entries(file: str) -> Iterator[tuple[str, Ref]]:
    """The entries of our group in a file of entry points."""
    try:
        with open(file, encoding="utf-8") as opened:
            text = opened.read()
    except (OSError, ValueError):
        return
    if f"[{GROUP}]" in text:
        yield from _group(text.splitlines())


def _group(lines: Iterable[str]) -> Iterator[tuple[str, Ref]]:
    inside = False
    for line in map(str.strip, lines):
        if line.startswith("["):
            inside = line == f"[{GROUP}]"
        elif inside and "=" in line and not line.startswith("#"):
            name, _, ref = line.partition("=")
            yield name.strip(), ref.partition("[")[0].strip()

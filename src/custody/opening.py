"""An application in a process: what it is opened with, what it answers with, and the small values that it tells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:  # whoever only reads a configuration does without the engine
    from custody.border.egress.allowance import Rules
    from custody.kernel.engine.kinds import Chore, Kind
    from custody.kernel.model.job import Job
    from custody.kernel.model.why import Reason
    from custody.kernel.operations.findings import Finding
    from custody.kernel.stores import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """The process that opens an application: one that works, one that shows pages, both, or one that only looks, for
    which nothing is probed and nothing is made."""

    home: Path  # the folder of custody.toml
    works: bool = False  # its kinds and chores are wanted
    shows: bool = False  # its pages are served: what they need is wanted, as `view`
    place: str = ""  # the working disk of this process, where jobs of one place are claimed
    network: Rules | None = None  # for sandboxes that have a way out
    secret: Path | None = None  # the installation's, if it is not where it is configured
    collections: Callable[[], Sequence[str]] = tuple  # names that configurations know, of all applications


@dataclass(frozen=True, slots=True)
class Gauge:
    """A number that those who watch over an installation scrape, by the values of its labels."""

    name: str
    about: str
    labels: tuple[str, ...]
    values: Iterable[tuple[tuple[str, ...], float]]


@dataclass(frozen=True, slots=True)
class Folder:
    """A file or folder that custody.toml names, or that an application always makes, and who may write to it.

    `closed`: sandboxes write there; nobody but the worker enters it, and a wider one is closed. `ours`: nobody else may
    write to it; an empty one is closed, and another is refused. `read`: this program does not write there, or once.
    """

    key: str  # as custody.toml names it: "ingest.work"
    path: Path
    rule: Literal["closed", "ours", "read"]
    kept: bool = False  # something is kept there that is nobody else's to read
    shared: str = ""  # the name under which everybody may read it


def _as_it_is(job: Job, reasons: Sequence[Reason], /) -> Sequence[Reason]:
    return reasons


def _nothing(*_: object) -> tuple[()]:
    return ()


def _close() -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """An application in this process."""

    kinds: tuple[Kind, ...] = ()
    chores: tuple[Chore, ...] = ()
    why: Callable[[Job, Sequence[Reason]], Sequence[Reason]] = _as_it_is  # given what the queue says of its job
    findings: Callable[[bool], Iterable[Finding]] = _nothing  # for the doctor; True: put right what can be
    gauges: Callable[[], Iterable[Gauge]] = _nothing  # for metrics
    view: Any = None  # for its own pages, which know what it is; None where it is not configured
    close: Callable[[], None] = _close


Open = Callable[["Store", Any, Here], Opened]
"""`open` of an application: the store, its table of custody.toml (None: there is no custody.toml), and where."""


class Table:
    """A table of custody.toml that says something to others, too; whatever does not is a dataclass and no more."""

    __slots__ = ()

    def working_place(self) -> str:
        """The name of this machine's working disk, where jobs of one place are claimed."""
        return ""

    def signing_secret(self) -> Path | None:
        """Where the installation's secret is: what signs what others are to believe."""
        return None

    def collections(self, home: Path) -> Iterable[str]:
        """Names that rights can be given in, of which nothing may have come in yet."""
        return ()

    def roots(self, home: Path) -> Mapping[str, Path]:
        """Folders below which items may lie, by name."""
        return {}


@dataclass(frozen=True, slots=True)
class Scope:
    """Something that people hold besides what every queue knows."""

    pairs: Callable[[str], Sequence[tuple[str, str]]]  # its name -> every (scope, name) that the queue knows it by
    doubt: Callable[[Any, Path, str], str] = lambda config, home, name: ""  # why the name may be a slip


class OpenScheme(Protocol):
    """Opens a store at such an address; `config` is the application's table, None where there is no custody.toml."""

    def __call__(
        self, url: str, config: Any, lease: float, *, place: str, existing: bool
    ) -> AbstractContextManager[Store]: ...


@dataclass(frozen=True, slots=True)
class Scheme:
    """Stores whose addresses begin so."""

    open: OpenScheme
    examine: Callable[[str, bool], Iterable[Finding]] = _nothing  # (address, put it right?): for the doctor

"""Who may make a kind of job, what its payload looks like, and on whose behalf it is worked on.

A kind belongs to an application, which alone makes its jobs; or it is open: a program of one's own (`--exec`, `--load`)
does the work, and whoever may submit may ask for it. A word from outside is a wish: what an application's job says is
held against its shape when it is made and again when it is claimed, and then against what the store knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

from custody.errors import BadInput, Unsafe
from custody.formats.shape import Check
from custody.kernel.model.job import Job, NewJob
from custody.kernel.model.names.names import fault, spelled

Verify = Callable[[Any, Job], str]
"""(store, job) → nothing, or why the job cannot have been made by its application."""
Behalf = Literal["submitter", "parent", "system"]
OWN_KIND: Final = "`custody worker run --exec KIND=COMMAND` offers a kind of one's own"


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """One entry for a kind, or for all kinds below a prefix that ends with /."""

    kind: str
    shape: Check | None = None  # of the payload; None: anything, which only open kinds may have
    behalf: Behalf = "submitter"
    verify: Verify | None = None  # against what is true in the store, at claim
    is_open: bool = False  # made from outside
    instead: str = ""  # what to do from outside, for a hint

    def covers(self, kind: str) -> bool:
        return kind.startswith(self.kind) if self.kind.endswith("/") else kind == self.kind

    def fault(self, payload: object) -> str:
        """What is wrong with a payload; empty when nothing is."""
        return self.shape(payload) if self.shape else ""

    def checked(self, job: NewJob) -> NewJob:
        """The job as its application made it, or a typed error: a mistake is found where it is made."""
        if told := self.fault(job.payload):
            raise BadInput(f"the payload of {job.kind} {told}", code="job.shape", where="job payload")
        return job


def open_maker(kind: str) -> Maker:
    return Maker(kind=kind, is_open=True)


@dataclass(frozen=True, slots=True)
class Makers:
    """All entries of all applications."""

    entries: Sequence[Maker]

    def of(self, kind: str) -> Maker | None:
        return next((maker for maker in self.entries if maker.covers(kind)), None)

    def owner(self, kind: str) -> Maker | None:
        """Whose family a kind is of: an application's prefix is its own, also where it has no kind of that name (yet).
        A kind with * at its end stands for all that begin so."""
        stem = kind.removesuffix("*")
        for maker in self.entries:
            family = f"{maker.kind.partition('/')[0]}/"
            mine = maker.kind if "/" not in maker.kind else family
            if kind == maker.kind or kind.startswith(family) or (stem != kind and (mine + "/").startswith(stem)):
                return maker
        return None

    def is_free(self, kind: str) -> bool:
        """Is it nobody's, so that whoever is outside may ask for it?"""
        return self.owner(kind) is None

    def must_be_free(self, kind: str, where: str = "kind") -> None:
        """Refuse an application's kind, saying how its work is asked for; and what only looks like one."""
        if maker := self.owner(kind):
            raise BadInput(
                f"{kind} jobs are made by their application",
                code="job.kind",
                where=where,
                hint=maker.instead or OWN_KIND,
            )
        if told := fault(kind):
            raise BadInput(f"{kind[:100]!r} is no name for a kind: it {told}", code="job.kind", where=where)
        if maker := self._twin(kind):
            raise BadInput(
                f"{kind[:100]!r} looks like {maker.kind}, and is another name",
                code="job.kind",
                where=where,
                hint="a kind of one's own has a name of its own",
            )

    def is_gone(self, kind: str) -> bool:
        """Of an application's family, and nothing that it makes: made by another version, and no worker will come."""
        return self.owner(kind) is not None and self.of(kind) is None

    def _twin(self, kind: str) -> Maker | None:
        looks = _looks(kind)
        families = ((maker, _looks(maker.kind), _looks(maker.kind.partition("/")[0]) + "/") for maker in self.entries)
        return next((maker for maker, own, family in families if looks == own or looks.startswith(family)), None)

    def must_be_decided(self, kinds: Iterable[tuple[str, Maker | None]]) -> None:
        """Refuse to start when a worker would serve what nobody decided about; each kind with the maker it has."""
        undecided = sorted({kind for kind, maker in kinds if not self._is_decided(kind, maker)})
        if undecided:
            raise Unsafe(
                f"nobody decided who may make {', '.join(undecided)}",
                code="kinds.undecided",
                hint="a Maker in the application's makers.py",
            )

    def _is_decided(self, kind: str, maker: Maker | None) -> bool:
        if maker is None:
            return False
        if maker.is_open:
            return self.owner(kind) is None
        return maker in self.entries and maker.covers(kind)


@lru_cache(4096)
def _looks(kind: str) -> str:
    return spelled(kind)


def is_among(kind: str, offered: Iterable[str]) -> bool:
    """Is a kind one of those that are open? One with * at its end stands for all that begin so."""
    return any(kind == one or (one.endswith("*") and kind.startswith(one[:-1])) for one in offered)

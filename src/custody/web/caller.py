"""Who is asking: a name for the history, roles, and the collections they may see.

A role counts in all of the caller's collections, or in a single one (`operator@maps`). What a request sees is what
lies where its caller has a role that the request needs; the gate says which those are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from custody.model.acting import Acting
from custody.model.errors import NotFound
from custody.model.job import Job

ROLES: Final = ("admin", "operator", "depositor", "worker", "reader")
ALL: Final = "*"
IN: Final = "@"


@dataclass(frozen=True, slots=True)
class Caller:
    name: str
    roles: frozenset[str]
    collections: frozenset[str] | None  # where they count; None: everywhere
    csrf: str = ""  # what a form of this session must bring along
    session: bool = False  # came with a cookie, so forms need that
    token: int = 0
    also: frozenset[tuple[str, str]] = frozenset()  # roles in single collections besides
    needs: frozenset[str] = frozenset(ROLES)  # what this request needs one of
    identity: str = ""  # who it is, whatever it is called: token:12; never two callers' one

    @property
    def acting(self) -> Acting:
        """Who acts when this caller has something done."""
        return Acting(f"{self.identity}/{self.name}", self.name)

    @property
    def seen(self) -> frozenset[str] | None:
        """The collections whose things this request may touch; None for all."""
        return self.where(self.needs) if self.also else self.collections

    @property
    def sees_all(self) -> bool:
        return self.seen is None

    @property
    def scope(self) -> str:
        """As the statements take it: * or names between spaces."""
        seen = self.seen
        return ALL if seen is None else f" {' '.join(sorted(seen))} "

    @property
    def granted(self) -> tuple[str, ...]:
        """Its roles as a token keeps them."""
        return tuple(sorted({*self.roles, *(f"{role}{IN}{name}" for role, name in self.also)}))

    def where(self, roles: Collection[str]) -> frozenset[str] | None:
        """The collections in which it has one of these roles; None for all."""
        if not self.roles.isdisjoint(roles) and self.collections is None:
            return None
        own = self.collections or frozenset() if not self.roles.isdisjoint(roles) else frozenset()
        return own | {name for role, name in self.also if role in roles}

    def may(self, roles: Collection[str], collection: str) -> bool:
        """It has one of these roles there."""
        where = self.where(roles)
        return where is None or collection in where

    def has(self, roles: Iterable[str]) -> bool:
        """It has one of these roles somewhere."""
        return not {*self.roles, *(role for role, _ in self.also)}.isdisjoint(roles)

    def sees(self, collection: str) -> bool:
        seen = self.seen
        return seen is None or collection in seen

    def must_see(self, job: Job) -> Job:
        """The job, or the answer that someone gets who asks for one that is not there."""
        if self.sees(job.collection):
            return job
        raise NotFound(f"there is no job {job.id}", code="job.unknown", hint="`custody job list` shows what there is")


def split(granted: Iterable[str]) -> tuple[frozenset[str], frozenset[tuple[str, str]]]:
    """Roles as a token keeps them, as a caller has them."""
    given = list(granted)
    plain = frozenset(each for each in given if IN not in each)
    return plain, frozenset((role, name) for role, _, name in (each.partition(IN) for each in given) if name)

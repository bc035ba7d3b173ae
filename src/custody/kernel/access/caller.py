"""Who is asking: a name for the history, roles, and the collections they may see.

A role counts in all of the caller's collections, or in a single one (`operator@maps`). What a request sees is what
lies where its caller has the right that the request needs, or what the caller has made where the right goes no further;
the gate says which right that is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from custody.errors import NotFound
from custody.kernel.access.rights import HOOK, ROLES
from custody.kernel.model.authority.acting import Acting, identity_of
from custody.kernel.model.job import Job

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
    right: str = "self:use"  # what this request needs
    identity: str = ""  # who it is, whatever it is called: token:12; never two callers' one
    archives: frozenset[str] = frozenset()  # those that it may tell of as a hook

    @property
    def acting(self) -> Acting:
        """Who acts when this caller has something done."""
        return Acting(f"{self.identity}/{self.name}", self.agent)

    @property
    def agent(self) -> str:
        """As the history names it: with the token, since the next one may be called the same. Somebody whom an issuer
        vouched for, or who is alone with a demo, has a name that says who it is."""
        return f"{self.name} ({self.identity})" if self.identity.startswith("token:") else self.name

    @property
    def seen(self) -> frozenset[str] | None:
        """The collections whose things this request may touch, whoever made them; None for all."""
        return self.where(self.right)

    @property
    def sees_all(self) -> bool:
        return self.seen is None

    @property
    def scope(self) -> str:
        """As the statements take it: * or names between spaces."""
        return _scope(self.seen)

    @property
    def own_scope(self) -> str:
        """Where it sees what it has made."""
        return _scope(self.own_where(self.right))

    @property
    def looks_in(self) -> frozenset[str] | None:
        """The collections in which this request sees anything at all; None for all."""
        seen, own = self.seen, self.own_where(self.right)
        return None if seen is None or own is None else seen | own

    @property
    def granted(self) -> tuple[str, ...]:
        """Its roles as a token keeps them."""
        return tuple(sorted({*self.roles, *(f"{role}{IN}{name}" for role, name in self.also)}))

    @property
    def worth(self) -> tuple[tuple[str, ...], frozenset[str] | None, frozenset[str]]:
        """All that it gives: whoever has another is asked anew who they are."""
        return self.granted, self.collections, self.archives

    def where(self, right: str) -> frozenset[str] | None:
        """The collections in which it has this right for everything; None for all."""
        return self._where({role for role, has in ROLES.items() if right in has.rights})

    def own_where(self, right: str) -> frozenset[str] | None:
        """The collections in which it has this right for what it has made."""
        return self._where({role for role, has in ROLES.items() if right in has.own and role != HOOK})

    def _where(self, roles: set[str]) -> frozenset[str] | None:
        if self.roles.isdisjoint(roles):
            return frozenset(name for role, name in self.also if role in roles)
        if self.collections is None:
            return None
        return self.collections | {name for role, name in self.also if role in roles}

    def may(self, right: str, collection: str) -> bool:
        """It has this right there, whoever made what is there."""
        where = self.where(right)
        return where is None or collection in where

    def may_tell_of(self, archive: str) -> bool:
        """An archive's collection is called like it; a hook's token names the archives themselves."""
        return self.may("archive:notify", archive) or (HOOK in self.roles and archive in self.archives)

    def has(self, right: str) -> bool:
        """It has this right somewhere, if only for what is its own."""
        roles = {*self.roles, *(role for role, _ in self.also)}
        return any(right in ROLES[role].rights | ROLES[role].own for role in roles if role in ROLES)

    def sees(self, collection: str) -> bool:
        seen = self.seen
        return seen is None or collection in seen

    def sees_job(self, job: Job) -> bool:
        if self.sees(job.collection):
            return True
        own = self.own_where(self.right)
        return (own is None or job.collection in own) and self.made(job)

    def made(self, job: Job) -> bool:
        """The store wrote down who asked for it."""
        return bool(self.identity) and identity_of(job.by) == self.identity

    def must_see(self, job: Job) -> Job:
        """The job, or the answer that someone gets who asks for one that is not there."""
        if self.sees_job(job):
            return job
        raise NotFound(f"there is no job {job.id}", code="job.unknown", hint="`custody job list` shows what there is")


def _scope(names: frozenset[str] | None) -> str:
    """Nowhere is no name at all: two spaces would be the name of what belongs to no collection."""
    if names is None:
        return ALL
    return f" {' '.join(sorted(names))} " if names else ""


def split(granted: Iterable[str]) -> tuple[frozenset[str], frozenset[tuple[str, str]]]:
    """Roles as a token keeps them, as a caller has them."""
    given = list(granted)
    plain = frozenset(each for each in given if IN not in each)
    return plain, frozenset((role, name) for role, _, name in (each.partition(IN) for each in given) if name)

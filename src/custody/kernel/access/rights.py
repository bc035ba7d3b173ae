"""What a role may do: rights, each a noun and a verb. Routes ask for a right (rules.py), tokens have roles.

A right counts in all of a role's collections; some count only for what the caller has made (or, of a hook, for the
archives that its token names). Whoever needs less than a role gives has a smaller one to ask for: a hook's token lies
in a repository, Prometheus' in its configuration, and neither place is a safe.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from custody.kernel.applications import gathered


@dataclass(frozen=True, slots=True)
class Role:
    says: str  # for people
    rights: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()  # only for what the caller has made, or is named for


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


READ: Final = _set(
    "overview:read job:read item:read hold:read worker:read lease:read schedule:read event:read history:read bulk:read "
    "search:read metrics:read stream:read self:use"
) | frozenset(gathered(lambda part: part.reads))
OPERATE: Final = (
    READ
    | _set("job:submit job:act hold:set schedule:set history:verify bulk:ask")
    | frozenset(gathered(lambda part: part.acts))
)
ADMINISTER: Final = OPERATE | _set("lease:break")

ROLES: Final[Mapping[str, Role]] = {
    "admin": Role("also break leases", ADMINISTER),
    "operator": Role("also hold, release, resume, cancel, delete, submit, schedule", OPERATE),
    "reader": Role("look at everything in its collections", READ),
    "depositor+": Role(
        "hand in to its collections, see all batches there",
        _set("batch:deposit batch:read batch:link self:use"),
        _set("stream:read"),
    ),
    "depositor": Role(
        "hand in to its collections, see its own batches",
        _set("batch:deposit self:use"),
        _set("batch:read batch:link stream:read"),
    ),
    "submitter": Role(
        "submit jobs of open kinds, see its own", _set("job:submit self:use"), _set("job:read stream:read")
    ),
    "hook": Role("tell of new revisions of the archives that it names", own=_set("archive:notify")),
    "metrics": Role("scrape numbers", _set("metrics:read")),
}
HOOK: Final = "hook"
ONCE: Final[Mapping[str, tuple[str, ...]]] = {"worker": ("submitter", HOOK, "metrics")}
"""Roles that there were, and into which smaller ones each was split."""


def holders(right: str) -> frozenset[str]:
    """The roles that have a right, if only for what is their own."""
    return frozenset(name for name, role in ROLES.items() if right in role.rights | role.own)


def is_smaller(role: str, than: str) -> bool:
    """Does it give nothing that the other does not?"""
    if role in ONCE.get(than, ()):
        return True
    if than not in ROLES:
        return False
    less, more = ROLES[role], ROLES[than]
    return less.rights <= more.rights and less.own <= more.rights | more.own

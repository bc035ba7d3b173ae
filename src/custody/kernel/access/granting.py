"""What a token gives: roles, where they count, for which archives; and what is less than that."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from custody.errors import BadInput, Refused
from custody.kernel.access.caller import ALL, IN
from custody.kernel.access.rights import HOOK, ROLES, is_smaller

_COLLECTION = re.compile(r"[^\s*]{1,128}")
BY_NAME: Final = (HOOK, "metrics")
"""Roles that count nowhere in particular: in the archives that are named, or in numbers about everything."""


@dataclass(frozen=True, slots=True)
class Token:
    id: int
    name: str
    roles: tuple[str, ...]  # some perhaps in a single collection: operator@maps
    collections: tuple[str, ...]  # ("*",) for all
    archives: tuple[str, ...]  # those that a hook may tell of
    identity: str  # of somebody whom another vouches for; empty: the token's own
    login: int | None
    made_by: str
    created: int
    expires: int
    last_used: int | None
    revoked: int | None
    was: str  # a role that there is no more: somebody should say what it needs

    @property
    def who(self) -> str:
        """Of no two callers the same, whatever they are called; a session is its token."""
        return self.identity or f"token:{self.login or self.id}"


@dataclass(frozen=True, slots=True)
class Granting:
    """What a token is to give."""

    roles: Sequence[str]
    collections: Sequence[str] = (ALL,)
    archives: Sequence[str] = ()


def check_role(given: str) -> None:
    """One of the roles, or one in a single collection."""
    role, mark, collection = given.partition(IN)
    if role not in ROLES:
        raise BadInput(f"there is no role {role!r}", code="token.role", hint=", ".join(ROLES))
    if mark and role in BY_NAME:
        raise BadInput(f"{role} is no role in a collection", code="token.role", hint="name the archives of a hook")
    if mark and (IN in collection or not _COLLECTION.fullmatch(collection)):
        raise BadInput(f"cannot read the collection of {given!r}", code="token.role", hint=f"such as {role}@maps")


def check_granting(granting: Granting) -> None:
    if not granting.roles:
        raise BadInput("a token needs a role", code="token.role", hint=", ".join(ROLES))
    for role in granting.roles:
        check_role(role)
    names = granting.collections
    if not names or not all(each == ALL or _COLLECTION.fullmatch(each) for each in names):
        raise BadInput("cannot read the collections", code="token.collections", hint="names without spaces, or *")
    if "metrics" in granting.roles and ALL not in names:
        raise BadInput(
            "numbers are about all collections", code="token.collections", hint="metrics without --collection"
        )
    if not all(_COLLECTION.fullmatch(each) for each in granting.archives):
        raise BadInput("cannot read the archives", code="token.archives", hint="names without spaces")
    if (HOOK in granting.roles) != bool(granting.archives):
        raise BadInput(
            "a hook names its archives, and only a hook does", code="token.archives", hint="--role hook --archive book"
        )


def must_be_less(old: Token, to: Granting) -> None:
    """Nothing in `to` that the token did not give before: whoever should get more gets another token."""
    submitting = [role.partition(IN) for role in old.roles if role.partition(IN)[0] == "submitter"]
    before = (*old.roles, *(f"{old.was}{at}{within}" for _, at, within in submitting if old.was))
    for role in to.roles:
        if not any(_is_less(role, more, to.archives) for more in before):
            raise Refused(
                f"{role} is more than {' and '.join(old.roles)}", code="token.wider", hint="`custody token create`"
            )
    if ALL not in old.collections:
        single = {role.partition(IN)[2] for role in old.roles if IN in role}
        foreign = {*to.collections, *({*to.archives} - {*old.archives} - single)} - {*old.collections}
        if foreign:
            raise Refused(
                f"the token says nothing of {', '.join(sorted(foreign))}",
                code="token.wider",
                hint="`custody token create`",
            )


def _is_less(role: str, more: str, archives: Sequence[str]) -> bool:
    """A hook counts in the archives that it names, each of which is a collection of that name."""
    (name, _, within), (of, _, wide) = role.partition(IN), more.partition(IN)
    places = {*archives} if name == HOOK else {within}
    return is_smaller(name, of) and (not wide or places <= {wide})

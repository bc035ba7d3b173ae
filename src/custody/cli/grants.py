"""What archives and robots may have that they ask for: granted, withdrawn and listed by an operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Annotated

import typer

from custody.border.egress.allowance import check_grant, read_place
from custody.cli import runtime
from custody.cli.times import ago
from custody.errors import BadInput, NotFound
from custody.kernel.model.authority.grant import NETWORK, SECRET, Grant
from custody.kernel.stores import Store

What = Annotated[str, typer.Argument(help="network, secret, repository, collection or hooks")]
Value = Annotated[
    str,
    typer.Argument(
        help="HOST or HOST:PORT; the secret's NAME, or NAME@BRANCH; uid:N, gid:N, anyone: whose the repository is; "
        "deposits: they may have the archive's name, and be seen and changed by the same people; a FOLDER or file that "
        "the repository's hooks may read when a task commits"
    ),
]
Ended = Annotated[bool, typer.Option("--ended", help="also those that were withdrawn")]

Anything = Annotated[bool, typer.Option("--anything", help="with network: `*` is meant, every public host")]

Check = Callable[[Store, str, str], None]
Checks = Mapping[str, Check]
"""What can be granted to such a one, and what is asked first."""


def give(
    store: Store, subject: str, what: str, value: str, why: str, *, checks: Checks, anything: bool = False
) -> None:
    """Grant it, if that is something which can be granted to such a one."""
    name = subject.partition("/")[2]
    _must_be_one(checks, subject, what)
    checks[what](store, name, value)
    if what == NETWORK:
        value = check_grant(value, anything)
    grant = store.grants.grant(subject, what, value, runtime.me(), why=why)
    print(f"{name} has {what} {value}, granted by {grant.by} ({grant.why})")


def take_back(store: Store, subject: str, what: str, value: str, why: str, *, checks: Checks) -> None:
    """Withdraw it, and say what else still gives it; what was not granted is an error, since it is a slip."""
    name = subject.partition("/")[2]
    _must_be_one(checks, subject, what)
    value = str(read_place(value)) if what == NETWORK else value
    done = store.grants.withdraw(subject, what, value, runtime.me(), why=why)
    rest = store.grants.of(subject, what)
    still = ", ".join(each for each in rest if _gives(what, each, value))
    if not done:
        hint = f"what it has: {', '.join(rest)}" if rest else f"it has no {what} at all"
        also = f", which it has by {still}" if still else ""
        raise NotFound(f"{value} was not granted to {name} as {what}{also}", code="grant.none", hint=hint)
    print(f"{name} no longer has {what} {value} ({why})")
    if still:
        print(f"still open by another grant: {still}")


def _must_be_one(checks: Checks, subject: str, what: str) -> None:
    if what not in checks:
        raise BadInput(f"{what!r} cannot be granted to {subject}", code="grant.what", hint=", ".join(checks))


def _gives(what: str, grant: str, value: str) -> bool:
    """Does a grant that is left give it, or a part of it?"""
    if what == NETWORK:
        one, other = read_place(grant), read_place(value)
        return one.covers(other) or other.covers(one)
    (name, _, branches), (taken, _, branch) = grant.partition("@"), value.partition("@")
    return what == SECRET and name == taken and (not branches or not branch or fnmatchcase(branch, branches))


def tell(found: Sequence[Grant], now: int, as_json: bool, nothing: str) -> None:
    if as_json:
        runtime.emit(found)
        return
    columns = {
        "what": lambda grant: grant.what,
        "value": lambda grant: grant.value,
        "by": lambda grant: grant.by,
        "since": lambda grant: ago(grant.at, now) + " ago",
        "withdrawn": lambda grant: ago(grant.ended, now) + " ago" if grant.ended else "",
        "why": lambda grant: grant.why,
    }
    runtime.table(columns, found, nothing)

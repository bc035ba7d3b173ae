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
from custody.kernel.model.authority.grant import COLLECTION, NETWORK, REPOSITORY, SECRET, Grant
from custody.kernel.stores import Store
from custody.kernel.stores.registers.collections import DEPOSITS
from custody.workflows.archives.table import check_owner
from custody.workflows.tasks import secrets

What = Annotated[str, typer.Argument(help="network, secret, repository or collection")]
Value = Annotated[
    str,
    typer.Argument(
        help="HOST or HOST:PORT; the secret's NAME, or NAME@BRANCH; uid:N, gid:N, anyone: whose the repository is; "
        "deposits: they may have the archive's name, and be seen and changed by the same people"
    ),
]
Ended = Annotated[bool, typer.Option("--ended", help="also those that were withdrawn")]

Anything = Annotated[bool, typer.Option("--anything", help="with network: `*` is meant, every public host")]

Check = Callable[[Store, str, str], None]
OF_ARCHIVES: Mapping[str, Check] = {
    SECRET: secrets.check_grant,
    NETWORK: lambda *_: None,
    REPOSITORY: check_owner,
    COLLECTION: lambda _, name, value: _check_collection(name, value),
}
OF_ROBOTS: Mapping[str, Check] = {NETWORK: lambda *_: None}


def _check_collection(name: str, value: str) -> None:
    if value != DEPOSITS:
        raise BadInput(f"{name} shares its collection with {DEPOSITS} only", code="grant.value", hint=DEPOSITS)


def give(store: Store, subject: str, what: str, value: str, why: str, *, anything: bool = False) -> None:
    """Grant it, if that is something which can be granted to such a one."""
    name = subject.partition("/")[2]
    checks = _checks(subject, what)
    checks[what](store, name, value)
    if what == NETWORK:
        value = check_grant(value, anything)
    grant = store.grants.grant(subject, what, value, runtime.me(), why=why)
    print(f"{name} has {what} {value}, granted by {grant.by} ({grant.why})")


def take_back(store: Store, subject: str, what: str, value: str, why: str) -> None:
    """Withdraw it, and say what else still gives it; what was not granted is an error, since it is a slip."""
    name = subject.partition("/")[2]
    _checks(subject, what)
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


def _checks(subject: str, what: str) -> Mapping[str, Check]:
    checks = OF_ARCHIVES if subject.startswith("archive/") else OF_ROBOTS
    if what not in checks:
        raise BadInput(f"{what!r} cannot be granted to {subject}", code="grant.what", hint=", ".join(checks))
    return checks


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

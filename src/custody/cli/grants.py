"""What archives and robots may have that they ask for: granted, withdrawn and listed by an operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import typer

from custody.border.egress import check_grant
from custody.cli import running
from custody.cli.when import ago
from custody.model.errors import BadInput
from custody.model.grant import NETWORK, REPOSITORY, SECRET, Grant
from custody.stores import Store
from custody.workflows import secrets
from custody.workflows.archives import check_owner

What = Annotated[str, typer.Argument(help="network, secret or repository")]
Value = Annotated[
    str, typer.Argument(help="HOST or HOST:PORT; the secret's NAME, or NAME@BRANCH; uid:N, who owns the repository")
]
Ended = Annotated[bool, typer.Option("--ended", help="also those that were withdrawn")]

Anything = Annotated[bool, typer.Option("--anything", help="with network: `*` is meant, every public host")]

Check = Callable[[Store, str, str], None]
OF_ARCHIVES: Mapping[str, Check] = {
    SECRET: secrets.check_grant,
    NETWORK: lambda *_: None,
    REPOSITORY: check_owner,
}
OF_ROBOTS: Mapping[str, Check] = {NETWORK: lambda *_: None}


def give(store: Store, subject: str, what: str, value: str, why: str, *, anything: bool = False) -> None:
    """Grant it, if that is something which can be granted to such a one."""
    sort, _, name = subject.partition("/")
    checks = OF_ARCHIVES if sort == "archive" else OF_ROBOTS
    if what not in checks:
        raise BadInput(f"{what!r} cannot be granted to {subject}", code="grant.what", hint=", ".join(checks))
    checks[what](store, name, value)
    if what == NETWORK:
        value = check_grant(value, anything)
    grant = store.grants.grant(subject, what, value, running.me(), why)
    print(f"{name} has {what} {value}, granted by {grant.by} ({grant.why})")


def take_back(store: Store, subject: str, what: str, value: str, why: str) -> None:
    name = subject.partition("/")[2]
    value = check_grant(value, anything=True) if what == NETWORK else value
    done = store.grants.withdraw(subject, what, value, running.me(), why)
    print(f"{name} no longer has {what} {value} ({why})" if done else f"{name} did not have {what} {value}")


def tell(found: Sequence[Grant], now: int, as_json: bool, nothing: str) -> None:
    if as_json:
        running.emit(found)
        return
    columns = {
        "what": lambda grant: grant.what, "value": lambda grant: grant.value, "by": lambda grant: grant.by,
        "since": lambda grant: ago(grant.at, now) + " ago",
        "withdrawn": lambda grant: ago(grant.ended, now) + " ago" if grant.ended else "",
        "why": lambda grant: grant.why,
    }  # fmt: skip
    running.table(columns, found, nothing)

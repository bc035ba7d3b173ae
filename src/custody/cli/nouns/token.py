"""custody token: who may use the API and the dashboard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from custody.cli import runtime
from custody.cli.runtime import AsJson, StoreUrl, Why
from custody.cli.times import ago, moment
from custody.cli.told_commands import aimed
from custody.config import find, profile_names
from custody.kernel.access.caller import ALL, IN
from custody.kernel.access.granting import Granting, Token
from custody.kernel.access.rights import HOOK, ROLES
from custody.kernel.access.tokens import Tokens
from custody.kernel.model.job import Filter
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.registers.collections import is_archive, others_in
from custody.workflows.archives.table import Archives

app = runtime.noun("Who may use the API and the dashboard.")
Role = Annotated[
    list[str], typer.Option(help=f"{', '.join(ROLES)}; or in one collection: operator@maps; may be repeated")
]
Collection = Annotated[list[str] | None, typer.Option(help="only this collection; may be repeated")]
Archive = Annotated[list[str] | None, typer.Option(help="of a hook: tells of this archive only; may be repeated")]


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="whose it is: the name in the history")],
    role: Role,
    collection: Collection = None,
    archive: Archive = None,
    days: Annotated[float, typer.Option(help="how long it is good for")] = 90,
    config: Annotated[Path | None, typer.Option(envvar="CUSTODY_CONFIG", help="custody.toml")] = None,
    store: StoreUrl = runtime.DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Make a token. Its secret is shown once, and kept nowhere."""
    with open_store(store) as opened:
        given = collection or (archive if list(role) == [HOOK] and archive else [ALL])
        others = [str(each.id) for each in Tokens(opened).good() if each.name == name]
        made, secret = Tokens(opened).create(name, role, given, days, who=runtime.me(), archives=archive or [])
        unknown, shared = _unknown(opened, made, config), _shared(opened, made, config)
    if json:
        runtime.emit({"token": made, "secret": secret})
        return
    print(secret)
    typer.echo(f"token {made.id} of {name}, good until {moment(made.expires)} UTC; it is shown only now", err=True)
    if others:
        typer.echo(aimed(_renewal(name, others)), err=True)
    for what in unknown:
        typer.echo(f"there is no {what} yet: is the name right?", err=True)
    for what in shared:
        typer.echo(what, err=True)


def _renewal(name: str, others: Sequence[str]) -> str:
    """Two tokens of one name are one person's or program's, and the history says which acted."""
    tokens = f"token {others[0]}" if len(others) == 1 else f"tokens {', '.join(others)}"
    revoke = "; ".join(f"custody token revoke {each}" for each in others)
    return f"there is another good token of this name ({tokens}): if this renews it for {name}, end that: {revoke}"


def _unknown(store: Store, token: Token, config: Path | None) -> list[str]:
    """What a token names and nobody has heard of: a slip, or something that is yet to be made."""
    found, archives = find(config), {kept.name for kept in Archives(store).list()}
    profiles = {*profile_names(found)}
    missing = [
        each
        for each in sorted(_named(token) - archives - profiles)
        if not store.queue.list(Filter(collection=each), limit=1)
    ]
    made = [f"collection {each}" for each in missing if not store.records.items(collection=each, limit=1)]
    return [*made, *(f"archive {each}" for each in sorted({*token.archives} - archives))]


def _named(token: Token) -> set[str]:
    single = (role.partition(IN)[2] for role in token.roles if IN in role)
    return {*token.collections, *single} - {ALL, *token.archives}


def _shared(store: Store, token: Token, config: Path | None) -> list[str]:
    """Collections of this token that are of two applications: it has its rights in both."""
    profiles = profile_names(find(config))
    return [
        f"{each} is an archive and besides: {others}; this token counts in both"
        for each in sorted(_named(token))
        if is_archive(store, each) and (others := others_in(store, each, profiles))
    ]


@app.command("list")
def list_(store: StoreUrl = runtime.DEFAULT_STORE, json: AsJson = False) -> None:
    """Every token, without its secret, and when it was last used."""
    with open_store(store) as opened:
        tokens, now = Tokens(opened).list(), opened.now()
    if json:
        runtime.emit(tokens)
        return
    columns = {
        "token": lambda token: token.id,
        "name": lambda token: token.name,
        "roles": _roles,
        "collections": lambda token: " ".join(token.collections),
        "made": lambda token: ago(token.created, now) + " ago",
        "by": lambda token: token.made_by,
        "last used": lambda token: f"{ago(token.last_used, now)} ago" if token.last_used else "never",
        "state": lambda token: _state(token, now),
    }
    runtime.table(columns, tokens, "no tokens: custody token create NAME --role reader")


def _roles(token: Token) -> str:
    """A hook with its archives."""
    named = f"({','.join(token.archives)})" if token.archives else ""
    return " ".join(f"{role}{named}" if role == HOOK else role for role in token.roles)


def _state(token: Token, now: int) -> str:
    if token.revoked:
        return "revoked"
    return f"until {moment(token.expires)}" if token.expires > now else "over"


@app.command()
def narrow(
    token: Annotated[int, typer.Argument(help="its number")],
    to: Annotated[list[str], typer.Option("--to", help="the smaller role; may be repeated")],
    collection: Collection = None,
    archive: Archive = None,
    why: Why = "",
    store: StoreUrl = runtime.DEFAULT_STORE,
) -> None:
    """Let a token give less than it did. Its secret stays good; sessions opened with it end."""
    with open_store(store) as opened:
        tokens = Tokens(opened)
        before = tokens.get(token)
        given = collection or (["*"] if "metrics" in to else before.collections)
        made = tokens.narrow(token, Granting(tuple(to), tuple(given), tuple(archive or ())), runtime.me(), why)
    print(f"token {token} of {made.name} is {_roles(made)} now")
    for lost in _given_up(before, made):
        print(lost)


def _given_up(before: Token, made: Token) -> Iterator[str]:
    """What a token gave and gives no more: roles, and where they count."""
    if roles := [role for role in before.roles if role not in made.roles]:
        yield f"it was {' '.join(roles)}, and is that no more"
    if ALL in before.collections and ALL not in made.collections:
        yield f"it counted in all collections, and counts in {' '.join(made.collections)} alone"
    elif (
        gone := [] if ALL in made.collections else [each for each in before.collections if each not in made.collections]
    ):
        yield f"it counted in {' '.join(gone)}, and does so no more"
    if archives := [each for each in before.archives if each not in made.archives]:
        yield f"it told of {' '.join(archives)}, and does so no more"


@app.command()
def revoke(
    token: Annotated[int, typer.Argument(help="its number")], why: Why = "", store: StoreUrl = runtime.DEFAULT_STORE
) -> None:
    """End a token and every session opened with it."""
    with open_store(store) as opened:
        revoked = Tokens(opened).revoke(token, runtime.me(), why)
    print(f"token {token} is revoked" if revoked else f"token {token}: nothing to do, it was revoked before")

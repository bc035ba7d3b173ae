"""custody token: who may use the API and the dashboard."""

from __future__ import annotations

from typing import Annotated

import typer

from custody.cli import running
from custody.cli.running import AsJson, StoreUrl, Why
from custody.cli.when import ago, moment
from custody.stores import open_store
from custody.web.caller import ALL, ROLES
from custody.web.tokens import Token, Tokens

app = running.noun("Who may use the API and the dashboard.")


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="whose it is: the name in the history")],
    role: Annotated[
        list[str], typer.Option(help=f"{', '.join(ROLES)}, or in one collection: operator@maps; may be repeated")
    ],
    collection: Annotated[list[str] | None, typer.Option(help="only this collection; may be repeated")] = None,
    days: Annotated[float, typer.Option(help="how long it is good for")] = 90,
    store: StoreUrl = running.DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Make a token. Its secret is shown once, and kept nowhere."""
    with open_store(store) as opened:
        made, secret = Tokens(opened).create(name, role, collection or [ALL], days, running.me())
    if json:
        running.emit({"token": made, "secret": secret})
        return
    print(secret)
    typer.echo(f"token {made.id} of {name}, good until {moment(made.expires)} UTC; it is shown only now", err=True)


@app.command("list")
def list_(store: StoreUrl = running.DEFAULT_STORE, json: AsJson = False) -> None:
    """Every token, without its secret."""
    with open_store(store) as opened:
        tokens, now = Tokens(opened).list(), opened.now()
    if json:
        running.emit(tokens)
        return
    columns = {
        "token": lambda token: token.id, "name": lambda token: token.name, "roles": lambda token: " ".join(token.roles),
        "collections": lambda token: " ".join(token.collections),
        "made": lambda token: ago(token.created, now) + " ago",
        "state": lambda token: _state(token, now),
    }  # fmt: skip
    running.table(columns, tokens, "no tokens: custody token create NAME --role reader")


def _state(token: Token, now: int) -> str:
    if token.revoked:
        return "revoked"
    return f"until {moment(token.expires)}" if token.expires > now else "over"


@app.command()
def revoke(
    token: Annotated[int, typer.Argument(help="its number")], why: Why = "", store: StoreUrl = running.DEFAULT_STORE
) -> None:
    """End a token and every session opened with it."""
    with open_store(store) as opened:
        revoked = Tokens(opened).revoke(token, running.me(), why)
    print(f"token {token} is revoked" if revoked else f"token {token}: nothing to do, it was revoked before")

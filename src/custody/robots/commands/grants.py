"""The verbs of `custody robot` by which an operator says where a robot may go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from custody.border.egress.allowance import waits_for
from custody.cli import grants, runtime
from custody.cli.grants import Anything, Ended
from custody.cli.runtime import AsJson, StoreUrl, Why
from custody.kernel.model.authority.grant import NETWORK
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.rules.items import subscriptions

Name = Annotated[str, typer.Argument(help="a robot's name")]
What = Annotated[str, typer.Argument(help="network")]
Value = Annotated[str, typer.Argument(help="HOST, HOST:PORT, http://HOST or *.DOMAIN")]


def grant(
    name: Name, what: What, value: Value, why: Why, anything: Anything = False, store: StoreUrl = runtime.DEFAULT_STORE
) -> None:
    """Let a robot have what its label asks for: a way to a host."""
    with open_store(store) as opened:
        grants.give(opened, f"robot/{name}", what, value, why=why, anything=anything)
        known = {robot for robot, _, _ in opened.db.read(subscriptions)}
    if name not in known:
        print(f"no robot {name} has run with this store yet")


def withdraw(name: Name, what: What, value: Value, why: Why, store: StoreUrl = runtime.DEFAULT_STORE) -> None:
    """Let it have that no longer."""
    with open_store(store) as opened:
        grants.take_back(opened, f"robot/{name}", what, value, why=why)


def list_grants(
    name: Name, ended: Ended = False, store: StoreUrl = runtime.DEFAULT_STORE, json: AsJson = False
) -> None:
    """What a robot was granted, by whom and why."""
    with open_store(store) as opened:
        found, now = opened.grants.list(f"robot/{name}", ended), opened.now()
    grants.tell(found, now, json, f"nothing is granted to {name}: custody robot grant {name} network HOST --why …")


def waiting(store: Store) -> dict[str, str]:
    """The robots that ask for what nobody has granted, and what to do."""
    asking = [(name, facts["network"]) for name, _, facts in store.db.read(subscriptions) if facts.get("network")]
    told = {
        name: waits_for(asked, store.grants.of(f"robot/{name}", NETWORK), f"robot/{name}") for name, asked in asking
    }
    return {name: text for name, text in told.items() if text}


VERBS: dict[str, Callable[..., None]] = {"grant": grant, "withdraw": withdraw, "grants": list_grants}

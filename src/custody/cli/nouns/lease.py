"""custody lease: who may act, and until when."""

from __future__ import annotations

from custody.cli import runtime
from custody.cli.open_store import open_store
from custody.cli.runtime import AsJson, StoreUrl, Why
from custody.cli.times import ago

app = runtime.noun("Who may act, and until when.")


@app.command("list")
def list_(store: StoreUrl = runtime.DEFAULT_STORE, json: AsJson = False) -> None:
    """Named leases that are held."""
    with open_store(store) as opened:
        leases, now = opened.leases.list(), opened.now()
    if json:
        runtime.emit(leases)
        return
    columns = {
        "lease": lambda lease: lease.name,
        "holder": lambda lease: lease.holder,
        "token": lambda lease: lease.token,
        "for": lambda lease: ago(lease.since, now),
        "left": lambda lease: f"{(lease.until - now) / 1e6:.0f} s" if lease.until > now else "ended",
    }
    runtime.table(columns, leases, "no name is held")


@app.command("break")
def break_(name: str, why: Why, store: StoreUrl = runtime.DEFAULT_STORE) -> None:
    """Take a lease away; whoever held it is fenced out."""
    with open_store(store) as opened:
        broken = opened.leases.take_away(name, runtime.me(), why)
    print(f"{name} is free" if broken else f"{name}: nothing to do, nobody holds it")

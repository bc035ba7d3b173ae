"""custody lease: who may act, and until when."""

from __future__ import annotations

from custody.cli import running
from custody.cli.opening import open_store
from custody.cli.running import AsJson, StoreUrl, Why
from custody.cli.when import ago

app = running.noun("Who may act, and until when.")


@app.command("list")
def list_(store: StoreUrl = running.DEFAULT_STORE, json: AsJson = False) -> None:
    """Named leases that are held."""
    with open_store(store) as opened:
        leases, now = opened.leases.list(), opened.now()
    if json:
        running.emit(leases)
        return
    columns = {
        "lease": lambda lease: lease.name, "holder": lambda lease: lease.holder, "token": lambda lease: lease.token,
        "for": lambda lease: ago(lease.since, now),
        "left": lambda lease: f"{(lease.until - now) / 1e6:.0f} s" if lease.until > now else "ended",
    }  # fmt: skip
    running.table(columns, leases, "no name is held")


@app.command("break")
def break_(name: str, why: Why, store: StoreUrl = running.DEFAULT_STORE) -> None:
    """Take a lease away; whoever held it is fenced out."""
    with open_store(store) as opened:
        broken = opened.leases.take_away(name, running.me(), why)
    print(f"{name} is free" if broken else f"{name}: nothing to do, nobody holds it")

"""custody store: where it is all kept."""

from __future__ import annotations

from custody.cli import running
from custody.cli.opening import open_store
from custody.cli.running import AsJson, StoreUrl

app = running.noun("Where it is all kept.")


@app.command()
def info(store: StoreUrl = running.DEFAULT_STORE, json: AsJson = False) -> None:
    """What kind of store this is, and how much is in it."""
    with open_store(store) as opened:
        counts = opened.queue.counts()
        facts = {"dialect": opened.db.dialect, "jobs": sum(count for *_, count in counts), "counts": counts}
    if json:
        running.emit(facts)
        return
    running.show([("store", facts["dialect"]), ("jobs", facts["jobs"])])
    columns = {"kind": lambda row: row[0], "state": lambda row: row[1], "jobs": lambda row: row[2]}
    running.table(columns, counts, "no jobs yet")


@app.command()
def migrate(store: StoreUrl = running.DEFAULT_STORE) -> None:
    """Bring the schema up to date. (Opening a store does so as well.)"""
    with open_store(store) as opened:
        print(f"the {opened.db.dialect} schema is up to date")

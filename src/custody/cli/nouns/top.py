"""custody top: a live view of the work, in the terminal."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from custody.cli import runtime
from custody.cli.runtime import StoreUrl
from custody.cli.times import ago
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.rows import job_from

if TYPE_CHECKING:
    from custody.web.queries.overview import Glance

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
MOST_ROWS = 12


@app.command()
def top(
    every: Annotated[float, typer.Option(help="seconds between looks")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="one look, then end")] = False,
    store: StoreUrl = runtime.DEFAULT_STORE,
) -> None:
    """Where the work stands: lines, what is being worked on, what failed, what is held. Ctrl-C ends it."""
    from custody.cli.composition import machines
    from custody.web.queries.overview import Glance
    from custody.web.sections import INGEST

    console = Console()
    with open_store(store) as opened:
        glance = Glance(opened, machines(), [INGEST.line] if INGEST.line else [])
        if once or not sys.stdout.isatty():
            console.print(picture(opened, glance))
            return
        with Live(picture(opened, glance), console=console, screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(max(0.2, every))
                live.update(picture(opened, glance), refresh=True)


def picture(store: Store, glance: Glance) -> Group:
    now = store.now()
    parts = [*_lines(glance, now), _working(store, now), _failures(glance, now), _holds(glance, now)]
    return Group(*(part for part in parts if part is not None))


def _table(title: str, *columns: str) -> Table:
    made = Table(title=title, title_justify="left", title_style="bold", expand=True, box=None, pad_edge=False)
    for column in columns:
        made.add_column(column, no_wrap=True, overflow="ellipsis")
    return made


def _lines(glance: Glance, now: int) -> list[Table]:
    made = []
    for line in glance.lines():
        table = _table(
            f"{line.line.title}: {line.total} on the line, {line.held} held, {line.failed} failed, "
            f"{line.done} done today",
            "place",
            "jobs",
            "running",
            "oldest",
            "workers",
        )
        for place in line.stations:
            oldest = ago(place.oldest, now) + (" late" if place.late else "")
            table.add_row(
                place.station.title,
                str(place.count),
                str(place.running or "-"),
                oldest or "-",
                str(place.workers or "-"),
            )
        made.append(table)
    return made


def _working(store: Store, now: int) -> Table:
    rows = store.db.read(lambda tx: tx.run("web_leased_jobs", limit=MOST_ROWS))
    table = _table("Being worked on", "job", "kind", "state", "holder", "lease left")
    for job in (job_from(row) for row in rows):
        table.add_row(str(job.id), job.kind, job.state, job.holder or "", f"{max(0, job.until - now) / 1e6:.0f} s")
    if not rows:
        table.add_row("-", "nothing, just now", "", "", "")
    return table


def _failures(glance: Glance, now: int) -> Table | None:
    groups = glance.failures()[:MOST_ROWS]
    table = _table("Failed, by cause", "jobs", "cause", "kind", "newest")
    for group in groups:
        table.add_row(str(group.count), group.code or "-", group.kind, ago(group.at, now) + " ago")
    return table if groups else None


def _holds(glance: Glance, now: int) -> Table | None:
    holds = glance.holds()[:MOST_ROWS]
    table = _table("Held", "what", "by", "for", "why")
    for hold in holds:
        table.add_row(f"{hold.scope} {hold.name}", hold.who, ago(hold.since, now), hold.why)
    return table if holds else None

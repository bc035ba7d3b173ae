"""custody event: what happened, to whom, when."""

from __future__ import annotations

from typing import Annotated

import typer

from custody.cli import running
from custody.cli.opening import open_store
from custody.cli.running import AsJson, StoreUrl
from custody.cli.when import moment

app = running.noun("What happened, to whom, when.")


@app.command("list")
def list_(
    subject: Annotated[str, typer.Argument(help="such as job/12 or item/ark:/99999/fk4x; all when left out")] = "",
    limit: int = 50,
    store: StoreUrl = running.DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """The newest events, or a subject's whole story."""
    with open_store(store) as opened:
        events = list(opened.records.all_events(subject)) if subject else opened.records.recent(limit=limit)
    if json:
        running.emit(events)
        return
    columns = {
        "at (UTC)": lambda event: moment(event.at), "subject": lambda event: f"{event.subject} #{event.seq}",
        "event": lambda event: event.type, "outcome": lambda event: event.outcome, "by": lambda event: event.agent,
        "detail": lambda event: event.detail.get("reason") or event.detail.get("why") or event.detail.get("state"),
    }  # fmt: skip
    running.table(columns, events, f"nothing has happened to {subject}" if subject else "nothing has happened yet")

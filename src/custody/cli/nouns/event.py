"""custody event: what happened, to whom, when."""

from __future__ import annotations

from typing import Annotated

import typer

from custody.cli import runtime
from custody.cli.open_store import open_store
from custody.cli.runtime import AsJson, Limit, StoreUrl, Why
from custody.cli.times import moment
from custody.errors import BadInput
from custody.kernel.model.event import NewEvent
from custody.kernel.model.names.reserved import check_event
from custody.robots.items.restart import WITHDRAWN

app = runtime.noun("What happened, to whom, when.")


OUTCOMES = ("success", "warning", "failure")
ACTS = {"stopped": "stop", "approved": "approve", "prioritised": "prioritise", WITHDRAWN: "restart"}
"""What people do to an item has a command of its own, which can be undone."""


@app.command()
def add(
    item: Annotated[str, typer.Argument(help="an item's id")],
    event: Annotated[str, typer.Argument(help="what happened, as robots wait for it")],
    why: Why,
    outcome: Annotated[str, typer.Option(help="success, warning or failure")] = "success",
    store: StoreUrl = runtime.DEFAULT_STORE,
) -> None:
    """Record that something happened to an item, outside of all this; robots that wait for it are woken."""
    if outcome not in OUTCOMES:
        raise BadInput(f"{outcome} is no outcome", code="event.outcome", where="--outcome", hint=", ".join(OUTCOMES))
    if event in ACTS:
        raise BadInput(f"{event} is an act of its own", code="event.act", hint=f"`custody robot {ACTS[event]}`")
    check_event(event, "EVENT")
    with open_store(store) as opened:
        item = opened.records.kept(item)
        opened.records.append(NewEvent(item=item, type=event, outcome=outcome, agent=runtime.me(), detail={"why": why}))  # type: ignore[arg-type]
        opened.wake()
    print(f"{event} ({outcome}) recorded for {item}")


@app.command("list")
def list_(
    subject: Annotated[str, typer.Argument(help="such as job/12 or item/ark:/99999/fk4x; all when left out")] = "",
    limit: Limit = 50,
    store: StoreUrl = runtime.DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """The newest events, or a subject's whole story."""
    with open_store(store) as opened:
        subject = opened.records.kept_subject(subject)
        events = list(opened.records.all_events(subject)) if subject else opened.records.recent(limit=limit)
    if json:
        runtime.emit(events)
        return
    columns = {
        "at (UTC)": lambda event: moment(event.at),
        "subject": lambda event: f"{event.subject} #{event.seq}",
        "event": lambda event: event.type,
        "outcome": lambda event: event.outcome,
        "by": lambda event: event.agent,
        "detail": lambda event: event.detail.get("reason") or event.detail.get("why") or event.detail.get("state"),
    }
    runtime.table(columns, events, f"nothing has happened to {subject}" if subject else "nothing has happened yet")

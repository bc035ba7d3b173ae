"""The history: what happened, to whom, when; the newest first."""

from __future__ import annotations

from custody.kernel.model.event import OUTCOMES
from custody.web import formatting
from custody.web.page import Asked, View, show
from custody.web.queries import lists
from custody.web.request_bodies import Router

router = Router()
COLUMNS = {
    "event": lambda event: event.id,
    "at": lambda event: formatting.iso(event.at),
    "subject": lambda event: event.subject,
    "number": lambda event: event.seq,
    "type": lambda event: event.type,
    "outcome": lambda event: event.outcome,
    "agent": lambda event: event.agent,
    "detail": lambda event: event.detail,
}


def read(asked: Asked) -> View:
    site, query = asked.site, asked.query
    page = lists.events(site.store, query)
    values = {
        "events": page.rows,
        "outcomes": OUTCOMES,
        "next_address": formatting.address("/events", {**query, "before": page.next}) if page.next else "",
        "first_address": formatting.address("/events", {**query, "before": ""}) if query.get("before") else "",
    }

    def every() -> object:
        return lists.every(lambda q: lists.events(site.store, q), query, "before")

    return View("History", values, {"events": page.rows, "next": page.next}, every)  # type: ignore[arg-type]


show(router, "/events", "events.html", read, columns=COLUMNS)

"""The history: what happened, to whom, when; the newest first."""

from __future__ import annotations

from custody.model.event import OUTCOMES
from custody.web import listing, words
from custody.web.reading import Router
from custody.web.showing import Asked, View, show

router = Router()
COLUMNS = {
    "event": lambda event: event.id, "at": lambda event: words.iso(event.at), "subject": lambda event: event.subject,
    "number": lambda event: event.seq, "type": lambda event: event.type, "outcome": lambda event: event.outcome,
    "agent": lambda event: event.agent, "detail": lambda event: event.detail,
}  # fmt: skip


def read(asked: Asked) -> View:
    site, query = asked.site, asked.query
    page = listing.events(site.store, query)
    values = {
        "events": page.rows, "outcomes": OUTCOMES,
        "next_address": words.address("/events", {**query, "before": page.next}) if page.next else "",
        "first_address": words.address("/events", {**query, "before": ""}) if query.get("before") else "",
    }  # fmt: skip

    def every() -> object:
        return listing.every(lambda q: listing.events(site.store, q), query, "before")

    return View("History", values, {"events": page.rows, "next": page.next}, every)  # type: ignore[arg-type]


show(router, "/events", "events.html", read, COLUMNS)

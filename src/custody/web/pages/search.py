"""Search: numbers, keys, identifiers, local ids."""

from __future__ import annotations

from custody.web.page import Asked, View, show
from custody.web.queries.search import find
from custody.web.request_bodies import Router

router = Router()
COLUMNS = {
    "sort": lambda found: found.sort,
    "id": lambda found: found.id,
    "title": lambda found: found.title,
    "by": lambda found: found.how,
}


def read(asked: Asked) -> View:
    text = asked.query.get("q", "")
    found = find(asked.site, asked.caller, text)
    return View("Search", {"found": found, "text": text, "live": False}, {"found": found}, lambda: found)


show(router, "/search", "search.html", read, columns=COLUMNS)

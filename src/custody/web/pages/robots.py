"""Robots: what each wakes for, as a sentence, and the items with the events they have had."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter

from custody.model.job import Filter
from custody.robots.deadlines import late
from custody.robots.failures import causes
from custody.robots.orphans import orphans
from custody.robots.restart import stopped
from custody.robots.robot import sentence
from custody.stores.items import subscriptions
from custody.web import words
from custody.web.rules import READ_ALL, Rule
from custody.web.sections import Section
from custody.web.showing import Asked, View, show

router = APIRouter()
SHOWN = 50
LOOKED_AT = 1000
"""Failures of one robot that are put into groups for a page; the command line counts all."""


def read(asked: Asked) -> View:
    store, query = asked.site.store, asked.query
    found = store.db.read(subscriptions)
    overdue = late(store, limit=SHOWN)
    robots = [
        {
            "name": name, "event": facts.get("event", ""), "version": facts.get("version", ""),
            "when": sentence(trigger),
            "ready": len(store.queue.list(Filter(kind=f"robot/{name}", state="queued"), limit=100)),
            "failed": len(store.queue.list(Filter(kind=f"robot/{name}", ended="failed"), limit=100)),
            "late": sum(each.robot == name for each in overdue) if facts.get("within") else None,
        }
        for name, trigger, facts in found
    ]  # fmt: skip
    events = list(
        dict.fromkeys(name for _, trigger, facts in found for name in (*sorted(trigger.past), facts.get("event", "")))
    )
    items = store.records.items(query.get("after", ""), SHOWN, query.get("collection", ""), query.get("type", ""))
    rows: list[dict[str, Any]] = [{"item": item, "latest": store.records.latest(item.id)} for item in items]
    following = words.address("/robots", {**query, "after": items[-1].id}) if len(items) == SHOWN else ""
    first = words.address("/robots", {**query, "after": ""}) if query.get("after") else ""
    braked, why_failed = stopped(store, SHOWN), causes(store, most=LOOKED_AT)[:SHOWN]
    values = {
        "robots": robots, "events": events, "rows": rows, "next_address": following, "first_address": first,
        "late": overdue, "stopped": braked, "causes": why_failed, "orphans": orphans(store)[-SHOWN:],
    }  # fmt: skip
    data = [
        {"item": row["item"].id, "events": {name: each.outcome for name, each in row["latest"].items()}} for row in rows
    ]
    more = {"late": overdue, "stopped": braked, "failures": why_failed, "orphans": values["orphans"]}
    return View("Robots", values, {"robots": robots, "items": data, **more})


show(router, "/robots", "robots.html", read)

RULES: Final[Mapping[str, Rule]] = {"GET /robots": READ_ALL}
ROBOTS: Final = Section("Robots", "/robots", "r", routers=(router,), rules=RULES)

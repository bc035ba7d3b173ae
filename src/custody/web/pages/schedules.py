"""Schedules, and what became of the slots of one."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from custody.web import formatting
from custody.web.access.gate import form_of
from custody.web.page import Asked, View, back, show
from custody.web.request_bodies import Router
from custody.web.site import caller_of, site_of

router = Router()
COLUMNS = {
    "schedule": lambda row: row.name,
    "when": lambda row: row.spec,
    "zone": lambda row: row.zone,
    "kind": lambda row: row.kind,
    "paused": lambda row: row.paused,
    "next": lambda row: formatting.iso(row.next_slot),
}


def read_list(asked: Asked) -> View:
    schedules = asked.site.store.schedules.list()
    return View("Schedules", {"schedules": schedules}, {"schedules": schedules}, lambda: schedules)


def read_one(asked: Asked) -> View:
    store, name = asked.site.store, str(asked.part("name"))
    schedule, slots = store.schedules.get(name), store.schedules.slots(name)
    events = store.records.events(f"schedule/{name}", limit=200)
    values = {"schedule": schedule, "slots": slots, "events": events}
    return View(f"Schedule {name}", values, {"schedule": schedule, "slots": slots, "events": events})


show(router, "/schedules", "schedules.html", read_list, columns=COLUMNS)
show(router, "/schedules/{name:path}", "schedule.html", read_one)


@router.post("/schedules/pause", include_in_schema=False, response_model=None)
def pause(request: Request) -> Response:
    form = form_of(request)
    name, paused = form.get("name", ""), form.get("paused") == "yes"
    site_of(request).store.schedules.pause(name, paused, caller_of(request).agent)
    return back(request, "/schedules", f"{name} is paused." if paused else f"{name} goes on from now.")

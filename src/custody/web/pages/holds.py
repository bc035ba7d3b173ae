"""Holds: what is paused, by whom and why."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from custody.ingest.holds import SCOPES as OURS
from custody.kernel.stores.queue import SCOPES
from custody.web import formatting
from custody.web.access.gate import form_of
from custody.web.api.holds import lift_hold, named, set_hold
from custody.web.page import Asked, View, back, show
from custody.web.request_bodies import Router

router = Router()
COLUMNS = {
    "scope": lambda hold: hold.scope,
    "name": lambda hold: hold.name,
    "by": lambda hold: hold.who,
    "why": lambda hold: hold.why,
    "since": lambda hold: formatting.iso(hold.since),
}


def read(asked: Asked) -> View:
    holds = asked.site.store.queue.holds()
    return View("Holds", {"holds": holds, "scopes": (*SCOPES, *OURS)}, {"holds": holds}, lambda: holds)


show(router, "/holds", "holds.html", read, columns=COLUMNS)


@router.post("/holds", include_in_schema=False, response_model=None)
def hold(request: Request) -> Response:
    form = form_of(request)
    scope, name = form.get("scope", ""), form.get("name", "").strip()
    new = set_hold(request, scope, name, form.get("why", ""))
    return back(request, "/holds", f"{scope} {name} is held." if new else f"{scope} {name} was held already.")


@router.post("/holds/lift", include_in_schema=False, response_model=None)
def lift(request: Request) -> Response:
    form = form_of(request)
    scope, name = form.get("scope", ""), named(form.get("name", ""))
    lift_hold(request, scope, name, form.get("why", ""))
    return back(request, "/holds", f"{scope} {name} is no longer held. Jobs that became held can now be released.")

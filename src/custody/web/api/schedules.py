"""Schedules: what becomes due, and when."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from custody.errors import NotFound
from custody.kernel.model.schedule import Wanted
from custody.web import representations
from custody.web.api.parameters import PROBLEM, NewSchedule
from custody.web.request_bodies import Router
from custody.web.site import caller_of, site_of

router = Router(responses=PROBLEM, tags=["schedules"])


@router.get("/api/v1/schedules")
def list_schedules(request: Request) -> Response:
    return representations.as_json({"schedules": site_of(request).store.schedules.list()})


@router.get("/api/v1/schedules/{name:path}")
def show(request: Request, name: str) -> Response:
    """One schedule, and what became of its slots."""
    schedules = site_of(request).store.schedules
    found = schedules.get(name)
    slots = [{"slot": slot, "job": job, "outcome": outcome} for slot, job, outcome in schedules.slots(name)]
    return representations.as_json({"schedule": found, "slots": slots})


@router.put("/api/v1/schedules/{name:path}")
def put(request: Request, name: str, given: NewSchedule) -> Response:
    """Make or change one; what is left out stays as it is."""
    site, acting = site_of(request), caller_of(request).acting
    schedules = site.store.schedules
    site.must_be_open(given.kind)
    wanted = Wanted(**given.model_dump(exclude={"paused"}))
    if given.paused not in (None, schedules.change(name, wanted, acting).paused):
        schedules.pause(name, bool(given.paused), acting.agent)
    return representations.as_json({"schedule": schedules.get(name)})


@router.delete("/api/v1/schedules/{name:path}")
def drop(request: Request, name: str) -> Response:
    """Forget one; its history stays."""
    if not site_of(request).store.schedules.drop(name, caller_of(request).agent):
        raise NotFound(f"there is no schedule {name}", code="schedule.unknown")
    return representations.as_json({"name": name, "dropped": True})

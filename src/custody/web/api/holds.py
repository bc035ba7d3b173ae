"""Holds: a collection, a batch, a kind or a lane paused, by whom and why."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from custody.model.errors import BadInput
from custody.model.job import is_text
from custody.web import formats
from custody.web.api.asking import PROBLEM, Text, Why
from custody.web.site import caller_of, site_of

router = APIRouter(responses=PROBLEM, tags=["holds"])


@router.get("/api/v1/holds")
def list_holds(request: Request) -> Response:
    return formats.as_json({"holds": site_of(request).store.queue.holds()})


@router.put("/api/v1/holds/{scope}/{name:path}")
def hold(request: Request, scope: str, name: str, given: Why) -> Response:
    """Pause it. Work that is under way goes on; nothing new starts."""
    new = set_hold(request, scope, name, given.why)
    return formats.as_json({"held": True, "new": new})


@router.delete("/api/v1/holds/{scope}/{name:path}")
def lift(request: Request, scope: str, name: str, why: Text = "") -> Response:
    """End the pause. Jobs that became held stay so until they are released."""
    lifted = site_of(request).store.queue.lift(scope, named(name), caller_of(request).name, why)
    site_of(request).glance.forget()
    return formats.as_json({"held": False, "lifted": lifted})


def set_hold(request: Request, scope: str, name: str, why: str) -> bool:
    if not why.strip():
        raise BadInput("say why, for those who wait", code="action.why", where="why")
    new = site_of(request).store.queue.hold(scope, named(name), caller_of(request).name, why.strip())
    site_of(request).glance.forget()
    return new


def named(name: str) -> str:
    if not name.strip() or len(name) > 500 or "\0" in name or not is_text(name):
        raise BadInput("a hold needs the name of what is held", code="hold.name", where="name")
    return name

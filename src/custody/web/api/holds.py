"""Holds: a collection, a batch, a storage node, the queue, a kind or a lane paused, by whom and why."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from custody.errors import BadInput
from custody.installation import held_as
from custody.kernel.model.job import is_text
from custody.web import representations
from custody.web.api.parameters import PROBLEM, Text, Why
from custody.web.request_bodies import Router
from custody.web.site import caller_of, site_of

router = Router(responses=PROBLEM, tags=["holds"])


@router.get("/api/v1/holds")
def list_holds(request: Request) -> Response:
    return representations.as_json({"holds": site_of(request).store.queue.holds()})


@router.put("/api/v1/holds/{scope}/{name:path}")
def hold(request: Request, scope: str, name: str, given: Why) -> Response:
    """Pause a collection, a batch, a (storage) node, the queue (ingest), a kind or a lane.

    Work that is under way goes on; nothing new starts."""
    new = set_hold(request, scope, name, given.why)
    return representations.as_json({"held": True, "new": new})


@router.delete("/api/v1/holds/{scope}/{name:path}")
def lift(request: Request, scope: str, name: str, why: Text = "") -> Response:
    """End the pause. Jobs that became held stay so until they are released."""
    return representations.as_json({"held": False, "lifted": lift_hold(request, scope, name, why)})


def set_hold(request: Request, scope: str, name: str, why: str) -> bool:
    if not why.strip():
        raise BadInput("say why, for those who wait", code="action.why", where="why")
    queue, who = site_of(request).store.queue, caller_of(request).agent
    new = any([queue.hold(*each, who, why.strip()) for each in held_as(scope, named(name))])
    site_of(request).glance.forget()
    return new


def lift_hold(request: Request, scope: str, name: str, why: str) -> bool:
    queue, who = site_of(request).store.queue, caller_of(request).agent
    lifted = any([queue.lift(*each, who, why) for each in held_as(scope, named(name))])
    site_of(request).glance.forget()
    return lifted


def named(name: str) -> str:
    if not name.strip() or len(name) > 500 or "\0" in name or not is_text(name):
        raise BadInput("a hold needs the name of what is held", code="hold.name", where="name")
    return name

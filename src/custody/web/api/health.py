"""Is it well? For load balancers, Prometheus, and whoever reads the description of this API."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Header, Query, Request
from fastapi.openapi.utils import get_openapi
from starlette.responses import Response, StreamingResponse

from custody import __version__
from custody.errors import Unavailable
from custody.web import representations
from custody.web.access.gate import HIGHEST
from custody.web.api.parameters import PROBLEM, Digits
from custody.web.request_bodies import Router
from custody.web.site import caller_of, site_of

router = Router(responses=PROBLEM)
NOWHERE: frozenset[str] = frozenset()


@router.get("/api/v1/health", tags=["health"])
def health(request: Request) -> Response:
    """Does the store answer, and take writes? 503 when it does not. (Writing is tried every ten seconds.)"""
    site = site_of(request)
    if site.trial.refusal() is not None:
        raise Unavailable("the store takes no writes", code="store.writes", hint="`custody doctor` says why")
    return representations.as_json(
        {"status": "ok", "version": __version__, "store": site.store.db.dialect, "at": _asked(request)}
    )


def _asked(request: Request) -> int:
    now: int = site_of(request).store.db.read(lambda tx: tx.now)
    return now


@router.get("/metrics", tags=["health"])
def metrics(request: Request) -> Response:
    """Jobs by kind and state, ages, leases lost, durations; as Prometheus reads it."""
    site = site_of(request)
    text = site.options.telling.text(site.glance)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/api/v1/openapi.json", include_in_schema=False)
def openapi(request: Request) -> Response:
    """This API described, for programs that write programs."""
    app: FastAPI = request.app
    if not app.openapi_schema:
        made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        made.setdefault("components", {})["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        app.openapi_schema = made | {"security": [{"token": []}]}
    return representations.as_json(app.openapi_schema)


@router.get("/api/v1/overview", tags=["health"])
def overview(request: Request) -> Response:
    """Where everything stands: lines, failures by cause, holds."""
    glance = site_of(request).glance
    counts = [{"kind": kind, "state": state, "count": n} for (kind, state), n in glance.counts().items()]
    return representations.as_json(
        {"lines": glance.lines(), "counts": counts, "failures": glance.failures(), "holds": glance.holds()}
    )


@router.get("/api/v1/stream", tags=["events"])
@router.get("/stream", include_in_schema=False)
async def stream(
    request: Request,
    since: Annotated[int | None, Digits, Query(ge=0, le=HIGHEST)] = None,
    last_event_id: Annotated[int | None, Digits, Header(ge=0, le=HIGHEST)] = None,
) -> Response:
    """Server-sent events: `change` with the number of events and their subjects, at most one a second.

    Subjects are named to those who may read all collections; others hear only that something happened, and those who
    see only what they made hear of that alone. A browser that was cut off says which message was its last; before the
    first, `since` says where its page stood.
    """
    headers = {"X-Accel-Buffering": "no"}
    begin = since if last_event_id is None else last_event_id
    caller = caller_of(request)
    own = caller.identity if caller.seen == NOWHERE else ""
    lines = site_of(request).changes.listen(begin, named=caller.sees_all, own=own, caller=caller)
    return StreamingResponse(lines, media_type="text/event-stream", headers=headers)

"""Leases and workers: who may act, and until when; who has been seen."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from custody.errors import BadInput, NotFound
from custody.web import representations
from custody.web.api.parameters import PROBLEM, Limit, Text
from custody.web.queries import lists
from custody.web.request_bodies import Router
from custody.web.site import caller_of, site_of

router = Router(responses=PROBLEM, tags=["workers"])


@router.get("/api/v1/leases")
def list_leases(request: Request, limit: Limit = 100) -> Response:
    """Names that are held, and jobs that are being worked on."""
    store = site_of(request).store
    return representations.as_json({"names": store.leases.list(), "jobs": lists.leased(store, limit)})


@router.delete("/api/v1/leases/{name:path}")
def take_away(request: Request, name: str, why: Text = "") -> Response:
    """Take a name away; whoever held it is fenced out."""
    if not why.strip():
        raise BadInput("say why, for the history", code="action.why", where="why")
    if not site_of(request).store.leases.take_away(name, caller_of(request).agent, why.strip()):
        raise NotFound(f"nobody holds {name}", code="lease.unknown")
    return representations.as_json({"name": name, "free": True})


@router.get("/api/v1/workers")
def list_workers(request: Request) -> Response:
    """Workers seen within the last half minute."""
    return representations.as_json({"workers": site_of(request).store.workers()})

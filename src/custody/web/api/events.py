"""Events: what happened, to whom, when."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from custody.web import representations
from custody.web.api.parameters import PROBLEM, Before, Limit, Text
from custody.web.queries import lists
from custody.web.request_bodies import Router
from custody.web.site import site_of

router = Router(responses=PROBLEM, tags=["events"])


@router.get("/api/v1/events")
def list_events(
    request: Request,
    subject: Text = "",
    type: Text = "",
    outcome: Text = "",
    agent: Text = "",
    limit: Limit = 50,
    before: Before = None,
) -> Response:
    """The newest events, of subjects that begin with `subject`."""
    query = {"subject": subject, "type": type, "outcome": outcome, "agent": agent, "limit": str(limit)}
    page = lists.events(site_of(request).store, query | ({"before": str(before)} if before else {}))
    return representations.as_json({"events": page.rows, "next": page.next})

"""Parameters of an address: each is said once, and is one that somebody asks for."""

from __future__ import annotations

from fastapi import Request
from fastapi.routing import APIRoute

from custody.errors import BadInput


def must_be_said_once(request: Request) -> None:
    """Refuse what would be left unread: a parameter that comes twice or, where they are all known, one that nobody asks
    for. A filter with a typing error would be no filter."""
    route = request.scope.get("route")
    known: set[str] | None = None
    if isinstance(route, APIRoute) and route.include_in_schema:
        known = {each.alias for each in route.dependant.query_params}
    names = [name for name, _ in request.query_params.multi_items()]
    keys = request.headers.getlist("Idempotency-Key")
    if again := [name for name in names if names.count(name) > 1] or (["Idempotency-Key"] if len(keys) > 1 else []):
        raise BadInput(f"{again[0][:100]} is said twice", code="request.repeated", where=again[0][:100])
    unknown = [name for name in names if known is not None and name not in known]
    if unknown:
        raise BadInput(
            f"there is no parameter {unknown[0][:100]!r} here",
            code="request.unknown",
            where=unknown[0][:100],
            hint="/api/v1/openapi.json has those that there are",
        )

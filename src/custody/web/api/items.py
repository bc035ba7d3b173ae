"""Items: the things the archive keeps, and their whole history."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from starlette.responses import Response

from custody.errors import NotFound
from custody.kernel.access.caller import Caller
from custody.kernel.model.item import Item
from custody.web import representations
from custody.web.api.parameters import PROBLEM, Limit, Text
from custody.web.queries import lists
from custody.web.queries.search import find
from custody.web.request_bodies import Router
from custody.web.site import Site, caller_of, site_of

router = Router(responses=PROBLEM, tags=["items"])


@router.get("/api/v1/items")
def list_items(
    request: Request, collection: Text = "", type: Text = "", prefix: Text = "", after: Text = "", limit: Limit = 50
) -> Response:
    """Items, by id."""
    query = {"collection": collection, "type": type, "prefix": prefix, "after": after, "limit": str(limit)}
    page = lists.items(site_of(request).store, caller_of(request), query)
    return representations.as_json({"items": page.rows, "next": page.next})


@router.get("/api/v1/items/{item:path}")
def show(request: Request, item: str) -> Response:
    """One item, and everything that happened to it, whichever application did it."""
    return representations.as_json(facts(site_of(request), caller_of(request), item))


def get(site: Site, caller: Caller, item_id: str) -> Item:
    if "\0" in item_id:
        raise NotFound(f"there is no item {item_id!r}", code="item.unknown")
    item = site.store.records.item(item_id)
    if not caller.sees(item.collection):
        raise NotFound(
            f"there is no item {item_id}", code="item.unknown", hint="`custody item list` shows what there is"
        )
    return item


def facts(site: Site, caller: Caller, item_id: str) -> dict[str, Any]:
    item = get(site, caller, item_id)
    return {"item": item, "events": list(site.store.records.events(f"item/{item.id}"))}


@router.get("/api/v1/search")
def search(request: Request, q: Text = "") -> Response:
    """Jobs by number or key, items by id or its beginning, objects by local id."""
    return representations.as_json({"found": find(site_of(request), caller_of(request), q)})

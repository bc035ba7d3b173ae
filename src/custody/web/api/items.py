"""Items: the things the archive keeps, and their whole history."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from starlette.responses import Response

from custody.model.errors import NotFound
from custody.model.item import Item
from custody.web import formats, listing
from custody.web.api.asking import PROBLEM, Limit, Text
from custody.web.caller import Caller
from custody.web.finding import find
from custody.web.reading import Router
from custody.web.site import Site, caller_of, site_of

router = Router(responses=PROBLEM, tags=["items"])


@router.get("/api/v1/items")
def list_items(
    request: Request, collection: Text = "", type: Text = "", prefix: Text = "", after: Text = "", limit: Limit = 50
) -> Response:
    """Items, by id."""
    query = {"collection": collection, "type": type, "prefix": prefix, "after": after, "limit": str(limit)}
    page = listing.items(site_of(request).store, caller_of(request), query)
    return formats.as_json({"items": page.rows, "next": page.next})


@router.get("/api/v1/items/{item:path}")
def show(request: Request, item: str) -> Response:
    """One item, and everything that happened to it, whichever application did it."""
    return formats.as_json(facts(site_of(request), caller_of(request), item))


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
    return formats.as_json({"found": find(site_of(request), caller_of(request), q)})

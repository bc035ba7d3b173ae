"""Items, and the whole history of one."""

from __future__ import annotations

from custody.errors import NotFound
from custody.web import formatting
from custody.web.api.items import get
from custody.web.page import Asked, View, show
from custody.web.queries import item_history, job_files, lists
from custody.web.request_bodies import Router

router = Router()
COLUMNS = {
    "item": lambda item: item.id,
    "title": lambda item: item.detail.get("title", ""),
    "types": lambda item: " ".join(sorted(item.types)),
    "collection": lambda item: item.collection,
    "events": lambda item: item.seq,
}


def read_list(asked: Asked) -> View:
    site, query = asked.site, asked.query
    page = lists.items(site.store, asked.caller, query)
    values = {
        "items": page.rows,
        "next_address": formatting.address("/items", {**query, "after": page.next}) if page.next else "",
        "first_address": formatting.address("/items", {**query, "after": ""}) if query.get("after") else "",
    }

    def every() -> object:
        return lists.every(lambda q: lists.items(site.store, asked.caller, q), query, "after")

    return View("Items", values, {"items": page.rows, "next": page.next}, every)  # type: ignore[arg-type]


def read_one(asked: Asked) -> View:
    site = asked.site
    item = get(site, asked.caller, str(asked.part("item")))
    events = site.store.records.events(f"item/{item.id}", limit=1000)
    latest = site.store.records.latest(item.id)
    inventory = site.options.world.inventory if site.options.world else None
    recorded, versions, names = None, [], []
    if inventory is not None:
        try:
            recorded = inventory.get(item.id)
            versions, names = list(inventory.versions(item.id)), list(inventory.local_ids(item.id))
        except NotFound:
            recorded = None  # other applications keep things that ingest has not recorded
    title = str(item.detail.get("title") or item.id)
    chapters = item_history.chapters(site.store, asked.caller, item.id, events)
    values = {
        "item": item,
        "events": item_history.merged(chapters),
        "chapters": chapters,
        "files": job_files.stored(item, site.options.roots),
        "latest": latest,
        "recorded": recorded,
        "versions": versions,
        "names": names,
    }
    data = {"item": item, "events": events, "versions": versions, "local_ids": names}
    return View(title, values, data | {"chapters": [{"subject": c.subject, "title": c.title} for c in chapters]})


show(router, "/items", "items.html", read_list, columns=COLUMNS)
show(router, "/items/{item:path}", "item.html", read_one)

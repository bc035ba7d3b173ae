"""Deposits on the dashboard and in the API: one entry of the navigation, with what belongs to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from custody.errors import NotFound
from custody.ingest import api
from custody.ingest.pages import batches, deposit, views
from custody.ingest.states import BATCH_KIND, JOB_KIND, STEPS
from custody.ingest.storage.inventory import ark_of
from custody.kernel.access.caller import Caller
from custody.kernel.model.job import Job
from custody.kernel.stores.rows import Tx
from custody.web.queries import lists
from custody.web.queries.search import found_item
from custody.web.sections import Found, Line, Section, Share, Station
from custody.web.site import Site


def _share(site: Site, batch: Job) -> tuple[Sequence[Share], str]:
    counts = views.brief(site, batch.id)
    return views.parts(counts), views.sentence(counts)


def _item(site: Site, item: str) -> Mapping[str, Any]:
    """What the inventory says; other applications keep things that ingest has not recorded."""
    world = views.world_of(site)
    if world is None:
        return {}
    try:
        recorded = world.inventory.get(item)
    except NotFound:
        return {}
    versions, names = list(world.inventory.versions(item)), list(world.inventory.local_ids(item))
    return {"recorded": recorded, "versions": versions, "names": names}


def _search(site: Site, caller: Caller, text: str) -> Iterator[Found]:
    """By the names that depositors gave."""

    def look(tx: Tx) -> list[str]:
        owners = [row[0] for row in tx.run("web_owners")]
        return [ark for owner in owners if (ark := ark_of(tx, owner, text))]

    for ark in site.store.db.read(look):
        rows = lists.items(site.store, caller, {"prefix": ark, "limit": "1"}).rows
        yield from (found_item(item, "its local id") for item in rows if item.id == ark)


SECTION: Final = Section(
    "Batches",
    "/batches",
    "b",
    whole=False,
    right="batch:read",
    line=Line("Deposits", JOB_KIND, tuple(Station(state, state.capitalize()) for state in STEPS), "completed"),
    groups=BATCH_KIND,
    routers=(deposit.router, batches.router),
    api=(api.router,),
    uploads=frozenset({"/batches/new", "/api/v1/batches/upload"}),
    application="ingest",
    templates="custody.ingest.pages",
    share=_share,
    item=_item,
    search=_search,
)

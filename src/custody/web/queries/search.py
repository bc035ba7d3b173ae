"""Search: one box for numbers, keys, identifiers and local ids. Exact first, then what begins like it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from custody.errors import NotFound
from custody.ingest.states import BATCH_KIND
from custody.ingest.storage.inventory import ark_of
from custody.ingest.zookeeper.tree import id_of
from custody.kernel.access.caller import Caller
from custody.kernel.model.item import Item
from custody.kernel.model.job import Job, is_text
from custody.kernel.stores.rows import Tx, job_from
from custody.web import formatting
from custody.web.queries import lists
from custody.web.site import Site

IN_TREE = re.compile(r"[bj]id\d{10}")
MOST = 50


@dataclass(frozen=True, slots=True)
class Found:
    sort: str  # "batch", "job", "item"
    id: str
    title: str
    link: str
    how: str  # by which of its names


def find(site: Site, caller: Caller, text: str) -> Sequence[Found]:
    wanted = text.strip()
    if not wanted or "\0" in wanted or not is_text(wanted):
        return []
    found = [*_by_number(site, caller, wanted), *_by_key(site, caller, wanted), *_items(site, caller, wanted)]
    return list(dict.fromkeys(found))[:MOST]


def _by_number(site: Site, caller: Caller, text: str) -> Sequence[Found]:
    digits = text.removeprefix("bid").removeprefix("jid").removeprefix("job/").lstrip("-")
    if site.store.elsewhere and IN_TREE.fullmatch(text):
        digits = str(id_of(text))
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 19):
        return []
    try:
        return [_job(caller.must_see(site.store.queue.get(int(digits))), "its number")]
    except NotFound:
        return []


def _by_key(site: Site, caller: Caller, text: str) -> Sequence[Found]:
    def look(tx: Tx) -> list[Job]:
        kinds = [row[0] for row in tx.run("web_kinds")]
        return [job_from(row) for kind in kinds for row in tx.run("job_by_key", kind=kind, key=text)]

    batch = site.store.queue.by_key(BATCH_KIND, text) if site.store.elsewhere else None
    found = [*([batch] if batch else []), *site.store.db.read(look)]
    return [_job(job, "its key") for job in found if caller.sees_job(job)]


def _items(site: Site, caller: Caller, text: str) -> Sequence[Found]:
    rows = [*_of_name(site, caller, text), *lists.items(site.store, caller, {"prefix": text, "limit": "20"}).rows]
    return [*(_item(item, "its id") for item in rows), *_local_ids(site, caller, text)]


def _of_name(site: Site, caller: Caller, text: str) -> Sequence[Item]:
    """The item of this very name, however it is spelled."""
    try:
        item = site.store.records.item(text)
    except NotFound:
        return []
    return [item] if caller.sees(item.collection) else []


def _local_ids(site: Site, caller: Caller, text: str) -> Sequence[Found]:
    def look(tx: Tx) -> list[str]:
        owners = [row[0] for row in tx.run("web_owners")]
        return [ark for owner in owners if (ark := ark_of(tx, owner, text))]

    found = []
    for ark in site.store.db.read(look):
        rows = lists.items(site.store, caller, {"prefix": ark, "limit": "1"}).rows
        found += [_item(item, "its local id") for item in rows if item.id == ark]
    return found


def _item(item: Item, how: str) -> Found:
    return Found(
        sort="item",
        id=item.id,
        title=str(item.detail.get("title") or item.id),
        link=f"/items/{formatting.path_quote(item.id)}",
        how=how,
    )


def _job(job: Job, how: str) -> Found:
    if job.kind == BATCH_KIND:
        return Found(
            sort="batch", id=formatting.shown(job.id), title=formatting.name(job), link=f"/batches/{job.id}", how=how
        )
    return Found(sort="job", id=formatting.shown(job.id), title=formatting.name(job), link=f"/jobs/{job.id}", how=how)

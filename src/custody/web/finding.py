"""Search: one box for numbers, keys, identifiers and local ids. Exact first, then what begins like it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from custody.ingest.states import BATCH_KIND
from custody.ingest.tree import id_of
from custody.model.errors import NotFound
from custody.model.job import Job, is_text
from custody.stores.rows import Tx, job_from
from custody.web import listing, words
from custody.web.caller import Caller
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
    query = {"prefix": text, "limit": "20"}
    found = [
        Found(
            "item", item.id, str(item.detail.get("title") or item.id), f"/items/{words.path_quote(item.id)}", "its id"
        )
        for item in listing.items(site.store, caller, query).rows
    ]
    return [*found, *_local_ids(site, caller, text)]


def _local_ids(site: Site, caller: Caller, text: str) -> Sequence[Found]:
    def look(tx: Tx) -> list[str]:
        owners = [row[0] for row in tx.run("web_owners")]
        return [row[0] for owner in owners for row in tx.run("inv_ark_of", owner=owner, local_id=text)]

    found = []
    for ark in site.store.db.read(look):
        rows = listing.items(site.store, caller, {"prefix": ark, "limit": "1"}).rows
        found += [
            Found(
                "item",
                item.id,
                str(item.detail.get("title") or item.id),
                f"/items/{words.path_quote(item.id)}",
                "its local id",
            )
            for item in rows
            if item.id == ark
        ]
    return found


def _job(job: Job, how: str) -> Found:
    if job.kind == BATCH_KIND:
        return Found("batch", words.shown(job.id), words.name(job), f"/batches/{job.id}", how)
    return Found("job", words.shown(job.id), words.name(job), f"/jobs/{job.id}", how)

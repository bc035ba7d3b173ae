"""Search: one box for numbers, keys, identifiers and local ids. Exact first, then what begins like it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from custody.errors import NotFound
from custody.kernel.access.caller import Caller
from custody.kernel.model.item import Item
from custody.kernel.model.job import Job, is_text
from custody.kernel.model.names.job_numbers import id_of
from custody.kernel.stores.rows import Tx, job_from
from custody.web import formatting
from custody.web.queries import lists
from custody.web.sections import Found
from custody.web.site import Site

IN_TREE = re.compile(r"[bj]id\d{10}")
MOST = 50


def find(site: Site, caller: Caller, text: str) -> Sequence[Found]:
    wanted = text.strip()
    if not wanted or "\0" in wanted or not is_text(wanted):
        return []
    found = [*_by_number(site, caller, wanted), *_by_key(site, caller, wanted), *_items(site, caller, wanted)]
    for section in site.sections:
        found += section.search(site, caller, wanted) if section.search else ()
    return list(dict.fromkeys(found))[:MOST]


def _by_number(site: Site, caller: Caller, text: str) -> Sequence[Found]:
    digits = text.removeprefix("bid").removeprefix("jid").removeprefix("job/").lstrip("-")
    if site.store.elsewhere and IN_TREE.fullmatch(text):
        digits = str(id_of(text))
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 19):
        return []
    try:
        return [_job(site, caller.must_see(site.store.queue.get(int(digits))), "its number")]
    except NotFound:
        return []


def _by_key(site: Site, caller: Caller, text: str) -> Sequence[Found]:
    def look(tx: Tx) -> list[Job]:
        kinds = [row[0] for row in tx.run("web_kinds")]
        return [job_from(row) for kind in kinds for row in tx.run("job_by_key", kind=kind, key=text)]

    groups = [section.groups for section in site.sections if section.groups] if site.store.elsewhere else []
    elsewhere = [job for kind in groups if (job := site.store.queue.by_key(kind, text))]
    found = [*elsewhere, *site.store.db.read(look)]
    return [_job(site, job, "its key") for job in found if caller.sees_job(job)]


def _items(site: Site, caller: Caller, text: str) -> Sequence[Found]:
    rows = [*_of_name(site, caller, text), *lists.items(site.store, caller, {"prefix": text, "limit": "20"}).rows]
    return [found_item(item, "its id") for item in rows]


def _of_name(site: Site, caller: Caller, text: str) -> Sequence[Item]:
    """The item of this very name, however it is spelled."""
    try:
        item = site.store.records.item(text)
    except NotFound:
        return []
    return [item] if caller.sees(item.collection) else []


def found_item(item: Item, how: str) -> Found:
    return Found(
        sort="item",
        id=item.id,
        title=str(item.detail.get("title") or item.id),
        link=f"/items/{formatting.path_quote(item.id)}",
        how=how,
    )


def _job(site: Site, job: Job, how: str) -> Found:
    address = site.group_address(job)
    return Found(
        sort="batch" if address else "job",
        id=formatting.shown(job.id),
        title=formatting.name(job),
        link=address or f"/jobs/{job.id}",
        how=how,
    )

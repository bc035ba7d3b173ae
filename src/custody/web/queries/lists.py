"""Lists: a filter from the URL, pages by id. The hundredth page costs what the first did, whatever the filter.

Which walks (paging.py) answer a filter: one for each kind and state that it allows, one for each of the caller's
collections, one for each way in which a batch's jobs have ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from custody.errors import BadInput
from custody.kernel.access.caller import Caller
from custody.kernel.model.event import Event
from custody.kernel.model.item import Item
from custody.kernel.model.job import Filter, Job
from custody.kernel.model.machine import Machines
from custody.kernel.stores import Store
from custody.kernel.stores.rows import Tx, event_from, item_from, job_from
from custody.web.queries.paging import LOOK, Page, Walk, merged, these

T = TypeVar("T")
NEWEST = 2**62
PAGE = 50
MOST = 500
HIGHEST = "\U0010ffff"
ENDS = ("passed", "failed", "cancelled", "superseded", "skipped")
FIELDS = ("kind", "state", "ended", "lane", "collection", "code")


def filter_of(query: Mapping[str, str]) -> Filter:
    """The filter that an address holds."""
    given = {name: query.get(name, "") for name in FIELDS}
    for name, value in given.items():
        if "\0" in value or len(value) > 500:
            raise BadInput(f"cannot read {name}", code="filter", where=name)
    return Filter(**given, parent=whole_number(query, "parent", 0))


def whole_number(query: Mapping[str, str], name: str, default: int, most: int = NEWEST) -> int:
    text = query.get(name, "")
    if not text:
        return default
    if not text.isascii() or not text.isdecimal() or len(text) > 19 or int(text) > most:
        raise BadInput(f"{name} is a whole number up to {most}", code="filter", where=name)
    return int(text)


def limit_of(query: Mapping[str, str]) -> int:
    return max(1, whole_number(query, "limit", PAGE, MOST))


def as_query(where: Filter) -> dict[str, str]:
    given = {name: getattr(where, name) for name in FIELDS}
    return {name: value for name, value in given.items() if value} | (
        {"parent": str(where.parent)} if where.parent else {}
    )


# Jobs


def jobs(store: Store, machines: Machines, caller: Caller, where: Filter, query: Mapping[str, str]) -> Page[Job]:
    limit = limit_of(query)
    if where.parent:
        after = whole_number(query, "after", 0)
        return children(store, caller, where, after, limit=limit)
    before = whole_number(query, "before", NEWEST)
    return newest_jobs(store, machines, caller, where, before=before, limit=limit)


def newest_jobs(store: Store, machines: Machines, caller: Caller, where: Filter, before: int, limit: int) -> Page[Job]:
    first = _elsewhere(store, caller, where, before, limit=limit)
    left = limit - len(first)
    if left <= 0:  # what is in the database comes after them
        return Page(first[:limit], str(first[limit - 1].id))

    def look(tx: Tx) -> Page[Job]:
        walks, exact = _ways(tx, machines, caller, where)
        exact = exact and caller.looks_in == caller.seen
        keys, end = merged(tx, walks, before, left, exact=exact, newest_first=True, fits=job_fits(caller, where))
        rows = [*first, *these(tx, "web_jobs_these", keys, job_from, key_of=_id)]
        return Page(rows, "" if end is None else str(end))

    return store.db.read(look)


def _elsewhere(store: Store, caller: Caller, where: Filter, before: int, limit: int) -> list[Job]:
    """Jobs that are not in the database, newest first; they have the higher numbers."""
    if store.elsewhere is None:
        return []
    seen = (job for job in store.elsewhere.newest(where, before) if caller.sees_job(job))
    return list(islice(seen, limit + 1))


def job_fits(caller: Caller, where: Filter) -> dict[str, Any]:
    """The whole filter, as the statements take it; empty matches everything."""
    prefix = where.kind[:-1] if where.kind.endswith("*") else ""
    return {
        "scope": caller.scope,
        "own": f"{caller.identity}/",
        "own_scope": caller.own_scope,
        "collection": where.collection,
        "lane": where.lane,
        "code": where.code,
        "state": where.state,
        "ended": where.ended,
        "kind": "" if where.kind.endswith("*") else where.kind,
        "prefix": prefix,
        "prefix_end": prefix + HIGHEST,
    }


def _ways(tx: Tx, machines: Machines, caller: Caller, where: Filter) -> tuple[list[Walk], bool]:
    """The walks with the least to look at, and whether all they pass fits."""
    by_state = bool(where.kind or where.state or where.ended)
    names = _collections(caller, where)
    narrowed = bool(where.lane) or names is not None
    if where.code and where.ended in ("", "failed"):
        walks = [Walk("web_walk_failed", {"of_kind": kind, "as_code": where.code}) for kind in _kinds(tx, where)]
        return walks, not (narrowed or where.state)
    if names is not None and (not by_state or _are_few(tx, names)):
        walks = [Walk("web_walk_collection", {"within": name}) for name in names]
        return walks, not (where.lane or where.code or by_state)
    if by_state or where.code:
        return [Walk("web_walk_state", pair) for pair in pairs(tx, machines, where)], not (narrowed or where.code)
    return [Walk("web_walk_all")], not narrowed


def _collections(caller: Caller, where: Filter) -> Sequence[str] | None:
    """Those that are asked for and may be looked at; None for all of them."""
    looks_in = caller.looks_in
    if where.collection:
        return [where.collection] if looks_in is None or where.collection in looks_in else []
    return None if looks_in is None else sorted(looks_in)


def _are_few(tx: Tx, names: Sequence[str]) -> bool:
    """One look goes through all of them."""
    return sum(int(tx.run("web_some_in", within=name, look=LOOK)[0][0]) for name in names) < LOOK


def pairs(tx: Tx, machines: Machines, where: Filter) -> list[dict[str, str]]:
    """The kinds and states that a filter allows, of those that there are."""
    return [
        {"of_kind": kind, "at_state": state}
        for kind in _kinds(tx, where)
        for (state,) in tx.run("web_states", kind=kind)
        if where.state in ("", state) and (not where.ended or machines.of(kind).end(state) == where.ended)
    ]


def _kinds(tx: Tx, where: Filter) -> list[str]:
    return [kind for (kind,) in tx.run("web_kinds") if _is_kind(kind, where.kind)]


def _is_kind(kind: str, wanted: str) -> bool:
    if wanted.endswith("*"):
        return kind.startswith(wanted[:-1])
    return wanted in ("", kind)


def _id(job: Job) -> int:
    return job.id


def children(store: Store, caller: Caller, where: Filter, after: int, limit: int) -> Page[Job]:
    """The jobs of a batch, in the order of its rows."""
    if store.elsewhere and store.elsewhere.has(where.parent):
        seen = (job for job in store.elsewhere.every(where, after) if caller.sees_job(job))
        found = list(islice(seen, limit + 1))
        return Page(found[:limit], str(found[limit - 1].id) if len(found) > limit else "")
    ends = [where.ended] if where.ended else ENDS
    walks = [Walk("web_walk_ended", {"parent": where.parent, "as_ended": end}) for end in ends]
    walks += [] if where.ended else [Walk("web_walk_open", {"parent": where.parent})]
    exact = caller.sees_all and not (where.collection or where.lane or where.code or where.state or where.kind)

    def look(tx: Tx) -> Page[Job]:
        keys, end = merged(tx, walks, after, limit, exact=exact, newest_first=False, fits=job_fits(caller, where))
        return Page(these(tx, "web_jobs_these", keys, job_from, key_of=_id), "" if end is None else str(end))

    return store.db.read(look)


def leased(store: Store, limit: int) -> Sequence[Job]:
    """What is being worked on."""
    found = [job_from(row) for row in store.db.read(lambda tx: tx.run("web_leased_jobs", limit=limit))]
    return [*found, *(store.elsewhere.leased() if store.elsewhere else ())][:limit]


# Items and events


def items(store: Store, caller: Caller, query: Mapping[str, str]) -> Page[Item]:
    limit, prefix, after = limit_of(query), query.get("prefix", ""), query.get("after", "")
    type_ = f" {query['type']} " if query.get("type") else ""
    where = Filter(collection=query.get("collection", ""))
    if any("\0" in value for value in (prefix, after, type_, where.collection)):
        raise BadInput("cannot read the filter", code="filter", where="after")
    names = _collections(caller, where)
    values = {"first": prefix, "last": prefix + HIGHEST if prefix else HIGHEST}
    walks = (
        [Walk("web_walk_items", values)]
        if names is None
        else [Walk("web_walk_items_in", {**values, "within": name}) for name in names]
    )

    def look(tx: Tx) -> Page[Item]:
        keys, end = merged(tx, walks, after, limit, exact=not type_, newest_first=False, fits={"type": type_})
        return Page(these(tx, "web_items_these", keys, item_from, key_of=lambda item: item.id), end or "")

    return store.db.read(look)


def events(store: Store, query: Mapping[str, str]) -> Page[Event]:
    """The newest; those of few subjects are looked up by them, however long ago they were."""
    limit, before, subject = limit_of(query), whole_number(query, "before", NEWEST), query.get("subject", "")
    wanted = {name: query.get(name, "") for name in ("type", "outcome", "agent")}
    if any("\0" in value for value in (subject, *wanted.values())):
        raise BadInput("cannot read the filter", code="filter", where="subject")
    range_ = {"first": subject, "last": subject + HIGHEST}
    fits = {**wanted, **range_}

    def look(tx: Tx) -> Page[Event]:
        rows = tx.run("web_events_of", look=LOOK, **fits) if subject else []
        if subject and len(rows) < LOOK:
            found = sorted((id_ for id_, fit in rows if fit and id_ < before), reverse=True)
            keys, end = found[:limit], found[limit - 1] if len(found) > limit else None
        else:
            keys, end = merged(
                tx,
                [Walk("web_walk_events")],
                before,
                limit,
                exact=not (subject or any(wanted.values())),
                newest_first=True,
                fits=fits,
            )
        return Page(
            these(tx, "web_events_these", keys, event_from, key_of=lambda event: event.id),
            "" if end is None else str(end),
        )

    return store.db.read(look)


def every(ask: Callable[[Mapping[str, str]], Page[T]], query: Mapping[str, str], cursor: str) -> Iterator[T]:
    """All rows of a list, a page at a time, for a download."""
    asked = {**query, "limit": str(MOST)}
    while True:
        page = ask(asked)
        yield from page.rows
        if not page.next:
            return
        asked[cursor] = page.next

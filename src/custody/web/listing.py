"""Lists: a filter from the URL, pages by id. The hundredth page costs what the first did, whatever the filter.

A list of jobs is a few walks down an index, newest first, merged: one for each kind and state that the filter
allows, or one for each way in which a batch's jobs have ended.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from custody.model.errors import BadInput
from custody.model.event import Event
from custody.model.item import Item
from custody.model.job import Filter, Job
from custody.model.machine import Machines
from custody.stores import Store
from custody.stores.rows import Tx, event_from, item_from, job_from
from custody.web.caller import Caller

T = TypeVar("T")
NEWEST = 2**62
PAGE = 50
MOST = 500
HIGHEST = "\U0010ffff"
LOOK_BACK = 200_000  # events that a filter looks through
ENDS = ("passed", "failed", "cancelled", "superseded", "skipped")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some rows, and where the next ones begin; empty when these were the last."""

    rows: Sequence[T]
    next: str = ""


def filter_of(query: Mapping[str, str]) -> Filter:
    """The filter that an address holds."""
    given = {name: query.get(name, "") for name in ("kind", "state", "ended", "lane", "collection", "code")}
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
    given = {name: getattr(where, name) for name in ("kind", "state", "ended", "lane", "collection", "code")}
    return {name: value for name, value in given.items() if value} | (
        {"parent": str(where.parent)} if where.parent else {}
    )


# Jobs


def jobs(store: Store, machines: Machines, caller: Caller, where: Filter, query: Mapping[str, str]) -> Page[Job]:
    limit = limit_of(query)
    if where.parent:
        after = whole_number(query, "after", 0)
        return children(store, caller, where, after, limit)
    before = whole_number(query, "before", NEWEST)
    return newest_jobs(store, machines, caller, where, before, limit)


def newest_jobs(store: Store, machines: Machines, caller: Caller, where: Filter, before: int, limit: int) -> Page[Job]:
    rest = {"scope": caller.scope, "collection": where.collection, "lane": where.lane, "code": where.code}

    def look(tx: Tx) -> list[Job]:
        if not (where.kind or where.state or where.ended or where.code):
            return [job_from(row) for row in tx.run("web_jobs", before=before, limit=limit + 1, **rest)]
        kinds = [row[0] for row in tx.run("web_kinds") if _is_kind(row[0], where.kind)]
        walks = []
        for kind in kinds:
            if where.code and where.ended in ("", "failed"):
                found = tx.run(
                    "web_jobs_failed_as", kind=kind, state=where.state, before=before, limit=limit + 1, **rest
                )
                walks.append([job_from(row) for row in found])
                continue
            for state in _states(tx, kind, where, machines):
                found = tx.run("web_jobs_at", kind=kind, state=state, before=before, limit=limit + 1, **rest)
                walks.append([job_from(row) for row in found])
        return list(islice(heapq.merge(*walks, key=lambda job: -job.id), limit + 1))

    found = _elsewhere(store, caller, where, before, limit)
    if len(found) <= limit:  # those have the higher numbers
        found += store.db.read(look)
    return _page(found, limit)


def _page(found: list[Job], limit: int) -> Page[Job]:
    return Page(found[:limit], str(found[limit - 1].id) if len(found) > limit else "")


def _elsewhere(store: Store, caller: Caller, where: Filter, before: int, limit: int) -> list[Job]:
    """Jobs that are not in the database, newest first."""
    if store.elsewhere is None:
        return []
    seen = (job for job in store.elsewhere.newest(where, before) if caller.sees(job.collection))
    return list(islice(seen, limit + 1))


def _states(tx: Tx, kind: str, where: Filter, machines: Machines) -> list[str]:
    states = [row[0] for row in tx.run("web_states", kind=kind)]
    machine = machines.of(kind)
    return [
        state
        for state in states
        if where.state in ("", state) and (not where.ended or machine.end(state) == where.ended)
    ]


def _is_kind(kind: str, wanted: str) -> bool:
    if wanted.endswith("*"):
        return kind.startswith(wanted[:-1])
    return wanted in ("", kind)


def children(store: Store, caller: Caller, where: Filter, after: int, limit: int) -> Page[Job]:
    """The jobs of a batch, in the order of its rows."""
    if store.elsewhere and store.elsewhere.has(where.parent):
        seen = (job for job in store.elsewhere.every(where, after) if caller.sees(job.collection))
        return _page(list(islice(seen, limit + 1)), limit)
    rest = {
        "scope": caller.scope, "collection": where.collection, "lane": where.lane, "code": where.code,
        "state": where.state, "parent": where.parent, "after": after, "limit": limit + 1,
    }  # fmt: skip

    def look(tx: Tx) -> list[Job]:
        ends = [where.ended] if where.ended else list(ENDS)
        walks = [[job_from(row) for row in tx.run("web_children_ended", ended=end, **rest)] for end in ends]
        if not where.ended:
            walks.append([job_from(row) for row in tx.run("web_children_open", **rest)])
        return list(islice(heapq.merge(*walks, key=lambda job: job.id), limit + 1))

    return _page(store.db.read(look), limit)


def leased(store: Store, limit: int) -> Sequence[Job]:
    """What is being worked on."""
    found = [job_from(row) for row in store.db.read(lambda tx: tx.run("web_leased_jobs", limit=limit))]
    return [*found, *(store.elsewhere.leased() if store.elsewhere else ())][:limit]


# Items and events


def items(store: Store, caller: Caller, query: Mapping[str, str]) -> Page[Item]:
    limit, prefix = limit_of(query), query.get("prefix", "")
    type_ = f" {query['type']} " if query.get("type") else ""
    values = {
        "after": query.get("after", ""), "scope": caller.scope, "collection": query.get("collection", ""),
        "type": type_, "prefix": prefix, "prefix_end": prefix + HIGHEST, "limit": limit + 1,
    }  # fmt: skip
    if any("\0" in str(value) for value in values.values()):
        raise BadInput("cannot read the filter", code="filter", where="after")
    found = [item_from(row) for row in store.db.read(lambda tx: tx.run("web_items", **values))]
    return Page(found[:limit], found[limit - 1].id if len(found) > limit else "")


def events(store: Store, query: Mapping[str, str]) -> Page[Event]:
    limit, before = limit_of(query), whole_number(query, "before", NEWEST)
    prefix = query.get("subject", "")
    wanted = {name: query.get(name, "") for name in ("type", "outcome", "agent")}
    if any("\0" in value for value in (prefix, *wanted.values())):
        raise BadInput("cannot read the filter", code="filter", where="subject")

    def look(tx: Tx) -> list[Event]:
        start = min(before, int(tx.run("web_newest_event")[0][0]) + 1)
        rows = tx.run(
            "web_events", before=start, floor=max(0, start - LOOK_BACK) if prefix or any(wanted.values()) else 0,
            prefix=prefix, prefix_end=prefix + HIGHEST, limit=limit + 1, **wanted,
        )  # fmt: skip
        return [event_from(row) for row in rows]

    found = store.db.read(look)
    return Page(found[:limit], str(found[limit - 1].id) if len(found) > limit else "")


def every(ask: Callable[[Mapping[str, str]], Page[T]], query: Mapping[str, str], cursor: str) -> Iterator[T]:
    """All rows of a list, a page at a time, for a download."""
    asked = {**query, "limit": str(MOST)}
    while True:
        page = ask(asked)
        yield from page.rows
        if not page.next:
            return
        asked[cursor] = page.next

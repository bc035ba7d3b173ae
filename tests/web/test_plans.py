"""No list reads a whole table: every statement behind every list goes down an index, as the databases tell it.

The pages and the API are asked for every list with every filter that they offer; the statements that were run are
explained. A new list, or a new filter, that would read or sort everything fails here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import apsw
import psycopg
import pytest
from fastapi.routing import APIRoute

from custody.kernel.access.caller import Caller
from custody.kernel.model.authority.acting import system
from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import NewItem
from custody.kernel.model.job import Filter, NewJob
from custody.kernel.model.machine import WORK, Machines
from custody.kernel.stores import open_store
from custody.kernel.stores.sql import statements
from custody.kernel.stores.sqlite.connection import SqliteTx
from custody.web.app import routers_of
from custody.web.queries import lists as listing
from web.house import CHANNEL, House

Run = Mapping[str, Mapping[str, Any]]  # the values of each statement when it was last run

GROWS = "job|event|item|latest|edge|sealed|slot|inv_object|inv_local|inv_version|inv_file"
READS_ALL = re.compile(rf"^SCAN (?:{GROWS})\b(?! USING INDEX job_leased)")  # that holds only what is worked on now
SMALL = re.compile(r"from (?:hold|worker)\b")  # a few rows
PART = re.compile(r"\{(\w+)(?::\w+)?\}")
SORTS = "USE TEMP B-TREE FOR ORDER BY"
VALUES = {
    # what is put into each filter; the others get a word that matches nothing
    "kind": ("parcel", "ingest/*", "nothing"),
    "state": ("failed", "held"),
    "ended": ("failed", "passed"),
    "collection": ("papers", "nowhere"),
    "code": ("digest.mismatch",),
    "parent": ("1",),
    "limit": ("7",),
    "before": ("40",),
    "after": ("1",),
    "subject": ("job/", "item/ark"),
    "type": ("object", "failed"),
    "prefix": ("ark:",),
    "q": ("1", "loc1"),
}
KEPT = {
    # statement: why it may look at more, and what bounds it
    "counts": "kept at hand by the overview, renewed beside the requests",
    "failure_groups": "of failed jobs only, kept at hand like the counts",
    "web_owners": "one step for each owner",
    "stopped_items": "only what somebody has stopped",
}


def filters(house: House) -> Iterator[tuple[str, str]]:
    """Every list and every filter that it offers: the API's from its description, a page's from its form."""
    client = house.client("admin", Accept="text/html")
    for path, told in client.get("/api/v1/openapi.json").json()["paths"].items():
        if "get" in told and "{" not in path and "stream" not in path:
            names = [each["name"] for each in told["get"].get("parameters", []) if each["in"] == "query"]
            yield from ((path, name) for name in ("", *names))
    signature = house.depositors_page().rpartition("/")[2]
    parts = {
        "signature": signature,
        "batch": house.papers,
        "job": house.task,
        "archive": "book",
        "name": "book",
        "channel": CHANNEL,
        "robot": "fixity",
    }
    lists = {path.removesuffix(".csv") for path in _paths(house) if path.endswith(".csv")}
    for path in sorted(lists):
        here = PART.sub(lambda part: str(parts[part[1]]), path)
        html = client.get(here).text
        names = set(re.findall(r'<(?:input|select)[^>]* name="(\w+)"', html)) - {"form_token"}
        names |= set(re.findall(r"[?&;](\w+)=", "".join(re.findall(rf'href="{re.escape(here)}\?([^"]*)"', html))))
        yield from ((here, name) for name in ("", "before", "after", *sorted(names)))


def _paths(house: House) -> list[str]:
    routers = routers_of(house.site.options)
    return [route.path for router in routers for route in router.routes if isinstance(route, APIRoute)]


@pytest.fixture(scope="module")
def run(house: House) -> Run:
    """Each statement that any list ran, with its values."""
    found: dict[str, Mapping[str, Any]] = {}
    plain = SqliteTx.run

    def told(tx: SqliteTx, name: str, /, **values: Any) -> Any:
        found[name] = values
        return plain(tx, name, **values)

    asked = list(filters(house))
    assert len({path for path, _ in asked}) > 20
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqliteTx, "run", told)
        for who in ("admin", "reader/papers"):
            client = house.client(who, Accept="text/html")
            for path, name in asked:
                for value in VALUES.get(name, ("x",)) if name else ("",):
                    answer = client.get(path, params={name: value} if name else {})
                    assert answer.status_code < 500, (path, name, value)
    return found


def test_no_list_reads_or_sorts_a_whole_table(run: Run, house: House) -> None:
    texts = statements.load("sqlite")
    db = apsw.Connection(str(house.archive.home / "custody.db"))
    walks = [name for name in run if name.startswith("web_walk_")]
    assert len(walks) >= 8, "the lists were asked"
    wrong = {}
    for name, values in run.items():
        if name in KEPT or not texts[name].lstrip().lower().startswith(("select", "with")):
            continue
        given = {"now": 0, **values}
        plan = [row[3] for row in db.execute(f"explain query plan {texts[name]}", given)]
        bad = [line for line in plan if READS_ALL.search(line) or (SORTS in line and not SMALL.search(texts[name]))]
        if bad:
            wrong[name] = bad
    db.close()
    assert wrong == {}


# PostgreSQL prefers to read and sort what is small, so it is asked for the way it takes when that is forbidden:
# a plan that sorts all the same has no index that gives its order.

MAPS = Caller("ada", frozenset({"reader"}), frozenset({"maps", "rare"}))
ALL = Caller("ada", frozenset({"reader"}), None)
TABLES = Machines({})


@pytest.fixture(scope="module")
def filled(postgres: Any) -> Iterator[str]:
    """The oldest jobs are done, the newest wait: what is done is far from where an ordered walk begins."""
    url = postgres.fresh_database()
    with open_store(url) as store:
        made = [
            NewJob(
                f"parcel/{number % 3}",
                machine=WORK,
                state="done" if number < 3500 else "queued",
                collection="maps" if number % 2 else "papers",
                parent=1 if number % 4 == 0 and number else None,
            )
            for number in range(4000)
        ]
        store.queue.submit(made, system("ada"))
        items = [NewItem(f"item-{n:05}", frozenset({"thing"}), "maps" if n % 2 else "") for n in range(2000)]
        store.records.put(items, [NewEvent(item.id, "seen") for item in items], "ada")
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("update job set ended = 'failed', code = 'c' || id % 5 where state = 'done' and id % 7 = 0")
        db.execute("analyze")
    yield url
    postgres.give_back(url)


ASKED = [
    Filter(),
    Filter(kind="parcel/1"),
    Filter(state="done"),
    Filter(ended="failed"),
    Filter(code="c1"),
    Filter(collection="maps"),
    Filter(collection="rare", state="done"),
    Filter(lane="x"),
    Filter(parent=1),
    Filter(parent=1, ended="failed"),
    Filter(kind="parcel/*", collection="maps", lane="x"),
]


def test_postgresql_walks_too(filled: str) -> None:
    from custody.kernel.stores.postgres.transaction import PostgresTx

    found: dict[str, str] = {}
    plain = PostgresTx.run

    def told(tx: PostgresTx, name: str, /, **values: Any) -> Any:
        text = tx.statements[name]
        if name.startswith("web_"):
            tx.db.execute(
                "set local enable_seqscan = off; set local enable_bitmapscan = off; set local enable_sort = off"
            )
            rows = tx.db.execute(f"explain {text}", {"now": 0, **values}).fetchall()
            found[name] = "\n".join(row[0] for row in rows)
        return plain(tx, name, **values)

    with open_store(filled) as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr(PostgresTx, "run", told)
        for caller in (ALL, MAPS):
            for where in ASKED:
                listing.jobs(store, TABLES, caller, where, {})
            for query in ({}, {"prefix": "item-01"}, {"collection": "maps"}, {"type": "thing"}):
                listing.items(store, caller, query)
        for query in ({}, {"type": "seen"}, {"subject": "item/item-0001"}):
            listing.events(store, query)
    assert {name for name in found if "walk" in name} == {
        name for name in statements.load("postgres") if name.startswith("web_walk_")
    }
    wrong = {
        name: plan
        for name, plan in found.items()
        if re.search(rf"Seq Scan on (?:{GROWS})\b", plan) or ("walk" in name and "Sort" in plan)
    }
    assert wrong == {}

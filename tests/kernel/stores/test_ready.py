"""What can be claimed now is found at once, whatever else is in the table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import apsw
import psycopg
import pytest

from custody.kernel.model.graph import Edge
from custody.kernel.model.job import NewJob
from custody.kernel.stores import Store
from custody.kernel.stores.rows import Tx
from custody.kernel.stores.sql.statements import load
from kernel.stores.acts import execute, queue_of, submit, take, take_one, worked
from kernel.stores.clock import HandClock

CROWD = 2_500  # of each sort; ten thousand and more in all


def delayed(store: Store) -> None:
    store.queue.submit([NewJob("parcel", priority=0, delay=3600) for _ in range(CROWD)])


def held(store: Store) -> None:
    store.queue.submit([NewJob("parcel", priority=0, state="held") for _ in range(CROWD)])


def blocked(store: Store) -> None:
    need = submit(store, "need")
    store.queue.submit([NewJob("parcel", priority=0, needs=[Edge(need)]) for _ in range(CROWD)])


def leased(store: Store) -> None:
    store.queue.submit([NewJob("parcel", priority=0) for _ in range(CROWD)])
    assert len(take(store, limit=CROWD, holder="bo", seconds=3600)) == CROWD


def in_paused_lanes(store: Store) -> None:
    store.queue.submit([NewJob("parcel", priority=0, lane="closed") for _ in range(CROWD)])
    store.queue.hold("lane", "closed", "eva", "full")


CROWDS = (leased, delayed, held, blocked, in_paused_lanes)


def test_one_ready_job_is_found_behind_ten_thousand_that_are_not(store: Store) -> None:
    for crowd in CROWDS:
        crowd(store)
    job = submit(store, priority=99)

    assert take_one(store, limit=10).id == job
    assert take(store, limit=10) == []
    assert take(store, lane="closed", limit=10) == []


# SQLite counts its own steps; they must not grow with the crowd.


@pytest.fixture
def steps() -> Iterator[Callable[[], dict[str, int]]]:
    """What each statement has cost since last asked, in steps of SQLite's machine."""
    cost: dict[str, int] = {}

    def profile(event: dict[str, Any]) -> None:
        sql = event["sql"]
        cost[sql] = cost.get(sql, 0) + event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    def hook(connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, profile)

    def asked() -> dict[str, int]:
        names = {sql: name for name, sql in load("sqlite").items()}
        found = {names[sql]: count for sql, count in cost.items() if sql in names}
        cost.clear()
        return found

    apsw.connection_hooks.append(hook)
    yield asked
    apsw.connection_hooks.remove(hook)


VERBS: dict[str, Callable[[Store], object]] = {
    "claim": lambda store: store.queue.release(take(store, limit=5)),
    "claim from a paused lane": lambda store: take(store, lane="closed", limit=5),
    "ready queues": lambda store: store.queue.ready_queues("parcel|queued|"),
    "take over": lambda store: store.queue.claim_expired(["parcel|"], "bo", 30),
    "tick": lambda store: store.queue.tick(),
}


@pytest.mark.parametrize("url", ["memory"], indirect=True)
def test_the_cost_of_a_claim_does_not_depend_on_what_waits(steps: Callable[[], dict[str, int]], store: Store) -> None:
    def costs() -> dict[str, int]:
        found = {}
        for name, verb in VERBS.items():
            steps()
            verb(store)
            found[name] = sum(steps().values())
        return found

    submit(store, lane="closed")
    store.queue.hold("lane", "closed", "eva", "full")
    store.queue.submit([NewJob("parcel", priority=50) for _ in range(2)])
    alone = costs()

    claims = take(store, limit=2)
    for crowd in CROWDS:
        crowd(store)
    store.queue.release(claims)
    assert {name: cost for name, cost in costs().items() if cost > alone[name] + 100} == {}


# The plans themselves.


class Planned(Exception):
    """So that what was tried is rolled back."""


def plan(store: Store, name: str, **values: Any) -> str:
    """How the database would run a statement, as text."""
    found: list[str] = []

    def look(tx: Tx) -> None:
        if store.db.dialect == "sqlite":
            rows = execute(tx, "explain query plan " + load("sqlite")[name], values | {"now": tx.now})
            found.append("\n".join(row[3] for row in rows))
        else:
            rows = execute(
                tx, "explain (analyze, buffers, format json) " + tx.statements[name], values | {"now": tx.now}
            )  # type: ignore[attr-defined]
            found.append(json.dumps(rows[0][0]))
        raise Planned

    with pytest.raises(Planned):
        store.db.write(look)
    return found[0]


def crowded(store: Store) -> None:
    for crowd in CROWDS:
        crowd(store)
    submit(store, priority=99)
    store.db.write(lambda tx: execute(tx, "analyze"))


LEASE = {"holder": "ann", "lease": 30, "move": "m"}


@pytest.mark.parametrize("url", ["file"], indirect=True)
def test_sqlite_plans_use_the_index_of_what_is_ready(store: Store, clock: HandClock) -> None:
    crowded(store)
    claim = plan(store, "claim", queue=queue_of(), limit=5, **LEASE)
    assert "USING INDEX job_ready (queue=?)" in claim or "USING COVERING INDEX job_ready (queue=?)" in claim
    assert "SCAN job" not in claim
    assert "TEMP B-TREE" not in claim, "the index is in the order of the claim"

    expected = {
        "queue_open": (dict(queue=queue_of()), "job_ready (queue=?)"),
        "ready_queues": (dict(after="parcel|", before="parcel~", limit=9), "job_ready (queue>? AND queue<?)"),
        "due_jobs": (dict(limit=9), "job_due (due<?)"),
        "expired": (dict(prefix="parcel|", before="parcel~", place="", limit=9), "job_leased (until<?)"),
        "meet_edges": (dict(target=1, ended="passed"), "edge_target (target=?)"),
        "edges_to": (dict(id=1, limit=9), "edge_target (target=?)"),
        "left_behind": (dict(id=1), "edge_target (target=?)"),
        "newer_superseder": (dict(line="l", task="t", position=1), "job_line (line=? AND task=? AND position>?)"),
        "older_instances": (dict(line="l", task="t", position=1), "job_line (line=? AND task=? AND position<?)"),
    }
    for name, (values, index) in expected.items():
        found = plan(store, name, **values)
        assert index in found, f"{name}: {found}"
        assert "SCAN job" not in found, f"{name}: {found}"


@pytest.mark.parametrize("url", ["memory", "file"], indirect=True)
def test_where_thousands_wait_for_one_an_end_is_still_told_by_the_index(store: Store) -> None:
    gate = submit(store, "gate")
    store.queue.submit([NewJob("parcel", needs=[Edge(gate)]) for _ in range(3000)])
    store.db.write(
        lambda tx: execute(tx, "analyze")
    )  # as an administrator may: it says that by its target an edge is hardly found
    asked: dict[str, dict[str, Any]] = {
        "meet_edges": dict(target=1, ended="passed"),
        "meet_many": dict(targets="[1]", ended="passed"),
        "in_vain_many": dict(targets="[1]", ended="passed"),
        "disappointed": dict(target=1),
    }
    for name, values in asked.items():
        found = plan(store, name, **values)
        assert "edge_target (target=?)" in found, f"{name}: {found}"
        assert "SCAN edge" not in found, f"{name}: {found}"


FIRST: dict[str, Any] = {"priorities": [-1], "ids": [-1]}  # from the beginning


def nodes(plan: Any) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", []):
        yield from nodes(inner)


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
def test_postgresql_plans_use_the_index_of_what_is_ready_and_read_few_pages(store: Store) -> None:
    crowded(store)
    asked = {
        "claim_many": (dict(queues=[queue_of()], share=5, limit=5, **FIRST, **LEASE), "job_ready"),
        "claim_many in a paused lane": (
            dict(queues=[queue_of(lane="closed")], share=5, limit=5, **FIRST, **LEASE),
            "job_ready",
        ),
        "ready_queues": (dict(after="parcel|", before="parcel~", limit=9), "job_ready"),
        "due_jobs": (dict(limit=9), "job_due"),
        "expired": (dict(prefix="parcel|", before="parcel~", place="", limit=9), "job_leased"),
        "meet_edges": (dict(target=1, ended="passed"), "edge_target"),
        "edges_to": (dict(id=1, limit=9), "edge_target"),
        "left_behind": (dict(id=1), "edge_target"),
    }
    for name, (values, index) in asked.items():
        plan(store, name.partition(" ")[0], **values)  # whoever comes first clears away what the leased ones left
        (told,) = json.loads(plan(store, name.partition(" ")[0], **values))
        found = list(nodes(told["Plan"]))
        assert any(node.get("Index Name") == index for node in found), f"{name}: {found}"
        assert not any(node["Node Type"] == "Seq Scan" and node["Relation Name"] == "job" for node in found), name
        pages = told["Plan"]["Shared Hit Blocks"] + told["Plan"]["Shared Read Blocks"]
        # Whoever looks for the lost reads every lease: no index holds their ends, so that renewing one is cheap.
        assert pages < (300 if name == "expired" else 60), f"{name} read {pages} pages"


FENCE = {"id": 1, "token": 1, "claimed": "m", "holder": "ann"}
FENCED: dict[str, dict[str, Any]] = {
    "renew": FENCE | {"lease": 30},
    "release": FENCE,
    "suspect": FENCE | {"suspect": 1},
    "keep": FENCE | {"facts": "{}", "open": 0},
    "settle": FENCE
    | dict.fromkeys(("priority", "lane", "place", "last_passed", "facts", "code", "ended"))
    | {
        "to_state": "queued",
        "from_state": "queued",
        "runnable": 1,
        "move": "n",
        "retries": 0,
        "open": 0,
        "attempts": 0,
        "delay": 0,
    },
}


@pytest.mark.parametrize("url", ["file", "postgres"], indirect=True)
def test_what_a_claim_fences_is_found_by_its_number_alone(store: Store) -> None:
    """The claim's own move is compared with the one row that was found: it needs no index, and changes no plan."""
    crowded(store)
    assert set(FENCED) == {name for name, text in load(store.db.dialect).items() if ":claimed" in text}
    for name, values in FENCED.items():
        found = plan(store, name, **values)
        if store.db.dialect == "sqlite":
            assert found == "SEARCH job USING INTEGER PRIMARY KEY (rowid=?)", name
            continue
        (told,) = json.loads(found)
        looks = [node for node in nodes(told["Plan"]) if "Scan" in node["Node Type"]]
        assert [(node["Node Type"], node["Index Name"]) for node in looks] == [("Index Scan", "job_pkey")], name
        assert "id" in looks[0]["Index Cond"]
        assert "move" in looks[0]["Filter"]


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
def test_many_that_are_fenced_at_once_are_found_by_their_numbers_too(store: Store) -> None:
    crowded(store)
    many: dict[str, Any] = {"ids": [1, 2], "tokens": [1, 1], "claims": "m"}
    told = {"type": "passed", "outcome": "success", "agent": "ann", "detail": "{}", "details": "{}", "moves": "n"}
    asked = {
        "renew_many": many | {"holder": "ann", "lease": 30},
        "settle_many": FENCED["settle"] | many | told | {"facts": "{}"},
    }
    for name, values in asked.items():
        (found,) = json.loads(plan(store, name, **values))
        looks = [node for node in nodes(found["Plan"]) if "Scan" in node["Node Type"]]
        assert any(node.get("Index Name") == "job_pkey" for node in looks), name
        assert not any(node["Node Type"] == "Seq Scan" and node["Relation Name"] == "job" for node in looks), name


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
def test_a_claim_that_goes_on_behind_a_place_does_not_read_what_is_before_it(store: Store, url: str) -> None:
    with psycopg.connect(store.url.partition("?")[0]) as forgotten:
        forgotten.execute("set transaction isolation level repeatable read")
        forgotten.execute("select count(*) from job").fetchone()  # from now on nothing is cleared away
        ids = [made.id for made in store.queue.submit([NewJob("parcel") for _ in range(3000)])]
        for _ in range(5):
            store.queue.settle([worked(claim, "pass") for claim in take(store, limit=500)])

        def pages(after: int) -> int:
            values: dict[str, Any] = dict(priorities=[50], ids=[after], share=5, limit=5, **LEASE)
            (told,) = json.loads(plan(store, "claim_many", queues=[queue_of()], **values))
            return int(told["Plan"]["Shared Hit Blocks"] + told["Plan"]["Shared Read Blocks"])

        assert pages(after=ids[2499]) * 2 < pages(after=ids[0])
        forgotten.rollback()

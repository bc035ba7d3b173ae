"""Bulk actions: counted first, agreed to, carried out by a worker, and carried on by the next one."""

from __future__ import annotations

from typing import Any

import pytest

from custody.kernel.engine.work import Work
from custody.kernel.model.job import Filter, NewJob
from custody.kernel.model.outcome import Passed, Wait
from custody.web.operations import bulk
from web.house import TABLES, House


def parcels(own: House, count: int, **fields: Any) -> list[int]:
    made = own.archive.store.queue.submit([NewJob("parcel", {"n": n}, **fields) for n in range(count)])
    return [each.id for each in made]


def test_a_dry_run_counts_and_does_nothing(own: House) -> None:
    ids = parcels(own, 5)
    api = own.client("operator")
    api.post(f"/api/v1/jobs/{ids[0]}/hold", json={"why": "x"})
    found = api.post("/api/v1/bulk", json={"action": "hold", "filter": {"kind": "parcel"}}).json()
    assert found == {"eligible": 4, "others": {"parcel that are held": 1}, "matched": 5}
    assert own.archive.store.queue.get(ids[1]).state == "queued"


def test_another_number_than_was_agreed_to_is_refused(own: House) -> None:
    parcels(own, 5)
    given = {"action": "hold", "filter": {"kind": "parcel"}, "why": "x", "dry_run": False}
    api = own.client("operator")
    assert api.post("/api/v1/bulk", json=given).json()["code"] == "bulk.count"
    refused = api.post("/api/v1/bulk", json=given | {"count": 4})
    assert (refused.status_code, refused.json()["eligible"]) == (409, 5)
    everything = api.post("/api/v1/bulk", json=given | {"count": 5, "filter": {}})
    assert everything.json()["code"] == "bulk.filter"


def test_it_is_done_by_a_worker_with_one_event_each_and_tells_what_was_refused(own: House) -> None:
    ids = parcels(own, 450)
    api = own.client("operator")
    api.post(f"/api/v1/jobs/{ids[7]}/cancel", json={"why": "x"})
    given = {"action": "hold", "filter": {"kind": "parcel"}, "why": "paper jam", "dry_run": False, "count": 449}
    made = api.post("/api/v1/bulk", json=given)
    assert made.status_code == 202
    later = parcels(own, 3)
    own.work()
    job = api.get(made.headers["location"]).json()["job"]
    assert (job["state"], job["facts"]["done"], job["facts"]["refused"]) == ("done", 449, 1)
    assert job["facts"]["refusals"][0]["job"] == ids[7]
    store = own.archive.store
    assert {store.queue.get(number).state for number in ids if number != ids[7]} == {"held"}
    assert {store.queue.get(number).state for number in later} == {"queued"}, "made after it was asked for"
    last = store.records.events(f"job/{ids[3]}")[-1]
    assert (last.type, last.agent, last.detail["why"]) == ("held", own.agent("operator"), "paper jam")


def test_a_worker_that_takes_it_over_goes_on_where_it_stopped(own: House) -> None:
    ids = parcels(own, 10)
    store = own.archive.store
    caller = own.site.tokens.caller(own.token("operator"))
    assert caller is not None
    number = bulk.submit(store, TABLES, caller, "hold", Filter(kind="parcel"), "x", 10).id
    (claim,) = store.queue.claim_jobs([number], "first", 0.2)
    Work(claim, store.queue).keep(after=ids[5], done=6, refused=0, refusals=[])
    while not (taken := store.queue.claim_expired(["bulk|queued|"], "second", 30)):
        pass
    outcome = bulk.carry_out(Work(taken[0], store.queue), store, TABLES)
    assert isinstance(outcome, Passed)
    assert outcome.keep["done"] == 10
    states = [store.queue.get(each).state for each in ids]
    assert states == ["queued"] * 6 + ["held"] * 4


def test_it_stops_when_it_is_told_to(own: House) -> None:
    ids = parcels(own, 3)
    store = own.archive.store
    caller = own.site.tokens.caller(own.token("operator"))
    assert caller is not None
    number = bulk.submit(store, TABLES, caller, "hold", Filter(kind="parcel"), "x", 3).id
    (claim,) = store.queue.claim_jobs([number], "first", 30)
    work = Work(claim, store.queue)
    work.stop("shutdown")
    assert isinstance(bulk.carry_out(work, store, TABLES), Wait)
    assert store.queue.get(ids[0]).state == "queued"


@pytest.mark.parametrize(("collection", "status"), [("", 400), ("maps", 400), ("papers", 202)])
def test_a_scoped_operator_acts_only_within_a_collection_of_theirs(own: House, collection: str, status: int) -> None:
    mine, foreign = parcels(own, 2, collection="papers"), parcels(own, 2, collection="maps")
    where = {"kind": "parcel", "collection": collection}
    given = {"action": "hold", "filter": where, "why": "x", "dry_run": False, "count": 2}
    assert own.client("operator/papers").post("/api/v1/bulk", json=given).status_code == status
    own.work()
    assert {own.archive.store.queue.get(number).state for number in foreign} == {"queued"}
    assert own.archive.store.queue.get(mine[0]).state == ("held" if status == 202 else "queued")

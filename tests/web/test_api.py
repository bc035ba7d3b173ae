"""The API as a program meets it: what it makes, lists, moves and refuses."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import APIRouter
from starlette.testclient import TestClient

from custody.errors import Unsafe
from custody.kernel.access.rules import Rule
from custody.kernel.model.item import NewItem
from custody.kernel.model.job import NewJob
from custody.web.app import Options, build_app
from custody.web.sections import Section
from web.house import SECRET, House


@pytest.fixture
def api(own: House) -> TestClient:
    return own.client("admin")


def submit(api: TestClient, **fields: Any) -> int:
    answer = api.post("/api/v1/jobs", json={"kind": "parcel", **fields})
    assert answer.status_code == 201, answer.text
    number: int = answer.json()["job"]
    return number


# Batches


def test_a_deposit_by_address_becomes_an_object(own: House, api: TestClient) -> None:
    url = own.archive.put("letter.txt", b"Dear sister")
    made = api.post("/api/v1/batches", json={"profile": "papers", "payload": url, "type": "file", "title": "A letter"})
    assert made.status_code == 201
    number = made.json()["batch"]
    assert made.headers["location"] == f"/api/v1/batches/{number}"
    own.work()
    shown = api.get(f"/api/v1/batches/{number}").json()
    assert shown["batch"]["state"] == "completed"
    assert shown["progress"]["done"] == 1
    report = api.get(f"/api/v1/batches/{number}/report").json()
    assert report["counts"]["completed"] == 1
    ark = report["jobs"][0]["ark"]
    item = api.get(f"/api/v1/items/{ark}").json()
    assert [event["type"] for event in item["events"]][:2] == ["changed", "ingested"]
    assert api.get("/api/v1/search", params={"q": ark}).json()["found"][0]["id"] == ark


def test_an_item_is_found_by_every_equal_spelling_of_its_name(own: House, api: TestClient) -> None:
    own.archive.store.records.put([NewItem("ark:/12345/ab1cd", frozenset({"object"}), "papers")], [], "ada")
    stranger = own.client("reader/maps")
    for spelled in ("ark:/12345/ab1-cd", "ark:12345/ab1cd", "ARK:/12345/ab1cd/", "https://n2t.net/ark:/12345/ab1cd"):
        item = api.get(f"/api/v1/items/{spelled}").json()
        assert (item["item"]["id"], len(item["events"])) == ("ark:/12345/ab1cd", 1)
        assert api.get(f"/items/{spelled}").status_code == 200
        (found,) = api.get("/api/v1/search", params={"q": spelled}).json()["found"]
        assert found["id"] == "ark:/12345/ab1cd"
        assert stranger.get(f"/api/v1/items/{spelled}").status_code == 404
        assert stranger.get("/api/v1/search", params={"q": spelled}).json()["found"] == []


def test_a_deposit_whose_defaults_are_written_out_is_the_same_deposit(own: House) -> None:
    api = own.client("admin")
    given = {"profile": "papers", "payload": "http://127.0.0.1/a.txt", "local_id": "a;b", "primary_id": "ark:/12345/x"}
    whole = given | {
        "manifest": "",
        "type": "",
        "filename": "a.txt",
        "submitter": "",
        "update": False,
        "digest_type": "",
        "digest_value": "",
        "title": "",
        "creator": "",
        "date": "",
        "notification": "",
        "note": "",
        "dc": {"subject": ""},
        "local_id": " a ; b;",
        "primary_id": "ark:12345/x/",
    }
    rows = {"profile": "papers", "manifest": [{"url": "http://127.0.0.1/a.txt", "primary_id": "ark:/12345/x"}]}
    full = {"url": "http://127.0.0.1/a.txt", "name": "a.txt", "size": None, "mime": "", "primary_id": "ark:12345/x"}
    same = rows | {"manifest": [full | {"title": ""}], "type": "single-file-batch-manifest", "submitter": ""}
    for key, wishes in {"one": (given, whole), "rows": (rows, same)}.items():
        made = [api.post("/api/v1/batches", json=wish, headers={"Idempotency-Key": key}) for wish in wishes]
        assert [answer.status_code for answer in made] == [201, 201], made[1].text
        assert made[0].json() == made[1].json()
    changed = api.post("/api/v1/batches", json=given | {"filename": "b.txt"}, headers={"Idempotency-Key": "one"})
    assert changed.json()["code"] == "key.conflict"


def test_a_key_that_was_used_is_refused_without_what_the_caller_did_not_give(own: House) -> None:
    """Whatever it was used for, at this door or another: neither the key as it is kept, nor a number."""
    own.archive.store.sign_of_life("w", "here", 1, "", "", ["parcel"])
    deposit = {"profile": "papers", "payload": "http://127.0.0.1/a", "type": "file"}
    bulk = {"action": "hold", "filter": {"kind": "parcel"}, "dry_run": False, "count": 0, "why": "x"}
    asked = {"batches": deposit, "jobs": {"kind": "parcel", "delay": 9}, "bulk": bulk}
    other = {
        "batches": deposit | {"title": "b"},
        "jobs": {"kind": "parcel", "payload": {"n": 1}},
        "bulk": bulk | {"why": "y"},
    }
    for first in ("bulk", "batches", "jobs"):
        client = own.client("admin", **{"Idempotency-Key": f"k-{first}"})
        made = client.post(f"/api/v1/{first}", json=asked[first])
        assert made.status_code in (201, 202), made.text
        for second, wish in other.items():
            answer = client.post(f"/api/v1/{second}", json=wish)
            assert (answer.status_code, answer.json()["code"]) == (422, "key.conflict")
            assert answer.json()["where"] == "Idempotency-Key"
            assert answer.json()["detail"] == "this key was used before, for another request"
            assert answer.json().keys() <= {"type", "title", "status", "code", "where", "hint", "detail", "request"}
            assert "~" not in answer.text


def test_an_upload_takes_the_field_names_of_the_deployed_form(own: House, api: TestClient) -> None:
    data = b"the bytes of a plan"
    fields = {
        "profile": "maps",
        "submitter": "t.jensen",
        "type": "file",
        "title": "Plan 1",
        "creator": "A surveyor",
        "date": "1871",
        "localIdentifier": "p1;p2",
        "digestType": "sha-256",
        "digestValue": hashlib.sha256(data).hexdigest(),
        "note": "fragile",
        "responseForm": "json",
        "DC.rights": "Public domain",
        "DC.colour": "red",
    }
    made = api.post("/api/v1/batches/upload", data=fields, files={"file": ("plan.tif", data)})
    assert made.status_code == 201, made.text
    own.work()
    batch = own.archive.batch(made.json()["batch"])
    assert (batch.state, batch.payload["submitter"]) == ("completed", "t.jensen")
    (job,) = own.archive.jobs(batch.id)
    assert job.payload["local_ids"] == ["p1", "p2"]
    assert job.payload["dc"] == {"rights": "Public domain"}
    assert own.archive.world.inventory.arks_of("ark:/99999/owner", ["p2"]) == {"p2": job.facts["primary"]}


def test_a_manifest_can_be_handed_in_as_text(own: House, api: TestClient) -> None:
    row = own.archive.object_row("o/a.txt", b"text")
    own.archive.object_manifest("o.checkm", [row])
    text = (own.archive.server.root / "o.checkm").read_text()
    made = api.post("/api/v1/batches", json={"profile": "papers", "manifest": text})
    own.work()
    assert own.archive.batch(made.json()["batch"]).state == "completed"


def test_the_same_key_again_gives_the_same_answer_and_another_deposit_under_it_is_refused(own: House) -> None:
    api = own.client("depositor/papers", **{"Idempotency-Key": "k1"})
    given = {"profile": "papers", "payload": "http://127.0.0.1/a", "type": "file"}
    first, again = (api.post("/api/v1/batches", json=given) for _ in range(2))
    assert first.status_code == again.status_code == 201
    assert first.json() == again.json()
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    other = api.post("/api/v1/batches", json={**given, "payload": "http://127.0.0.1/b"})
    assert other.status_code == 422
    assert other.json()["code"] == "key.conflict"
    mine = own.client("admin", **{"Idempotency-Key": "k1"}).post("/api/v1/batches", json=given)
    assert mine.json()["batch"] != first.json()["batch"]


@pytest.mark.proves("H1")
@pytest.mark.parametrize(
    ("given", "status", "code"),
    [
        ({"payload": "http://x/"}, 422, "request.fields"),
        ({"profile": "none", "payload": "http://x/"}, 400, "profile.unknown"),
        ({"profile": "papers"}, 400, "submission.payload"),
        ({"profile": "papers", "payload": "http://x/", "manifest": "y"}, 400, "submission.payload"),
        ({"profile": "papers", "payload": "file:///etc/passwd"}, 400, "submission.payload"),
        ({"profile": "papers", "payload": "staged:" + "0" * 64 + "/x"}, 400, "submission.payload"),
        ({"profile": "papers", "payload": "http://x/", "type": "a parcel"}, 400, "submission.type"),
        ({"profile": "papers", "payload": "http://x/", "digest_type": "md5"}, 400, "submission.digest"),
        ({"profile": "papers", "payload": "http://x/", "digest_type": "x", "digest_value": "1"}, 400, "digest.unknown"),
        ({"profile": "papers", "payload": "http://x/", "digest_type": "md5", "digest_value": "1"}, 400, "digest.form"),
        ({"profile": "papers", "payload": "http://x/", "colour": "red"}, 422, "request.fields"),
        ([], 422, "request.fields"),
    ],
)
def test_a_deposit_that_cannot_be_read_is_refused_and_says_where(
    empty: House, given: Any, status: int, code: str
) -> None:
    api = empty.client("admin")
    answer = api.post("/api/v1/batches", json=given)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/problem+json"
    assert api.get("/api/v1/batches").json()["batches"] == []


def test_the_held_jobs_of_a_batch_are_released_with_it(own: House) -> None:
    api, home = own.client("operator"), own.archive
    number = home.submit(home.put("a.txt", b"a"), type="file", filename="a.txt")
    home.store.queue.hold("batch", str(number), "k.lee", "look first")
    own.work()
    assert home.jobs(number)[0].state == "held"
    refused = api.post(f"/api/v1/batches/{number}/release", json={}).json()
    assert refused["released"] == 0
    assert "look first" in refused["refused"][0]["why"]
    assert api.delete(f"/api/v1/holds/batch/{number}").status_code == 200
    assert api.post(f"/api/v1/batches/{number}/release", json={"why": "looked"}).json()["released"] == 1
    own.work()
    assert home.batch(number).state == "completed"


def test_a_held_batch_is_released_a_mended_one_reports_again_and_an_ended_one_is_deleted(own: House) -> None:
    api, home = own.client("operator"), own.archive
    home.store.queue.hold("collection", "papers", "k.lee", "moving")
    home.server.misbehave("/a.txt", "gone")
    number = home.submit(home.put("a.txt", b"a"), type="file", filename="a.txt")
    own.work()
    refused = api.post(f"/api/v1/batches/{number}/release", json={})
    assert (refused.status_code, refused.json()["code"]) == (409, "held")
    api.delete("/api/v1/holds/collection/papers")
    assert api.post(f"/api/v1/batches/{number}/release", json={}).json()["batch"]["state"] == "pending"
    own.work()
    shown = api.get(f"/api/v1/batches/{number}").json()
    assert [(cause["code"], cause["count"]) for cause in shown["causes"]] == [("http.404", 1)]
    home.server.mend()
    job = home.jobs(number)[0].id
    assert api.post(f"/api/v1/jobs/{job}/resume", json={"why": "mended"}).status_code == 200
    own.work()
    assert api.post(f"/api/v1/batches/{number}/update-report", json={}).status_code == 200
    own.work()
    assert home.batch(number).state == "completed"
    assert api.post(f"/api/v1/batches/{number}/update-report", json={}).status_code == 409
    assert api.delete(f"/api/v1/batches/{number}").json()["code"] == "action.why"
    assert api.delete(f"/api/v1/batches/{number}", params={"why": "a test"}).json()["jobs"] == 1
    assert api.get(f"/api/v1/batches/{number}").status_code == 404
    assert api.get(f"/api/v1/jobs/{number}/events").json()["events"][-1]["type"] == "deleted"


# Jobs


def test_a_job_of_an_open_batch_is_deleted_only_if_that_is_meant(own: House, api: TestClient) -> None:
    queue = own.archive.store.queue
    batch = queue.submit_one(NewJob("parcel")).id
    first, second = (queue.submit_one(NewJob("parcel", parent=batch)).id for _ in range(2))
    for job in (first, second):
        api.post(f"/api/v1/jobs/{job}/hold", json={"why": "wait"})
    for asked in (
        api.delete(f"/api/v1/jobs/{first}", params={"why": "tidy"}),
        api.post(f"/api/v1/jobs/{first}/delete", json={"why": "tidy"}),
    ):
        assert (asked.status_code, asked.json()["code"]) == (409, "batch.open")
        assert f"batch {batch} is still open" in asked.json()["detail"]
        assert "force" in asked.json()["hint"]
    assert queue.get(first).state == "held"
    assert api.delete(f"/api/v1/jobs/{first}", params={"why": "tidy", "force": True}).status_code == 200
    assert api.post(f"/api/v1/jobs/{second}/delete", json={"why": "tidy", "force": True}).status_code == 200
    assert api.get(f"/api/v1/jobs/{first}").status_code == 404


def test_the_operators_moves_move_and_are_recorded_with_their_reason(own: House, api: TestClient) -> None:
    job = submit(api)

    def move(action: str, **given: Any) -> Any:
        return api.post(f"/api/v1/jobs/{job}/{action}", json=given)

    assert move("hold").json()["code"] == "action.why"
    assert move("hold", why="later").json()["job"]["state"] == "held"
    assert move("resume").status_code == 409
    assert move("release").json()["job"]["state"] == "queued"
    assert move("prioritise", priority=3).json()["job"]["priority"] == 3
    assert move("prioritise", priority=300).status_code == 422
    assert move("wrap").json()["code"] == "action"
    assert move("cancel", why="no need").json()["job"]["state"] == "cancelled"
    assert move("delete", why="tidy").json()["job"] is None
    assert move("release").status_code == 404
    events = api.get(f"/api/v1/jobs/{job}/events").json()["events"]
    assert [event["type"] for event in events] == [
        "submitted",
        "held",
        "released",
        "prioritised",
        "cancelled",
        "deleted",
    ]
    assert {event["agent"] for event in events} == {own.agent("admin")}
    assert events[1]["detail"]["why"] == "later"


def test_why_is_told_and_a_failed_job_can_be_accepted(own: House, api: TestClient) -> None:
    first = submit(api)
    second = submit(api, needs=[first])
    reasons = api.get(f"/api/v1/jobs/{second}/why").json()["reasons"]
    assert [(reason["code"], reason["job"]) for reason in reasons] == [("needs", first)]
    assert "accept" not in api.get(f"/api/v1/jobs/{first}").json()["actions"]
    assert api.post(f"/api/v1/jobs/{first}/accept", json={"why": "x"}).status_code == 409


def test_a_job_of_an_applications_kind_is_not_made_by_hand(api: TestClient) -> None:
    assert api.post("/api/v1/jobs", json={"kind": "ingest/job"}).json()["code"] == "job.kind"


def test_pages_of_a_list_show_everything_once_newest_first(own: House, api: TestClient) -> None:
    kinds = ["a", "b", "c"]
    own.archive.store.queue.submit([NewJob(kinds[n % 3], {"n": n}) for n in range(50)])
    seen: list[int] = []
    query: dict[str, Any] = {"limit": 7}
    while True:
        page = api.get("/api/v1/jobs", params=query).json()
        seen += [job["id"] for job in page["jobs"]]
        if not page["next"]:
            break
        query["before"] = page["next"]
    assert seen == sorted(seen, reverse=True)
    assert len(set(seen)) == 50


def test_failures_are_grouped_by_cause(house: House) -> None:
    groups = house.client("reader").get("/api/v1/failures").json()["failures"]
    found = {(group["kind"], group["code"]): group["count"] for group in groups}
    assert found[("ingest/job", "http.404")] == 1
    assert found[("ingest/job", "digest.mismatch")] == 1


# The rest of the nouns


def test_holds_are_set_told_and_lifted(own: House, api: TestClient) -> None:
    assert api.put("/api/v1/holds/kind/parcel", json={}).json()["code"] == "action.why"
    assert api.put("/api/v1/holds/kind/parcel", json={"why": "paper jam"}).json() == {"held": True, "new": True}
    assert api.put("/api/v1/holds/moon/parcel", json={"why": "x"}).json()["code"] == "hold.scope"
    job = submit(api)
    assert api.get(f"/api/v1/jobs/{job}/why").json()["reasons"][0]["code"] == "paused"
    (hold,) = api.get("/api/v1/holds").json()["holds"]
    assert (hold["who"], hold["why"]) == (own.agent("admin"), "paper jam")
    by_name = api.get("/api/v1/events", params={"subject": "hold/", "agent": "admin"}).json()["events"]
    assert [event["type"] for event in by_name] == ["held"], "a name finds what each token of that name did"
    assert api.get("/api/v1/events", params={"subject": "hold/", "agent": "adm"}).json()["events"] == []
    assert api.delete("/api/v1/holds/kind/parcel").json()["lifted"] is True
    assert api.delete("/api/v1/holds/kind/parcel").json()["lifted"] is False


@pytest.mark.parametrize(
    ("what", "held"),
    [("node/main", [("lane", "node/main")]), ("queue/ingest", [("kind", "ingest/batch"), ("kind", "ingest/job")])],
)
def test_a_storage_node_and_the_queue_are_held_by_the_names_that_people_know(
    api: TestClient, what: str, held: list[tuple[str, str]]
) -> None:
    assert api.put(f"/api/v1/holds/{what}", json={"why": "new disks"}).json() == {"held": True, "new": True}
    assert sorted((hold["scope"], hold["name"]) for hold in api.get("/api/v1/holds").json()["holds"]) == held
    assert api.delete(f"/api/v1/holds/{what}").json()["lifted"] is True
    assert api.get("/api/v1/holds").json()["holds"] == []
    assert api.put("/api/v1/holds/queue/robots", json={"why": "x"}).json()["code"] == "hold.name"


def test_schedules_are_made_paused_and_dropped(api: TestClient) -> None:
    put = api.put("/api/v1/schedules/nightly/deep", json={"spec": "0 3 * * *", "kind": "parcel", "paused": True})
    assert put.json()["schedule"]["paused"] is True
    assert api.get("/api/v1/schedules").json()["schedules"][0]["name"] == "nightly/deep"
    assert api.get("/api/v1/schedules/nightly/deep").json()["slots"] == []
    assert api.put("/api/v1/schedules/x", json={"spec": "1--9", "kind": "parcel"}).json()["code"] == "schedule.spec"
    path = "/api/v1/schedules/nightly/deep"
    said = {"overlap": "allow", "missed": "skip", "zone": "Europe/Copenhagen", "lane": "night", "payload": {"deep": 1}}
    api.put(path, json={"spec": "0 3 * * *", "kind": "parcel", **said})
    kept = api.put(path, json={"spec": "0 4 * * *", "kind": "parcel"}).json()["schedule"]
    assert {part: kept[part] for part in (*said, "paused")} == {**said, "paused": True}, "what is left out stays"
    wrong = api.put(path, json={"spec": "0 4 * * *", "kind": "parcel", "overlap": "never"})
    assert (wrong.status_code, wrong.json()["code"]) == (400, "schedule.field")
    assert api.delete("/api/v1/schedules/nightly/deep").status_code == 200
    assert api.delete("/api/v1/schedules/nightly/deep").status_code == 404


def test_leases_and_workers_are_listed_and_a_name_can_be_taken_away(own: House, api: TestClient) -> None:
    own.archive.store.leases.claim("minter", "somebody", 600)
    own.archive.store.sign_of_life("w1", "here", 1, "", "parcel|queued|")
    assert [lease["name"] for lease in api.get("/api/v1/leases").json()["names"]] == ["minter"]
    assert [worker["id"] for worker in api.get("/api/v1/workers").json()["workers"]] == ["w1"]
    assert api.delete("/api/v1/leases/minter").json()["code"] == "action.why"
    assert api.delete("/api/v1/leases/minter", params={"why": "it hangs"}).status_code == 200
    assert api.delete("/api/v1/leases/minter", params={"why": "it hangs"}).status_code == 404


def test_the_history_can_be_filtered(house: House) -> None:
    api = house.client("reader")
    failed = api.get("/api/v1/events", params={"subject": "job/", "outcome": "failure"}).json()["events"]
    assert failed
    assert {event["outcome"] for event in failed} == {"failure"}
    held = api.get("/api/v1/events", params={"subject": "hold/", "agent": "k.lee"}).json()["events"]
    assert [event["type"] for event in held] == ["held"]


def test_metrics_count_by_kind_and_state_and_fall_back_to_zero(house: House) -> None:
    text = house.client("metrics").get("/metrics").text
    assert 'custody_jobs{kind="ingest/job",state="completed"} 3.0' in text
    assert 'custody_jobs{kind="ingest/job",state="downloading"} 0.0' in text
    assert 'custody_jobs_failed{code="http.404",kind="ingest/job"} 1.0' in text
    assert 'custody_oldest_claimable_seconds{kind="ingest/job",state="downloading"} 0.0' in text
    assert 'custody_work_seconds_count{kind="ingest/job",state="downloading"} 5.0' in text
    assert "custody_leases_lost" in text


def test_health_needs_no_token_and_tells_when_the_store_is_gone(empty: House) -> None:
    assert empty.client().get("/api/v1/health").json()["status"] == "ok"
    assert empty.client("reader").get("/api/v1/overview").json()["lines"][0]["line"]["title"] == "Deposits"


# What clients do wrong


@pytest.mark.proves("H1")
@pytest.mark.parametrize(
    ("sent", "headers", "status"),
    [
        (b"{", {"Content-Type": "application/json"}, 400),
        (b"\xff\xfe", {"Content-Type": "application/json"}, 400),
        (b"[" * 100_000, {"Content-Type": "application/json"}, 400),
        (b'{"kind": "parcel"}', {"Content-Type": "text/plain"}, 422),
        (b'{"kind": "parcel"}', {}, 422),
        (b'{"kind": "\\u0000"}', {"Content-Type": "application/json"}, 400),
        (b'{"kind": "\\ud800"}', {"Content-Type": "application/json"}, 400),
        (b'{"kind": "parcel", "payload": {"a": "\\ud800"}}', {"Content-Type": "application/json"}, 400),
        (b'{"kind": "parcel", "payload": {"a": NaN}}', {"Content-Type": "application/json"}, 400),
        (b'{"kind": "a|b"}', {"Content-Type": "application/json"}, 400),
        (b'{"kind": "parcel", "priority": 1e400}', {"Content-Type": "application/json"}, 400),
        (b"null", {"Content-Type": "application/json"}, 422),
    ],
)
def test_bad_bodies_are_refused_as_such(empty: House, sent: bytes, headers: dict[str, str], status: int) -> None:
    answer = empty.client("admin").post("/api/v1/jobs", content=sent, headers=headers)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert empty.archive.store.queue.list() == []


def test_a_body_that_is_too_large_is_refused_whether_it_says_so_or_not(empty: House) -> None:
    api = empty.client("admin")
    large = json.dumps({"kind": "parcel", "payload": {"a": "x" * 1_100_000}}).encode()
    assert api.post("/api/v1/jobs", content=large, headers={"Content-Type": "application/json"}).status_code == 413

    def pieces() -> Iterator[bytes]:
        for start in range(0, len(large), 65536):
            yield large[start : start + 65536]

    streamed = api.post("/api/v1/jobs", content=pieces(), headers={"Content-Type": "application/json"})
    assert streamed.status_code == 413
    assert streamed.json()["code"] == "http.413"
    lying = api.post(
        "/api/v1/jobs", content=b"{}", headers={"Content-Type": "application/json", "Content-Length": "9" * 12}
    )
    assert lying.status_code == 413


def test_an_upload_without_a_token_is_refused_before_it_is_read(empty: House) -> None:
    sent = {"count": 0}

    def pieces() -> Iterator[bytes]:
        for _ in range(1000):
            sent["count"] += 1
            yield b"x" * 1000

    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    assert empty.client().post("/api/v1/batches/upload", content=pieces(), headers=headers).status_code == 401
    assert list(empty.archive.world.staging.root.iterdir()) == []


@pytest.mark.proves("H1")
@pytest.mark.parametrize(
    ("sent", "headers"),
    [
        (b"not a form", {"Content-Type": "multipart/form-data; boundary=b"}),
        (b"--b\r\n\r\n--b--", {"Content-Type": "multipart/form-data; boundary=b"}),
        (b"x", {"Content-Type": "multipart/form-data"}),
        (b"x", {"Content-Type": "application/json"}),
        (
            b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\ntext\r\n--b--\r\n',
            {"Content-Type": "multipart/form-data; boundary=b"},
        ),
    ],
)
def test_uploads_that_are_no_forms_are_refused(empty: House, sent: bytes, headers: dict[str, str]) -> None:
    answer = empty.client("admin").post("/api/v1/batches/upload", content=sent, headers=headers)
    assert answer.status_code == 400, answer.text


@pytest.mark.proves("H1")
@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/jobs/0",
        "/api/v1/jobs/-1",
        "/api/v1/jobs/99999999999999999999",
        "/api/v1/jobs/abc",
        "/api/v1/jobs?limit=0",
        "/api/v1/jobs?limit=501",
        "/api/v1/jobs?before=x",
        "/jobs.json?limit=99999",
        "/jobs.json?parent=-1",
        "/jobs.json?before=١",
        "/items.json?prefix=%00",
        "/events.json?subject=%00",
        "/api/v1/items/%00",
        "/jobs/99999999999999999999.json",
        "/api/v1/nothing",
        "/batches/1/told/1/2",
    ],
)
def test_odd_addresses_get_a_4xx(house: House, path: str) -> None:
    assert 400 <= house.client("admin").get(path).status_code < 500


def test_a_surprise_is_told_without_its_story(empty: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("select secret from /etc/passwd")

    monkeypatch.setattr(type(empty.archive.store.queue), "holds", fail)
    answer = empty.client("admin").get("/api/v1/holds")
    assert answer.status_code == 500
    assert answer.json()["code"] == "surprise"
    assert answer.json()["request"] == answer.headers["x-request-id"]
    assert "passwd" not in answer.text


HOSTILE_BODIES = {
    "nested 900 deep": (b'{"kind": "parcel", "payload": {"a": ' + b"[" * 900 + b"]" * 900 + b"}}", "json.depth"),
    "a name twice": (b'{"kind": "parcel", "kind": "other"}', "json.duplicate_key"),
    "a name twice, deep down": (b'{"kind": "parcel", "payload": {"a": {"b": 1, "b": 2}}}', "json.duplicate_key"),
    "a number of 4,000 digits": (b'{"kind": "parcel", "payload": {"n": ' + b"9" * 4000 + b"}}", "json.number"),
    "a fraction beyond all": (b'{"kind": "parcel", "payload": {"n": 1e999}}', "json.number"),
    "no number": (b'{"kind": "parcel", "payload": {"n": NaN}}', "json.number"),
    "half a character": (b'{"kind": "parcel", "payload": {"t": "\\ud800"}}', "json.encoding"),
    "not UTF-8": (b'{"kind": "parcel", "payload": {"t": "\xff"}}', "json.encoding"),
    "not JSON": (b'{"kind": ', "json.syntax"),
}


@pytest.mark.parametrize("name", HOSTILE_BODIES)
def test_a_body_has_one_reading_or_none(house: House, name: str) -> None:
    body, code = HOSTILE_BODIES[name]
    client = house.client("operator")
    for method, path in (
        ("POST", "/api/v1/jobs"),
        ("PUT", "/api/v1/schedules/x"),
        ("POST", "/api/v1/bulk"),
        ("POST", "/api/v1/batches"),
        ("POST", "/api/v1/archives/book/notify"),
        ("PUT", "/api/v1/holds/lane/x"),
        ("POST", "/api/v1/jobs/1/hold"),
    ):
        for type_ in ("application/json", "application/json; charset=utf-8", "application/merge-patch+json"):
            answer = client.request(method, path, content=body, headers={"Content-Type": type_})
            assert (answer.status_code, answer.json()["code"]) == (400, code), (method, path, type_)


def test_a_route_that_would_read_bodies_carelessly_keeps_the_program_from_starting(house: House) -> None:
    router = APIRouter()
    router.add_api_route("/odd", lambda: None, methods=["POST"])
    rules = {"POST /odd": Rule("lease:break")}
    section = Section("Odd", "/odd", "x", routers=(router,), rules=rules)
    with pytest.raises(Unsafe, match="/odd"):
        build_app(house.archive.store, Options(SECRET, sections=(section,)))

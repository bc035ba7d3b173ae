"""Deposits whose manifest is in the request itself, as JSON; and answers to keys whose batch is gone."""

from __future__ import annotations

import pytest

from web.house import House

ADDRESS = "/api/v1/batches"


def test_rows_in_the_request_become_objects_and_are_reported_by_their_place(own: House) -> None:
    home, api = own.archive, own.client("depositor/papers")
    urls = [home.put(f"page{number}.txt", b"%d" % number) for number in range(3)]
    home.server.misbehave("/page1.txt", "gone")
    rows = [{"url": url, "title": f"Page {number}", "local_id": f"p{number}"} for number, url in enumerate(urls)]
    made = api.post(ADDRESS, json={"profile": "papers", "manifest": rows})
    assert made.status_code == 201
    own.work()
    number = made.json()["batch"]
    report = api.get(f"{ADDRESS}/{number}/report").json()
    assert {line["row"]: line["state"] for line in report["jobs"]} == {1: "completed", 2: "failed", 3: "completed"}
    assert home.world.inventory.arks_of("ark:/99999/owner", ["p2"])


def test_the_short_rows_are_below_the_payload(own: House) -> None:
    home, api = own.archive, own.client("depositor/papers")
    home.object_manifest("box/o1.checkm", [home.object_row("o1/a.txt", b"a")])
    given = {"profile": "papers", "payload": f"{home.server.url}/box", "manifest": ["o1.checkm loc001"]}
    made = api.post(ADDRESS, json=given)
    own.work()
    (job,) = home.jobs(made.json()["batch"])
    assert (job.state, job.payload["local_ids"]) == ("completed", ["loc001"])


@pytest.mark.parametrize(
    ("given", "status", "code"),
    [
        ({"manifest": []}, 400, "submission.payload"),
        ({"payload": "http://x/", "manifest": []}, 400, "batch.empty"),
        ({"payload": "http://x/", "manifest": [{"url": "http://x/a"}]}, 400, "submission.payload"),
        ({"manifest": [{"url": "http://x/a", "colour": "red"}]}, 422, "request.fields"),
        ({"manifest": [{"name": "a"}]}, 422, "request.fields"),
        ({"manifest": [7]}, 422, "request.fields"),
        ({"manifest": {"url": "http://x/a"}}, 422, "request.fields"),
        ({"manifest": [{"url": "http://x/a", "size": -1}]}, 422, "request.fields"),
        ({"manifest": ["a.checkm"]}, 400, "submission.payload"),
        ({"manifest": [{"url": "file:///etc/passwd"}]}, 400, "manifest.url.scheme"),
        ({"manifest": [{"url": "http://x/a"}], "type": "file"}, 400, "submission.type"),
    ],
)
def test_rows_that_cannot_be_used_are_refused_and_nothing_is_made(
    empty: House, given: dict[str, object], status: int, code: str
) -> None:
    api = empty.client("admin")
    answer = api.post(ADDRESS, json={"profile": "papers", **given})
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert api.get(ADDRESS).json()["batches"] == []


def test_a_key_whose_batch_was_removed_still_answers_with_its_number(own: House) -> None:
    api = own.client("operator", **{"Idempotency-Key": "k1"})
    given = {"profile": "papers", "payload": own.archive.put("a.txt", b"a"), "type": "file"}
    number = api.post(ADDRESS, json=given).json()["batch"]
    own.work()
    assert api.delete(f"{ADDRESS}/{number}", params={"why": "tidy"}).status_code == 200
    again = api.post(ADDRESS, json=given)
    assert again.json() == {"batch": number, "status": "REMOVED", "follow": ""}
    assert again.headers["idempotent-replayed"] == "true"


def test_an_empty_key_is_refused_and_is_not_taken_for_none(own: House) -> None:
    api = own.client("operator")
    said = api.post("/api/v1/jobs", json={"kind": "greet", "key": ""})
    assert said.status_code == 422, said.text
    assert "key" in said.json()["where"]
    assert own.client("operator").post("/api/v1/jobs", json={"kind": "greet", "key": "k" * 501}).status_code == 422

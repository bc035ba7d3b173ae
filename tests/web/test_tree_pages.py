"""The dashboard and the API over a tree on ZooKeeper: batches and jobs that are in no table are shown all the same."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from web.house import House, open_house
from web.test_serve import address_in, custody, get, program

HTML = {"Accept": "text/html"}
PAPERS, MAPS = "bid0000000000", "bid0000000001"


@pytest.fixture(scope="module")
def house(zookeeper: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with open_house(tmp_path_factory.mktemp("tree"), tree=zookeeper.fresh_root()) as made:
        yield made


@pytest.fixture
def admin(house: House) -> TestClient:
    return house.client("admin")


def text(client: TestClient, address: str) -> str:
    """A page, without its tags."""
    answer = client.get(address, headers=HTML)
    assert answer.status_code == 200, answer.text
    return " ".join(re.sub(r"<[^>]*>", " ", answer.text).split())


def walk(client: TestClient, address: str, cursor: str) -> list[dict[str, Any]]:
    """Every row of a list, two at a time."""
    found: list[dict[str, Any]] = []
    page = client.get(f"{address}&limit=2").json()
    while True:
        found += page["jobs"]
        if not page["next"]:
            return found
        page = client.get(f"{address}&limit=2&{cursor}={page['next']}").json()


def test_batches_are_listed_with_their_names_newest_first_and_with_their_progress(admin: TestClient) -> None:
    page = text(admin, "/batches")
    assert 0 < page.index(MAPS) < page.index(PAPERS)
    assert "3 of 5 done, 2 failed" in page
    assert PAPERS not in text(admin, "/batches?state=held")
    assert MAPS in text(admin, "/batches?state=held")


def test_a_batch_shows_its_jobs_what_failed_and_why(house: House, admin: TestClient) -> None:
    page = text(admin, f"/batches/{house.papers}")
    assert f"batch {PAPERS}" in page
    assert "3 of 5 done, 2 failed" in page
    told = admin.get(f"/batches/{house.papers}.json").json()
    assert {(cause["code"], cause["count"]) for cause in told["causes"]} == {("http.404", 1), ("digest.mismatch", 1)}
    assert [job["payload"]["row"] for job in told["jobs"]] == [1, 2, 3, 4, 5]
    rows = walk(admin, f"/jobs.json?parent={house.papers}&ended=failed", "after")
    assert [job["payload"]["row"] for job in rows] == [2, 4]


def test_a_held_batch_says_who_holds_it_and_why(house: House, admin: TestClient) -> None:
    page = text(admin, f"/batches/{house.maps}")
    assert "k.lee" in page
    assert "the map room is moving house" in page


def test_the_list_of_holds_calls_a_batch_by_its_name(house: House, admin: TestClient) -> None:
    address = f"/api/v1/holds/batch/{house.papers}"
    assert admin.put(address, json={"why": "look first"}).status_code == 200
    assert f"batch {PAPERS}" in text(admin, "/holds")
    assert admin.delete(address).status_code == 200


def test_a_list_of_jobs_tells_each_once_whatever_the_page(admin: TestClient) -> None:
    every = walk(admin, "/jobs.json?x=", "before")
    numbers = [job["id"] for job in every]
    assert numbers == sorted(set(numbers), reverse=True)
    kinds = {job["kind"] for job in every}
    assert {"ingest/job", "ingest/batch", "parcel"} <= kinds, "those in the tree, and those in the database"
    assert len(walk(admin, "/jobs.json?kind=ingest/job", "before")) == 5
    assert [job["code"] for job in walk(admin, "/jobs.json?ended=failed&code=http.404", "before")] == ["http.404"]


def test_a_job_shows_its_history_its_reason_and_what_can_be_done(house: House, admin: TestClient) -> None:
    failed = next(job for job in house.archive.jobs(house.papers) if job.code == "http.404")
    page = text(admin, f"/jobs/{failed.id}")
    assert "jid0000000002" in page
    assert f"batch {PAPERS}" in page
    assert "404" in page
    assert "Resume" in page
    assert "submitted" in text(admin, f"/jobs/{failed.id}/events")


@pytest.mark.parametrize("address", ["/", "/workers", "/holds", "/failures", "/jobs", "/jobs.csv", "/api/v1/leases"])
def test_every_other_page_is_there_too(admin: TestClient, address: str) -> None:
    assert admin.get(address).status_code == 200


def test_the_house_counts_what_is_in_the_tree(admin: TestClient) -> None:
    failures = {group["code"]: group["count"] for group in admin.get("/failures.json").json()["failures"]}
    assert (failures["http.404"], failures["digest.mismatch"]) == (1, 1)
    assert PAPERS in text(admin, f"/search?q={PAPERS}")


def test_who_may_see_one_collection_sees_nothing_of_the_others(house: House) -> None:
    reader = house.client("reader/maps")
    page = text(reader, "/batches")
    assert (MAPS in page, PAPERS in page) == (True, False)
    assert reader.get(f"/batches/{house.papers}").status_code == 404
    assert {job["collection"] for job in walk(reader, "/jobs.json?x=", "before")} == {"maps"}


def test_a_bulk_action_counts_and_moves_what_is_in_the_tree(house: House, admin: TestClient) -> None:
    house.archive.server.mend()
    asked = {"action": "resume", "filter": {"ended": "failed", "code": "http.404"}, "why": "mended"}
    assert admin.post("/api/v1/bulk", json=asked).json()["eligible"] == 1
    assert admin.post("/api/v1/bulk", json=asked | {"count": 1, "dry_run": False}).status_code == 202
    house.work()
    assert "4 of 5 done, 1 failed" in text(admin, f"/batches/{house.papers}")


@pytest.mark.kills
def test_serve_works_on_a_tree_and_shows_it(zookeeper_hosts: str, tmp_path: Path) -> None:
    custody(tmp_path, "init")
    (tmp_path / "letter.txt").write_text("Dear sister")
    store = f"zookeeper://{zookeeper_hosts}?with=sqlite:///{tmp_path / 'custody.db'}"
    assert PAPERS in custody(tmp_path, "batch", "submit", "letter.txt", "--profile", "example", "--store", store)
    with program(tmp_path, "serve", "--port", "0", "--demo", "--no-log", "--store", store) as serving:
        url = address_in(serving, r"dashboard\s+(http://127\.0\.0\.1:\d+)/")
        assert PAPERS in get(url, "/batches", Accept="text/html")[1]
        while json.loads(get(url, "/batches.json")[1])["batches"][0]["state"] == "pending":
            assert serving.poll() is None
            time.sleep(0.1)
        serving.send_signal(signal.SIGTERM)
        assert serving.wait(timeout=60) == 0

"""What is one's own: small roles see what they made, and hear of nothing else."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from custody.kernel.model.job import Job, NewJob
from custody.web.server import Server
from web.house import House, open_house


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with open_house(tmp_path, filled=False, open_kinds=("parcel",)) as made:
        yield made


def submit(house: House, who: str, **more: Any) -> int:
    answer = house.client(who).post("/api/v1/jobs", json={"kind": "parcel", "collection": "maps", **more})
    assert answer.status_code == 201, answer.text
    return int(answer.json()["job"])


def another(house: House, role: str, *collections: str) -> str:
    """A second token of that role; answers who it is for `client`."""
    who = f"another-{role}"
    house.secrets[who] = house.site.tokens.create(role, [role], collections or ["maps"])[1]
    return who


def test_a_submitter_sees_the_jobs_that_it_submitted_and_no_others(house: House) -> None:
    other = another(house, "submitter")
    mine, theirs = submit(house, "submitter/maps"), submit(house, other)
    for who, own, foreign in (("submitter/maps", mine, theirs), (other, theirs, mine)):
        client = house.client(who, Accept="application/json")
        assert [job["id"] for job in client.get("/api/v1/jobs").json()["jobs"]] == [own]
        assert [job["id"] for job in client.get("/jobs.json?collection=maps").json()["jobs"]] == [own]
        for path in (
            "/api/v1/jobs/{}",
            "/api/v1/jobs/{}/why",
            "/api/v1/jobs/{}/events",
            "/jobs/{}.json",
            "/jobs/{}/raw.json",
        ):
            assert client.get(path.format(own)).status_code == 200, path
            assert client.get(path.format(foreign)).status_code == 404, path
        assert client.post(f"/api/v1/jobs/{own}/cancel", json={"why": "x"}).status_code == 403
        assert client.get("/api/v1/search", params={"q": str(foreign)}).status_code == 403
    assert len(house.client("reader/maps").get("/api/v1/jobs").json()["jobs"]) == 2


def test_a_session_and_its_token_are_one_and_the_same_submitter(house: House) -> None:
    mine = submit(house, "submitter/maps")
    session = house.site.tokens.open_session(house.token("submitter/maps"))
    assert session is not None
    client = house.client(Accept="application/json")
    client.cookies.set("custody_session", session)
    assert [job["id"] for job in client.get("/jobs.json").json()["jobs"]] == [mine]


def test_an_idempotency_key_is_the_callers_own_and_a_given_key_the_collections(house: House) -> None:
    other = another(house, "submitter")
    first, again, foreign = (
        house.client(who).post(
            "/api/v1/jobs", json={"kind": "parcel", "collection": "maps"}, headers={"Idempotency-Key": "k"}
        )
        for who in ("submitter/maps", "submitter/maps", other)
    )
    assert first.json() == again.json()
    assert "idempotent-replayed" in again.headers
    assert foreign.json() != first.json()
    assert "idempotent-replayed" not in foreign.headers
    for key in ("~token:1/k", "~"):
        refused = house.client(other).post("/api/v1/jobs", json={"kind": "parcel", "collection": "maps", "key": key})
        assert (refused.status_code, refused.json()["code"]) == (400, "key.form")


def test_a_key_of_another_submitter_is_taken_and_its_job_is_not_named(house: House) -> None:
    other = another(house, "submitter")
    submit(house, other, key="k", payload={"n": 1})
    for payload in ({"n": 1}, {"n": 2}):
        given = {"kind": "parcel", "collection": "maps", "key": "k", "payload": payload}
        answer = house.client("submitter/maps").post("/api/v1/jobs", json=given)
        assert (answer.status_code, answer.json()["code"]) == (422, "key.conflict")
        assert "job" not in answer.json()
        assert answer.json()["detail"] == "this key was used before, by somebody else"


def test_why_names_only_needs_that_the_caller_sees(house: House) -> None:
    secret = submit(house, "admin", collection="papers", key="k-secret")
    seen = submit(house, "operator/maps")
    waiting = submit(house, "admin", needs=[secret, seen])
    told = house.client("operator/maps").get(f"/api/v1/jobs/{waiting}/why").json()["reasons"]
    assert [each["text"] for each in told] == [
        f"it waits for job {seen} (parcel), which is queued",
        "it waits for 1 job that you do not see",
    ]
    page = house.client("operator/maps", Accept="text/html").get(f"/jobs/{waiting}").text
    assert "k-secret" not in page
    assert f"/jobs/{secret}" not in page
    assert "k-secret" in str(house.client("admin").get(f"/api/v1/jobs/{waiting}/why").json())


def test_a_repeated_submit_is_answered_although_what_it_needed_is_gone(house: House) -> None:
    need = submit(house, "operator/maps")
    first = submit(house, "operator/maps", key="k", needs=[need])
    house.client("operator/maps").post(f"/api/v1/jobs/{need}/cancel", json={"why": "x"})
    house.client("operator/maps").post(f"/api/v1/jobs/{need}/delete", json={"why": "x"})
    assert submit(house, "operator/maps", key="k", needs=[need]) == first


# Depositors


def deposit(house: House, who: str) -> int:
    given = {"profile": "papers", "payload": house.archive.put("a.txt", b"a"), "type": "file"}
    answer = house.client(who).post("/api/v1/batches", json=given)
    assert answer.status_code == 201, answer.text
    return int(answer.json()["batch"])


def test_a_depositor_sees_its_own_batches_and_a_greater_one_all_of_the_collection(house: House) -> None:
    other = another(house, "depositor", "papers")
    mine, theirs = deposit(house, "depositor/papers"), deposit(house, other)
    client = house.client("depositor/papers", Accept="application/json")
    assert [batch["id"] for batch in client.get("/api/v1/batches").json()["batches"]] == [mine]
    for path in ("/api/v1/batches/{}", "/api/v1/batches/{}/link", "/batches/{}.json"):
        assert client.get(path.format(mine)).status_code == 200, path
        assert client.get(path.format(theirs)).status_code == 404, path
    assert client.get("/api/v1/jobs").status_code == 403
    greater = house.client("depositor+/papers").get("/api/v1/batches").json()["batches"]
    assert {batch["id"] for batch in greater} == {mine, theirs}
    assert house.client("depositor+/maps").get("/api/v1/batches").json()["batches"] == []


def test_a_depositor_follows_what_became_of_its_batch(house: House) -> None:
    mine = deposit(house, "depositor/papers")
    house.work()
    shown = house.client("depositor/papers").get(f"/api/v1/batches/{mine}").json()
    assert shown["batch"]["state"] == "completed"
    assert shown["progress"]["done"] == 1


# Hooks and scrapers


SMALL = {
    "hook/book": {("POST", "/api/v1/archives/book/notify")},
    "metrics": {("GET", "/metrics")},
}


@pytest.mark.parametrize("who", SMALL)
def test_a_hook_tells_of_its_archives_a_scraper_scrapes_and_nothing_else(house: House, who: str) -> None:
    values = {"name": "book", "system": "folder", "location": "/nowhere", "uuid": "book", "last": 0}
    house.archive.store.db.write(lambda tx: tx.run("wf_add_archive", **values))
    open_to_all = {key for key, rule in house.site.rules.items() if rule.right is None}
    client, may = house.client(who, Accept="application/json"), set()
    for key in house.site.rules:
        method, _, path = key.partition(" ")
        if key in open_to_all or "stream" in path:
            continue
        for old, new in (("{archive}", "book"), (":int", ""), (":path", "")):
            path = path.replace(old, new)
        for name in ("batch", "job", "number", "attempt", "channel", "message"):
            path = path.replace(f"{{{name}}}", "1")
        answer = client.request(
            method, path, **({"json": {"revision": 1}} if path.startswith("/api/") and method != "GET" else {})
        )
        if answer.status_code not in (401, 403, 422):
            may.add((method, path))
    assert may == SMALL[who]
    assert client.get("/api/v1/stream").status_code == 403
    assert client.post("/api/v1/archives/maps/notify", json={"revision": 1}).status_code in (403, 404)


# Streams


def heard(house: House, server: Server, who: str, since: int, until: str) -> list[str]:
    """The subjects that somebody is told, until one of them is this."""
    wire = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    wire.request("GET", f"/api/v1/stream?since={since}", headers={"Authorization": f"Bearer {house.token(who)}"})
    answer, found = wire.getresponse(), []
    while until not in found:
        line = answer.readline().decode()
        if line.startswith("data: "):
            found += json.loads(line[6:])["subjects"]
    wire.close()
    return found


def test_a_stream_tells_a_submitter_of_its_own_jobs_alone(house: House) -> None:
    server = Server(house.app).start()
    try:
        since = house.site.changes.newest()
        theirs = submit(house, another(house, "submitter"))
        mine = submit(house, "submitter/maps")
        told = heard(house, server, "submitter/maps", since, f"job/{mine}")
        assert told == [f"job/{mine}"]
        assert f"job/{theirs}" in heard(house, server, "reader", since, f"job/{mine}")
    finally:
        server.stop()


def test_what_nobody_is_said_to_have_made_is_nobodys_own(house: House) -> None:
    """Jobs from before, and those of code that does not say who acts."""
    job: Job = house.archive.store.queue.get(
        house.archive.store.queue.submit_one(NewJob("parcel", collection="maps")).id
    )
    for who in ("submitter/maps", "depositor/maps"):
        caller = house.site.tokens.caller(house.token(who))
        assert caller is not None
        assert not caller.made(job)
    assert house.client("submitter/maps").get(f"/api/v1/jobs/{job.id}").status_code == 404

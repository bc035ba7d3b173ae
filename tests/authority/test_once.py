"""A repeated request is answered as the first was, whatever the world is like now; another one with its key is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from authority.conftest import Door, refused
from custody.kernel.model.job import NewJob
from web.house import open_house

KEY = {"Idempotency-Key": "k"}
GREET: dict[str, Any] = {"kind": "greet", "payload": {"n": 1}}


@pytest.fixture
def ada(door: Door) -> httpx2.Client:
    door.store.sign_of_life("w", "here", 1, "", "", ["greet", "wave"])
    return door.caller("ada", "operator")


def forget_kinds(door: Door) -> None:
    for kind in ("greet", "wave"):
        assert door.store.kinds.forget(kind, "t")


@pytest.mark.parametrize("given", [{}, {"key": "mine"}])
def test_a_job_is_answered_to_its_key_when_no_worker_offers_its_kind_any_more(
    door: Door, ada: httpx2.Client, given: dict[str, str]
) -> None:
    headers = {} if given else KEY
    first = ada.post("/api/v1/jobs", json={**GREET, **given}, headers=headers)
    forget_kinds(door)
    again = ada.post("/api/v1/jobs", json={**GREET, **given}, headers=headers)
    assert (first.status_code, again.status_code) == (201, 201), again.text
    assert (again.json(), again.headers["location"]) == (first.json(), first.headers["location"])
    assert again.headers["idempotent-replayed"] == "true"
    refused(ada.post("/api/v1/jobs", json=GREET), "job.kind")
    refused(door.caller("ben", "operator").post("/api/v1/jobs", json={**GREET, **given}, headers=headers), "job.kind")


def test_a_job_is_answered_to_its_key_when_it_was_deleted(door: Door, ada: httpx2.Client) -> None:
    first = ada.post("/api/v1/jobs", json=GREET, headers=KEY)
    assert ada.post(f"/api/v1/jobs/{first.json()['job']}/cancel", json={"why": "x"}).status_code == 200
    assert ada.delete(f"/api/v1/jobs/{first.json()['job']}?why=x").status_code == 200
    forget_kinds(door)
    again = ada.post("/api/v1/jobs", json=GREET, headers=KEY)
    assert (again.status_code, again.json()) == (201, first.json()), again.text
    assert door.store.queue.list() == []


@pytest.mark.parametrize(
    "other", [{"kind": "wave"}, {"payload": {"n": 2}}, {"collection": "maps"}, {"priority": 3}, {"key": "another"}]
)
def test_another_job_with_a_key_that_was_used_is_refused(door: Door, ada: httpx2.Client, other: dict[str, Any]) -> None:
    ada.post("/api/v1/jobs", json=GREET, headers=KEY)
    answer = ada.post("/api/v1/jobs", json={**GREET, **other}, headers=KEY)
    assert answer.status_code == 422
    refused(answer, "key.conflict")
    assert len(door.store.queue.list()) == 1
    assert ada.post("/api/v1/jobs", json={**GREET, "priority": 50}, headers=KEY).status_code == 201, "said or not"


@pytest.mark.parametrize(
    "same",
    [
        {"delay": 0},
        {"delay": 0.0},
        {"priority": 50},
        {"needs": []},
        {"lane": ""},
        {"collection": ""},
        {"key": None},
        {"delay": 0, "priority": 50, "lane": "", "collection": "", "needs": [], "key": None},
    ],
)
@pytest.mark.parametrize("order", [1, -1])
def test_a_default_that_is_written_out_is_the_same_request(
    door: Door, ada: httpx2.Client, same: dict[str, Any], order: int
) -> None:
    answers = [ada.post("/api/v1/jobs", json=given, headers=KEY) for given in [GREET, {**GREET, **same}][::order]]
    assert [answer.status_code for answer in answers] == [201, 201], answers[1].text
    assert answers[0].json() == answers[1].json()
    assert answers[1].headers["idempotent-replayed"] == "true"


def test_the_same_said_in_another_way_is_the_same_request(door: Door, ada: httpx2.Client) -> None:
    door.store.queue.submit([NewJob("greet"), NewJob("greet")])
    for given in ({"needs": [1, 2], "delay": 5}, {"needs": [2, 1, 1], "delay": 5.0}):
        answer = ada.post("/api/v1/jobs", json={**GREET, **given}, headers=KEY)
        assert answer.status_code == 201, answer.text
    assert len(door.store.queue.list()) == 3
    wish = {"action": "hold", "filter": {"kind": "greet"}, "dry_run": False, "count": 3, "why": "x"}
    whole = {**wish, "filter": {"kind": "greet", "state": "", "parent": 0}, "priority": 50, "why": " x\n"}
    for given in (wish, whole):
        answer = ada.post("/api/v1/bulk", json=given, headers={"Idempotency-Key": "b"})
        assert answer.status_code == 202, answer.text


def test_a_request_that_met_a_foreign_key_stands_for_nothing_when_it_is_said_again(door: Door) -> None:
    door.store.sign_of_life("w", "here", 1, "", "", ["greet"])
    ada, ben = door.caller("ada", "submitter"), door.caller("ben", "submitter")
    wish = {**GREET, "key": "shared"}
    hers = ada.post("/api/v1/jobs", json=wish)
    assert hers.status_code == 201
    for _ in range(3):
        answer = ben.post("/api/v1/jobs", json=wish, headers=KEY)
        assert answer.status_code == 422
        refused(answer, "key.conflict")
        assert "job" not in answer.json(), "nor is it told whose"
    assert ben.post("/api/v1/jobs", json=GREET, headers=KEY).status_code == 201, "what was refused used up no key"


def test_a_given_key_with_another_kind_is_refused(door: Door, ada: httpx2.Client) -> None:
    ada.post("/api/v1/jobs", json={**GREET, "key": "k"})
    answer = ada.post("/api/v1/jobs", json={**GREET, "key": "k", "kind": "wave"})
    assert answer.status_code == 422
    refused(answer, "key.conflict")


def test_a_bulk_action_is_answered_to_its_key_when_there_is_nothing_left_to_do(door: Door, ada: httpx2.Client) -> None:
    door.store.queue.submit([NewJob("greet")])
    wish = {"action": "hold", "filter": {"kind": "greet"}, "dry_run": False, "count": 1, "why": "x"}
    first = ada.post("/api/v1/bulk", json=wish, headers=KEY)
    assert first.status_code == 202, first.text
    door.store.queue.submit([NewJob("greet")])  # now it would be two
    again = ada.post("/api/v1/bulk", json=wish, headers=KEY)
    assert (again.status_code, again.json(), again.headers["idempotent-replayed"]) == (202, first.json(), "true")
    for path, other in (("bulk", {**wish, "action": "cancel"}), ("bulk", {**wish, "why": "y"}), ("jobs", GREET)):
        answer = ada.post(f"/api/v1/{path}", json=other, headers=KEY)
        assert answer.status_code == 422
        refused(answer, "key.conflict")


@pytest.mark.parametrize("key", ["", "k" * 201])
def test_a_key_that_is_none_is_refused(ada: httpx2.Client, key: str) -> None:
    answer = ada.post("/api/v1/jobs", json=GREET, headers={"Idempotency-Key": key})
    assert answer.status_code == 422
    assert "Idempotency-Key" in answer.text


def test_two_keys_in_one_request_are_refused(ada: httpx2.Client) -> None:
    answer = ada.post("/api/v1/jobs", json=GREET, headers=[("Idempotency-Key", "a"), ("Idempotency-Key", "b")])
    refused(answer, "request.repeated")


def test_the_command_line_has_the_same_rule(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'c.db'}"

    def submit(kind: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "custody", "job", "submit", kind, "{}", "--key", "k", "--store", store]
        return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)

    assert submit("greet").stdout == "job 1\n"
    assert submit("greet").stdout == "job 1 (submitted before with this key)\n"
    other = submit("wave")
    assert (other.returncode, other.stdout) == (3, "")
    assert "was used before, for job 1 of kind greet" in other.stderr


def test_a_deposit_and_a_job_do_not_share_a_key_and_a_deposit_outlasts_its_profile(tmp_path: Path) -> None:
    given = {"profile": "papers", "payload": "http://127.0.0.1:9/a.txt", "title": "T"}
    with open_house(tmp_path, filled=False, open_kinds=("greet",)) as house:
        api = house.client("operator", **{"Idempotency-Key": "k1"})
        first = api.post("/api/v1/batches", json=given)
        assert first.status_code == 201, first.text
        assert api.post("/api/v1/jobs", json=GREET).json()["code"] == "key.conflict"
        api.headers["Idempotency-Key"] = "k2"
        assert api.post("/api/v1/jobs", json=GREET).status_code == 201
        other = api.post("/api/v1/batches", json=given)
        assert (other.status_code, other.json()["code"]) == (422, "key.conflict")
        file = house.archive.home / "profiles" / "papers.toml"
        file.rename(file.with_suffix(".gone"))
        house.site.world.profiles._made.pop("papers")  # type: ignore[attr-defined]
        api.headers["Idempotency-Key"] = "k1"
        again = api.post("/api/v1/batches", json=given)
        assert (again.status_code, again.json()["batch"]) == (201, first.json()["batch"]), again.text
        api.headers["Idempotency-Key"] = "k3"
        assert api.post("/api/v1/batches", json=given).json()["code"] == "profile.unknown"

"""Who acts is a value that is made in few places; bulk actions act as their asker; nothing too deep is kept."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from authority.conftest import Door
from custody.errors import BadInput
from custody.kernel.access.tokens import Tokens
from custody.kernel.engine import Serving, Settings, Worker
from custody.kernel.model.job import NewJob
from custody.kernel.model.machine import PLAIN
from custody.kernel.model.schedule import Schedule
from custody.kernel.stores import Store
from custody.kernel.stores.rows import TOO_DEEP
from custody.web.operations import bulk
from custody.web.operations.setters import Setters
from kernel.stores.acts import execute

SRC = Path(__file__).parents[2] / "src" / "custody"
MADE_IN = {
    "kernel/model/authority/acting.py",
    "kernel/model/job.py",
    "kernel/access/caller.py",
    "cli/runtime.py",
    "kernel/stores/schedules.py",
    "ingest/zookeeper/follower.py",
}


def is_a_door(file: str) -> bool:
    """What people and programs outside come in by."""
    return bool(re.search(r"(^|/)(web|cli|commands|pages|api)(/|\.py$)", file))


def calls(name: str) -> list[tuple[str, ast.Call]]:
    found = []
    for file in SRC.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call):
                said = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if said == name:
                    found.append((str(file.relative_to(SRC)), node))
    return found


def test_who_acts_is_made_in_few_places_only() -> None:
    assert {file for file, _ in calls("Acting")} == MADE_IN
    assert not [file for file, _ in calls("system") if is_a_door(file)]


def test_whoever_lets_others_in_says_who_they_are() -> None:
    doors = [(f, c) for n in ("submit_one", "submit") for f, c in calls(n) if is_a_door(f)]
    assert doors
    for file, call in doors:
        assert len(call.args) + len(call.keywords) >= 2, f"{file}:{call.lineno} does not say who acts"


def carry_out(store: Store) -> None:
    worker = Worker(store, Serving(tuple(bulk.kinds(store, PLAIN))), Settings(threads=1, schedules=False))
    worker.run_until_idle()
    worker.shut_down()


def ask(door: Door, caller: Any, count: int) -> int:
    given = {"action": "cancel", "filter": {"kind": "precious", "collection": "book"}, "why": "over", "dry_run": False}
    answer = caller.post("/api/v1/bulk", json={**given, "count": count})
    assert answer.status_code in (200, 202), answer.text
    number: int = answer.json()["job"]
    return number


def test_a_bulk_action_has_the_name_and_the_rights_of_its_asker(door: Door) -> None:
    door.store.queue.submit([NewJob("precious", collection="book") for _ in range(2)])
    caller = door.caller("ada", "operator", collections=("book",))
    job = ask(door, caller, 2)
    assert door.store.queue.get(job).by == f"token:{caller.token.id}/ada"
    assert "who" not in door.store.queue.get(job).payload
    carry_out(door.store)
    done = [found for found in door.store.queue.list() if found.kind == "precious"]
    assert {found.state for found in done} == {"cancelled"}
    assert {door.store.records.events(f"job/{found.id}")[-1].agent for found in done} == {"ada (token:1)"}


def test_a_bulk_action_whose_askers_right_ended_does_nothing(door: Door) -> None:
    door.store.queue.submit([NewJob("precious", collection="book")])
    caller = door.caller("ada", "operator", collections=("book",))
    job = ask(door, caller, 1)
    Tokens(door.store).revoke(caller.token.id, "bo")
    carry_out(door.store)
    assert (door.store.queue.get(job).code, door.store.queue.get(job).ended) == ("bulk.right", "failed")
    assert {found.state for found in door.store.queue.list() if found.kind == "precious"} == {"queued"}


def test_a_schedule_of_a_revoked_token_is_known_to_be_one(store: Store) -> None:
    tokens = Tokens(store)
    token, _ = tokens.create("ada", ["operator"])
    reader, _ = tokens.create("ray", ["reader"])
    assert tokens.right_ended(f"token:{token.id}/ada") == ""
    assert "ray" in tokens.right_ended(f"token:{reader.id}/ray")
    tokens.revoke(token.id, "bo")
    assert "ada" in tokens.right_ended(f"token:{token.id}/ada")
    assert [tokens.right_ended(by) for by in ("cli:0/root", "system", "")] == ["", "", ""]


def test_of_somebody_whom_an_issuer_vouched_for_the_last_login_counts(store: Store) -> None:
    """Nobody here can ask the issuer: what was said last is what is known."""
    tokens, by = Tokens(store), "oidc:1234/oidc:olga~1"
    schedule = Schedule("nightly", "every 1h", "greet", by=by)
    assert "olga" in tokens.right_ended(by), "nobody has ever vouched for her"
    tokens.let_in("oidc:olga~1", ["operator"], "oidc:1234")
    assert tokens.right_ended(by) == ""
    assert Setters(store).doubt(schedule) == ""
    long_ago = 91 * 86_400_000_000
    store.db.write(
        lambda tx: execute(tx, f"update token set created = created - {long_ago}, expires = expires - {long_ago}")
    )
    assert tokens.right_ended(by) == "", "her login is over, not her right"
    assert "no issuer has vouched for 90 days" in Setters(store).doubt(schedule)
    tokens.let_in("oidc:olga~1", ["reader"], "oidc:1234")
    assert "whose right to do so has ended" in Setters(store).ended(schedule)
    assert tokens.right_ended("oidc:9/oidc:eve~9") != "", "another person's login says nothing"


def nested(depth: int) -> dict[str, Any]:
    value: Any = "x"
    for _ in range(depth - 1):
        value = [value]
    return {"a": value}


@pytest.mark.parametrize("odd", [nested(21), nested(900), {"n": 10**19}, {"n": -(10**400)}, {"s": "x" * (17 << 20)}])
def test_what_would_break_whoever_shows_it_is_not_kept(store: Store, odd: dict[str, Any]) -> None:
    for job in (NewJob("parcel", odd), NewJob("parcel", facts=odd)):
        with pytest.raises(BadInput):
            store.queue.submit_one(job)
        with pytest.raises(BadInput):
            store.queue.submit([NewJob("parcel"), job])
    assert store.queue.list() == []
    assert store.queue.submit_one(NewJob("parcel", {**nested(20), "n": 2**63 - 1, "s": "[" * 99 + "1" * 30})).new


def test_what_is_there_already_and_too_deep_is_shown_as_such(door: Door) -> None:
    job = door.store.queue.submit_one(NewJob("parcel")).id
    deep = '{"a":' + "[" * 900 + "]" * 900 + "}"
    door.store.db.write(lambda tx: execute(tx, f"update job set payload = '{deep}', facts = '{deep}' where id = {job}"))
    caller = door.caller("ada", "admin")
    for path in ("/api/v1/jobs", f"/api/v1/jobs/{job}"):
        answer = caller.get(path)
        assert answer.status_code == 200, answer.text
        shown = answer.json()
        assert TOO_DEEP in (shown["job"] if "job" in shown else shown["jobs"][0])["payload"]

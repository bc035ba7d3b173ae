"""A job of an application's own kind is made by that application only; what workers offer is open, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from authority.conftest import Door, refused
from custody.cli.composition import decided
from custody.errors import BadInput, Unsafe
from custody.kernel.engine import Serving, Settings, Worker
from custody.kernel.engine.kinds import Kind
from custody.kernel.engine.makers import Maker, Makers, is_among, open_maker
from custody.kernel.model.job import NewJob
from custody.kernel.model.outcome import Passed
from custody.kernel.stores import Store
from custody.web.operations.makers import MAKERS
from rig.commands import Run

SRC = Path(__file__).parents[2] / "src" / "custody"
FORGED: dict[str, dict[str, Any]] = {
    "bulk": {
        "action": "cancel",
        "filter": {"kind": "precious"},
        "why": "I am the boss",
        "who": "director@archive",
        "last": 1000000,
        "total": 2,
        "eligible": 2,
        "priority": 50,
    },
    "workflow/task": {
        "archive": "vault",
        "revision": 1,
        "run": "commit",
        "task": "evil",
        "depends": [],
        "cancels": [],
        "recipe": {
            "script": "rev /run/secrets/prodkey; cat private.txt",
            "shell": "sh",
            "secrets": ["prodkey"],
            "network": True,
        },
    },
    "workflow/quick": {
        "archive": "vault",
        "revision": 1,
        "run": "../../../../outside",
        "task": "evil",
        "recipe": {"ready": "index"},
    },
    "workflow/commit": {"archive": "vault", "revision": 1},
    "workflow/run": {"archive": "vault", "revision": 1, "wanted": "w", "alone": False, "by": "director"},
    "deliver/mail": {"to": ["a@example.org"], "subject": "hello", "text": "hello"},
    "ingest/clean": {"days": 0},
    "ingest/batch": {"profile": "book", "payload": "http://example.org/"},
    "ingest/job": {"profile": "book", "payload": "http://example.org/"},
    "channel/remove": {"channel": "1"},
    "channel/sync": {"channel": "1"},
    "robot/first": {"item": "x"},
    "history/verify": {},
    "workflow/of-tomorrow": {},
    "bulk/of-tomorrow": {},
}
"""What an attacker asked for when any kind could be submitted; and names that applications may use one day."""


def offer(store: Store, *kinds: str) -> None:
    store.sign_of_life("w1", "here", 1, "", "", kinds)


@pytest.mark.parametrize("role", ["submitter", "operator", "admin"])
def test_no_role_makes_a_job_of_an_application_by_hand(door: Door, role: str) -> None:
    offer(door.store, *FORGED)  # whatever a worker may have said
    caller = door.caller("hook", role)
    for kind, payload in FORGED.items():
        told = refused(
            caller.post("/api/v1/jobs", json={"kind": kind, "collection": "book", "payload": payload}), "job.kind"
        )
        assert "made by their application" in told["detail"] + told["title"]
        assert told["hint"], kind
    assert door.store.queue.list() == []


@pytest.mark.parametrize("role", ["operator", "admin"])
def test_no_schedule_makes_a_job_of_an_application(door: Door, role: str) -> None:
    caller = door.caller("op", role)
    for kind, payload in FORGED.items():
        wanted = {"spec": "every 2s", "kind": kind, "payload": payload}
        refused(caller.put("/api/v1/schedules/forge", json=wanted), "job.kind")
    assert door.store.schedules.list() == []


def test_the_command_line_makes_none_either(custody: Run) -> None:
    for kind in FORGED:
        for words in (("job", "submit", kind), ("schedule", "set", "forge", "every 2s", kind)):
            said = custody(*words)
            assert said.code == 2, words
            assert "made by their application" in said.err
    assert custody("job", "list", "--json").json() == []
    assert custody("schedule", "list", "--json").json() == []


def test_a_kind_is_open_once_a_worker_has_offered_it_and_stays_so(door: Door) -> None:
    caller = door.caller("ada", "operator")
    wish, daily = {"kind": "parcel"}, {"spec": "@daily", "kind": "parcel"}
    told = refused(caller.post("/api/v1/jobs", json=wish), "job.kind")
    assert "no worker has offered" in told["detail"] + told["title"]
    assert "open_kinds" in told["hint"]
    refused(caller.put("/api/v1/schedules/daily", json=daily), "job.kind")
    kind = Kind("parcel", lambda work: Passed(), maker=open_maker("parcel"))
    worker = Worker(door.store, Serving((kind,)), Settings(threads=1))
    worker.run_until_idle()
    worker.shut_down()  # a worker may be down when somebody asks
    assert caller.post("/api/v1/jobs", json=wish).status_code == 201
    assert caller.put("/api/v1/schedules/daily", json=daily).status_code == 200
    assert door.store.kinds.forget("parcel", "ada", "nobody makes them any more")
    assert not door.store.kinds.forget("parcel", "ada")
    refused(caller.post("/api/v1/jobs", json=wish), "job.kind")
    (noted,) = door.store.records.events("kind/parcel")
    assert (noted.type, noted.agent, noted.detail) == ("forgotten", "ada", {"why": "nobody makes them any more"})


def test_only_what_is_open_is_offered(store: Store) -> None:
    known = Maker(kind="bulk")
    kinds = (Kind("bulk", maker=known), Kind("parcel", maker=open_maker("parcel")), Kind("plain"))
    assert Serving(kinds).offers() == ("parcel",)


def test_a_worker_does_not_start_with_a_kind_that_nobody_decided_about() -> None:
    parcel = Kind("parcel", maker=open_maker("parcel"))
    bulk = next(maker for maker in MAKERS.entries if maker.kind == "bulk")
    assert decided(Serving((parcel, Kind("bulk", maker=bulk))))
    odd = [
        Kind("letter"),  # none
        Kind("workflow/task", maker=open_maker("workflow/task")),  # an application's, opened
        Kind("workflow/of-tomorrow", maker=open_maker("workflow/of-tomorrow")),
        Kind("history/verify", maker=bulk),  # somebody else's
        Kind("other", maker=Maker(kind="other")),  # in nobody's table
    ]
    for kind in odd:
        with pytest.raises(Unsafe) as raised:
            decided(Serving((parcel, kind)))
        assert raised.value.code == "kinds.undecided"
        assert kind.kind in raised.value.message
        assert "parcel" not in raised.value.message


@pytest.mark.parametrize("kind", ["bulk", "robot/mine", "workflow/*", "work*", "ingest/x", "*", "bul*", "history/*"])
def test_a_program_of_ones_own_takes_over_nobodys_kind(custody: Run, tmp_path: Path, kind: str) -> None:
    said = custody("worker", "run", "--exec", f"{kind}=true", "--until-idle")
    assert (said.code, "made by their application" in said.err) == (2, True), said.err
    loaded = tmp_path / "mine.py"
    loaded.write_text(f"from custody.kernel.engine import Kind\nKINDS = [Kind({kind!r}, print)]\n")
    said = custody("worker", "run", "--load", str(loaded), "--until-idle")
    assert (said.code, "made by their application" in said.err) == (2, True), said.err
    (tmp_path / "custody.toml").write_text(f'[access]\nopen_kinds = ["{kind}"]\n')
    said = custody("worker", "run", "--until-idle", "--config", str(tmp_path / "custody.toml"))
    assert (said.code, "access.open_kinds" in said.err) == (2, True), said.err


def test_whoever_has_the_store_may_ask_before_a_worker_offers(custody: Run) -> None:
    assert custody("job", "submit", "greet").out == "job 1\n"
    assert "no worker has offered" in custody("kind", "list").out
    assert custody("worker", "run", "--exec", "greet=true", "--until-idle", "--no-log").code == 0
    (known,) = custody("kind", "list", "--json").json()
    assert known["kind"] == "greet"  # type: ignore[index]
    assert "greet" in custody("kind", "list").out
    assert custody("job", "show", "1", "--json").json()["job"]["state"] == "done"  # type: ignore[index]
    assert "forgotten" in custody("kind", "forget", "greet", "--why", "it is over").out
    assert "nothing to do" in custody("kind", "forget", "greet").out


def test_a_prefix_stands_for_all_that_begin_so() -> None:
    assert is_among("parcel/red", ["parcel/*"])
    assert not is_among("parcel", ["parcel/*"])
    assert not is_among("parcel*", ["parcel"])
    makers = Makers([Maker(kind="a/b"), Maker(kind="robot/"), Maker(kind="solo")])
    assert all(
        makers.owner(kind) for kind in ("a/b", "a/c", "a/", "robot/x", "solo", "solo/x", "a*", "*", "a/*", "so*")
    )
    assert not any(makers.owner(kind) for kind in ("a", "ab", "b/a", "solos", "solo-x", "ab*", "robots", "x*"))


def test_every_kind_that_the_program_serves_is_in_the_table() -> None:
    """Their names as they stand in the code: whoever adds one decides who may make it."""
    named = set()
    for file in SRC.rglob("*.py"):
        named |= set(re.findall(r'Kind\(\s*"([a-z]+[^"]*)"', file.read_text()))
    forms = {name for name in named if name.startswith("mrt-") or name in ("subversion", "git", "parcel")}
    assert named - forms == set(), "name a kind through its Maker"


def test_an_application_checks_what_it_makes() -> None:
    from custody.formats.shape import record, whole

    maker = Maker(kind="a/b", shape=record(n=whole()))
    assert maker.checked(NewJob("a/b", {"n": 1})).payload == {"n": 1}
    with pytest.raises(BadInput) as raised:
        maker.checked(NewJob("a/b", {"n": 1, "m": 1}))
    assert raised.value.code == "job.shape"

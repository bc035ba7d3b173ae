"""What an application cannot have made is not worked on: refused when it is made, and, put into the table, when it is
claimed. Each field of each payload, with values that somebody would try."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from custody.channels.jobs import review_job, sync_job
from custody.channels.makers import MAKER_OF, REVIEW, SYNC
from custody.errors import BadInput
from custody.ingest.makers import BATCH_MAKER, DELIVER_MAKER, JOB_MAKER
from custody.ingest.states import BATCH, JOB
from custody.ingest.submission.submission import batch_job, single_job
from custody.kernel.engine import Serving, Settings, Worker
from custody.kernel.engine.kinds import Kind
from custody.kernel.engine.makers import Maker
from custody.kernel.engine.work import Work
from custody.kernel.model.authority.acting import Acting
from custody.kernel.model.job import NewJob
from custody.kernel.model.machine import WORK, Machine
from custody.kernel.model.outcome import Outcome, Passed
from custody.kernel.stores import Store
from custody.kernel.stores.rows import Tx
from custody.robots.makers import ROBOT_MAKER
from custody.web.operations.makers import BULK_MAKER, MAKERS, VERIFY_MAKER
from custody.workflows.archives.notices import commit_job
from custody.workflows.makers import COMMIT_MAKER, QUICK_MAKER, RUN_MAKER, TASK_MAKER, task_key
from kernel.stores.acts import execute

ADA = Acting("token:1/ada", "ada")
DEEP: Any = "x"
for _ in range(12):
    DEEP = [DEEP]
HOSTILE: dict[str, Any] = {
    "up": "../x",
    "a path": "a/b",
    "absolute": "/etc/passwd",
    "here": ".",
    "nothing": "",
    "NUL": "a\0b",
    "control": "a\x1bb",
    "long": "x" * 200_000,
    "none": None,
    "yes": True,
    "minus": -1,
    "huge": 10**18 * 9,
    "a fraction": 1.5,
    "infinite": float("inf"),
    "no number": float("nan"),
    "a list": ["x"],
    "deep": DEEP,
    "an object": {"x": 1},
    "a backslash": "a\\b",
    "a list of numbers": [1, 2],
}
GOOD: dict[str, tuple[Maker, dict[str, Any]]] = {
    "workflow/commit": (COMMIT_MAKER, {"archive": "book", "revision": 1}),
    "workflow/run": (RUN_MAKER, {"archive": "book", "revision": 1, "wanted": "build", "alone": False}),
    "workflow/task": (
        TASK_MAKER,
        {
            "archive": "book",
            "revision": 1,
            "run": "commit",
            "task": "build",
            "depends": ["a"],
            "cancels": ["b"],
            "cancels_here": ["b"],
            "recipe": {"script": "true"},
            "lineage": ["a"],
            "file": "_workflows/w.yaml",
        },
    ),
    "workflow/quick": (QUICK_MAKER, {"archive": "book", "revision": 1, "run": "commit", "task": "index"}),
    "ingest/batch": (
        BATCH_MAKER,
        {"profile": "papers", "payload": "http://127.0.0.1/a", "update": True, "dc": {"rights": "none"}},
    ),
    "ingest/job": (
        JOB_MAKER,
        {"profile": "papers", "payload": "http://127.0.0.1/a", "row": 1, "local_ids": ["x"], "size": 3},
    ),
    "deliver/mail": (DELIVER_MAKER, {"message": "staged:ab", "to": ["a@b.org"], "message_id": "<x@b.org>"}),
    "channel/sync": (MAKER_OF[SYNC], {"channel": "17"}),
    "channel/review": (MAKER_OF[REVIEW], {"channel": "17", "message": "18"}),
    "robot/x": (ROBOT_MAKER, {"item": "a"}),
    "history/verify": (VERIFY_MAKER, {"name": "verify the history"}),
    "bulk": (
        BULK_MAKER,
        {
            "action": "cancel",
            "filter": {"kind": "precious"},
            "why": "",
            "last": 9,
            "total": 1,
            "eligible": 1,
            "priority": 50,
        },
    ),
}
SAYS = frozenset({"payload", "why", "action", "item", "name", "message", "message_id", "file"})
"""Fields that hold a text which is compared, looked up or read with care, and never becomes part of a path."""
LATER = {
    "yes": {"update", "alone"},
    "nothing": {"payload", "why", "name", "file"},
    "huge": {"revision", "size", "row", "last", "total", "eligible"},
    "a list": {"depends", "cancels", "cancels_here", "local_ids", "lineage", "to"},
}
"""Values that have the right shape: whether they are true is found out at claim."""
TEXTS = frozenset({"up", "a path", "absolute", "here", "control", "a backslash"})


def variants(kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Payloads that nobody may make, each with what is odd about it."""
    _, good = GOOD[kind]
    yield "an extra name", {**good, "extra": 1}
    yield "a name of the engine", {**good, "who": 1}
    for field in good:
        for how, value in HOSTILE.items():
            fits = field in LATER.get(how, ()) or (how in TEXTS and (field in SAYS or (field, kind) in _ALSO))
            if not fits and not (how == "a list" and field == "dc"):
                yield f"{field}: {how}", {**good, field: value}


_ALSO = {("update", "ingest/batch")}
"""A tree that other services write to has flags as text."""


def test_every_entry_has_an_example_here() -> None:
    covered = {maker.kind for maker, _ in GOOD.values()}
    channels = {maker.kind for maker in MAKERS.entries if maker.kind.startswith("channel/")}
    assert {maker.kind for maker in MAKERS.entries} - channels == covered - channels
    assert all(maker.shape is not None for maker in MAKERS.entries)


@pytest.mark.parametrize("kind", GOOD)
def test_a_payload_of_another_shape_is_not_made(kind: str) -> None:
    maker, good = GOOD[kind]
    assert maker.checked(NewJob(kind, good)).payload == good
    for how, payload in variants(kind):
        with pytest.raises(BadInput, match=r"payload of") as raised:
            maker.checked(NewJob(kind, payload))
        assert raised.value.code == "job.shape", how
    for field in good:
        left = {name: value for name, value in good.items() if name != field}
        assert maker.fault(left) or maker.fault({**left, field: object()})


@pytest.fixture
def stage(store: Store) -> Store:
    """An archive with one revision."""

    def work(tx: Tx) -> None:
        tx.run("wf_add_archive", name="book", system="git", location="/nowhere", uuid="u", last=1)

    store.db.write(work)
    return store


def machine_of(kind: str) -> Machine:
    return {"ingest/batch": BATCH, "ingest/job": JOB}.get(kind, WORK)


def drain(store: Store, *kinds: str) -> list[int]:
    """Work on all there is; answers the jobs that a handler was called for."""
    reached: list[int] = []

    def handler(work: Work) -> Outcome:
        reached.append(work.job.id)
        return Passed()

    served = tuple(
        Kind(kind, handler, state=machine_of(kind).start, machine=machine_of(kind), maker=GOOD[kind][0])
        for kind in kinds
    )
    worker = Worker(store, Serving(served), Settings(threads=1, lease=60, schedules=False))
    worker.run_until_idle()
    worker.shut_down()
    return reached


def must_be_refused(store: Store, jobs: list[int], why: str = "") -> None:
    for number in jobs:
        job = store.queue.get(number)
        assert (job.ended, job.code, job.crashes) == ("failed", "job.forged", 0), (number, job.payload)
        last = store.records.events(f"job/{number}")[-1]
        assert (last.type, last.detail["code"]) == ("failed", "job.forged")
        assert str(last.detail["reason"]).startswith(why), last.detail


@pytest.mark.parametrize("kind", GOOD)
def test_a_payload_of_another_shape_in_the_table_is_not_worked_on(stage: Store, kind: str) -> None:
    odd = [
        payload
        for how, payload in variants(kind)
        if not any(word in how for word in ("infinite", "no number", "NUL", "long"))  # the table takes none of these
    ]
    machine = machine_of(kind)
    made = stage.queue.submit([NewJob(kind, payload, machine=machine) for payload in odd], ADA)
    assert drain(stage, kind) == []
    must_be_refused(stage, [each.id for each in made], "its payload")
    assert drain(stage, kind) == [], "it is not tried again"


def test_what_is_true_is_worked_on_and_what_is_not_is_not(stage: Store) -> None:
    commit = commit_job("book", 1, [])
    task = NewJob(
        "workflow/task",
        GOOD["workflow/task"][1],
        key=task_key("book", 1, "commit", "build"),
        collection="book",
        line="book",
        task="build",
        position=1,
    )
    run = NewJob("workflow/run", GOOD["workflow/run"][1], collection="book", lane="book")
    bulk = NewJob("bulk", GOOD["bulk"][1])
    batch = batch_job(GOOD["ingest/batch"][1], "k1")
    number = stage.queue.submit_one(batch, ADA).id
    job = single_job(number, batch.payload, "file", "http://127.0.0.1/a", 5)
    sync, review = sync_job(17), review_job(17, 18)
    robot = NewJob("robot/x", {"item": "a"}, key="a")
    about = f"<batch-{number}-report-1@b.org>"
    mail = NewJob("deliver/mail", {**GOOD["deliver/mail"][1], "message_id": about}, key=about)
    true = [commit, task, run, bulk, job, sync, review, robot, mail]
    made = [number, *(stage.queue.submit_one(each, ADA).id for each in true)]
    assert sorted(drain(stage, *GOOD)) == sorted(made)

    number_of = count()

    def other(given: NewJob, **payload: Any) -> NewJob:
        return replace(given, key=f"other-{next(number_of)}", payload={**given.payload, **payload})

    untrue: list[NewJob] = []
    untrue += [
        replace(commit, key="mine"),
        replace(commit, key="x", collection="vault"),
        commit_job("book", 2, []),
        commit_job("vault", 1, []),  # not taken in; another's is nobody's here: see below
        replace(task, key="x", collection="vault"),
        replace(task, key="y", line="vault"),
        replace(task, key="z", task="other"),
        other(task, task="evil"),
        other(task, archive="vault"),
        replace(other(task), key=task_key("book", 2, "commit", "build"), payload={**task.payload, "revision": 2}),
        replace(task, key=task_key("book", 1, "manual-1", "build"), payload={**task.payload, "run": "manual-1"}),
        replace(task, key=task_key("book", 1, "manual-999", "build"), payload={**task.payload, "run": "manual-999"}),
        replace(task, key=task_key("book", 1, "whatever", "build"), payload={**task.payload, "run": "whatever"}),
        replace(run, collection=""),
        replace(run, collection="vault"),
        other(run, archive="vault"),
        other(run, revision=9),
        replace(run, payload={"archive": "book", "wanted": "build", "schedule": "book/build", "slot": 5}),
        replace(bulk, collection="maps"),
        replace(job, key="x", parent=None),
        replace(job, key="y", collection="maps"),
        replace(job, key="z", payload={**job.payload, "profile": "maps"}, collection="maps"),
        replace(sync, key="18"),
        replace(review, key="17"),
        replace(sync, key="19", payload={"channel": "19"}),
        replace(robot, key="b"),
        replace(
            mail, key="<batch-999-report-1@b.org>", payload={**mail.payload, "message_id": "<batch-999-report-1@b.org>"}
        ),
        replace(mail, key="mine"),
        other(mail, message_id="<x@b.org>"),
    ]
    untrue = [each for each in untrue if each.key != "vault:1"]
    forged = [stage.queue.submit_one(each, ADA).id for each in untrue]
    assert drain(stage, *GOOD) == []
    must_be_refused(stage, forged)


@pytest.mark.parametrize("by", ["system", "schedule:forge/director", "director", "robot:1/x"])
def test_a_bulk_action_that_nobody_asked_for_is_not_carried_out(stage: Store, by: str) -> None:
    job = stage.queue.submit_one(NewJob("bulk", GOOD["bulk"][1]), Acting(by, "director")).id
    assert drain(stage, "bulk") == []
    must_be_refused(stage, [job], "nobody whose rights are known")


def test_a_bulk_action_from_before_anybody_was_asked_is_not_carried_out(stage: Store) -> None:
    job = stage.queue.submit_one(NewJob("bulk", GOOD["bulk"][1]), Acting("", "director")).id
    stage.db.write(lambda tx: execute(tx, f"update job set created = 1 where id = {job}"))
    assert drain(stage, "bulk") == []
    must_be_refused(stage, [job], "nobody whose rights are known")


def test_a_row_that_names_nobody_is_worked_on_only_if_it_is_older_than_the_names(stage: Store) -> None:
    new = stage.queue.submit_one(NewJob("robot/x", {"item": "a"}, key="a"), Acting("", "somebody")).id
    assert drain(stage, "robot/x") == []
    must_be_refused(stage, [new], "nobody is known")
    old = stage.queue.submit_one(NewJob("robot/x", {"item": "b"}, key="b"), Acting("", "somebody")).id
    stage.db.write(lambda tx: execute(tx, f"update job set created = 1 where id = {old}"))
    assert drain(stage, "robot/x") == [old]


def test_a_job_in_a_state_that_never_fails_ends_all_the_same(stage: Store) -> None:
    job = stage.queue.submit_one(NewJob("ingest/job", {"profile": "x"}, machine=JOB, state="estimating"), ADA).id
    kind = Kind("ingest/job", lambda work: Passed(), state="estimating", machine=JOB, maker=JOB_MAKER)
    worker = Worker(stage, Serving((kind,)), Settings(threads=1, schedules=False))
    worker.run_until_idle()
    worker.shut_down()
    must_be_refused(stage, [job], "its payload")

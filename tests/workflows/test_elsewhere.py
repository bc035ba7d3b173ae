"""A container of a machine that is gone may live on: until it is dead nothing replaces it, and nothing says it ended."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from custody.border.sandbox.sandbox import Spec
from custody.kernel.engine import Serving, Settings, Worker
from custody.kernel.engine.work import Work
from custody.kernel.model.job import Job
from custody.workflows.commands.archive import app
from custody.workflows.holds import pause
from custody.workflows.kinds import WorkflowConfig, kinds
from custody.workflows.makers import COMMIT_KIND
from custody.workflows.tasks import images
from custody.workflows.tasks.run import run_task
from custody.workflows.tasks.runner import attempt_name
from rig.need import need
from rig.svn import Repository
from workflows.desk import Desk, sitting_at, until

LONG = "- {name: long, image: localhost/none/such, cancels: [PREV], script: 'exit 0'}\n"
ADOPT = 3.0


@pytest.fixture
def desk(tmp_path: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """Images are allowed; that there is no such image here is seen only when one would be started."""
    need("bubblewrap")
    monkeypatch.setattr(images, "SLACK", 0.0)
    config = WorkflowConfig(images=("localhost/*",), adopt=600.0)
    with sitting_at(f"sqlite:///{tmp_path / 'custody.db'}", repository, tmp_path, config) as made:
        yield made


def begun(desk: Desk, container: dict[str, Any]) -> Job:
    """Revision 1 is planned, and its task was begun by a worker that has vanished since."""
    desk.notify(desk.commit({"_workflows/a.yaml": LONG}))
    Worker(desk.store, Serving(tuple(kinds(desk.shop))).only([COMMIT_KIND]), Settings()).run_until_quiet()
    claim = desk.store.queue.claim(desk.store.queue.ready_queues("workflow/task|"), "gone", 0.01)[0]
    desk.store.queue.keep(claim, {"container": container}, {}, (), "gone")
    return claim.job


def time_of(desk: Desk, job: Job, types: tuple[str, ...]) -> int:
    return next(event.at for event in desk.store.records.events(job.subject) if event.type in types)


def test_what_is_superseded_while_its_container_may_live_elsewhere_ends_when_that_is_dead(desk: Desk) -> None:
    begun(desk, {"home": "elsewhere", "name": "task-x", "adopt": ADOPT})
    with desk.working(lease=2.0, grace=0.1):
        until(lambda: "dead_by" in desk.task(1, "long").facts["container"])
        dead_by = desk.task(1, "long").facts["container"]["dead_by"]
        desk.notify(desk.commit({"a.txt": "more"}))
        until(lambda: desk.task(1, "long").ended == "superseded")
        until(lambda: "waited" in [event.type for event in desk.store.records.events(desk.task(2, "long").subject)])
    assert time_of(desk, desk.task(1, "long"), ("superseded",)) >= dead_by
    assert time_of(desk, desk.task(2, "long"), ("waited",)) >= dead_by, "it asked for its image"


def test_what_is_cancelled_while_its_container_may_live_elsewhere_ends_when_that_is_dead(desk: Desk) -> None:
    job = begun(desk, {"home": "elsewhere", "name": "task-x", "adopt": ADOPT})
    with desk.working(lease=2.0, grace=0.1):
        until(lambda: "dead_by" in desk.task(1, "long").facts["container"])
        dead_by = desk.task(1, "long").facts["container"]["dead_by"]
        desk.operator.cancel(job.id, "enough")
        until(lambda: desk.task(1, "long").ended == "cancelled")
    assert time_of(desk, job, ("cancelled",)) >= dead_by


def test_what_is_taken_over_goes_on_when_the_container_elsewhere_is_dead_and_why_says_so(desk: Desk) -> None:
    job = begun(desk, {"home": "elsewhere", "name": "task-x", "adopt": ADOPT})
    words = ["why", "proj", "1", "long", "--store", desk.store.url]
    with desk.working(lease=2.0, grace=0.1):
        until(lambda: "dead_by" in desk.task(1, "long").facts["container"])
        dead_by = desk.task(1, "long").facts["container"]["dead_by"]
        said = CliRunner().invoke(app, words, catch_exceptions=False).stdout
        assert images.MAY_LIVE in said or desk.store.now() >= dead_by
        until(lambda: "waited" in [event.type for event in desk.store.records.events(job.subject)])
    assert time_of(desk, job, ("waited",)) >= dead_by
    now = desk.task(1, "long")
    assert now.crashes == 0, "who only looks is not killed by it"
    assert images.MAY_LIVE not in CliRunner().invoke(app, words, catch_exceptions=False).stdout


@pytest.mark.parametrize(("retries", "end"), [(0, "failed"), (1, None)])
def test_workers_that_vanish_use_up_none_of_a_tasks_own_retries(one_desk: Desk, retries: int, end: str | None) -> None:
    text = f"- {{name: long, script: exit 3, retries: {retries}}}\n"
    one_desk.notify(one_desk.commit({"_workflows/a.yaml": text}))
    Worker(one_desk.store, Serving(tuple(kinds(one_desk.shop))).only([COMMIT_KIND]), Settings()).run_until_quiet()
    one_desk.store.queue.claim(one_desk.store.queue.ready_queues("workflow/task|"), "gone", 0.01)
    for _ in range(2):
        until(lambda: one_desk.task(1, "long").until < one_desk.store.now())
        one_desk.store.queue.claim_expired(["workflow/task|"], "gone too", 0.01)
    until(lambda: one_desk.task(1, "long").until < one_desk.store.now())
    one_desk.worker(lease=60.0).run_until_idle(1)
    job = one_desk.task(1, "long")
    assert (job.attempts, job.code, job.ended) == (0 if end else 4, "exit.3", end)


def under_way(desk: Desk) -> Path:
    """A sandbox as a worker of this machine has left it; the folder in which it works."""
    job = begun(desk, {"home": desk.shop.identity, "name": "task-0-1", "adopt": ADOPT})
    name = attempt_name(job)
    place = desk.shop.work / name
    place.mkdir(parents=True)
    script = "while ! test -e go; do sleep 0.05; done; echo ended"
    desk.shop.sandboxes.start(Spec(name=name, work=place, script=script, lease=600))
    facts = {"container": {"home": desk.shop.identity, "name": name, "adopt": ADOPT}}
    until(lambda: desk.task(1, "long").until < desk.store.now())
    claim = desk.store.queue.claim_expired(["workflow/task|"], "gone", 0.01)[0]
    desk.store.queue.keep(claim, facts, {}, (), "gone")
    return place


def test_a_container_of_this_machine_is_gone_on_with_although_its_archive_was_paused(desk: Desk) -> None:
    """Otherwise it would be put back, and could be replaced while its container lives."""
    place = under_way(desk)
    pause(desk.store, "proj", "ada", "moving house")
    with desk.working(lease=6.0, grace=0.1):
        until(lambda: desk.task(1, "long").holder not in (None, "gone"))
        (place / "go").touch()
        until(lambda: desk.task(1, "long").ended)
    assert desk.states("long", 1) == ["done"]
    assert desk.log(1, "long") == "ended\n"


def test_a_worker_that_is_shut_down_says_that_its_container_is_dead(desk: Desk) -> None:
    """It is given back as if nothing had happened; a worker of another machine would wait for two minutes."""
    under_way(desk)
    until(lambda: desk.task(1, "long").until < desk.store.now())
    work = Work(desk.store.queue.claim_expired(["workflow/task|"], "ada's", 600)[0], desk.store.queue)
    work.trusted_until = time.monotonic() + 600
    work.stop("shutdown")
    run_task(work, desk.shop)
    assert desk.task(1, "long").facts["container"]["over"]

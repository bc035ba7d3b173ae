"""Runs that people and schedules ask for: at a revision, as it was defined there, beside what commits start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from custody.errors import BadInput, KeyConflict, NotFound, Refused
from custody.kernel.engine import Serving, Settings, Worker
from custody.kernel.model.authority.acting import system
from custody.kernel.model.job import Filter, Job
from custody.kernel.stores import open_store
from custody.workflows.archives.notices import reconcile
from custody.workflows.archives.table import Archives
from custody.workflows.definition.task import Schedule
from custody.workflows.kinds import WorkflowConfig, kinds, open_shop
from custody.workflows.makers import RUN_KIND, TASK_KIND, task_key
from custody.workflows.plan.requested import ask_for_run
from custody.workflows.schedules import keep_time
from rig.need import need
from workflows.desk import Desk, until
from workflows.repositories import GitRepository

BOOK = """
- name: indexing
  depends: [PREV]
  script: echo index of {number} | tee index.txt
  outputs: [index.txt]
- name: build
  depends: [indexing]
  cancels: [PREV]
  script: echo book of {number}
- name: other
  script: echo other
"""


def of_run(desk: Desk, revision: int, run: int, task: str) -> Job:
    job = desk.store.queue.by_key(TASK_KIND, task_key("proj", revision, f"manual-{run}", task))
    assert job is not None, f"there is no {task} in run {run}"
    return job


def log_of(desk: Desk, job: Job) -> str:
    return (desk.shop.kept / job.facts["log"]).read_text()


def test_a_manual_run_uses_the_definition_of_its_revision_and_brings_what_it_depends_on(desk: Desk) -> None:
    for number in (1, 2):
        desk.commit({"_workflows/book.yaml": BOOK.format(number=number)})
    desk.notify(2)
    desk.run()
    run = ask_for_run(desk.store, "proj", "build", system("ada"), revision=1)
    desk.run()
    assert desk.store.queue.get(run).state == "done"
    assert log_of(desk, of_run(desk, 1, run, "build")) == "book of 1\n"
    assert log_of(desk, of_run(desk, 1, run, "indexing")) == "index of 1\n"
    assert desk.store.queue.by_key(TASK_KIND, task_key("proj", 1, f"manual-{run}", "other")) is None
    assert desk.states("build", 2) == ["done"], "what a commit started is not touched"
    assert desk.store.records.latest("proj@1")["run build"].outcome == "success"


def test_a_task_can_be_run_alone_and_a_workflow_whole(one_desk: Desk) -> None:
    one_desk.commit({"_workflows/book.yaml": BOOK.format(number=1)})
    one_desk.notify(1)
    alone = ask_for_run(one_desk.store, "proj", "build", system("ada"), alone=True)
    whole = ask_for_run(one_desk.store, "proj", "book", system("ada"))
    one_desk.run()
    assert set(one_desk.store.queue.get(alone).facts["tasks"]) == {"build"}
    assert set(one_desk.store.queue.get(whole).facts["tasks"]) == {"indexing", "build", "other"}


def test_a_run_waits_for_the_earlier_one_to_have_ended_however_it_ended(one_desk: Desk) -> None:
    one_desk.commit({"_workflows/a.yaml": "- name: a\n  depends: [PREV]\n  script: exit 4\n"})
    one_desk.notify(1)
    first = ask_for_run(one_desk.store, "proj", "a", system("ada"))
    one_desk.run()
    second = ask_for_run(one_desk.store, "proj", "a", system("ada"))
    one_desk.run()
    failed = one_desk.store.queue.get(first)
    assert (failed.state, failed.code) == ("failed", "run.failed")
    again = of_run(one_desk, 1, second, "a")
    edges = one_desk.store.db.read(lambda tx: tx.run("edges_from", id=again.id))
    assert {row[0] for row in edges} >= {one_desk.task(1, "a").id, of_run(one_desk, 1, first, "a").id}
    assert again.code == "exit.4", "it ran although the one before had failed"


def test_the_same_key_gives_the_same_run(one_desk: Desk) -> None:
    one_desk.commit({"_workflows/book.yaml": BOOK.format(number=1)})
    one_desk.notify(1)
    runs = {ask_for_run(one_desk.store, "proj", "build", system("ada"), key="monday") for _ in range(3)}
    assert len(runs) == 1


@pytest.mark.parametrize(
    ("asked", "error", "told"),
    [
        ({"wanted": "nothing"}, NotFound, "no task or workflow nothing"),
        ({"wanted": "build", "revision": 9}, NotFound, "no revision 9"),
        ({"wanted": "build", "revision": 2}, BadInput, "nobody"),
    ],
)
def test_what_cannot_be_run_is_refused_at_once(
    one_desk: Desk, asked: dict[str, Any], error: type[Exception], told: str
) -> None:
    one_desk.commit({"_workflows/book.yaml": BOOK.format(number=1)})
    one_desk.commit({"_workflows/book.yaml": "- name: build\n  depends: [nobody]\n"})
    one_desk.commit({"_workflows/book.yaml": BOOK.format(number=3)})
    one_desk.notify(3)
    with pytest.raises(error, match=told):
        ask_for_run(one_desk.store, "proj", acting=system("ada"), **asked)
    assert not list(one_desk.store.queue.every(Filter(kind=RUN_KIND)))


def test_a_frozen_archive_runs_nothing(one_desk: Desk) -> None:
    one_desk.commit({"_workflows/book.yaml": BOOK.format(number=1)})
    one_desk.notify(1)
    Archives(one_desk.store).freeze("proj", "another repository", "x", "ada")
    with pytest.raises(Refused, match="another repository"):
        ask_for_run(one_desk.store, "proj", "build", system("ada"))


NIGHTLY = """
when: schedule
cron: "{cron}"
timezone: Europe/Copenhagen
overlap: {overlap}
tasks:
  - name: check
    script: echo checked
"""


def test_a_workflow_with_a_cron_becomes_a_schedule_and_goes_with_its_file(desk: Desk) -> None:
    desk.commit({"_workflows/nightly.yaml": NIGHTLY.format(cron="0 3 * * *", overlap="skip")})
    desk.notify(1)
    desk.run()
    (schedule,) = desk.store.schedules.list()
    assert (schedule.name, schedule.spec, schedule.zone) == ("proj/nightly", "0 3 * * *", "Europe/Copenhagen")
    desk.commit({"notes.txt": "nothing to do with it"})
    desk.notify(2)
    desk.run()
    assert len(desk.store.records.events("schedule/proj/nightly")) == 1, "what says the same is left alone"
    desk.commit({"_workflows/nightly.yaml": NIGHTLY.format(cron="0 4 * * *", overlap="allow")})
    desk.notify(3)
    desk.run()
    assert [(s.spec, s.overlap) for s in desk.store.schedules.list()] == [("0 4 * * *", "allow")]
    desk.commit({"_workflows/nightly.yaml": "when: manual\ntasks: [{name: check, script: echo hi}]\n"})
    desk.notify(4)
    desk.run()
    assert not desk.store.schedules.list()


def come_due(desk: Desk, days: int = 0) -> None:
    """As if nobody had looked for so long."""
    slot = desk.store.now() - days * 86_400_000_000 - 1
    desk.store.db.write(lambda tx: tx.run("pause_schedule", name="proj/nightly", paused=0, next_slot=slot, why=""))


def test_a_slot_runs_once_at_the_youngest_revision_and_what_was_missed_is_recorded(desk: Desk) -> None:
    desk.commit({"_workflows/nightly.yaml": NIGHTLY.format(cron="0 3 * * *", overlap="skip")})
    desk.notify(1)
    desk.run()
    come_due(desk, days=3)
    assert [desk.store.schedules.run_due() for _ in range(3)] == [1, 0, 0]
    desk.run()
    (run,) = desk.store.queue.every(Filter(kind=RUN_KIND))
    assert (run.state, run.facts["revision"]) == ("done", 1)
    check = desk.store.queue.by_key(TASK_KIND, task_key("proj", 1, f"schedule-{run.id}", "check"))
    assert check is not None
    assert log_of(desk, check) == "checked\n"
    outcomes = [outcome for _, _, outcome in desk.store.schedules.slots("proj/nightly")]
    assert outcomes[0] == "ran"
    assert set(outcomes[1:]) == {"missed"}
    assert len(outcomes) >= 3


def test_while_a_scheduled_run_has_not_ended_its_next_slot_is_left_out(one_desk: Desk) -> None:
    text = NIGHTLY.format(cron="0 3 * * *", overlap="skip").replace("echo checked", "sleep 600")
    one_desk.commit({"_workflows/nightly.yaml": text})
    one_desk.notify(1)
    one_desk.run()
    come_due(one_desk)
    with one_desk.working():
        until(lambda: any(job.holder for job in one_desk.store.queue.every(Filter(kind=TASK_KIND))))
        come_due(one_desk)
        until(lambda: len(one_desk.store.schedules.slots("proj/nightly")) == 2)
        (run,) = one_desk.store.queue.every(Filter(kind=RUN_KIND))
        (task,) = one_desk.store.queue.every(Filter(kind=TASK_KIND))
        one_desk.operator.cancel(task.id, "enough")
        until(lambda: one_desk.store.queue.get(run.id).ended == "failed")
    assert [how for _, _, how in one_desk.store.schedules.slots("proj/nightly")] == ["skipped", "ran"]


def test_schedules_of_other_archives_and_other_kinds_are_left_alone(one_desk: Desk) -> None:
    keep_time(one_desk.store, "other", [("nightly", Schedule("0 1 * * *"))])
    keep_time(one_desk.store, "proj", [])
    assert [schedule.name for schedule in one_desk.store.schedules.list()] == ["other/nightly"]


def test_a_schedule_runs_its_whole_workflow_also_when_a_task_has_the_same_name(one_desk: Desk) -> None:
    text = "when: schedule\ncron: 0 3 * * *\ntasks:\n  - {name: nightly, script: echo kept}\n"
    text += "  - {name: verify, depends: [nightly], script: echo verified}\n"
    one_desk.commit({"_workflows/nightly.yaml": text})
    one_desk.notify(1)
    one_desk.run()
    come_due(one_desk)
    assert one_desk.store.schedules.run_due() == 1
    one_desk.run()
    (run,) = one_desk.store.queue.every(Filter(kind=RUN_KIND))
    assert set(run.facts["tasks"]) == {"nightly", "verify"}
    assert run.state == "done"


def test_the_same_key_gives_the_same_run_also_after_a_commit_and_to_somebody_else(one_desk: Desk) -> None:
    one_desk.commit({"_workflows/book.yaml": BOOK.format(number=1)})
    one_desk.notify(1)
    run = ask_for_run(one_desk.store, "proj", "build", system("ada"), key="monday")
    one_desk.commit({"_workflows/book.yaml": BOOK.format(number=2)})
    one_desk.notify(2)
    assert ask_for_run(one_desk.store, "proj", "build", system("bob"), key="monday") == run
    with pytest.raises(KeyConflict):
        ask_for_run(one_desk.store, "proj", "other", system("ada"), key="monday")
    with pytest.raises(KeyConflict):
        ask_for_run(one_desk.store, "proj", "build", system("ada"), key="monday", revision=2)


@pytest.mark.parametrize("one_by_one", [True, False])
def test_a_faulty_revision_leaves_the_schedules_of_the_last_good_one(one_desk: Desk, one_by_one: bool) -> None:
    """However many revisions are taken in at once."""
    for files in (
        {"_workflows/nightly.yaml": NIGHTLY.format(cron="0 3 * * *", overlap="skip")},
        {"_workflows/nightly.yaml": NIGHTLY.format(cron="0 4 * * *", overlap="skip")},
        {"_workflows/book.yaml": "- nmae: wrong\n"},
    ):
        revision = one_desk.commit(files)
        if one_by_one:
            one_desk.notify(revision)
            one_desk.run()
    one_desk.notify(3)
    one_desk.run()
    assert [schedule.spec for schedule in one_desk.store.schedules.list()] == ["0 4 * * *"]


def test_in_git_the_main_branch_says_what_runs_by_the_clock_and_is_what_runs(
    tmp_path: Path, proj_git: GitRepository
) -> None:
    """A branch that never had the file, or has an old one, must not stop or change what the archive does each night."""
    need("bubblewrap")
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as store:
        shop = open_shop(store, WorkflowConfig(), tmp_path)
        kept = Archives(store).add("proj", "git", str(proj_git.path), "ada")

        def work() -> None:
            reconcile(store, Archives(store).get("proj"))
            Worker(store, Serving(tuple(kinds(shop))), Settings(threads=2)).run_until_quiet()

        proj_git.commit("a.txt", "a")
        proj_git.git("branch", "feature")
        proj_git.commit("_workflows/nightly.yaml", NIGHTLY.format(cron="0 3 * * *", overlap="skip"))
        proj_git.push("origin", "main")
        work()
        proj_git.push("origin", "feature")
        work()
        assert (kept.last, Archives(store).get("proj").last) == (0, 2)
        assert [schedule.name for schedule in store.schedules.list()] == ["proj/nightly"]
        slot = store.now() - 1
        store.db.write(lambda tx: tx.run("pause_schedule", name="proj/nightly", paused=0, next_slot=slot, why=""))
        assert store.schedules.run_due() == 1
        work()
        (run,) = store.queue.every(Filter(kind=RUN_KIND))
        assert (run.state, run.facts["revision"]) == ("done", 1), "of the main branch"
        shop.sandboxes.__exit__(None, None, None)

"""What happens to a task's folder, while its outputs are kept and afterwards, is no surprise and leaves nothing lying."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from custody.border import leftovers
from custody.cli.composition import look
from custody.config import read
from custody.workflows.kinds import WorkflowConfig, open_shop
from custody.workflows.tasks import leftover_folders
from workflows.desk import Desk

KEEPS = """
- name: build
  outputs: [out/*]
  script: mkdir out; echo one > out/one; echo two > out/two
"""


def test_an_output_that_vanishes_while_it_is_kept_is_told_and_the_task_has_passed(
    one_desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = leftovers.keep

    def somebody_beside(folder: Path, names: Iterable[str], *more: Any) -> dict[str, str]:
        (folder / "out" / "one").unlink()
        return keep(folder, names, *more)

    monkeypatch.setattr(leftovers, "keep", somebody_beside)
    one_desk.notify(one_desk.commit({"_workflows/w.yaml": KEEPS}))
    one_desk.run()
    job = one_desk.task(1, "build")
    assert job.state == "done"
    assert [path.name for path in one_desk.shop.folder(job).glob("*.log")] == ["attempt-1.log"], "it ran once"
    assert one_desk.log(1, "build") == (
        "custody: 'out/one' is declared as an output and was not kept: it vanished while we looked\n"
    )
    assert [path.name for path in one_desk.shop.folder(job).glob("outputs/out/*")] == ["two"]


def test_what_was_left_of_tasks_that_have_ended_is_cleared_by_the_next_look(one_desk: Desk) -> None:
    one_desk.notify(one_desk.commit({"_workflows/w.yaml": KEEPS}))
    one_desk.run()
    job, work = one_desk.task(1, "build"), one_desk.shop.work
    for name in (f"task-{job.id}-1", f".task-{job.id}-1", "task-999999-1", "not-a-task"):
        (work / name / "d").mkdir(parents=True)
    assert {path.name for path in leftover_folders.left(one_desk.shop)} == {
        f".task-{job.id}-1",
        f"task-{job.id}-1",
        "task-999999-1",
    }
    assert leftover_folders.sweep(one_desk.shop, older=600) == [], (
        "a look in passing leaves alone what was just touched"
    )
    assert (work / f"task-{job.id}-1").exists()
    open_shop(one_desk.store, WorkflowConfig(), one_desk.home).sandboxes.__exit__(None, None, None)
    found = {path.name for path in work.iterdir()}
    assert found == {".tools", "task-999999-1", "not-a-task"}, "what may be another store's is left to people"

    (one_desk.home / "custody.toml").write_text("")
    findings = look(one_desk.store, read(one_desk.home / "custody.toml"), "workflows").findings(False)
    told = [each for each in findings if "nobody works in" in each.what]
    assert [finding.what for finding in told] == [
        f"nobody works in {work / 'task-999999-1'} any more, and it is still there"
    ]
    assert told[0].do.endswith(f"rm -rf {work / 'task-999999-1'}")


def test_folders_of_a_job_that_somebody_works_on_are_his(one_desk: Desk) -> None:
    one_desk.notify(one_desk.commit({"_workflows/w.yaml": KEEPS.replace("mkdir out", "sleep 3; mkdir out")}))
    with one_desk.working():
        while not (begun := list(one_desk.shop.work.glob("task-*"))):
            os.sched_yield()
        assert leftover_folders.left(one_desk.shop) == []
        assert leftover_folders.sweep(one_desk.shop) == []
        assert begun[0].exists()

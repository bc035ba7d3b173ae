"""What a task gets of those it depends on, also when they ran on another machine."""

from __future__ import annotations

from pathlib import Path

from custody.kernel.engine import Serving, Settings, Worker
from custody.workflows.kinds import WorkflowConfig, kinds, open_shop
from workflows.desk import Desk, until

TEXT = """
- name: build
  outputs: [out]
  script: mkdir out; echo built > out/x
- name: publish
  depends: [build]
  script: cat /inputs/build/out/x
"""


def test_a_task_is_run_where_the_files_are_that_it_depends_on(one_desk: Desk, tmp_path: Path) -> None:
    one_desk.notify(one_desk.commit({"_workflows/a.yaml": TEXT}))
    one_desk.worker().run_until_idle(2)  # planned and built
    assert one_desk.states("build", 1) == ["done"]
    other = open_shop(one_desk.store, WorkflowConfig(), tmp_path / "another-machine")
    try:
        Worker(one_desk.store, Serving(tuple(kinds(other))), Settings(threads=1)).run_until_idle(1)
    finally:
        other.sandboxes.__exit__(None, None, None)
    job = one_desk.task(1, "publish")
    assert job.ended is None, "it would have run without what it needs"
    assert "what build has left is on another machine" in one_desk.store.queue.why(job.id)[0].text
    with one_desk.working():
        until(lambda: one_desk.task(1, "publish").ended == "passed")
    assert one_desk.log(1, "publish") == "built\n"


def test_machines_that_share_the_folder_share_what_is_in_it(one_desk: Desk, tmp_path: Path) -> None:
    one_desk.notify(one_desk.commit({"_workflows/a.yaml": TEXT}))
    one_desk.worker().run_until_idle(2)
    other = open_shop(one_desk.store, WorkflowConfig(kept=one_desk.shop.kept), tmp_path / "another-machine")
    try:
        Worker(one_desk.store, Serving(tuple(kinds(other))), Settings(threads=1)).run_until_idle(1)
    finally:
        other.sandboxes.__exit__(None, None, None)
    assert one_desk.states("publish", 1) == ["done"]

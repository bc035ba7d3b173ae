"""How a task's end is told, and what its definition says about time."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from custody.border.sandbox.spec import DISK, LEASE, LOST, MEMORY, TIMEOUT, End
from custody.kernel.model.outcome import Failed
from custody.workflows.definition.definition import lint, read
from custody.workflows.tasks.recipes import recipe
from custody.workflows.tasks.run import _conclude, confirm_dead
from workflows.desk import Desk, until


def concluded(tmp_path: Path, end: End, facts: dict[str, Any] | None = None) -> Failed:
    job = SimpleNamespace(attempts=1, id=7)
    work: Any = SimpleNamespace(
        job=job,
        payload={"archive": "proj", "revision": 1, "task": "a", "run": "commit"},
        facts=facts or {},
        tried=lambda most: 1,
    )
    shop: Any = SimpleNamespace(kept=tmp_path, folder=lambda job: tmp_path / "job")
    running: Any = SimpleNamespace(output=lambda: b"", remove=lambda: None)
    return cast(Failed, _conclude(work, shop, {}, running, end, tmp_path))


@pytest.mark.parametrize(
    ("reason", "code", "again"),
    [
        (TIMEOUT, "task.timeout", False),
        (MEMORY, "task.memory", False),
        (DISK, "task.disk", False),
        (LOST, "task.lost", True),
        (LEASE, "task.stopped", True),
    ],
)
def test_a_task_that_was_killed_says_of_what_and_one_that_fills_the_disk_does_not_do_so_again_and_again(
    tmp_path: Path, reason: str, code: str, again: bool
) -> None:
    told = concluded(tmp_path, End(reason, None))
    assert (told.code, told.transient) == (code, again)
    assert "None" not in told.reason


def test_a_container_that_has_ended_is_waited_for_by_nobody(tmp_path: Path) -> None:
    told = concluded(tmp_path, End(TIMEOUT, None), {"container": {"home": "here", "name": "task-7-1"}})
    assert told.keep["container"] == {"home": "here", "name": "task-7-1", "over": True}


def test_no_grace_is_no_grace_and_no_time_at_all_is_refused() -> None:
    found = read({"_workflows/a.yaml": b"- {name: a, script: x, grace: 0}\n"})
    assert recipe(found.workflows[0].tasks[0])["grace"] == 0, "it was ten seconds"
    (fault,) = read({"_workflows/a.yaml": b"- {name: a, script: x, timeout: 0s}\n"}).faults
    assert "timeout" in fault.message or "a second" in fault.message


def test_a_task_that_cancels_another_by_its_name_does_so_in_its_own_revision_too(one_desk: Desk) -> None:
    text = "- {name: build, script: sleep 600}\n- {name: check, script: exit 1}\n- name: abort\n"
    text += "  depends: [{task: check, if: failure}]\n  cancels: [build]\n  script: echo aborted\n"
    text += "- {name: other, cancels: ['PREV:check'], script: exit 0}\n"
    one_desk.notify(one_desk.commit({"_workflows/a.yaml": text}))
    with one_desk.working(grace=0.1):
        until(lambda: one_desk.task(1, "abort").ended == "passed")
        assert one_desk.task(1, "build").ended == "superseded"
    assert one_desk.task(1, "abort").payload["cancels_here"] == ["build"]
    assert "cancels_here" not in one_desk.task(1, "other").payload, "with PREV only in earlier ones"


def test_a_bound_that_has_no_effect_is_remarked_upon() -> None:
    text = b"- {name: a, script: x}\n- {name: b, script: x, cancels: [{task: 'PREV:a', max_in_a_row: 3}]}\n"
    (remark,) = lint(read({"_workflows/a.yaml": text}))
    assert "spare PREV, never PREV:a" in remark.message
    assert lint(read({"_workflows/a.yaml": text.replace(b"PREV:a", b"PREV")})) == ()


@pytest.mark.parametrize(("home", "revoked", "waits"), [("there", "supersede", True), ("here", "supersede", False)])
def test_a_container_of_another_machine_is_not_said_to_be_dead_while_it_may_live(
    monkeypatch: pytest.MonkeyPatch, home: str, revoked: str, waits: bool
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("custody.workflows.tasks.images.time.sleep", slept.append)
    job: Any = SimpleNamespace(id=7, revoked=revoked, facts={"container": {"home": home, "name": "task-7-1"}})
    shop: Any = SimpleNamespace(identity="here", adopt=60.0, sandboxes=SimpleNamespace(names=list))
    confirm_dead(job, shop)
    assert [seconds > 60 for seconds in slept] == [True] * waits

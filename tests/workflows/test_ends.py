"""How a task's end is told, and what its definition says about time."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from custody.border.confinement import DISK, LEASE, LOST, MEMORY, TIMEOUT, End
from custody.model.outcome import Failed
from custody.workflows.definition import read
from custody.workflows.planning import recipe
from custody.workflows.tasks import _conclude


def concluded(tmp_path: Path, end: End) -> Failed:
    job = SimpleNamespace(attempts=1, id=7)
    work: Any = SimpleNamespace(
        job=job, payload={"archive": "proj", "revision": 1, "task": "a", "run": "commit"}, facts={}
    )
    shop: Any = SimpleNamespace(kept=tmp_path, folder=lambda job: tmp_path / "job")
    running: Any = SimpleNamespace(output=lambda: b"", remove=lambda: None)
    return cast(Failed, _conclude(work, shop, {}, running, end, tmp_path))


@pytest.mark.parametrize(
    ("reason", "code", "again"),
    [
        (TIMEOUT, "task.timeout", False), (MEMORY, "task.memory", False), (DISK, "task.disk", False),
        (LOST, "task.lost", True), (LEASE, "task.stopped", True),
    ],
)  # fmt: skip
def test_a_task_that_was_killed_says_of_what_and_one_that_fills_the_disk_does_not_do_so_again_and_again(
    tmp_path: Path, reason: str, code: str, again: bool
) -> None:
    told = concluded(tmp_path, End(reason, None))
    assert (told.code, told.transient) == (code, again)
    assert "None" not in told.reason


def test_no_grace_is_no_grace_and_no_time_at_all_is_refused() -> None:
    found = read({"_workflows/a.yaml": b"- {name: a, script: x, grace: 0}\n"})
    assert recipe(found.workflows[0].tasks[0])["grace"] == 0, "it was ten seconds"
    (fault,) = read({"_workflows/a.yaml": b"- {name: a, script: x, timeout: 0s}\n"}).faults
    assert "timeout" in fault.message or "a second" in fault.message

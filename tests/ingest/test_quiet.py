"""A worker that runs until it is idle leaves no deposit behind that only waits for another one, on every store."""

from __future__ import annotations

from typing import Any

import pytest

from custody.ingest.steps import steps
from custody.kernel.model.outcome import Wait
from ingest.bench import Archive
from ingest.test_taken_names import deposit


def test_a_deposit_that_waits_for_another_of_the_same_object_is_done_before_the_end(
    home: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    storing, busy = steps.STEPS["storing"], [4]

    def writing(work: Any, world: Any) -> Any:
        """Somebody in another process has the object for some while."""
        busy[0] -= 1
        if busy[0] > 0:
            return Wait(steps.BUSY_SECONDS, "another job is writing a version of the same object")
        return storing(work, world)

    monkeypatch.setitem(steps.STEPS, "storing", writing)
    batches = [deposit(home, "papers", str(n), primary_id="ark:/12345/x") for n in range(2)]
    home.worker(threads=2).run_until_quiet()
    assert {home.batch(each).state for each in batches} == {"completed"}

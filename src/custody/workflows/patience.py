"""How long whatever waits for a repository or for a person waits: longer each time that nothing has changed.

Each wait is in the history, which nobody deletes: looked at every ten seconds, one that waits for months would fill it.
What ends a wait is told by whoever ends it (`hurry`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from custody.kernel.engine.work import Work
from custody.kernel.model.outcome import Wait
from custody.kernel.stores import Store
from custody.workflows.makers import runs_line

FIRST, MOST = 10.0, 900.0  # seconds
_FACT = "waited"  # what for, and how long the last time


def patiently(work: Work, why: str, keep: Mapping[str, Any] | None = None, until: str = "") -> Wait:
    """Wait, twice as long as the last time if that was for the same."""
    before, seconds = work.facts.get(_FACT) or ("", 0.0)
    seconds = min(MOST, seconds * 2) if before == why and seconds else FIRST
    return Wait(seconds, why, keep={**(keep or {}), _FACT: [why, seconds]}, until=until)


def hurry(store: Store, archive: str) -> None:
    """Let all that waits for its time look again now: what it waited for may have come."""
    store.db.write(lambda tx: tx.run("wf_hurry", line=archive, runs=runs_line(archive)))
    store.wake()

"""The bound against starvation: a task that is replaced again and again is let finish at last.

Commits that come faster than a build ends would mean that no build ever ends. With `max_in_a_row` or `max_age` the
oldest instance that has not ended is spared: newer ones wait for it instead of replacing it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from custody.kernel.model.graph import Edge
from custody.kernel.stores import Store
from custody.workflows.definition.task import Cancels, Task

MOST_LOOKED_AT = 200


@dataclass(frozen=True, slots=True)
class Instance:
    """A task in one of the earlier revisions, as far as it matters here."""

    job: int
    ended: str | None
    created: int  # microseconds
    changed: int


def spared(earlier: Sequence[Instance], bound: Cancels, now: int) -> int | None:
    """The job that the next instance must wait for; `earlier` are newest first."""
    unfinished = [place for place, instance in enumerate(earlier) if instance.ended is None]
    if not unfinished:
        return None
    oldest = unfinished[-1]
    replaced = 0
    for instance in earlier[oldest + 1 :]:
        if instance.ended != "superseded":
            break
        replaced += 1
    if bound.max_in_a_row is not None and replaced >= bound.max_in_a_row:
        return earlier[oldest].job
    if bound.max_age is not None and now - _last_result(earlier) >= bound.max_age * 1_000_000:
        return earlier[oldest].job
    return None


def _last_result(earlier: Sequence[Instance]) -> int:
    """When one last succeeded; if none did, when the first of them was made."""
    done = [instance.changed for instance in earlier if instance.ended == "passed"]
    return max(done) if done else min(instance.created for instance in earlier)


def waits_for_the_spared(store: Store, archive: str, revision: int, task: Task) -> Sequence[Edge]:
    bounds = [edge for edge in task.cancels if edge.earlier and edge.task == task.name]
    bounds = [edge for edge in bounds if edge.max_in_a_row is not None or edge.max_age is not None]
    if not bounds:
        return ()
    rows = store.db.read(
        lambda tx: tx.run("wf_instances", line=archive, task=task.name, position=revision, limit=MOST_LOOKED_AT)
    )
    earlier = [Instance(*row) for row in rows]
    found = {spared(earlier, bound, store.now()) for bound in bounds} - {None}
    return [Edge(job, "finished") for job in sorted(job for job in found if job is not None)]

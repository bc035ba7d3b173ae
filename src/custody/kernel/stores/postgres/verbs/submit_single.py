"""Submitting a single job, as most callers do: one plain statement, which is the whole transaction."""

from __future__ import annotations

from custody.kernel.stores.postgres.transaction import PostgresTx
from custody.kernel.stores.postgres.verbs.submit import Order
from custody.kernel.stores.rows import event_text
from custody.kernel.stores.rules.submit import Submitted, columns, first_detail


def is_plain(order: Order) -> bool:
    """Nothing else has to be looked at or counted."""
    job = order.job
    return job.parent is None and job.line is None and not job.needs


def submit_single(tx: PostgresTx, order: Order) -> list[Submitted]:
    """Nothing when its key was used before."""
    job = order.job
    values = columns(job, int(job.delay > 0), order.move, order.acting.by)
    rows = tx.ask("submit_single", agent=order.acting.agent, detail=event_text(first_detail(job)), **values)
    return [Submitted(int(job_id), True, order.move) for job_id, _ in rows]

"""Lists of jobs: a filter, and pages by id, so that the hundredth page costs what the first did."""

from __future__ import annotations

from custody.kernel.model.job import Filter, Job
from custody.kernel.stores.rows import Tx, job_from


def page(tx: Tx, where: Filter, after: int, limit: int) -> list[Job]:
    prefix = where.kind.removesuffix("*") if where.kind.endswith("*") else ""
    rows = tx.run(
        "list_jobs",
        kind="" if prefix else where.kind,
        prefix=prefix,
        prefix_end=prefix + "\U0010ffff",
        state=where.state,
        ended=where.ended,
        lane=where.lane,
        collection=where.collection,
        code=where.code,
        parent=where.parent,
        after=after,
        limit=limit,
    )
    return [job_from(row) for row in rows]

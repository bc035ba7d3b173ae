"""The dashboard, one file per noun. The more particular routers first."""

from custody.web.pages import (
    batches,
    bulk,
    deposit,
    events,
    history,
    holds,
    items,
    jobs,
    overview,
    schedules,
    search,
    session,
    workers,
)

ROUTERS = tuple(
    module.router
    for module in (
        overview, session, deposit, batches, jobs, bulk, items, holds, workers, schedules, events, history, search,
    )
)  # fmt: skip

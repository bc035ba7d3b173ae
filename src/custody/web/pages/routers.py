"""The routers of the dashboard, the more particular first. Not in `__init__`, as in `api`."""

from custody.ingest.pages import batches, deposit
from custody.web.pages import bulk, events, history, holds, items, jobs, overview, schedules, search, session, workers

ROUTERS = tuple(
    module.router
    for module in (
        overview,
        session,
        deposit,
        batches,
        jobs,
        bulk,
        items,
        holds,
        workers,
        schedules,
        events,
        history,
        search,
    )
)

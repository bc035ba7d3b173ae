"""The HTTP API, one file per noun."""

from custody.web.api import batches, bulk, events, health, holds, items, jobs, leases, schedules

ROUTERS = tuple(module.router for module in (health, batches, jobs, bulk, holds, items, events, leases, schedules))

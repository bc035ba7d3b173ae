"""The routers of the HTTP API. Not in `__init__`: whoever needs one file of the folder would import all of them."""

from custody.web.api import bulk, events, health, holds, items, jobs, leases, schedules

ROUTERS = tuple(noun.router for noun in (health, jobs, bulk, holds, items, events, leases, schedules))

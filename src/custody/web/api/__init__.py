"""The HTTP API, one file per noun."""

from custody.web.api import archives, batches, bulk, events, health, holds, items, jobs, leases, schedules

_NOUNS = (health, archives, batches, jobs, bulk, holds, items, events, leases, schedules)
ROUTERS = tuple(noun.router for noun in _NOUNS)
SHORT = (archives.SHORT,)
"""Those for which there is a short way besides."""

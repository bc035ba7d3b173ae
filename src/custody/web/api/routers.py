"""The routers of the HTTP API. Not in `__init__`: whoever needs one file of the folder would import all of them."""

from custody.ingest import api as batches
from custody.web.api import bulk, events, health, holds, items, jobs, leases, schedules
from custody.workflows import api as archives

_NOUNS = (health, archives, batches, jobs, bulk, holds, items, events, leases, schedules)
ROUTERS = tuple(noun.router for noun in _NOUNS)
SHORT = (archives.SHORT,)
"""Those for which there is a short way besides."""

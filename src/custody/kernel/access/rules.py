"""Who may use which route: one table. A route that is not in it cannot be reached, and a test fails.

Keys are a method and a path as the route is declared; a page's `.json` and `.csv` follow the page. Which role has which
right is in rights.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Rule:
    right: str | None  # None: anyone, without a token
    whole: bool = False  # shows or changes what belongs to no collection: only for those who have it everywhere


ANYONE: Final = Rule(None)

RULES: Final[Mapping[str, Rule]] = {
    # the dashboard
    "GET /": Rule("overview:read", whole=True),
    "GET /batches": Rule("batch:read"),
    "GET /batches/new": Rule("batch:deposit"),
    "POST /batches/new": Rule("batch:deposit"),
    "GET /batches/{batch:int}": Rule("batch:read"),
    "GET /batches/{batch:int}/report": Rule("batch:read"),
    "GET /batches/{batch:int}/told/{number:int}": Rule("batch:read"),
    "POST /batches/{batch:int}/{action}": Rule("batch:act"),
    "GET /jobs": Rule("job:read"),
    "GET /jobs/{job:int}": Rule("job:read"),
    "GET /jobs/{job:int}/log": Rule("job:read"),
    "GET /jobs/{job:int}/log/{attempt:int}": Rule("job:read"),
    "GET /jobs/{job:int}/files": Rule("job:read"),
    "GET /jobs/{job:int}/file/{name:path}": Rule("job:read"),
    "GET /jobs/{job:int}/events": Rule("job:read"),
    "GET /jobs/{job:int}/raw": Rule("job:read"),
    "POST /jobs/{job:int}/{action}": Rule("job:act"),
    "GET /failures": Rule("overview:read", whole=True),
    "GET /items": Rule("item:read"),
    "GET /items/{item:path}": Rule("item:read"),
    "GET /holds": Rule("hold:read", whole=True),
    "POST /holds": Rule("hold:set", whole=True),
    "POST /holds/lift": Rule("hold:set", whole=True),
    "GET /workers": Rule("worker:read", whole=True),
    "POST /leases/break": Rule("lease:break", whole=True),
    "GET /schedules": Rule("schedule:read", whole=True),
    "GET /schedules/{name:path}": Rule("schedule:read", whole=True),
    "POST /schedules/pause": Rule("schedule:set", whole=True),
    "GET /events": Rule("event:read", whole=True),
    "GET /history": Rule("history:read", whole=True),
    "GET /history/blocks/{number:int}": Rule("history:read", whole=True),
    "GET /history/proof": Rule("history:read", whole=True),
    "POST /history/verify": Rule("history:verify", whole=True),
    "GET /search": Rule("search:read"),
    "GET /bulk": Rule("bulk:read", whole=True),
    "GET /bulk/new": Rule("bulk:ask"),
    "POST /bulk/new": Rule("bulk:ask"),
    "GET /bulk/{job:int}": Rule("bulk:read"),
    "GET /help": Rule("self:use"),
    "GET /stream": Rule("stream:read"),
    "GET /login": ANYONE,
    "POST /login": ANYONE,
    "GET /login/oidc": ANYONE,
    "GET /login/oidc/back": ANYONE,
    "POST /logout": Rule("self:use"),
    "POST /theme": ANYONE,
    "GET /deposit/{batch:int}/{signature}": ANYONE,
    # the API
    "GET /api/v1/openapi.json": ANYONE,
    "GET /api/v1/health": ANYONE,
    "GET /metrics": Rule("metrics:read", whole=True),
    "GET /api/v1/overview": Rule("overview:read", whole=True),
    "GET /api/v1/batches": Rule("batch:read"),
    "POST /api/v1/batches": Rule("batch:deposit"),
    "POST /api/v1/batches/upload": Rule("batch:deposit"),
    "GET /api/v1/batches/{batch}": Rule("batch:read"),
    "GET /api/v1/batches/{batch}/report": Rule("batch:read"),
    "GET /api/v1/batches/{batch}/link": Rule("batch:link"),
    "POST /api/v1/batches/{batch}/release": Rule("batch:act"),
    "POST /api/v1/batches/{batch}/update-report": Rule("batch:act"),
    "DELETE /api/v1/batches/{batch}": Rule("batch:act"),
    "GET /api/v1/jobs": Rule("job:read"),
    "POST /api/v1/jobs": Rule("job:submit"),
    "GET /api/v1/jobs/{job}": Rule("job:read"),
    "GET /api/v1/jobs/{job}/why": Rule("job:read"),
    "GET /api/v1/jobs/{job}/events": Rule("job:read"),
    "POST /api/v1/jobs/{job}/{action}": Rule("job:act"),
    "DELETE /api/v1/jobs/{job}": Rule("job:act"),
    "GET /api/v1/failures": Rule("overview:read", whole=True),
    "GET /api/v1/holds": Rule("hold:read", whole=True),
    "PUT /api/v1/holds/{scope}/{name:path}": Rule("hold:set", whole=True),
    "DELETE /api/v1/holds/{scope}/{name:path}": Rule("hold:set", whole=True),
    "GET /api/v1/items": Rule("item:read"),
    "GET /api/v1/items/{item:path}": Rule("item:read"),
    "GET /api/v1/events": Rule("event:read", whole=True),
    "GET /api/v1/leases": Rule("lease:read", whole=True),
    "DELETE /api/v1/leases/{name:path}": Rule("lease:break", whole=True),
    "GET /api/v1/schedules": Rule("schedule:read", whole=True),
    "GET /api/v1/schedules/{name:path}": Rule("schedule:read", whole=True),
    "PUT /api/v1/schedules/{name:path}": Rule("schedule:set", whole=True),
    "DELETE /api/v1/schedules/{name:path}": Rule("schedule:set", whole=True),
    "GET /api/v1/workers": Rule("worker:read", whole=True),
    "POST /api/v1/bulk": Rule("bulk:ask"),
    "GET /api/v1/bulk/{job}": Rule("bulk:read"),
    "GET /api/v1/search": Rule("search:read"),
    "GET /api/v1/stream": Rule("stream:read"),
    "POST /api/v1/archives/{archive}/notify": Rule("archive:notify"),
}

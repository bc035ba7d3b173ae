"""Who may use which route: one table. A route that is not in it cannot be reached, and a test fails.

Keys are a method and a path as the route is declared; a page's `.json` and `.csv` follow the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Rule:
    roles: frozenset[str] | None  # None: anyone, without a token
    whole: bool = False  # shows or changes what belongs to no collection: only for those who see all


ANYONE: Final = Rule(None)
READERS: Final = frozenset({"admin", "operator", "reader"})
READ: Final = Rule(READERS)
READ_ALL: Final = Rule(READERS, whole=True)
SEE_BATCHES: Final = Rule(READERS | {"depositor"})
DEPOSIT: Final = Rule(frozenset({"admin", "operator", "depositor"}))
SEE_JOBS: Final = Rule(READERS | {"worker"})
WATCH: Final = Rule(READERS | {"worker", "depositor"})
SUBMIT: Final = Rule(frozenset({"admin", "operator", "worker"}))
ACT: Final = Rule(frozenset({"admin", "operator"}))
ACT_ALL: Final = Rule(frozenset({"admin", "operator"}), whole=True)
ADMIN: Final = Rule(frozenset({"admin"}), whole=True)
SEE_WORK: Final = Rule(READERS | {"worker"}, whole=True)

RULES: Final[Mapping[str, Rule]] = {
    # the dashboard
    "GET /": READ_ALL,
    "GET /batches": SEE_BATCHES,
    "GET /batches/new": DEPOSIT,
    "POST /batches/new": DEPOSIT,
    "GET /batches/{batch:int}": SEE_BATCHES,
    "GET /batches/{batch:int}/report": SEE_BATCHES,
    "GET /batches/{batch:int}/told/{number:int}": SEE_BATCHES,
    "POST /batches/{batch:int}/{action}": ACT,
    "GET /jobs": SEE_JOBS,
    "GET /jobs/{job:int}": SEE_JOBS,
    "GET /jobs/{job:int}/log": SEE_JOBS,
    "GET /jobs/{job:int}/log/{attempt:int}": SEE_JOBS,
    "GET /jobs/{job:int}/files": SEE_JOBS,
    "GET /jobs/{job:int}/file/{name:path}": SEE_JOBS,
    "GET /jobs/{job:int}/events": SEE_JOBS,
    "GET /jobs/{job:int}/raw": SEE_JOBS,
    "POST /jobs/{job:int}/{action}": ACT,
    "GET /failures": READ_ALL,
    "GET /items": READ,
    "GET /items/{item:path}": READ,
    "GET /holds": READ_ALL,
    "POST /holds": ACT_ALL,
    "POST /holds/lift": ACT_ALL,
    "GET /workers": SEE_WORK,
    "POST /leases/break": ADMIN,
    "GET /schedules": READ_ALL,
    "GET /schedules/{name:path}": READ_ALL,
    "POST /schedules/pause": ACT_ALL,
    "GET /events": READ_ALL,
    "GET /history": READ_ALL,
    "GET /history/blocks/{number:int}": READ_ALL,
    "GET /history/proof": READ_ALL,
    "POST /history/verify": ACT_ALL,
    "GET /search": READ,
    "GET /bulk": READ_ALL,
    "GET /bulk/new": ACT,
    "POST /bulk/new": ACT,
    "GET /bulk/{job:int}": READ,
    "GET /help": WATCH,
    "GET /stream": WATCH,
    "GET /login": ANYONE,
    "POST /login": ANYONE,
    "GET /login/oidc": ANYONE,
    "GET /login/oidc/back": ANYONE,
    "POST /logout": WATCH,
    "POST /theme": ANYONE,
    "GET /deposit/{batch:int}/{signature}": ANYONE,
    # the API
    "GET /api/v1/openapi.json": ANYONE,
    "GET /api/v1/health": ANYONE,
    "GET /metrics": SEE_WORK,
    "GET /api/v1/overview": READ_ALL,
    "GET /api/v1/batches": SEE_BATCHES,
    "POST /api/v1/batches": DEPOSIT,
    "POST /api/v1/batches/upload": DEPOSIT,
    "GET /api/v1/batches/{batch}": SEE_BATCHES,
    "GET /api/v1/batches/{batch}/report": SEE_BATCHES,
    "GET /api/v1/batches/{batch}/link": DEPOSIT,
    "POST /api/v1/batches/{batch}/release": ACT,
    "POST /api/v1/batches/{batch}/update-report": ACT,
    "DELETE /api/v1/batches/{batch}": ACT,
    "GET /api/v1/jobs": SEE_JOBS,
    "POST /api/v1/jobs": SUBMIT,
    "GET /api/v1/jobs/{job}": SEE_JOBS,
    "GET /api/v1/jobs/{job}/why": SEE_JOBS,
    "GET /api/v1/jobs/{job}/events": SEE_JOBS,
    "POST /api/v1/jobs/{job}/{action}": ACT,
    "DELETE /api/v1/jobs/{job}": ACT,
    "GET /api/v1/failures": READ_ALL,
    "GET /api/v1/holds": READ_ALL,
    "PUT /api/v1/holds/{scope}/{name:path}": ACT_ALL,
    "DELETE /api/v1/holds/{scope}/{name:path}": ACT_ALL,
    "GET /api/v1/items": READ,
    "GET /api/v1/items/{item:path}": READ,
    "GET /api/v1/events": READ_ALL,
    "GET /api/v1/leases": SEE_WORK,
    "DELETE /api/v1/leases/{name:path}": ADMIN,
    "GET /api/v1/schedules": READ_ALL,
    "GET /api/v1/schedules/{name:path}": READ_ALL,
    "PUT /api/v1/schedules/{name:path}": ACT_ALL,
    "DELETE /api/v1/schedules/{name:path}": ACT_ALL,
    "GET /api/v1/workers": SEE_WORK,
    "POST /api/v1/bulk": ACT,
    "GET /api/v1/bulk/{job}": READ,
    "GET /api/v1/search": READ,
    "GET /api/v1/stream": WATCH,
    "POST /api/v1/archives/{archive}/notify": SUBMIT,
}

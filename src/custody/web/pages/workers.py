"""Workers and leases: who works on what, and until when."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from custody.errors import BadInput
from custody.web import formatting
from custody.web.access.gate import form_of
from custody.web.page import Asked, View, back, show
from custody.web.queries import lists
from custody.web.request_bodies import Router
from custody.web.site import caller_of, site_of

router = Router()
COLUMNS = {
    "worker": lambda worker: worker.id,
    "host": lambda worker: worker.host,
    "pid": lambda worker: worker.pid,
    "place": lambda worker: worker.place,
    "serves": lambda worker: serves(worker.serves),
    "started": lambda worker: formatting.iso(worker.started),
    "seen": lambda worker: formatting.iso(worker.seen),
}


def serves(prefixes: str) -> str:
    """The queues of a worker as people say them: each kind once, with its states."""
    by_kind: dict[str, list[str]] = {}
    for prefix in prefixes.split("\n"):
        kind, _, rest = prefix.partition("|")
        by_kind.setdefault(kind, []).append(rest.strip("|"))
    return "; ".join(f"{kind} ({', '.join(filter(None, states))})" for kind, states in by_kind.items() if kind)


def read(asked: Asked) -> View:
    store = asked.site.store
    workers, leases = store.workers(), store.leases.list()
    jobs = lists.leased(store, 200)
    by_holder = {worker.id: [job for job in jobs if job.holder == worker.id] for worker in workers}
    silent = [job for job in jobs if job.holder not in by_holder]
    values = {
        "workers": [(worker, serves(worker.serves), by_holder[worker.id]) for worker in workers],
        "leases": leases,
        "jobs": jobs,
        "silent": silent,
        "may_break": asked.caller.where("lease:break") is None,
    }
    return View("Workers", values, {"workers": workers, "leases": leases, "jobs": jobs}, lambda: workers)


show(router, "/workers", "workers.html", read, columns=COLUMNS)


@router.post("/leases/break", include_in_schema=False, response_model=None)
def take_away(request: Request) -> Response:
    form = form_of(request)
    name, why = form.get("name", ""), form.get("why", "").strip()
    if not why:
        raise BadInput("say why, for the history", code="action.why", where="why")
    broken = site_of(request).store.leases.take_away(name, caller_of(request).agent, why)
    return back(request, "/workers", f"{name} is free." if broken else f"Nobody holds {name}.")

"""Jobs, one job, and failures by cause."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from custody.ingest.states import BATCH_KIND
from custody.model.errors import NotFound
from custody.model.job import Job
from custody.web import acting, listing, words
from custody.web.gate import form_of
from custody.web.listing import whole_number
from custody.web.showing import Asked, View, back, show
from custody.web.site import caller_of, site_of
from custody.web.timeline import lanes

router = APIRouter()
COLUMNS = {
    "job": lambda job: job.id, "kind": lambda job: job.kind, "name": words.name, "state": lambda job: job.state,
    "ended": lambda job: job.ended, "code": lambda job: job.code, "collection": lambda job: job.collection,
    "priority": lambda job: job.priority, "attempts": lambda job: job.attempts, "parent": lambda job: job.parent,
    "key": lambda job: job.key, "created": lambda job: words.iso(job.created),
    "changed": lambda job: words.iso(job.changed),
}  # fmt: skip
TABS: tuple[tuple[str, dict[str, str]], ...] = (
    # title, filter
    ("All", {}),
    ("Failed", {"ended": "failed"}),
    ("Held", {"state": "held"}),
    ("Done", {"ended": "passed"}),
)
FAILURE_COLUMNS = {
    "kind": lambda group: group.kind, "state": lambda group: group.state, "code": lambda group: group.code,
    "count": lambda group: group.count, "newest": lambda group: words.iso(group.at),
}  # fmt: skip


def read_list(asked: Asked) -> View:
    site, query = asked.site, asked.query
    where = listing.filter_of(query)
    page = listing.jobs(site.store, site.machines, asked.caller, where, query)
    cursor = "after" if where.parent else "before"
    values = {
        "jobs": page.rows, "where": listing.as_query(where), "tabs": TABS, "actions": acting.ACTIONS,
        "next_address": words.address("/jobs", {**query, cursor: page.next}) if page.next else "",
        "first_address": words.address("/jobs", {**query, cursor: ""}) if query.get(cursor) else "",
        "states": sorted({state for _, state in site.glance.counts()}) if asked.caller.sees_all else [],
        "kinds": sorted({kind for kind, _ in site.glance.counts()}) if asked.caller.sees_all else [],
    }  # fmt: skip

    def every() -> object:
        return listing.every(
            lambda q: listing.jobs(site.store, site.machines, asked.caller, where, q), {**query, cursor: ""}, cursor
        )

    return View("Jobs", values, {"jobs": page.rows, "next": page.next}, every)  # type: ignore[arg-type]


def read_one(asked: Asked) -> View:
    site, number = asked.site, int(asked.part("job"))
    try:
        job = asked.caller.must_see(site.store.queue.get(number))
    except NotFound:
        return _deleted(asked, number)
    events = site.store.records.events(job.subject, limit=500)
    reasons, now = site.why(job), site.store.now()
    edges = site.store.db.read(lambda tx: tx.run("edges_from", id=job.id))
    following = site.store.db.read(lambda tx: tx.run("edges_to", id=job.id))
    values = {
        "job": job, "events": events, "reasons": reasons, "lanes": lanes(events, now, job.ended is not None),
        "actions": acting.possible(job, site.machines.of(job.kind)), "edges": edges, "following": following[:100],
        "is_batch": job.kind == BATCH_KIND, "gone": False, "number": job.id,
        "failure": events[-1].detail.get("reason", "") if job.ended == "failed" and events else "",
    }  # fmt: skip
    data = {"job": job, "events": events, "why": reasons}
    mark = {"failed": "✕ ", "done": "✓ ", "held": "❚❚ "}.get(words.look(job, now), "")
    return View(f"{mark}{words.name(job)} · job {job.id}", values, data)


def _deleted(asked: Asked, number: int) -> View:
    """Links survive deletion: what is left of a job is its history."""
    events = asked.site.store.records.events(f"job/{number}", limit=500) if asked.caller.sees_all else []
    if not events:
        raise NotFound(f"there is no job {number}", code="job.unknown", hint="`custody job list` shows what there is")
    values = {
        "job": None, "events": events, "reasons": [], "lanes": lanes(events, events[-1].at, True), "actions": [],
        "edges": [], "following": [], "is_batch": False, "gone": True, "number": number, "failure": "",
    }  # fmt: skip
    return View(f"Job {number}, deleted", values, {"job": None, "events": events})


def read_failures(asked: Asked) -> View:
    groups = asked.site.glance.failures()
    values = {"groups": groups, "live": True}
    return View("Failures by cause", values, {"failures": groups}, lambda: groups)


show(router, "/failures", "failures.html", read_failures, FAILURE_COLUMNS)
show(router, "/jobs", "jobs.html", read_list, COLUMNS)
show(router, "/jobs/{job:int}", "job.html", read_one)


@router.post("/jobs/{job:int}/{action}", include_in_schema=False, response_model=None)
def act(request: Request, job: int, action: str) -> Response:
    """One of the operator's moves, from a form."""
    site, caller, form = site_of(request), caller_of(request), form_of(request)
    found: Job = caller.must_see(site.store.queue.get(job))
    priority = whole_number(form, "priority", 50, 99)
    done = acting.act(site.operator(caller), action, found.id, form.get("why", ""), priority)
    return back(request, "/jobs" if done.name == "delete" else f"/jobs/{job}", f"Job {job} {done.told}.")

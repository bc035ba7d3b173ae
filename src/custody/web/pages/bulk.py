"""Bulk actions: the count before, the progress during, what was refused after."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from starlette.responses import Response

from custody.errors import NotFound
from custody.kernel.model.job import Filter
from custody.kernel.operations import action as acting
from custody.web import formatting
from custody.web.access.gate import form_of
from custody.web.operations import bulk
from custody.web.page import Asked, View, back, show
from custody.web.queries import lists
from custody.web.queries.lists import whole_number
from custody.web.request_bodies import Router
from custody.web.site import caller_of, site_of

router = Router()
COLUMNS = {
    "job": lambda job: job.id,
    "action": lambda job: job.payload.get("action"),
    "filter": lambda job: job.payload.get("filter"),
    "who": lambda job: job.payload.get("who"),
    "why": lambda job: job.payload.get("why"),
    "state": lambda job: job.state,
    "done": lambda job: job.facts.get("done", 0),
    "refused": lambda job: job.facts.get("refused", 0),
}


def read_list(asked: Asked) -> View:
    site, query = asked.site, asked.query
    where = Filter(kind=bulk.KIND)
    page = lists.jobs(site.store, site.machines, asked.caller, where, query=query)
    values = {
        "jobs": page.rows,
        "next_address": formatting.address("/bulk", {**query, "before": page.next}) if page.next else "",
        "first_address": formatting.address("/bulk", {**query, "before": ""}) if query.get("before") else "",
    }
    return View("Bulk actions", values, {"bulk": page.rows, "next": page.next}, lambda: page.rows)


def read_new(asked: Asked) -> View:
    """The dry run: nothing is done yet."""
    site, query = asked.site, asked.query
    where = lists.filter_of(query)
    action = acting.action_of(query.get("action", "resume"))
    found = bulk.dry_run(site.store, site.machines, asked.caller, action, where=where) if where != Filter() else None
    values = {
        "where": lists.as_query(where),
        "action": action,
        "actions": acting.ACTIONS,
        "found": found,
        "live": False,
        "list_address": formatting.address("/jobs", lists.as_query(where)),
    }
    data: dict[str, Any] = {"action": action.name, "filter": lists.as_query(where)}
    if found:
        data |= {"eligible": found.eligible, "others": found.others, "matched": found.matched}
    return View(f"{action.title}: all that match", values, data)


def read_one(asked: Asked) -> View:
    job = asked.caller.must_see(asked.site.store.queue.get(int(asked.part("job"))))
    if job.kind != bulk.KIND:
        raise NotFound(f"there is no bulk action {job.id}", code="bulk.unknown")
    reasons = [] if job.ended else asked.site.store.queue.why(job.id)
    where = Filter(**job.payload["filter"])
    values = {"job": job, "reasons": reasons, "list_address": formatting.address("/jobs", lists.as_query(where))}
    return View(f"Bulk action {job.id}", values, {"job": job})


show(router, "/bulk", "bulks.html", read_list, columns=COLUMNS)
show(router, "/bulk/new", "new_bulk.html", read_new)
show(router, "/bulk/{job:int}", "bulk.html", read_one)


@router.post("/bulk/new", include_in_schema=False, response_model=None)
def submit(request: Request) -> Response:
    site, caller, form = site_of(request), caller_of(request), form_of(request)
    count = whole_number(form, "count", -1)
    priority = whole_number(form, "priority", 50, 99)
    job = bulk.submit(
        site.store,
        site.machines,
        caller,
        form.get("action", ""),
        where=lists.filter_of(form),
        why=form.get("why", ""),
        count=count,
        priority=priority,
    )
    return back(request, f"/bulk/{job.id}", f"{count} jobs: begun. You may leave this page.")

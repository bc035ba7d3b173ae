"""Jobs, one job, and failures by cause."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import Request
from starlette.responses import FileResponse, Response

from custody.errors import NotFound
from custody.ingest.states import BATCH_KIND
from custody.kernel.model.item import Item
from custody.kernel.model.job import Job
from custody.kernel.operations import action as acting
from custody.kernel.stores.rows import Row
from custody.web import formatting, representations
from custody.web.access.gate import form_of
from custody.web.operations.submission import sees
from custody.web.page import Asked, View, back, show
from custody.web.queries import job_files, lists
from custody.web.queries.lists import whole_number
from custody.web.queries.timeline import lanes
from custody.web.request_bodies import Router
from custody.web.site import caller_of, site_of

router = Router()
COLUMNS = {
    "job": lambda job: job.id,
    "kind": lambda job: job.kind,
    "name": formatting.name,
    "state": lambda job: job.state,
    "ended": lambda job: job.ended,
    "code": lambda job: job.code,
    "collection": lambda job: job.collection,
    "priority": lambda job: job.priority,
    "attempts": lambda job: job.attempts,
    "parent": lambda job: job.parent,
    "key": lambda job: job.key,
    "created": lambda job: formatting.iso(job.created),
    "changed": lambda job: formatting.iso(job.changed),
}
TABS: tuple[tuple[str, dict[str, str]], ...] = (
    # title, filter
    ("All", {}),
    ("Failed", {"ended": "failed"}),
    ("Held", {"state": "held"}),
    ("Done", {"ended": "passed"}),
)
FOLLOWERS = 100  # of those that wait for a job, so many are shown
PARTS = (
    # tab, title, where
    ("timeline", "Timeline", ""),
    ("log", "Log", "/log"),
    ("files", "Files", "/files"),
    ("events", "Events", "/events"),
    ("raw", "Raw", "/raw"),
)
FAILURE_COLUMNS = {
    "kind": lambda group: group.kind,
    "state": lambda group: group.state,
    "code": lambda group: group.code,
    "count": lambda group: group.count,
    "newest": lambda group: formatting.iso(group.at),
}


def read_list(asked: Asked) -> View:
    site, query = asked.site, asked.query
    where = lists.filter_of(query)
    page = lists.jobs(site.store, site.machines, asked.caller, where, query=query)
    cursor = "after" if where.parent else "before"
    values = {
        "jobs": page.rows,
        "where": lists.as_query(where),
        "tabs": TABS,
        "actions": acting.ACTIONS,
        "next_address": formatting.address("/jobs", {**query, cursor: page.next}) if page.next else "",
        "first_address": formatting.address("/jobs", {**query, cursor: ""}) if query.get(cursor) else "",
        "states": sorted({state for _, state in site.glance.counts()}) if asked.caller.sees_all else [],
        "kinds": sorted({kind for kind, _ in site.glance.counts()}) if asked.caller.sees_all else [],
    }

    def every() -> object:
        return lists.every(
            lambda q: lists.jobs(site.store, site.machines, asked.caller, where, query=q), {**query, cursor: ""}, cursor
        )

    return View("Jobs", values, {"jobs": page.rows, "next": page.next}, every)  # type: ignore[arg-type]


def read_one(asked: Asked) -> View:
    site, number = asked.site, int(asked.part("job"))
    try:
        job = asked.caller.must_see(site.store.queue.get(number))
    except NotFound:
        return _deleted(asked, number)
    events = site.store.records.events(job.subject, limit=500)
    reasons, now = site.why(job, asked.caller), site.store.now()
    edges = _seen(asked, site.store.db.read(lambda tx: tx.run("edges_from", id=job.id)))
    following = _seen(asked, site.store.db.read(lambda tx: tx.run("edges_to", id=job.id, limit=FOLLOWERS)))
    values = _common(asked, job, "timeline") | {
        "events": events,
        "reasons": reasons,
        "lanes": lanes(events, now, job.ended is not None),
        "actions": acting.possible(job, site.machines.of(job.kind)),
        "edges": edges,
        "following": following,
        "is_batch": job.kind == BATCH_KIND,
        "gone": False,
        "number": job.id,
        "failure": events[-1].detail.get("reason", "") if job.ended == "failed" and events else "",
    }
    data = {"job": job, "events": events, "why": reasons}
    mark = {"failed": "✕ ", "done": "✓ ", "held": "❚❚ "}.get(formatting.look(job, now), "")
    return View(f"{mark}{formatting.name(job)} · job {formatting.shown(job.id)}", values, data)


def _seen(asked: Asked, edges: Sequence[Row]) -> Sequence[Row]:
    """Those whose other end the caller sees."""
    return [edge for edge in edges if asked.caller.sees_all or sees(asked.site.store, asked.caller, edge[0])]


def _common(asked: Asked, job: Job, tab: str) -> dict[str, object]:
    return {"job": job, "tab": tab, "tabs": PARTS, "title_of": formatting.name(job)}


def _job(asked: Asked) -> Job:
    return asked.caller.must_see(asked.site.store.queue.get(int(asked.part("job"))))


def read_log(asked: Asked) -> View:
    """What its attempts printed; a running one's so far."""
    site, query, job = asked.site, asked.query, _job(asked)
    tries = job_files.attempts(site.options.shop, job, site.store.now())
    number = whole_number(query, "attempt", tries[-1].number if tries else 0)
    first, find = max(1, whole_number(query, "from", 1)), query.get("find", "")[:200]
    shown = job_files.lines(job_files.read(site.options.shop, job, number), first, find) if tries else None
    here = f"/jobs/{job.id}/log"
    running = any(each.running and each.number == number for each in tries)
    values = _common(asked, job, "log") | {
        "attempts": tries,
        "attempt": number,
        "shown": shown,
        "find": find,
        "running": running,
        "next_address": formatting.address(here, {**query, "from": str(shown.more)}) if shown and shown.more else "",
        "first_address": formatting.address(here, {**query, "from": ""}) if first > 1 else "",
    }
    return View(
        f"Log of {formatting.name(job)} · job {formatting.shown(job.id)}", values, {"attempts": tries, "log": shown}
    )


def read_files(asked: Asked) -> View:
    """What it left: a task's outputs, or the files of the object that it stored."""
    site, job = asked.site, _job(asked)
    left, ark = job_files.outputs(site.options.shop, job), str(job.facts.get("primary", ""))
    try:
        item = site.store.records.item(ark) if ark else None
        stored = job_files.stored(item, site.options.roots) if item and _sees_item(asked, item) else []
    except NotFound:
        stored = []  # it has a number already, and is not stored yet
    values = _common(asked, job, "files") | {"left": left, "stored": stored, "ark": ark}
    return View(
        f"Files of {formatting.name(job)} · job {formatting.shown(job.id)}", values, {"outputs": left, "stored": stored}
    )


def _sees_item(asked: Asked, item: Item) -> bool:
    """A job may name any item among its facts: what is in it is shown to who may look at it, there or as a deposit."""
    return asked.caller.may("item:read", item.collection)


def read_events(asked: Asked) -> View:
    job = _job(asked)
    events = asked.site.store.records.events(job.subject, whole_number(asked.query, "after", 0), 200)
    following = (
        formatting.address(f"/jobs/{job.id}/events", {"after": str(events[-1].seq)}) if len(events) == 200 else ""
    )
    values = _common(asked, job, "events") | {"events": events, "next_address": following}
    return View(f"Events of {formatting.name(job)} · job {formatting.shown(job.id)}", values, {"events": events})


def read_raw(asked: Asked) -> View:
    job = _job(asked)
    row = representations.plain(job)
    return View(f"Row of job {job.id}", _common(asked, job, "raw") | {"row": row}, {"job": row})


def _deleted(asked: Asked, number: int) -> View:
    """Links survive deletion: what is left of a job is its history."""
    events = asked.site.store.records.events(f"job/{number}", limit=500) if asked.caller.sees_all else []
    if not events:
        raise NotFound(f"there is no job {number}", code="job.unknown", hint="`custody job list` shows what there is")
    values = {
        "job": None,
        "tab": "",
        "tabs": (),
        "events": events,
        "reasons": [],
        "lanes": lanes(events, events[-1].at, True),
        "actions": [],
        "edges": [],
        "following": [],
        "is_batch": False,
        "gone": True,
        "number": number,
        "failure": "",
    }
    return View(f"Job {number}, deleted", values, {"job": None, "events": events})


def read_failures(asked: Asked) -> View:
    groups = asked.site.glance.failures()
    values = {"groups": groups, "live": True}
    return View("Failures by cause", values, {"failures": groups}, lambda: groups)


show(router, "/failures", "failures.html", read_failures, columns=FAILURE_COLUMNS)
show(router, "/jobs", "jobs.html", read_list, columns=COLUMNS)
show(router, "/jobs/{job:int}", "job.html", read_one)
show(router, "/jobs/{job:int}/log", "job_log.html", read_log)
show(router, "/jobs/{job:int}/files", "job_files.html", read_files)
show(router, "/jobs/{job:int}/events", "job_events.html", read_events)
show(router, "/jobs/{job:int}/raw", "job_raw.html", read_raw)


@router.get("/jobs/{job:int}/log/{attempt:int}", include_in_schema=False, response_model=None)
def whole_log(request: Request, job: int, attempt: int) -> Response:
    """All that one attempt printed, as it printed it."""
    site = site_of(request)
    found = caller_of(request).must_see(site.store.queue.get(job))
    return Response(job_files.read(site.options.shop, found, attempt), media_type="text/plain; charset=utf-8")


@router.get("/jobs/{job:int}/file/{name:path}", include_in_schema=False, response_model=None)
def one_file(request: Request, job: int, name: str) -> Response:
    """Something that a task left; never shown by the browser as if it were ours."""
    site = site_of(request)
    found = caller_of(request).must_see(site.store.queue.get(job))
    path = job_files.output(site.options.shop, found, name)
    return FileResponse(path, media_type="application/octet-stream", filename=path.name)


@router.post("/jobs/{job:int}/{action}", include_in_schema=False, response_model=None)
def act(request: Request, job: int, action: str) -> Response:
    """One of the operator's moves, from a form."""
    site, caller, form = site_of(request), caller_of(request), form_of(request)
    found: Job = caller.must_see(site.store.queue.get(job))
    priority = whole_number(form, "priority", 50, 99)
    done = acting.act(site.operator(caller), action, found.id, form.get("why", ""), priority=priority)
    return back(request, "/jobs" if done.name == "delete" else f"/jobs/{job}", f"Job {job} {done.told}.")

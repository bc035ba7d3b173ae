"""Jobs: submit, list, show, why, events, and the operator's moves."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from custody.errors import BadInput, NotFound
from custody.kernel.model.graph import Edge
from custody.kernel.model.job import Filter, Job, NewJob
from custody.kernel.operations import action as acting
from custody.web import representations
from custody.web.api.parameters import (
    PROBLEM,
    After,
    Before,
    Flag,
    IdempotencyKey,
    JobSubmission,
    Limit,
    Move,
    Number,
    Text,
)
from custody.web.operations import submission
from custody.web.queries import lists
from custody.web.request_bodies import Router
from custody.web.site import caller_of, site_of

router = Router(responses=PROBLEM, tags=["jobs"])


@router.get("/api/v1/jobs")
def list_jobs(
    request: Request,
    kind: Text = "",
    state: Text = "",
    ended: Text = "",
    lane: Text = "",
    collection: Text = "",
    code: Text = "",
    parent: After = None,
    limit: Limit = 50,
    before: Before = None,
    after: After = None,
) -> Response:
    """Jobs, newest first; those of one parent in their own order, by `after`."""
    site, caller = site_of(request), caller_of(request)
    where = Filter(kind=kind, state=state, ended=ended, lane=lane, collection=collection, code=code, parent=parent or 0)
    if where.parent:
        page = lists.children(site.store, caller, where, after or 0, limit=limit)
    else:
        page = lists.newest_jobs(site.store, site.machines, caller, where, before=before or lists.NEWEST, limit=limit)
    return representations.as_json({"jobs": page.rows, "next": page.next})


@router.post("/api/v1/jobs", status_code=201)
def submit(request: Request, given: JobSubmission, key: IdempotencyKey = "") -> Response:
    """Ask for a piece of work. Answered when it is safely on disk."""
    site, caller = site_of(request), caller_of(request)
    if not caller.sees(given.collection):
        raise BadInput("name one of your collections", code="job.collection", where="collection")
    new = NewJob(
        given.kind,
        given.payload,
        key=submission.key_of(caller, given.key, key),
        priority=given.priority,
        lane=given.lane,
        collection=given.collection,
        delay=given.delay,
        needs=[Edge(on) for on in given.needs],
    )
    made = submission.submit(
        site.store,
        caller,
        new,
        "" if given.key else key,
        request=submission.request_of(caller, key, "jobs", given.meant()),
        must_be_open=lambda: site.must_be_open(given.kind),
    )
    site.glance.forget()
    headers = {"Location": f"/api/v1/jobs/{made.id}"} | ({} if made.new else {"Idempotent-Replayed": "true"})
    return representations.as_json({"job": made.id}, 201, headers)


def get(request: Request, number: int) -> Job:
    return caller_of(request).must_see(site_of(request).store.queue.get(number))


@router.get("/api/v1/jobs/{job}")
def show(request: Request, job: Number) -> Response:
    found = get(request, job)
    machine = site_of(request).machines.of(found.kind)
    actions = [action.name for action in acting.possible(found, machine)]
    return representations.as_json({"job": found, "actions": actions})


@router.get("/api/v1/jobs/{job}/why")
def why(request: Request, job: Number) -> Response:
    """Why it is not running, since when, and what would clear it."""
    return representations.as_json({"reasons": site_of(request).why(get(request, job), caller_of(request))})


@router.get("/api/v1/jobs/{job}/events")
def events(request: Request, job: Number, after: After = None, limit: Limit = 500) -> Response:
    """What happened to it, in order. The history of a deleted job is there for those who see all."""
    site, caller = site_of(request), caller_of(request)
    try:
        get(request, job)
    except NotFound:
        if not caller.sees_all:
            raise
    found = site.store.records.events(f"job/{job}", after or 0, limit)
    if not found and not after:
        raise NotFound(f"there is no job {job}", code="job.unknown")
    return representations.as_json({"events": found, "next": str(found[-1].seq) if len(found) == limit else ""})


@router.post("/api/v1/jobs/{job}/{action}")
def act(request: Request, job: Number, action: str, given: Move) -> Response:
    """hold, release, resume, cancel, accept, prioritise or delete."""
    site, caller = site_of(request), caller_of(request)
    chosen = acting.action_of(action)
    found = get(request, job)
    operator = site.operator(caller)
    acting.must_be_meant(operator, chosen, found.id, given.force)
    acting.act(operator, chosen.name, found.id, given.why, priority=given.priority)
    site.glance.forget()
    now = None if chosen.name == "delete" else site.store.queue.get(found.id)
    return representations.as_json({"job": now, "said": f"job {job} {chosen.told}"})


@router.delete("/api/v1/jobs/{job}")
def delete(request: Request, job: Number, why: Text = "", force: Flag = False) -> Response:
    """Remove a job that has ended or is held. Its history stays. `force`: also while its batch is open."""
    return act(request, job, "delete", Move(why=why, priority=50, force=force))


@router.get("/api/v1/failures")
def failures(request: Request, limit: Limit = 100) -> Response:
    """Failed jobs grouped by cause, the largest group first: fix once, resume together."""
    return representations.as_json({"failures": site_of(request).glance.failures()[:limit]})

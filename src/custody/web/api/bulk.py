"""Bulk actions on everything a filter matches: first the count, then, with the count, the deed."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from custody.errors import BadInput, NotFound
from custody.kernel.model.job import Filter, NewJob
from custody.kernel.operations.action import action_of
from custody.web import representations
from custody.web.api.parameters import PROBLEM, BulkSubmission, IdempotencyKey, Number
from custody.web.operations import bulk, submission
from custody.web.request_bodies import Router
from custody.web.site import caller_of, site_of

router = Router(responses=PROBLEM, tags=["bulk"])


@router.post("/api/v1/bulk")
def submit(request: Request, given: BulkSubmission, key: IdempotencyKey = "") -> Response:
    """Dry run: how many it fits and what keeps it from the others. For real, `count` must be the dry run's."""
    site, caller = site_of(request), caller_of(request)
    where = Filter(**given.filter.model_dump())
    if given.dry_run:
        found = bulk.dry_run(site.store, site.machines, caller, action_of(given.action), where=where)
        return representations.as_json({"eligible": found.eligible, "others": found.others, "matched": found.matched})
    if given.count is None:
        raise BadInput("say how many it must be", code="bulk.count", where="count", hint="`dry_run` first")
    request_ = submission.request_of(caller, key, "bulk", given.meant())
    before = submission.of_before(site.store, caller, NewJob(bulk.KIND, collection=where.collection), key)
    with submission.plainly():
        made = (
            bulk.again(before, given.action, where)
            if before
            else bulk.submit(
                site.store,
                site.machines,
                caller,
                given.action,
                where=where,
                why=given.why,
                count=given.count,
                request=request_,
                priority=given.priority,
            )
        )
    headers = {"Location": f"/api/v1/bulk/{made.id}"} | ({} if made.new else {"Idempotent-Replayed": "true"})
    return representations.as_json({"job": made.id}, 202, headers)


@router.get("/api/v1/bulk/{job}")
def show(request: Request, job: Number) -> Response:
    """How far it came, and what was refused."""
    found = caller_of(request).must_see(site_of(request).store.queue.get(job))
    if found.kind != bulk.KIND:
        raise NotFound(f"there is no bulk action {job}", code="bulk.unknown")
    return representations.as_json({"job": found})

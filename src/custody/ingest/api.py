"""Batches: hand in, follow, read the report, and what an operator may do to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.responses import Response

from custody.errors import BadInput, NotFound
from custody.ingest.actions import ask_for_update, release_batch
from custody.ingest.batch.cleanup import delete_batch
from custody.ingest.description.metadata import ELEMENTS
from custody.ingest.pages import views
from custody.ingest.states import BATCH_KIND
from custody.ingest.submission.submission import Submission
from custody.kernel.model.job import Filter
from custody.web import representations
from custody.web.access.gate import read_form
from custody.web.api.parameters import PROBLEM, Before, IdempotencyKey, Limit, NewDeposit, Number, Text, Why
from custody.web.queries import lists
from custody.web.request_bodies import Router
from custody.web.site import Site, caller_of, site_of

router = Router(responses=PROBLEM, tags=["batches"])
FIELDS = (*views.FORM, *(f"DC.{element}" for element in ELEMENTS))
FORM_SCHEMA = {
    "type": "object",
    "required": ["file", "profile"],
    "properties": {"file": {"type": "string", "format": "binary"}, **{n: {"type": "string"} for n in FIELDS}},
}


@router.get("/api/v1/batches")
def list_batches(
    request: Request, state: Text = "", collection: Text = "", limit: Limit = 50, before: Before = None
) -> Response:
    """Batches, newest first."""
    site, where = site_of(request), Filter(kind=BATCH_KIND, state=state, collection=collection)
    page = lists.newest_jobs(
        site.store, site.machines, caller_of(request), where, before=before or lists.NEWEST, limit=limit
    )
    return representations.as_json({"batches": page.rows, "next": page.next})


@router.post("/api/v1/batches", status_code=201)
def submit(request: Request, given: NewDeposit, key: IdempotencyKey = "") -> Response:
    """Hand something in by its address. Answered when it is safely on disk; the work is done by workers."""
    site, caller = site_of(request), caller_of(request)
    facts = given.model_dump(exclude={"manifest"})
    short = isinstance(given.manifest, list) and any(isinstance(row, str) for row in given.manifest)
    if bool(given.payload) == bool(given.manifest) and not short:
        raise BadInput("either payload or manifest", code="submission.payload", where="payload")
    if given.payload.startswith("staged:"):
        raise BadInput("an upload has its own address", code="submission.payload", where="payload")
    views.check_profile(site, caller, given.profile, key)
    if isinstance(given.manifest, list):
        rows = [row if isinstance(row, str) else row.model_dump() for row in given.manifest]
        facts |= views.inline(site, rows, given.payload, given.type)
    elif given.manifest:
        facts["payload"] = site.world.staging.put([given.manifest.encode()], given.filename or "manifest.checkm").url
        facts["filename"] = given.filename or "manifest.checkm"
    facts["submitter"] = views.submitter(caller, given.profile, given.submitter)
    submission = Submission(**facts, user_agent=request.headers.get("user-agent", "")[:200])
    return _made(site, *views.hand_in(site, caller, submission, key))


@router.post(
    "/api/v1/batches/upload",
    status_code=201,
    openapi_extra={"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": FORM_SCHEMA}}}},
)
async def upload(request: Request, key: IdempotencyKey = "") -> Response:
    """Hand in a file, with the field names of the deployed form."""
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise BadInput("a multipart form is needed", code="form.type", where="Content-Type")
    form = await read_form(request)
    file = form.get("file")
    if not isinstance(file, UploadFile):
        raise BadInput("a form needs a file", code="submission.payload", where="file")
    fields = {name: value for name, value in form.items() if isinstance(value, str)}
    return await run_in_threadpool(_hand_in, request, file, fields, key)


def _hand_in(request: Request, file: UploadFile, fields: Mapping[str, str], key: str) -> Response:
    site, caller = site_of(request), caller_of(request)
    views.check_profile(site, caller, fields.get("profile", ""), key)
    name = fields.get("filename") or file.filename or "upload"
    submission = views.from_form(
        {**fields, "filename": name},
        views.stage(site, file.file, name),
        caller,
        request.headers.get("user-agent", ""),
    )
    return _made(site, *views.hand_in(site, caller, submission, key))


def _made(site: Site, number: int, new: bool) -> Response:
    """The same answer again for the same key, but for one header."""
    site.glance.forget()
    headers = {"Location": f"/api/v1/batches/{number}"} | ({} if new else {"Idempotent-Replayed": "true"})
    try:
        follow = site.links.path(site.store.queue.get(number), site.store.now())
    except NotFound:  # its key outlasts it
        return representations.as_json({"batch": number, "status": "REMOVED", "follow": ""}, 201, headers)
    return representations.as_json({"batch": number, "status": "QUEUED", "follow": follow}, 201, headers)


@router.get("/api/v1/batches/{batch}")
def show(request: Request, batch: Number) -> Response:
    """One batch: how its jobs stand, what failed and why, and what happened to it."""
    return representations.as_json(facts(request, batch))


def facts(request: Request, number: int) -> dict[str, Any]:
    site, caller = site_of(request), caller_of(request)
    batch = views.get(site, caller, number)
    return {
        "batch": batch,
        "progress": views.progress(site, number),
        "causes": views.causes(site, caller, batch),
        "events": list(site.store.records.events(batch.subject)),
    }


@router.get("/api/v1/batches/{batch}/report")
def report(request: Request, batch: Number) -> Response:
    """The last report, as the depositor was told it."""
    site = site_of(request)
    return representations.as_json(views.report(site, views.get(site, caller_of(request), batch)))


@router.get("/api/v1/batches/{batch}/link")
def link(request: Request, batch: Number) -> Response:
    """The depositor's page: whoever has this link may read this batch, until it ends."""
    site = site_of(request)
    found, now = views.get(site, caller_of(request), batch), site.store.now()
    return representations.as_json({"link": site.links.path(found, now), "until": site.links.until(found, now)})


@router.post("/api/v1/batches/{batch}/release")
def release(request: Request, batch: Number, given: Why) -> Response:
    """Let a held batch go on; one that has become jobs, with all of them that are held."""
    site, caller = site_of(request), caller_of(request)
    found = views.get(site, caller, batch)
    done = release_batch(site.operator(caller), found, given.why)
    refused = [{"job": job, "why": problem} for job, problem in done if problem]
    return _now(site, found.id, released=len(done) - len(refused), refused=refused)


@router.post("/api/v1/batches/{batch}/update-report")
def update_report(request: Request, batch: Number, given: Why) -> Response:
    """Tell the depositor what has changed since the last report."""
    site, caller = site_of(request), caller_of(request)
    found = views.get(site, caller, batch)
    ask_for_update(site.store, found, caller.agent)
    return _now(site, found.id)


@router.delete("/api/v1/batches/{batch}")
def delete(request: Request, batch: Number, why: Text = "") -> Response:
    """Remove a batch that has ended or is held, with its jobs. The history stays; the depositor is not told."""
    site, caller = site_of(request), caller_of(request)
    found = views.get(site, caller, batch)
    if not why.strip():
        raise BadInput("say why, for the history", code="action.why", where="why")
    count = delete_batch(site.store, found, caller.agent, why.strip(), world=site.options.world)
    site.glance.forget()
    return representations.as_json({"batch": batch, "jobs": count, "deleted": True})


def _now(site: Site, number: int, **more: Any) -> Response:
    site.glance.forget()
    return representations.as_json({"batch": asdict(site.store.queue.get(number)), **more})

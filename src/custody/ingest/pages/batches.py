"""Batches, one batch, and handing something in."""

from __future__ import annotations

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.responses import Response

from custody.errors import BadInput, CustodyError, NotFound
from custody.ingest.actions import ask_for_update
from custody.ingest.batch.cleanup import delete_batch
from custody.ingest.pages import views
from custody.ingest.states import BATCH_KIND
from custody.ingest.submission.submission import TYPES
from custody.kernel.model.job import Filter
from custody.kernel.operations import action as acting
from custody.web import formatting, representations
from custody.web.access.gate import form_of
from custody.web.page import Asked, View, back, show
from custody.web.problems import NOTHING, status_of
from custody.web.queries import lists
from custody.web.request_bodies import Router
from custody.web.site import caller_of, site_of

router = Router()
COLUMNS = {
    "batch": lambda job: job.id,
    "title": formatting.name,
    "state": lambda job: job.state,
    "collection": lambda job: job.collection,
    "submitter": lambda job: job.payload.get("submitter", ""),
    "file": lambda job: job.payload.get("filename", ""),
    "objects": lambda job: job.facts.get("jobs"),
    "completed": lambda job: job.facts.get("completed"),
    "submitted": lambda job: formatting.iso(job.created),
    "changed": lambda job: formatting.iso(job.changed),
}
TABS = (
    ("All", ""),
    ("Being processed", "processing"),
    ("Failed", "failed"),
    ("Held", "held"),
    ("Completed", "completed"),
)


def read_list(asked: Asked) -> View:
    site, query = asked.site, asked.query
    where = Filter(kind=BATCH_KIND, state=query.get("state", ""), collection=query.get("collection", ""))
    page = lists.jobs(site.store, site.machines, asked.caller, where, query=query)
    rows = []
    for job in page.rows:
        counts = views.brief(site, job.id)
        rows.append((job, views.parts(counts), views.sentence(counts)))
    values = {
        "rows": rows,
        "tabs": TABS,
        "profiles": views.profiles(site, asked.caller),
        "next_address": formatting.address("/batches", {**query, "before": page.next}) if page.next else "",
        "first_address": formatting.address("/batches", {**query, "before": ""}) if query.get("before") else "",
        "may_deposit": asked.caller.has("batch:deposit") and site.options.world is not None,
    }

    def every() -> object:
        return lists.every(
            lambda q: lists.jobs(site.store, site.machines, asked.caller, where, query=q), query, "before"
        )

    return View("Batches", values, {"batches": page.rows, "next": page.next}, every)  # type: ignore[arg-type]


def read_one(asked: Asked) -> View:
    site, query = asked.site, asked.query
    batch = views.get(site, asked.caller, int(asked.part("batch")))
    counts = views.progress(site, batch.id)
    where = Filter(
        parent=batch.id, state=query.get("state", ""), ended=query.get("ended", ""), code=query.get("code", "")
    )
    page = lists.jobs(site.store, site.machines, asked.caller, where, query=query)
    here = f"/batches/{batch.id}"
    events = site.store.records.events(batch.subject, limit=500)
    causes = views.causes(site, asked.caller, batch)
    held = [hold for hold in site.store.queue.holds() if (hold.scope, hold.name) in _names(batch.id, batch.collection)]
    values = {
        "batch": batch,
        "counts": counts,
        "shares": views.parts(counts),
        "sentence": views.sentence(counts),
        "causes": causes,
        "jobs": page.rows,
        "events": events,
        "letters": views.letters(site, batch),
        "holds": held,
        "reasons": [] if batch.ended else site.store.queue.why(batch.id),
        "page_query": query,
        "next_address": formatting.address(here, {**query, "after": page.next}) if page.next else "",
        "first_address": formatting.address(here, {**query, "after": ""}) if query.get("after") else "",
        "link": site.links.path(batch, site.store.now()),
        "has_report": bool(batch.facts.get("report")),
        "failure": views.failure(site, batch.id) if batch.ended == "failed" else "",
    }
    data = {
        "batch": batch,
        "progress": counts,
        "causes": causes,
        "jobs": page.rows,
        "next": page.next,
        "events": events,
    }
    mark = f"✕ {counts['failed']} failed · " if counts["failed"] else ""
    return View(f"{mark}{formatting.name(batch)} · batch {formatting.shown(batch.id)}", values, data)


def _names(batch: int, collection: str) -> set[tuple[str, str]]:
    return {("batch", str(batch)), ("collection", collection)}


def read_new(asked: Asked) -> View:
    found = views.profiles(asked.site, asked.caller)
    values = {"profiles": found, "types": TYPES, "given": asked.query, "problem": None, "live": False}
    return View("Hand something in", values, {"profiles": found, "types": TYPES})


@router.post("/batches/new", include_in_schema=False, response_model=None)
async def submit(request: Request) -> Response:
    return await run_in_threadpool(_submit, request)


def _submit(request: Request) -> Response:
    """An upload or an address; a mistake is shown beside what was filled in."""
    site, caller, form = site_of(request), caller_of(request), form_of(request)
    file = request.state.form.get("file")
    try:
        views.check_profile(site, caller, form.get("profile", ""))
        payload = form.get("payload", "").strip()
        if payload.startswith("staged:"):
            raise BadInput("a payload is an http or https URL", code="submission.payload", where="payload")
        if isinstance(file, UploadFile) and file.filename:
            payload = views.stage(site, file.file, file.filename)
            form["filename"] = file.filename
        submission = views.from_form(form, payload, caller, "dashboard")
        number, _ = views.hand_in(site, caller, submission, form.get("key", ""))
    except CustodyError as error:
        values = {
            "title": "Hand something in",
            "profiles": views.profiles(site, caller),
            "types": TYPES,
            "given": form,
            "problem": NOTHING | error.as_dict(),
        }
        return site.page(request, "ingest/new_batch.html", values, status_of(error))
    return back(request, f"/batches/{number}", f"Batch {formatting.shown(number)} is taken in.")


show(router, "/batches", "ingest/batches.html", read_list, columns=COLUMNS)
show(router, "/batches/new", "ingest/new_batch.html", read_new)
show(router, "/batches/{batch:int}", "ingest/batch.html", read_one)


@router.get("/batches/{batch:int}/report", include_in_schema=False, response_model=None)
def report(request: Request, batch: int) -> Response:
    site = site_of(request)
    return representations.as_json(views.report(site, views.get(site, caller_of(request), batch)))


@router.get("/batches/{batch:int}/told/{number:int}", include_in_schema=False, response_model=None)
def told(request: Request, batch: int, number: int) -> Response:
    """One letter to the depositor, as plain text."""
    site = site_of(request)
    for letter in views.letters(site, views.get(site, caller_of(request), batch)):
        if letter.number == number:
            return Response(letter.text, media_type="text/plain; charset=utf-8")
    raise NotFound(f"there is no letter {number} about batch {batch}", code="letter.unknown")


@router.post("/batches/{batch:int}/{action}", include_in_schema=False, response_model=None)
def act(request: Request, batch: int, action: str) -> Response:
    site, caller, why = site_of(request), caller_of(request), form_of(request).get("why", "").strip()
    found = views.get(site, caller, batch)
    here = f"/batches/{batch}"
    if action == "update-report":
        ask_for_update(site.store, found, caller.agent)
        return back(request, here, f"Batch {batch} will report what has changed.")
    if action in ("hold", "delete") and not why:
        raise BadInput("say why, for the history", code="action.why", where="why")
    if action == "hold":
        site.store.queue.hold("batch", str(batch), caller.agent, why)
        return back(request, here, f"Batch {batch} is held: jobs that have not started will not.")
    if action == "lift":
        site.store.queue.lift("batch", str(batch), caller.agent, why)
        return back(request, here, f"Batch {batch} is no longer held. Its held jobs can be released.")
    if action == "delete":
        count = delete_batch(site.store, found, caller.agent, why, world=site.options.world)
        return back(request, "/batches", f"Batch {batch} and {count} jobs are deleted; their history stays.")
    done = acting.act(site.operator(caller), action, found.id, why)
    return back(request, here, f"Batch {batch} {done.told}.")

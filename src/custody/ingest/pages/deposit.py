"""The depositor's page: plain words, no account, nothing to press by mistake. The link is the key."""

from __future__ import annotations

from dataclasses import dataclass

from custody.errors import NotFound
from custody.ingest.batch.links import WRONG
from custody.ingest.pages import views
from custody.ingest.states import BATCH_KIND
from custody.kernel.access.caller import Caller
from custody.kernel.model.job import Filter, Job
from custody.web import formatting
from custody.web.page import Asked, View, show
from custody.web.queries import lists
from custody.web.queries.paging import Page
from custody.web.request_bodies import Router
from custody.web.site import Site

router = Router()
COLUMNS = {
    "row": lambda line: line.row,
    "name": lambda line: line.name,
    "title": lambda line: line.title,
    "state": lambda line: line.said,
    "reason": lambda line: line.reason,
    "identifier": lambda line: line.ark,
}
SAID = {
    "done": "deposited",
    "failed": "not deposited",
    "held": "waits for the archive",
    "running": "being worked on",
    "waiting": "on its way",
    "retrying": "will be tried again",
    "cancelled": "withdrawn by the archive",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the depositor's manifest."""

    row: int
    name: str
    title: str
    look: str
    said: str
    reason: str
    ark: str


def read(asked: Asked) -> View:
    site, query = asked.site, asked.query
    batch = _batch(site, int(asked.part("batch")), str(asked.part("signature")))
    caller = Caller("depositor", frozenset({"depositor+"}), frozenset({batch.collection}))  # of this batch's rows only
    counts = views.progress(site, batch.id)
    where = Filter(parent=batch.id, ended=query.get("ended", ""))
    page = lists.children(site.store, caller, where, lists.whole_number(query, "after", 0), limit=lists.limit_of(query))
    here = f"/deposit/{batch.id}/{asked.part('signature')}"
    lines = [_line(site, job) for job in page.rows]
    values = {
        "batch": batch,
        "counts": counts,
        "shares": views.parts(counts),
        "sentence": views.sentence(counts),
        "lines": lines,
        "letters": views.letters(site, batch),
        "looks": SAID,
        "next_address": formatting.address(here, {**query, "after": page.next}) if page.next else "",
        "first_address": formatting.address(here, {**query, "after": ""}) if query.get("after") else "",
        "failure": views.failure(site, batch.id) if batch.ended == "failed" and not sum(counts.values()) else "",
    }

    def every() -> object:
        def ask(asked_for: object) -> Page[Job]:
            assert isinstance(asked_for, dict)
            after = lists.whole_number(asked_for, "after", 0)
            return lists.children(site.store, caller, where, after, limit=lists.MOST)

        return (_line(site, job) for job in lists.every(ask, {}, "after"))

    data = {"batch": batch.id, "state": batch.state, "progress": counts, "rows": lines, "next": page.next}
    return View(f"Your deposit: {formatting.name(batch)}", values | {"live": False}, data, every)  # type: ignore[arg-type]


def _batch(site: Site, number: int, given: str) -> Job:
    """A wrong link and a batch that is gone look the same."""
    try:
        batch = site.store.queue.get(number)
    except NotFound:
        batch = None
    if batch is None or batch.kind != BATCH_KIND:
        raise NotFound(WRONG, code="batch.unknown")
    site.links.check(batch, given, site.store.now())
    return batch


def _line(site: Site, job: Job) -> Line:
    shown = formatting.look(job, site.store.now())
    reason = views.failure(site, job.id) if shown == "failed" else ""
    given = job.payload
    row = int(given.get("line", given.get("row", 0)))
    return Line(
        row=row,
        name=str(given.get("filename", "")),
        title=str(given.get("title", "")),
        look=shown,
        said=SAID[shown],
        reason=reason,
        ark=str(job.facts.get("primary", "")),
    )


show(router, "/deposit/{batch:int}/{signature}", "ingest/deposit.html", read, columns=COLUMNS)

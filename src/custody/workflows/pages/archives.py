"""Archives: which there are, and for each the grid of its revisions and tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fastapi import Request
from markupsafe import Markup
from starlette.responses import Response

from custody.errors import BadInput, NotFound
from custody.kernel.access.rules import Rule
from custody.kernel.model.item import Item
from custody.kernel.model.job import Job
from custody.kernel.stores import Store
from custody.kernel.stores.rows import job_from
from custody.web import formatting
from custody.web.access.gate import form_of
from custody.web.page import Asked, View, back, show
from custody.web.request_bodies import Router
from custody.web.sections import Section
from custody.web.site import Site, caller_of, site_of
from custody.workflows.archives.notices import reconcile
from custody.workflows.archives.table import Archives
from custody.workflows.findings import cause
from custody.workflows.holds import go_on, pause
from custody.workflows.plan.archive_graph import drawn, drawn_in_page, picture
from custody.workflows.plan.job import revision_item

router = Router()
SHOWN = 12  # revisions at once
MOST_DRAWN = 400  # tasks: a picture of more would be of no use to anyone
COLUMNS = {
    "archive": lambda kept: kept.name,
    "system": lambda kept: kept.system,
    "revision": lambda kept: kept.last,
    "location": lambda kept: kept.location,
    "frozen": cause,
}


@dataclass(frozen=True, slots=True)
class Grid:
    """Tasks by revision. A cell that is missing is a task that the revision did not have."""

    revisions: Sequence[int]
    tasks: Sequence[str]
    cells: Mapping[tuple[str, int], Job]
    about: Mapping[int, Item]

    @classmethod
    def of(cls, store: Store, name: str, first: int, last: int) -> Grid:
        rows = store.db.read(lambda tx: tx.run("wf_of_line", line=name, first=first, last=last))
        jobs = [job_from(row) for row in rows]
        known = {revision: _about(store, name, revision) for revision in range(first, last + 1)}
        return cls(
            range(first, last + 1),
            list(dict.fromkeys(str(job.task) for job in jobs)),
            {(str(job.task), job.position): job for job in jobs},
            {revision: item for revision, item in known.items() if item is not None},
        )


def _about(store: Store, name: str, revision: int) -> Item | None:
    try:
        return store.records.item(revision_item(name, revision))
    except NotFound:
        return None  # it has not been planned yet


def read_list(asked: Asked) -> View:
    archives = Archives(asked.site.store).list()
    return View("Archives", {"archives": archives}, {"archives": archives}, lambda: archives)


def read_one(asked: Asked) -> View:
    store = asked.site.store
    kept = Archives(store).get(str(asked.part("archive")))
    wanted = asked.query.get("to", "")
    last = min(int(wanted), kept.last) if wanted.isdecimal() else kept.last
    first = max(1, last - SHOWN + 1)
    grid = Grid.of(store, kept.name, first, last)
    earlier = formatting.address(f"/archives/{kept.name}", {"to": str(first - 1)}) if first > 1 else ""
    values: dict[str, object] = {
        "kept": kept,
        "grid": grid,
        "earlier": earlier,
        "newest": f"/archives/{kept.name}" if wanted else "",
        "drawn": "",
    }
    if 0 < len(grid.cells) <= MOST_DRAWN:
        whole = picture(store, kept.name, first, last)
        values |= {"drawn": Markup(drawn_in_page(whole)), "in_words": drawn(whole, "text")}
    values["held"] = [hold for hold in store.queue.holds() if (hold.scope, hold.name) == ("lane", kept.name)]
    return View(kept.name, values, {"archive": kept, "jobs": list(grid.cells.values())})


show(router, "/archives", "workflows/archives.html", read_list, columns=COLUMNS)
show(router, "/archives/{archive}", "workflows/archive.html", read_one)


@router.post("/archives/{archive}/{action}", include_in_schema=False, response_model=None)
def act(request: Request, archive: str, action: str) -> Response:
    """Ask the repository now, or hold what is to be done for it."""
    site, who, why = site_of(request), caller_of(request).agent, form_of(request).get("why", "").strip()[:2000]
    kept, here = Archives(site.store).get(archive), f"/archives/{archive}"
    if action == "ask":
        new = reconcile(site.store, kept)
        return back(request, here, f"The repository has {formatting.many(new, 'revision')} that nobody had told of.")
    if action == "hold" and not why:
        raise BadInput("say why, for the history", code="action.why", where="why")
    if action == "hold":
        pause(site.store, kept.name, who, why)
        return back(request, here, f"{kept.name} is held: nothing new starts.")
    if action == "lift":
        go_on(site.store, kept.name, who, why)
        return back(request, here, f"{kept.name} is no longer held.")
    raise BadInput(f"there is no action {action!r}", code="action", hint="ask, hold, lift")


RULES: Final[Mapping[str, Rule]] = {
    "GET /archives": Rule("archive:read", whole=True),
    "GET /archives/{archive}": Rule("archive:read", whole=True),
    "POST /archives/{archive}/{action}": Rule("archive:act", whole=True),
}


def brief(site: Site) -> str:
    archives = Archives(site.store).list()
    frozen = sum(bool(kept.frozen) for kept in archives)
    told = formatting.many(sum(kept.last for kept in archives), "revision")
    return f"{len(archives)} with {told}" + (f", {frozen} frozen" if frozen else "")


ARCHIVES: Final = Section(
    "Archives", "/archives", "a", right="archive:read", routers=(router,), rules=RULES, brief=brief
)

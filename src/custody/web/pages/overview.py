"""The overview: the lines, what needs you, and what happened since yesterday."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from custody.ingest.pages import views
from custody.kernel.model.event import Event
from custody.kernel.model.job import Failures, Filter, HeldBy, Job
from custody.web import formatting
from custody.web.page import Asked, View, show
from custody.web.queries import lists
from custody.web.queries.overview import StationNow
from custody.web.request_bodies import Router
from custody.web.sections import Section
from custody.web.site import Site

router = Router()
DAY = 86_400_000_000
MOST_NEEDS = 12


@dataclass(frozen=True, slots=True)
class Need:
    """Something that waits for a person, with the best thing to do about it."""

    look: str
    title: str
    text: str
    link: str
    since: int
    do: str = ""  # what the button says
    at: str = ""  # and where it leads


def read(asked: Asked) -> View:
    site, glance = asked.site, asked.site.glance
    lines = glance.lines()
    needs = needs_you(site)
    groups = [section.groups for section in site.sections if section.groups]
    recent = [_group(site, job) for kind in groups for job in _newest(asked, kind)]
    lately = [
        (noun, glance.lately(kind))
        for section in site.sections
        for noun, kind in (("batch", section.groups), ("object", section.line.kind if section.line else ""))
        if kind
    ]
    others = [(section, _brief(site, section)) for section in site.sections if section.brief]
    data = {
        "lines": lines,
        "others": {section.title: text for section, text in others},
        "needs": needs,
        "since yesterday": [each for _, each in lately],
        "recent": [job for job, _, _ in recent],
    }
    values: dict[str, Any] = {
        "lines": lines,
        "needs": needs[:MOST_NEEDS],
        "more": len(needs) - MOST_NEEDS,
        "recent": recent,
        "lately": lately,
        "others": others,
    }
    mark = f"{len(needs)} need you · " if needs else ""
    return View(f"{mark}Overview", values, data)


def _brief(site: Site, section: Section) -> str:
    return site.glance.brief(section.title, lambda: section.brief(site) if section.brief else "")


def _newest(asked: Asked, kind: str) -> Sequence[Job]:
    site = asked.site
    return lists.newest_jobs(
        site.store, site.machines, asked.caller, Filter(kind=kind), before=lists.NEWEST, limit=8
    ).rows


def _group(site: Site, job: Job) -> tuple[Job, Sequence[views.Part], str]:
    counts = views.brief(site, job.id)
    return job, views.parts(counts), views.sentence(counts)


def needs_you(site: Site) -> list[Need]:
    """Failures by cause, holds with owner and reason, late places, a line without a worker; the newest first."""
    glance = site.glance
    grouped = {section.groups for section in site.sections}
    found = [_failed(group) for group in glance.failures() if group.kind not in grouped]
    found += [_went_back(event) for event in glance.went_back()]
    found += [_held(hold, site) for hold in glance.holds()]
    for line in glance.lines():
        for station in line.stations:
            if station.late:
                found.append(_late(station))
        if line.total and not any(station.workers for station in line.stations):
            text = f"{formatting.many(line.total, 'job')} on the line {line.line.title} and no worker has been seen"
            found.append(Need(look="waiting", title="No worker", text=text, link="/workers", since=0))
    return found


def _late(now: StationNow) -> Need:
    text = f"{formatting.many(now.waiting, 'job')} could have been claimed there, one of them long ago"
    link = formatting.address("/jobs", {"kind": now.kind, "state": now.station.state})
    return Need(look="waiting", title=f"{now.station.title} is late", text=text, link=link, since=now.oldest or 0)


def _failed(group: Failures) -> Need:
    filters = {"kind": group.kind, "ended": "failed", "code": group.code or ""}
    title = f"{formatting.number(group.count)} × {group.code or 'without a code'}"
    return Need(
        look="failed",
        title=title,
        text=f"{group.kind}, {group.state}",
        link=formatting.address("/jobs", filters),
        since=group.at,
        do="Resume them…" if group.state == "failed" else "",
        at=formatting.address("/bulk/new", {**filters, "action": "resume"}),
    )


def _went_back(event: Event) -> Need:
    """Another server took over, or a copy was put back, and lacks what was acknowledged."""
    missing = event.detail["missing"]
    if event.detail.get("restored"):
        lost = "what is missing is not known" if missing is None else f"{formatting.many(missing, 'event')} missing"
        text = f"a copy was put in the store's place: {lost}"
    elif event.detail.get("noticed"):
        text = "an older state was played into the store while it was open: what is missing is not known"
    else:
        text = f"{formatting.many(missing, 'acknowledged move')} unknown to the server that took over"
    return Need(
        look="failed",
        title="History went back",
        text=text,
        link=formatting.address("/events", {"subject": event.subject}),
        since=event.at,
    )


def _held(hold: HeldBy, site: Site) -> Need:
    filters = {"state": "held"} | ({"collection": hold.name} if hold.scope == "collection" else {})
    waiting = ""
    if hold.scope == "collection":
        counts = site.glance.counts()
        waiting = " · some jobs wait" if any(state == "held" for _, state in counts) else ""
    return Need(
        look="held",
        title=f"{hold.scope} {hold.name} is held",
        text=f"by {hold.who}: {hold.why}{waiting}",
        link=formatting.address("/jobs", filters),
        since=hold.since,
        do="Lift it…",
        at="/holds",
    )


show(router, "/", "overview.html", read)

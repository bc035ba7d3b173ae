"""Robots: what each wakes for, as a sentence; which items have had which events; and why one is not ready."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fastapi import Request
from starlette.responses import Response

from custody.errors import BadInput, NotFound
from custody.kernel.access.rules import Rule
from custody.kernel.model.item import Item, Latest
from custody.kernel.model.job import Filter, Job
from custody.kernel.model.trigger import Clause, Trigger, clauses
from custody.kernel.model.why import Reason
from custody.kernel.stores import Store
from custody.kernel.stores.rules.items import subscriptions
from custody.robots.items.deadlines import late
from custody.robots.items.failures import causes
from custody.robots.items.late_events import orphans
from custody.robots.items.restart import stopped
from custody.robots.robot import sentence
from custody.web import formatting
from custody.web.access.gate import form_of
from custody.web.api.items import get
from custody.web.page import Asked, View, back, show
from custody.web.queries import lists
from custody.web.request_bodies import Router
from custody.web.sections import Section
from custody.web.site import Site, caller_of, site_of

router = Router()
SHOWN = 50
LOOKED_AT = 1000
"""Failures of one robot that are put into groups for a page; the command line counts all."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A robot as the store knows it."""

    name: str
    event: str
    version: str
    when: str
    trigger: Trigger
    ready: int
    failed: int
    held: str  # who holds it and why; empty: nobody

    @property
    def kind(self) -> str:
        return f"robot/{self.name}"


@dataclass(frozen=True, slots=True)
class Row:
    item: Item
    latest: Mapping[str, Latest]


def registered(site: Site) -> Sequence[Registered]:
    counts = site.glance.counts()
    machine = site.machines.of("robot/")
    holds = {hold.name: f"{hold.who}: {hold.why}" for hold in site.glance.holds() if hold.scope == "kind"}
    found = []
    for name, trigger, facts in site.store.db.read(subscriptions):
        kind = f"robot/{name}"
        states = {state: count for (of, state), count in counts.items() if of == kind}
        failed = sum(count for state, count in states.items() if machine.end(state) == "failed")
        ready = sum(count for state, count in states.items() if machine.is_working(state))
        found.append(
            Registered(
                name=name,
                event=str(facts.get("event", "")),
                version=str(facts.get("version", "")),
                when=sentence(trigger),
                trigger=trigger,
                ready=ready,
                failed=failed,
                held=holds.get(kind, ""),
            )
        )
    return in_order(found)


def in_order(robots: Sequence[Registered]) -> Sequence[Registered]:
    """As items pass them: whoever waits for another's event comes after that one."""
    left, placed = list(robots), list[Registered]()
    while left:
        recorded = {robot.event: robot for robot in left}
        free = [
            robot for robot in left if not any(recorded.get(name, robot) is not robot for name in robot.trigger.past)
        ]
        placed += free or left  # a circle has no beginning
        left = [robot for robot in left if robot not in placed]
    return placed


def matrix_events(robots: Sequence[Registered]) -> Sequence[str]:
    """The columns: every event that a robot asks for or records, in the order of the line."""
    return list(dict.fromkeys(name for robot in robots for name in (*sorted(robot.trigger.past), robot.event)))


def matrix_columns(events: Sequence[str]) -> Mapping[str, Callable[[Row], Any]]:
    columns: dict[str, Callable[[Row], Any]] = {"item": lambda row: row.item.id}
    for name in events:
        columns[name] = lambda row, name=name: row.latest[name].outcome if name in row.latest else ""  # type: ignore[misc]
    return columns


def read(asked: Asked) -> View:
    site, query = asked.site, asked.query
    robots = registered(site)
    events = matrix_events(robots)
    if "type" not in query and robots:
        # what all of them work on is what most people want to see
        common = frozenset.intersection(*(robot.trigger.types for robot in robots))
        query = {**query, "type": min(common, default="")}
    page = lists.items(site.store, asked.caller, {**query, "limit": str(SHOWN)})
    rows = [_row(site.store, item) for item in page.rows]
    following = formatting.address("/robots", {**query, "after": page.next}) if page.next else ""
    first = formatting.address("/robots", {**query, "after": ""}) if query.get("after") else ""
    waits = waits_for_people(site.store)
    values = {
        **waits,
        "robots": robots,
        "events": events,
        "rows": rows,
        "type": query.get("type", ""),
        "next_address": following,
        "first_address": first,
    }
    told = [{"item": row.item.id, "events": {name: each.outcome for name, each in row.latest.items()}} for row in rows]

    def every() -> object:
        items = lists.every(lambda q: lists.items(site.store, asked.caller, q), query, "after")
        return (_row(site.store, item) for item in items)

    data = {"robots": [_told(robot) for robot in robots], "items": told, "next": page.next, **waits}
    return View(title="Robots", values=values, data=data, every=every, columns=matrix_columns(events))  # type: ignore[arg-type]


def waits_for_people(store: Store) -> dict[str, Sequence[Any]]:
    """What failed, by cause; what is off the line; what is overdue; what came too late."""
    return {
        "causes": causes(store, most=LOOKED_AT)[:SHOWN],
        "stopped": stopped(store, SHOWN),
        "late": late(store, limit=SHOWN),
        "orphans": orphans(store)[-SHOWN:],
    }


def _row(store: Store, item: Item) -> Row:
    return Row(item, store.records.latest(item.id))


def _told(robot: Registered) -> dict[str, Any]:
    return {
        "robot": robot.name,
        "version": robot.version,
        "records": robot.event,
        "when": robot.when,
        "trigger": robot.trigger.as_dict(),
        "ready": robot.ready,
        "failed": robot.failed,
        "held": robot.held,
    }


def read_one(asked: Asked) -> View:
    site = asked.site
    robot = _robot(site, str(asked.part("robot")))
    jobs = lists.newest_jobs(
        site.store, site.machines, asked.caller, Filter(kind=robot.kind), before=lists.NEWEST, limit=SHOWN
    ).rows
    item_id = asked.query.get("item", "").strip()
    answer = _why(asked, robot, item_id) if item_id else None
    values = {"robot": robot, "jobs": jobs, "asked_item": item_id, "answer": answer}
    return View(f"Robot {robot.name}", values, {"robot": _told(robot), "jobs": jobs, "why": answer})


def _why(asked: Asked, robot: Registered, item_id: str) -> dict[str, Any]:
    """Is this item ready for this robot? Each clause, and the event that decides."""
    store = asked.site.store
    try:
        item = get(asked.site, asked.caller, item_id)
    except NotFound as unknown:
        return {"item": item_id, "ready": False, "clauses": [], "reasons": [], "problem": str(unknown)}
    found: list[Clause] = list(clauses(robot.trigger, item, store.records.latest(item.id)))
    job: Job | None = store.queue.by_key(robot.kind, item.id)
    reasons: Sequence[Reason] = store.queue.why(job.id) if job else []
    ready = all(clause.holds for clause in found)
    return {"item": item.id, "ready": ready, "clauses": found, "reasons": reasons, "problem": ""}


def _robot(site: Site, name: str) -> Registered:
    for robot in registered(site):
        if robot.name == name:
            return robot
    raise NotFound(f"there is no robot {name}", code="robot.unknown", hint="`custody robot list`")


show(router, "/robots", "robots/robots.html", read, columns={})
show(router, "/robots/{robot}", "robots/robot.html", read_one)


@router.post("/robots/{robot}/{action}", include_in_schema=False, response_model=None)
def act(request: Request, robot: str, action: str) -> Response:
    """Let a robot sleep, or wake it again."""
    site, who, why = site_of(request), caller_of(request).agent, form_of(request).get("why", "").strip()[:2000]
    found = _robot(site, robot)
    if action not in ("hold", "lift"):
        raise BadInput(f"there is no action {action!r}", code="action", hint="hold, lift")
    if action == "hold" and not why:
        raise BadInput("say why, for the history", code="action.why", where="why")
    if action == "hold":
        site.store.queue.hold("kind", found.kind, who, why)
        return back(request, f"/robots/{robot}", f"{robot} sleeps until somebody wakes it.")
    site.store.queue.lift("kind", found.kind, who, why)
    return back(request, f"/robots/{robot}", f"{robot} is awake.")


RULES: Final[Mapping[str, Rule]] = {
    "GET /robots": Rule("robot:read", whole=True),
    "GET /robots/{robot}": Rule("robot:read", whole=True),
    "POST /robots/{robot}/{action}": Rule("robot:act", whole=True),
}


def brief(site: Site) -> str:
    robots = registered(site)
    asleep = sum(bool(robot.held) for robot in robots)
    told = f"{len(robots) - asleep} awake, {asleep} asleep"
    failed = sum(robot.failed for robot in robots)
    return f"{told}, {failed} items failed" if failed else told


ROBOTS: Final = Section("Robots", "/robots", "r", right="robot:read", routers=(router,), rules=RULES, brief=brief)

"""What the dashboard knows of mirrored channels: items, what is kept of each, what remains to be done and why."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any

from custody.channels import jobs as work
from custody.channels.context import parent_of
from custody.channels.crawl.coverage import Coverage
from custody.channels.export.fields import reactions
from custody.channels.integrity import damage
from custody.channels.messages.reader import Reader, Shown
from custody.channels.pages import coverage_bar as coverage
from custody.channels.pages.coverage_bar import Range
from custody.channels.snowflake import HIGHEST, time_of
from custody.errors import CustodyError, NotFound
from custody.kernel.access.caller import Caller
from custody.kernel.model.event import Event
from custody.kernel.model.item import Item
from custody.kernel.model.job import Filter, HeldBy, Job
from custody.kernel.model.why import Reason
from custody.web.queries import lists
from custody.web.site import Site

LOOKS = {"yes": "done", "unreadable": "failed", "removed": "cancelled"}
SAID = {"yes": "mirrored", "unreadable": "cannot be read", "removed": "removed"}
KINDS = (work.ADD, work.SYNC, work.REVIEW, work.FILES, work.REMOVE)
MOST_JOBS = 500
MOST_THREADS = 100
OURS = {"prefix": "channel/", "type": work.CHANNEL}
EVERYTHING = Caller("", frozenset({"reader"}), None)


@dataclass(frozen=True, slots=True)
class Channel:
    """One row of the list."""

    number: int
    name: str
    mirrored: str  # "yes", "unreadable", "removed"; empty: asked for, not yet added
    coverage: Coverage
    ranges: Sequence[Range]
    sentence: str
    jobs: Sequence[Job]  # what remains to be done, and what failed
    parent: int = 0  # of a thread: the channel that it belongs to
    damaged: str = ""  # what of it cannot be read here

    @property
    def look(self) -> str:
        return "failed" if self.damaged else LOOKS.get(self.mirrored, "waiting")

    @property
    def said(self) -> str:
        return "damaged" if self.damaged else SAID.get(self.mirrored, "to be added")


@dataclass(frozen=True, slots=True)
class Message:
    """A message as pages show it; its versions as they came, newest last."""

    id: int
    at: datetime
    author: str
    text: str
    deleted_at: str
    versions: Sequence[Mapping[str, Any]]
    gone: str = ""  # deleted there since then, and kept here
    damaged: bool = False
    last_seen: Mapping[str, Any] = field(default_factory=dict)  # the newest, with what changed without an edit
    besides: Mapping[str, Any] = field(default_factory=dict)
    reactions: Sequence[tuple[str, int]] = ()
    upto: int = 0  # of a part that cannot be read: the last id in it


def channels(site: Site) -> Sequence[Channel]:
    known = {work.number_of(item): item for item in items(site)}
    jobs = _jobs(site)
    asked = {int(job.payload["channel"]) for job in jobs if job.kind == work.ADD}
    found = [_channel(site, number, known.get(number), jobs) for number in {*known, *asked}]
    return sorted(found, key=lambda each: (each.parent or each.number, each.parent, each.number))


def channel(site: Site, number: int) -> Channel:
    jobs = [job for job in _jobs(site, str(number)) if job.lane == str(number)]
    item = _item(site, number)
    if item is None and not jobs:
        raise NotFound(f"there is no channel {number}", code="channel.unknown", hint="`custody channel list`")
    return _channel(site, number, item, jobs)


def items(site: Site) -> list[Item]:
    """By their ids, which all begin alike: other items, however many, are not looked at."""
    return list(lists.every(lambda q: lists.items(site.store, EVERYTHING, q), OURS, "after"))


def threads(site: Site, number: int) -> list[Channel]:
    found = [item for item in items(site) if parent_of(item) == number]
    return [_channel(site, work.number_of(item), item, ()) for item in found[:MOST_THREADS]]


def _item(site: Site, number: int) -> Item | None:
    try:
        return site.store.records.item(work.item_id(number))
    except NotFound:
        return None


def _jobs(site: Site, lane: str = "") -> list[Job]:
    """Jobs that have not passed: those that have leave no row."""
    where = Filter(kind="channel/*", lane=lane)
    found = lists.newest_jobs(site.store, site.machines, EVERYTHING, where, before=lists.NEWEST, limit=MOST_JOBS).rows
    return [job for job in found if job.ended not in ("passed", "cancelled", "skipped")]


def _channel(site: Site, number: int, item: Item | None, jobs: Sequence[Job]) -> Channel:
    table = reader_of(site, number)
    known, wrong = _coverage(site, number, table, item) if table else (Coverage(), "")
    first = next(table.between(), None) if table and known.upto else None
    drawn = coverage.ranges(known, number, first.id if first else None)
    detail = item.detail if item else {}
    told = coverage.sentence(known) if table else "what is kept of it cannot be seen from this process"
    mine = [job for job in jobs if job.lane == str(number)]
    return Channel(
        number=number,
        name=str(detail.get("title") or number),
        mirrored=str(detail.get("mirrored", "")),
        coverage=known,
        ranges=drawn,
        sentence=told,
        jobs=mine,
        parent=parent_of(item) if item else 0,
        damaged=wrong,
    )


def _coverage(site: Site, number: int, table: Reader, item: Item | None) -> tuple[Coverage, str]:
    """How far it is kept, and what is damaged: as its item says, or as is seen here for the first time."""
    noted = (item.detail.get(damage.DAMAGE) or {}) if item else {}
    told = f"{noted.get('said')}, since {noted.get('since')}" if noted else ""
    try:
        if not told and (told := table.lacking()):
            damage.noticed(site.store, number, told)
        return Coverage.read(table.mark), told
    except CustodyError as error:
        if not damage.is_damage(error):
            raise
        damage.noticed(site.store, number, str(error))
        return Coverage(), told or str(error)


def reader_of(site: Site, number: int) -> Reader | None:
    return site.options.readers(number) if site.options.readers else None


def why(site: Site, of: Channel, events: Sequence[Event]) -> Sequence[Reason]:
    """What keeps a channel from being whole and up to date: its jobs' own reasons first."""
    reasons = [
        reason
        for job in of.jobs
        if job.kind in (work.ADD, work.SYNC, work.FILES, work.REMOVE)
        for reason in _about(job, site.store.queue.why(job.id))
    ]
    reasons += [_held(hold) for hold in holds(site, of.number)]
    if of.mirrored == "unreadable":
        last = next((event for event in reversed(events) if event.type == "unreadable"), None)
        told = str(last.detail.get("why", "")) if last else ""
        reasons.append(
            Reason(
                "unreadable",
                f"it cannot be read any more{': ' if told else ''}{told}; what is kept stays",
                "the bot is given the right to read it, and somebody syncs it",
                last.at if last else None,
            )
        )
    if of.damaged:
        reasons.insert(
            0, Reason("damaged", f"damaged here: {of.damaged}", f"`custody channel verify {of.number} --mend`")
        )
    if of.coverage.gaps and of.mirrored == "yes":
        count = len(of.coverage.gaps)
        text = f"{count} range{'s are' if count > 1 else ' is'} known to be missing"
        reasons.append(Reason("gap", text, "the next sync fetches them, the oldest first"))
    return reasons


def _about(job: Job, reasons: Sequence[Reason]) -> Iterator[Reason]:
    for reason in reasons:
        verb = job.kind.partition("/")[2]
        yield Reason(
            code=reason.code, text=f"{verb}: {reason.text}", clears=reason.clears, since=reason.since, job=job.id
        )


def _held(hold: HeldBy) -> Reason:
    text = f"{hold.scope} {hold.name} is held by {hold.who}: {hold.why}"
    return Reason("held", text, f"the hold on {hold.scope} {hold.name} is lifted", hold.since)


def holds(site: Site, number: int) -> Sequence[HeldBy]:
    names = {("lane", str(number)), *(("kind", kind) for kind in KINDS)}
    return [hold for hold in site.store.queue.holds() if (hold.scope, hold.name) in names]


def messages(site: Site, number: int, table: Reader, first: int, count: int) -> tuple[Sequence[Message], int | None]:
    """Some messages from an id on, oldest first, and where the next begin."""
    found = list(islice(table.between(first, HIGHEST), count + 1))
    if hurt := [f"from {one.id} to {one.upto or one.id} it cannot be read" for one in found if one.damaged]:
        damage.noticed(site.store, number, hurt[0])
    return [_message(each) for each in found[:count]], found[count].id if len(found) > count else None


def message(table: Reader, number: int) -> Message:
    found = table.search(number)
    if found is None:
        raise NotFound(f"message {number} is not kept", code="message.unknown")
    return _message(found)


def _message(found: Shown) -> Message:
    versions = [dict(json.loads(line)) for line in found.versions]
    newest = found.message if versions else {}
    author = newest.get("author")
    name = author.get("global_name") or author.get("username") if isinstance(author, Mapping) else ""
    return Message(
        id=found.id,
        at=time_of(found.id),
        author=str(name or "–"),
        text=str(newest.get("content") or ""),
        deleted_at=found.deleted_at,
        versions=versions,
        gone=found.gone,
        damaged=bool(found.damaged),
        last_seen=newest,
        besides=found.besides,
        reactions=reactions(newest),
        upto=found.upto,
    )

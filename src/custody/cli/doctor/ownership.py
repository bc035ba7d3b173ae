"""What the doctor looks at in tokens, schedules and jobs: whose are they, and who stands for them?

Each command that is told here does what it says when it is pasted; a test does so with all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from shlex import join

from custody.cli.open_store import label
from custody.cli.times import moment
from custody.errors import CustodyError
from custody.formats.shell import command
from custody.installation import makers
from custody.kernel.access.narrowing import smaller
from custody.kernel.access.tokens import Tokens
from custody.kernel.applications import installed
from custody.kernel.engine.judge import FORGED
from custody.kernel.engine.makers import is_among
from custody.kernel.model.authority.acting import SYSTEM
from custody.kernel.model.event import Event
from custody.kernel.model.job import Filter
from custody.kernel.model.schedule import Schedule
from custody.kernel.model.times import slots
from custody.kernel.operations.findings import Finding, look_alikes
from custody.kernel.stores import Store
from custody.kernel.stores.registers.collections import archives
from custody.web.operations.reasons import AGAIN, ending, is_refused_for_good
from custody.web.operations.setters import Setters

SOME = 5
MOST = 1000


def whose_findings(store: Store) -> Iterator[Finding]:
    yield from _schedules(store)
    yield from _tokens(store)
    yield from look_alikes("schedules", {each.name for each in store.schedules.list() if each.by != SYSTEM})
    yield from _gone_kinds(store)
    yield from _strange_kinds(store)
    yield from _refused(store)
    yield from _applications(store)


def _applications(store: Store) -> Iterator[Finding]:
    """Tables of applications that are not installed: nothing is lost, and nobody works on it."""
    known = {part.name for part in installed()}
    for name, version in store.db.read(lambda tx: tx.run("application_versions")):
        if name not in known:
            what = f"tables of {name} are here (schema {version}), and {name} is not"
            yield Finding("warning", what, f"install {name} again; what it keeps waits for it")


def _schedules(store: Store) -> Iterator[Finding]:
    """Those that could not be run, were sent far ahead, or are nobody's."""
    schedules, now = store.schedules.list(), store.now()  # in this order: one that came meanwhile is not ahead
    setters = Setters(store)
    for schedule in schedules:
        if schedule.paused:
            yield from _paused(store, setters, schedule)
            continue
        if schedule.next_slot > _next_slot(schedule, now):
            what = f"the schedule {schedule.name} comes no sooner than {moment(schedule.next_slot)}: a clock was wrong"
            do = f"is the clock right now? then: {command('schedule continue', schedule.name)}"
            yield Finding("warning", what, do)
        if told := setters.ended(schedule):
            what = f"the schedule {schedule.name} will stand still from its next slot on: {told}"
            yield Finding("warning", what, setters.remedy(schedule))
        elif told := setters.doubt(schedule):
            setter = _setter(store, schedule)
            before = f" (by {setter})" if setter and not schedule.by else ""
            do = command("schedule adopt", schedule.name)
            yield Finding("warning", f"the schedule {schedule.name}: {told}{before}", do)


def _paused(store: Store, setters: Setters, schedule: Schedule) -> Iterator[Finding]:
    last = _last(store, schedule, "paused")
    if last and last.outcome == "failure":
        remedy = setters.remedy(schedule)
        do = remedy if setters.ended(schedule) or not schedule.by else f"put that right, then: {remedy}"
        yield Finding("warning", f"the schedule {schedule.name} stands still: {last.detail.get('why')}", do)


def _next_slot(schedule: Schedule, now: int) -> int:
    """What its times say; those that cannot be read say nothing against it here."""
    try:
        return next(slots(schedule.spec, schedule.zone, now))
    except CustodyError:
        return schedule.next_slot


def _setter(store: Store, schedule: Schedule) -> str:
    """Whom the history names; names were not anybody's alone then."""
    last = _last(store, schedule, "set")
    return last.agent if last else ""


def _last(store: Store, schedule: Schedule, type_: str) -> Event | None:
    events = [event for event in store.records.all_events(f"schedule/{schedule.name}") if event.type == type_]
    return events[-1] if events else None


def _tokens(store: Store) -> Iterator[Finding]:
    """What had a role that is no more has become the smallest that still submits: somebody knows what it is for."""
    now, known = store.now(), archives(store)
    tokens = Tokens(store)
    for token in tokens.list():
        if token.revoked or token.expires <= now:
            continue
        if not token.identity and (told := tokens.taken_for(token.name)):
            what = f"token {token.id} is called {token.name}: {told}"
            yield Finding("warning", what, f"make one of another name, then: custody token revoke {token.id}")
        if not token.was:
            continue
        ways = [f"{use}: `custody token narrow {token.id} {join(words)}`" for use, words in smaller(token, known)]
        what = f"token {token.id} ({token.name}) had the role {token.was}, and is a submitter now"
        yield Finding("warning", what, "; ".join(ways))


def _gone_kinds(store: Store) -> Iterator[Finding]:
    """Jobs that another version made, and for which nobody will ever come."""
    known = [kind for (kind,) in store.db.read(lambda tx: tx.run("web_kinds"))]
    for kind in filter(makers().is_gone, known):
        waiting = [job for job in store.queue.every(Filter(kind=kind)) if job.ended is None]
        for job in waiting[:SOME]:
            what = f"job {job.id} waits for nobody: nothing works on {kind} any more"
            yield Finding("warning", what, ending(job))
        if len(waiting) > SOME:
            what = f"{len(waiting) - SOME} more jobs of {kind} wait for nobody"
            yield Finding("warning", what, command("job list", kind=kind))


def _strange_kinds(store: Store) -> Iterator[Finding]:
    """Jobs of a family that no application here makes and no worker has offered: one may have been uninstalled."""
    offered = [one.kind for one in store.kinds.list()]
    for (kind,) in store.db.read(lambda tx: tx.run("web_kinds")):
        if "/" not in kind or not makers().is_free(kind) or is_among(kind, offered):
            continue
        if any(job.ended is None for job in store.queue.every(Filter(kind=kind))):
            what = f"jobs of {kind} wait: no application that is installed makes them, and no worker has offered to"
            do = f"install the application that made them, or end them: {command('job list', kind=kind)}"
            yield Finding("warning", what, do)


def _refused(store: Store) -> Iterator[Finding]:
    """Jobs that their applications cannot have made, as they stood when a worker looked at them."""
    refused = list(islice(store.queue.every(Filter(ended="failed", code=FORGED)), MOST))
    for job in refused[:SOME]:
        delete = command("job delete", label(job.id), why="it was refused")
        if is_refused_for_good(store, job):
            do = f"{AGAIN}, if it is still wanted; then: {delete}"
        else:
            do = f"if the cause is mended: {command('job resume', label(job.id))}; if nobody wants it: {delete}"
        yield Finding("warning", f"job {label(job.id)} of {job.kind} was refused: {store.queue.reason(job)}", do)
    if len(refused) > SOME:
        more = f"{len(refused) - SOME}{' or more' if len(refused) == MOST else ''}"
        yield Finding("warning", f"{more} other jobs were refused", command("job list", code=FORGED))

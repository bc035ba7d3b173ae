"""What the doctor looks at in tokens, schedules, jobs and repositories: whose are they, and who stands for them?

Each command that is told here does what it says when it is pasted; a test does so with all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import islice
from shlex import join

from custody.cli.doctor.finding import Finding
from custody.cli.open_store import label
from custody.cli.times import moment
from custody.errors import CustodyError
from custody.formats.shell import command
from custody.kernel.access.narrowing import smaller
from custody.kernel.access.tokens import Tokens
from custody.kernel.applications import installed
from custody.kernel.engine.judge import FORGED
from custody.kernel.model.authority.acting import SYSTEM
from custody.kernel.model.event import Event
from custody.kernel.model.job import Filter
from custody.kernel.model.names.names import clashes
from custody.kernel.model.schedule import Schedule
from custody.kernel.model.times import slots
from custody.kernel.stores import Store
from custody.kernel.stores.registers.collections import agreeing, is_agreed, others_in
from custody.robots.subscribers import subscriptions
from custody.web.operations.makers import MAKERS
from custody.web.operations.reasons import AGAIN, ending, is_refused_for_good
from custody.web.operations.setters import Setters
from custody.workflows.archives.hook_places import UNHEARD
from custody.workflows.archives.ownership import commit_gates
from custody.workflows.archives.table import Archives
from custody.workflows.findings import faulty, stands_still

SOME = 5
MOST = 1000
FOREIGN = "archive.foreign"


def whose_findings(store: Store) -> Iterator[Finding]:
    yield from _schedules(store)
    yield from _tokens(store)
    yield from _alike(store)
    yield from _gone_kinds(store)
    yield from _refused(store)
    yield from _repositories(store)
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


def _alike(store: Store) -> Iterator[Finding]:
    """Names that were there before look-alikes were refused: they go on."""
    schedules = {each.name for each in store.schedules.list() if each.by != SYSTEM}
    archives = {each.name for each in Archives(store).list()}
    robots = {name for name, _, _ in store.db.read(subscriptions)}
    for sort, names in (("schedules", schedules), ("archives", archives), ("robots", robots)):
        for those in clashes(names):
            told = ", ".join(those)
            do = "let one of them go, and make it anew by another name"
            yield Finding("warning", f"these {sort} look alike: {told}", do)


def _tokens(store: Store) -> Iterator[Finding]:
    """What had a role that is no more has become the smallest that still submits: somebody knows what it is for."""
    now, archives = store.now(), [kept.name for kept in Archives(store).list()]
    tokens = Tokens(store)
    for token in tokens.list():
        if token.revoked or token.expires <= now:
            continue
        if not token.identity and (told := tokens.taken_for(token.name)):
            what = f"token {token.id} is called {token.name}: {told}"
            yield Finding("warning", what, f"make one of another name, then: custody token revoke {token.id}")
        if not token.was:
            continue
        ways = [f"{use}: `custody token narrow {token.id} {join(words)}`" for use, words in smaller(token, archives)]
        what = f"token {token.id} ({token.name}) had the role {token.was}, and is a submitter now"
        yield Finding("warning", what, "; ".join(ways))


def _gone_kinds(store: Store) -> Iterator[Finding]:
    """Jobs that another version made, and for which nobody will ever come."""
    known = [kind for (kind,) in store.db.read(lambda tx: tx.run("web_kinds"))]
    for kind in filter(MAKERS.is_gone, known):
        waiting = [job for job in store.queue.every(Filter(kind=kind)) if job.ended is None]
        for job in waiting[:SOME]:
            what = f"job {job.id} waits for nobody: nothing works on {kind} any more"
            yield Finding("warning", what, ending(job))
        if len(waiting) > SOME:
            what = f"{len(waiting) - SOME} more jobs of {kind} wait for nobody"
            yield Finding("warning", what, command("job list", kind=kind))


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


def _repositories(store: Store) -> Iterator[Finding]:
    """Archives whose repositories are somebody else's, and to which nobody has agreed; and those that stand still."""
    archives = Archives(store)
    for kept in archives.list():
        waits = None
        with suppress(CustodyError):  # it cannot be reached: that is told below
            waits = archives.waits_for_a_grant(kept)
        if waits and not kept.frozen:  # else it is told with what comes after it
            do = command("archive grant", kept.name, "repository", waits.value, why="I know its owner")
            what = f"archive {kept.name} takes nothing in: its repository is not ours: {waits.foreign}"
            yield Finding("warning", what, do)
        if (kept.frozen or not waits) and (found := stands_still(store, kept)):
            how = "is taken in but for a part" if found.goes_on else "stands still"
            yield Finding("warning", f"archive {kept.name} {how}: {found.what}", found.do)
        if unasked := archives.unasked(kept):
            what = f"archive {kept.name}: commits of its tasks are refused: {unasked}"
            yield Finding("warning", what, commit_gates.hint(unasked))
        if unheard := archives.unheard(kept):
            what = f"archive {kept.name}: its hook is not run, so commits are found by looking only: {unheard}"
            yield Finding("warning", what, UNHEARD)
        if bad := faulty(store, kept):
            yield Finding("warning", f"archive {kept.name}: {bad.what}", bad.do)
    for group in store.queue.failures():
        if group.code == FOREIGN:
            what = (
                f"{group.count} of {group.kind} failed since the repository is not ours: once that is granted, resume"
            )
            yield Finding("warning", what, f"custody job resume --cause {FOREIGN}")


def shared_findings(store: Store, profiles: Collection[str]) -> Iterator[Finding]:
    """Archives whose name is a collection of others too: rights count in both."""
    for kept in Archives(store).list():
        if others := others_in(store, kept.name, profiles):
            what = f"archive {kept.name} shares its collection ({others}): who has rights in one has them in the other"
            if is_agreed(store, kept.name):
                yield Finding("fine", f"{what}; an operator has agreed")
            else:
                yield Finding("warning", what, f"if that is meant: {agreeing(kept.name)}")

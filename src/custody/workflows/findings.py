"""What is amiss with archives, in one sentence for each, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from custody.errors import CustodyError
from custody.formats.shell import BLANK, command
from custody.kernel.stores import Store
from custody.kernel.stores.rows import job_from
from custody.workflows.archives.notices import FROZEN, must_not_go_back
from custody.workflows.archives.ownership.standing import NOT_OURS, Standing
from custody.workflows.archives.table import Archives, Kept
from custody.workflows.definition.task import COMMIT, ON_COMMIT
from custody.workflows.makers import task_key
from custody.workflows.plan.plan_jobs import FAULTY, find_task
from custody.workflows.tasks import network

_ADVICE = "; if an operator agrees: `"


@dataclass(frozen=True, slots=True)
class Amiss:
    what: str
    do: str
    goes_on: bool = False  # what else there is of it is taken in


def stands_still(store: Store, kept: Kept) -> Amiss | None:
    """Why nothing more of it is taken in or planned; None: nothing is known against it."""
    archives, name = Archives(store), kept.name
    if kept.frozen:
        return Amiss(cause(kept), _thawing(store, kept))
    if why := archives.out_of_reach(name):
        if NOT_OURS in why:  # that was so when it was last asked
            return _waiting_for_a_grant(store, kept)
        return Amiss(why, "put that right: it is asked again every few seconds", archives.goes_on(name))
    rows = store.db.read(lambda tx: tx.run("wf_stuck", line=name))
    if not rows:
        return None
    job = job_from(rows[0])
    words = (name, str(job.position), COMMIT)
    if job.ended is None:
        what = f"revision {job.position} cannot be read: {job.facts.get('corrupt')}; those after it wait"
        return Amiss(what, command("archive why", *words))
    reason = f" ({told})" if (told := store.queue.reason(job)) else ""
    what = (
        f"revision {job.position} was not planned: its {COMMIT} is {job.state}{reason}; those after it wait, unless "
        f"`{command('archive accept', *words, why=BLANK)}`"
    )
    return Amiss(what, command("archive retry", *words))


def cause(kept: Kept) -> str:
    """Why it is frozen. What earlier versions wrote down besides, to be done about it, was true then."""
    return kept.frozen.partition(_ADVICE)[0]


def _waiting_for_a_grant(store: Store, kept: Kept) -> Amiss:
    """Whose its repository is now: what was written down at the last look may be over."""
    waits = None
    with suppress(CustodyError):  # it cannot be reached now: it will be told at the next look
        waits = Archives(store).waits_for_a_grant(kept)
    if waits is None:
        return Amiss("its repository was not ours when it was last asked", "nothing: it is asked again in a while")
    return Amiss(f"its repository is not ours: {waits.foreign}", _granting(kept, waits))


def _granting(kept: Kept, waits: Standing) -> str:
    return command("archive grant", kept.name, "repository", waits.value, why="I know its owner")


def _thawing(store: Store, kept: Kept) -> str:
    """What helps as it stands now, in its order: not a command that would be refused."""
    thaw = command("archive thaw", kept.name, why="I have looked at it")
    try:
        if waits := Archives(store).waits_for_a_grant(kept):
            return f"if an operator agrees: `{_granting(kept, waits)}`, then `{thaw}`"
        must_not_go_back(store, kept)
    except CustodyError as error:  # that it cannot be reached is told besides
        if error.code == FROZEN:
            return error.hint
    return thaw


def faulty(store: Store, kept: Kept) -> Amiss | None:
    """That the workflow files of its newest revision have faults: none of its tasks was planned."""
    found = find_task(store, task_key(kept.name, kept.last, ON_COMMIT, FAULTY))
    if found is None:
        return None
    what = f"the workflow files of revision {kept.last} have faults, and none of its tasks was planned"
    told = command("archive log", kept.name, str(kept.last), FAULTY)
    return Amiss(f"{what}: {(found.payload.get('faults') or [''])[0]}", told)


def all_amiss(store: Store) -> Iterator[tuple[Kept, str]]:
    """Each archive, and what is amiss with it; empty: nothing."""
    archives = Archives(store)
    paused = {hold.name: f"paused by {hold.who}: {hold.why}" for hold in store.queue.holds() if hold.scope == "lane"}
    waits = {kept.name: text for kept, text in network.waiting(store)}
    for kept in archives.list():
        if found := stands_still(store, kept):
            is_more = kept.frozen or found.do.startswith("custody ")
            yield kept, f"{found.what}: {found.do}" if is_more else found.what
        else:
            wrong = f"{bad.what}: `{bad.do}`" if (bad := faulty(store, kept)) else ""
            yield kept, paused.get(kept.name) or wrong or waits.get(kept.name) or archives.gone(kept.name)

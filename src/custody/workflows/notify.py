"""Notices of new revisions. That revision N exists proves that every one before it does.

A hook says so only when it is true; a person may mistype, so a notice of more than the next revision is held against
the repository, if that answers. Under the archive's row, a notice inserts the commit jobs of all revisions that have
none yet, each needing the one before, and answers. So planning happens strictly in order whatever order the hooks
come in, and a late or repeated notice has nothing left to do.
"""

from __future__ import annotations

from custody.model.acting import Acting, system
from custody.model.errors import BadInput, NotFound, Refused, Unavailable
from custody.model.graph import Edge
from custody.model.job import NewJob
from custody.stores import Store
from custody.stores.rows import Tx, event_text, job_from
from custody.stores.submit import columns, first_detail, submit_one
from custody.workflows.archives import Archives, Kept
from custody.workflows.git import GitArchive
from custody.workflows.makers import COMMIT_KIND, COMMIT_MAKER, commit_key

HOOK = system("hook")
RECONCILER = system("reconciler")
MOST_AT_ONCE = 500
_CHANGED = {
    "git": "none of the commits that were counted is in the repository at {where} any more: it is another one now, or "
    "its history was rewritten and cleared away",
    "svn": "the repository at {where} has another uuid now: it is another one, or `svnadmin setuuid` changed it",
    "folder": "the archive at {where} has another uuid now: it is another one, or its file custody-archive was changed",
}
"""What was seen when a repository is no longer known by its name; what was done to it nobody has seen."""
MOST_TRUSTED = 1000  # revisions that a notice may bring while the repository does not answer


def notify(store: Store, archive: str, revision: int, acting: Acting = HOOK) -> int:
    """Take in a revision, and all before it; answers how many were new."""
    if revision < 1:
        raise BadInput(f"{revision} is no revision", code="archive.revision")
    known, taken = _take_in_next(store, archive, revision, acting) or (Archives(store).get(archive), False)
    if taken:
        store.wake()
        return 1
    if known.frozen or known.last >= revision:
        return 0  # late or repeated: nothing is written, so nothing has to reach the disk
    if revision > known.last + 1:
        _must_be_there(store, known, revision)
    return _take_in_upto(store, archive, revision, acting)


def _take_in_next(store: Store, archive: str, revision: int, acting: Acting) -> tuple[Kept, bool] | None:
    """Take this revision in if it is the next, in one statement; and the archive as it was. None where that cannot be.

    The commit job before is not known here: the statement puts its number in the place of the nothing.
    """
    new = commit_job(archive, revision, [Edge(0)]).checked()
    move = store.new_move()
    values = {name: value for name, value in columns(new, 0, move, acting.by).items() if name in _TOLD}
    rows = store.db.at_once(
        "wf_take_next", move, name=archive, before=commit_key(archive, revision - 1), agent=acting.agent,
        detail=event_text(first_detail(new)), **values,
    )  # fmt: skip
    if not rows:
        return None
    name, system, location, uuid, last, frozen, taken = rows[0]
    return Kept(name, system, location, uuid, int(last), frozen), taken != "0"


_TOLD = frozenset(
    ("kind", "key", "state", "runnable", "ended", "lane", "place", "collection", "priority", "payload", "facts", "open",
     "line", "task", "position", "supersedes", "by")
)  # fmt: skip


def _must_be_there(store: Store, known: Kept, revision: int) -> None:
    try:
        youngest = Archives(store).open(known).youngest()
    except Unavailable:
        if revision > known.last + MOST_TRUSTED:
            raise
        return
    if revision > youngest:
        raise NotFound(
            f"{known.name} has no revision {revision}", code="archive.revision", where=known.location,
            hint=f"its youngest is {youngest}",
        )  # fmt: skip


def _take_in_upto(store: Store, archive: str, revision: int, acting: Acting) -> int:
    new, last = 0, 0
    while last < revision:
        made, last = store.db.write(lambda tx: _take_in(tx, archive, revision, acting))
        new += made
    if new:
        store.wake()
    return new


def _take_in(tx: Tx, name: str, revision: int, acting: Acting) -> tuple[int, int]:
    """How many were new, and up to which revision there is nothing left to do."""
    rows = tx.run("wf_lock_archive", name=name)
    if not rows:
        raise NotFound(f"there is no archive {name}", code="archive.unknown", hint="`custody archive list`")
    kept = Kept(*rows[0])
    if kept.frozen or kept.last >= revision:
        return 0, revision
    upto = min(revision, kept.last + MOST_AT_ONCE)
    before = _commit_of(tx, name, kept.last)
    for number in range(kept.last + 1, upto + 1):
        needs = [Edge(before)] if before else []
        before = submit_one(tx, commit_job(name, number, needs), tx.new_move(), acting).id
    tx.run("wf_advance", name=name, last=upto)
    return upto - kept.last, upto


def commit_job(archive: str, revision: int, needs: list[Edge]) -> NewJob:
    """The job whose work is to plan its revision."""
    made = NewJob(
        COMMIT_KIND, {"archive": archive, "revision": revision}, key=commit_key(archive, revision), priority=10,
        lane=archive, collection=archive, line=archive, task="COMMIT", position=revision, needs=needs,
    )  # fmt: skip
    return COMMIT_MAKER.checked(made)


def _commit_of(tx: Tx, archive: str, revision: int) -> int | None:
    rows = tx.run("job_by_key", kind=COMMIT_KIND, key=commit_key(archive, revision))
    return job_from(rows[0]).id if rows else None


def reconcile(store: Store, kept: Kept, acting: Acting = RECONCILER) -> int:
    """Ask the repository itself: lost hooks repair themselves. Another repository in its place freezes the archive."""
    if kept.frozen:
        return 0
    try:
        archive = Archives(store).open(kept)
    except Refused as error:
        if error.code == "archive.foreign" and Archives(store).another_owner(kept, acting.agent):
            return 0
        raise
    uuid, youngest = archive.uuid(), archive.youngest()
    if uuid != kept.uuid:
        why = f"{_CHANGED[kept.system].format(where=kept.location)} ({uuid}, not {kept.uuid})"
    elif youngest < kept.last:
        if not _went_back(store, kept, youngest):
            return 0
        why = f"the repository went back to revision {youngest}; {kept.last} was there before"
    else:
        new = _take_in_upto(store, kept.name, youngest, acting) if youngest > kept.last else 0
        if isinstance(archive, GitArchive):
            archive.must_be_counted()
        return new
    Archives(store).freeze(kept.name, why, kept.uuid, acting.agent)
    return 0


def _went_back(store: Store, kept: Kept, youngest: int) -> bool:
    """Otherwise what is missing never was there: its commit job waits for it, and says so."""
    next_one = store.queue.by_key(COMMIT_KIND, commit_key(kept.name, youngest + 1))
    return youngest < kept.last and (next_one is None or next_one.ended is not None)


def thaw(store: Store, name: str, who: str, why: str) -> None:
    """Go on with the repository as it is now, if the revisions on record can be those that it has."""
    kept = Archives(store).get(name)
    archive = Archives(store).open(kept)
    youngest = archive.youngest()
    if _went_back(store, kept, youngest):
        raise Refused(
            f"its repository ends with revision {youngest}, and {kept.last} are on record: new ones would have their "
            "numbers, and would not be run", code="archive.frozen", where=name,
            hint="put the repository back as it was; or look after it under another name: `custody archive remove "
            f"{name}`, then `custody archive add NAME {kept.location} --since {youngest}`",
        )  # fmt: skip
    Archives(store).thaw(name, archive.uuid(), who, why)

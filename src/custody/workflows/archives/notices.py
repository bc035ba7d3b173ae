"""Notices of new revisions. A notice is a hint to look: what is taken in is what the repository itself shows.

Whoever may tell of revisions cannot invent any; one that the repository does not have is refused. Under the archive's
row, the commit jobs of all revisions that have none yet are inserted, each needing the one before. So planning happens
strictly in order whatever order the hooks come in, and a late or repeated notice has nothing left to do.
"""

from __future__ import annotations

from custody.errors import BadInput, NotFound, Refused
from custody.formats.shell import BLANK, command
from custody.kernel.model.authority.acting import Acting, system
from custody.kernel.model.graph import Edge
from custody.kernel.model.job import NewJob
from custody.kernel.stores import Store
from custody.kernel.stores.rows import Tx, event_text, job_from
from custody.kernel.stores.rules.claim import delete
from custody.kernel.stores.rules.events import write_note
from custody.kernel.stores.rules.submit import columns, first_detail, submit_one
from custody.workflows.archives.git.git import GitArchive
from custody.workflows.archives.table import Archives, Kept
from custody.workflows.makers import COMMIT_KIND, COMMIT_MAKER, commit_key
from custody.workflows.patience import hurry

HOOK = system("hook")
RECONCILER = system("reconciler")
MOST_AT_ONCE = 500
FROZEN = "archive.frozen"
_CHANGED = {
    "git": "none of the commits that were counted is in the repository at {where} any more: it is another one now, or "
    "its history was rewritten and cleared away",
    "svn": "the repository at {where} has another uuid now: it is another one, or `svnadmin setuuid` changed it",
    "folder": "the archive at {where} has another uuid now: it is another one, or its file custody-archive was changed",
}
"""What was seen when a repository is no longer known by its name; what was done to it nobody has seen."""
NEVER_CAME = 600 * 1_000_000  # microseconds that a revision which is on record and was never there is waited for


def notify(store: Store, archive: str, revision: int, acting: Acting = HOOK) -> int:
    """Look for a revision, and all before it; answers how many were new. `NotFound` if it is not there."""
    if revision < 1:
        raise BadInput(f"{revision} is no revision", code="archive.revision")
    known = Archives(store).get(archive)
    if known.frozen or known.last >= revision:
        return 0  # late or repeated: nothing is written, so nothing has to reach the disk
    new = reconcile(store, known, acting, 0 if known.system == "git" else revision)  # git's are counted as they come
    now = Archives(store).get(archive)
    if now.last < revision and not now.frozen:
        raise NotFound(
            f"{archive} has no revision {revision}",
            code="archive.revision",
            where=known.location,
            hint=f"its youngest is {now.last}",
        )
    return new


def _take_in_next(store: Store, archive: str, revision: int, acting: Acting) -> tuple[Kept, bool] | None:
    """Take this revision in if it is the next, in one statement; and the archive as it was. None where that cannot be.

    The commit job before is not known here: the statement puts its number in the place of the nothing.
    """
    new = commit_job(archive, revision, [Edge(0)]).checked()
    move = store.new_move()
    values = {name: value for name, value in columns(new, 0, move, acting.by).items() if name in _TOLD}
    rows = store.db.at_once(
        "wf_take_next",
        move,
        name=archive,
        before=commit_key(archive, revision - 1),
        agent=acting.agent,
        detail=event_text(first_detail(new)),
        **values,
    )
    if not rows:
        return None
    name, system, location, uuid, last, frozen, taken = rows[0]
    return Kept(name=name, system=system, location=location, uuid=uuid, last=int(last), frozen=frozen), taken != "0"


_TOLD = frozenset(
    (
        "kind",
        "key",
        "state",
        "runnable",
        "ended",
        "lane",
        "place",
        "collection",
        "priority",
        "payload",
        "facts",
        "open",
        "line",
        "task",
        "position",
        "supersedes",
        "by",
    )
)


def _take_in_upto(store: Store, kept: Kept, revision: int, acting: Acting) -> int:
    """How many were new. The next one alone, as nearly all are, in one statement where that can be."""
    if revision == kept.last + 1 and (taken := _take_in_next(store, kept.name, revision, acting)) and taken[1]:
        store.wake()
        return 1
    new, last = 0, 0
    while last < revision:
        made, last = store.db.write(lambda tx: _take_in(tx, kept.name, revision, acting))
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
        COMMIT_KIND,
        {"archive": archive, "revision": revision},
        key=commit_key(archive, revision),
        priority=10,
        lane=archive,
        collection=archive,
        line=archive,
        task="COMMIT",
        position=revision,
        needs=needs,
    )
    return COMMIT_MAKER.checked(made)


def _commit_of(tx: Tx, archive: str, revision: int) -> int | None:
    rows = tx.run("job_by_key", kind=COMMIT_KIND, key=commit_key(archive, revision))
    return job_from(rows[0]).id if rows else None


def reconcile(store: Store, kept: Kept, acting: Acting = RECONCILER, upto: int = 0) -> int:
    """Ask the repository itself: lost hooks repair themselves. Another repository in its place freezes the archive.
    With `upto`, later revisions are left to their own notices."""
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
            _take_back(store, kept, youngest, acting)
            return 0
        why = f"the repository went back to revision {youngest}; {kept.last} was there before"
    else:
        wanted = min(upto, youngest) if upto else youngest
        new = _take_in_upto(store, kept, wanted, acting) if wanted > kept.last else 0
        if isinstance(archive, GitArchive):
            archive.must_be_counted()
        return new
    Archives(store).freeze(kept.name, why, kept.uuid, acting.agent)
    return 0


def _went_back(store: Store, kept: Kept, youngest: int) -> bool:
    """Otherwise what is missing never was there: its commit job waits for it, and says so."""
    next_one = store.queue.by_key(COMMIT_KIND, commit_key(kept.name, youngest + 1))
    return youngest < kept.last and (next_one is None or next_one.ended is not None)


def _take_back(store: Store, kept: Kept, youngest: int, acting: Acting) -> None:
    """Forget revisions that earlier versions took in by a notice alone, and that never came: their numbers are for
    those that will. The last first, so that each is needed by nobody; one that is being worked on waits for the next
    look."""
    first = store.queue.by_key(COMMIT_KIND, commit_key(kept.name, youngest + 1))
    if first is not None and store.now() - first.created < NEVER_CAME:
        return
    why = f"there never was a revision {{}} of {kept.name}: whoever told of it was wrong; its repository has {youngest}"

    def work(tx: Tx) -> bool:
        last = kept.last
        rows = tx.run("wf_lock_archive", name=kept.name)
        if not rows or Kept(*rows[0]) != kept:
            return False
        while last > max(youngest, kept.last - MOST_AT_ONCE):
            number = _commit_of(tx, kept.name, last)
            job = job_from(tx.run("lock_job", id=number)[0]) if number else None
            if job is not None and (job.holder is not None or job.ended is not None):
                break
            if job is not None:
                delete(tx, job, acting.agent, why.format(last), move=tx.new_move())
            last -= 1
        if last == kept.last:
            return False
        tx.run("wf_go_back", name=kept.name, last=last)
        told = {"why": why.format(last + 1), "from": kept.last, "to": last}
        write_note(tx, f"archive/{kept.name}", "taken back", acting.agent, detail=told, outcome="warning")
        return last > youngest

    while store.db.write(work):
        kept = Archives(store).get(kept.name)


def thaw(store: Store, name: str, who: str, why: str) -> bool:
    """Go on with the repository as it is now, if the revisions on record can be those that it has. False if it was not
    frozen."""
    kept = Archives(store).get(name)
    if not kept.frozen:
        return False
    must_not_go_back(store, kept)
    Archives(store).thaw(name, Archives(store).open(kept).uuid(), who, why)
    hurry(store, name)
    return True


def must_not_go_back(store: Store, kept: Kept) -> None:
    """`Refused`, with what to do instead, if its repository ends before what is on record."""
    youngest = Archives(store).open(kept).youngest()
    if _went_back(store, kept, youngest):
        raise Refused(
            f"its repository ends with revision {youngest}, and {kept.last} are on record: new ones would have their "
            "numbers, and would not be run",
            code=FROZEN,
            where=kept.name,
            hint=f"put the repository back as it was; or {anew(store, kept, youngest)}",
        )


def anew(store: Store, kept: Kept, youngest: int) -> str:
    """How to look after what is there now under another name."""
    found = Archives(store).found(kept.system, kept.location)[1]
    options = {"since": str(youngest)} if youngest else {}
    if found and found.foreign:
        options |= {"foreign": "", "why": BLANK}
    add = command("archive add", f"{kept.name}-2", kept.location, **options)
    return f"look after it under another name: `{command('archive remove', kept.name, why=BLANK)}`, then `{add}`"

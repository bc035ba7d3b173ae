"""The commit job: its work is to plan its revision. Planning is strictly in order, so PREV is resolved by looking.

What PREV means is looked up in the store (`past_revisions.py`), the jobs are made level by level (`plan_jobs.py`), the
last of them with the commit job's own end. Planned again after a crash, it finds what it made before by key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from custody.border.egress.allowance import Asked
from custody.errors import NotFound, Unavailable
from custody.formats.shell import BLANK, command
from custody.kernel.engine.work import Work
from custody.kernel.model.event import NewEvent
from custody.kernel.model.graph import Edge, satisfied
from custody.kernel.model.item import NewItem
from custody.kernel.model.outcome import Outcome, Passed, Wait
from custody.kernel.stores import Store
from custody.workflows.archives.git.git_objects import CORRUPT, MALFORMED
from custody.workflows.archives.port import COMMIT_KEY, GONE, Archive, Meta, read_workflows
from custody.workflows.archives.table import Archives
from custody.workflows.definition.definition import read
from custody.workflows.definition.task import COMMIT
from custody.workflows.patience import patiently
from custody.workflows.plan.past_revisions import StorePast
from custody.workflows.plan.plan import Lineage, Plan, Ref, plan
from custody.workflows.plan.plan_jobs import MOST_TOLD, WANTS, Run, begin, targets
from custody.workflows.plan.starvation import waits_for_the_spared
from custody.workflows.schedules import keep_time
from custody.workflows.tasks import network
from custody.workflows.tasks.commit import lineage_of

MISSED, GONE_FACT = "missed", "gone"
WRONG_FACT, CORRUPT_FACT = "malformed", "corrupt"
PATIENCE = 10.0  # seconds until a commit that was not found is looked for once more


def revision_item(archive: str, revision: int) -> str:
    return f"{archive}@{revision}"


def commit(work: Work, store: Store) -> Outcome:
    """Plan one revision."""
    name, revision = str(work.payload["archive"]), int(work.payload["revision"])
    kept = Archives(store).workable(name)
    if isinstance(kept, str):
        return patiently(work, kept)
    try:
        archive = Archives(store).open(kept)
        outlook = plan_revision(store, archive, name, revision)
    except NotFound as error:
        return _missing(work, revision, error)
    except Unavailable as error:
        return _unusable(work, name, revision, error)
    planned, meta = outlook.plan, outlook.meta
    blocked = list(_blocked_by(store, name, outlook))
    if blocked:
        return Wait(0, "a task of an earlier revision holds this one up", needs=blocked)
    by_commit = Run(job=work.job.id, also=lambda task: waits_for_the_spared(store, name, revision, task))
    last = begin(work, store, name, planned, run=by_commit, known=outlook.earlier).last
    is_news = revision == kept.last or planned.definition_hash != outlook.before
    if is_news and not planned.faults and archive.main(revision) == revision:
        keep_time(store, name, planned.schedules)  # later ones say for themselves, unless they are faulty
    item = NewItem(
        revision_item(name, revision),
        frozenset({"revision"}),
        name,
        fingerprint=meta.id,
        detail={"author": meta.author[:200], "message": meta.message[:500], "date": meta.date[:100]},
    )
    told = {"definition": planned.definition_hash, "tasks": len(planned.tasks)}
    if planned.skipped:
        told["why"] = planned.skipped
    if planned.lineage:
        told["lineage"] = list(planned.lineage)
    if planned.faults:
        told["faults"] = [str(fault) for fault in planned.faults[:MOST_TOLD]]
    if waits := network.waits(store, name, outlook.asks):
        told["network"] = waits
    facts = {"blocking": list(planned.blocking), "definition": planned.definition_hash, network.FACT: outlook.asks}
    event = NewEvent(item.id, "planned", "failure" if planned.faults else "success", detail=told)
    return Passed(told, keep=facts, then=list(last.values()), items=[item], events=[event])


def _missing(work: Work, revision: int, error: NotFound) -> Outcome:
    """Wait for a revision that may still come. Of one that is gone nothing can be run any more, so those after it go
    on; looked for twice, as a repository that is being packed may miss a commit for a moment."""
    if error.code == "archive.revision":
        why = f"there is no revision {revision}: whoever told of it was wrong, or the repository went back"
        return patiently(work, why)
    if error.code != GONE:
        raise error
    if not work.facts.get(MISSED):
        return Wait(PATIENCE, f"{error.message}; it is looked for once more", keep={MISSED: True})
    told = {"why": f"{error.message}; none of its tasks is run", "gone": True}
    facts = {"blocking": [], "definition": "", network.FACT: [], GONE_FACT: error.message}
    return Passed(told, keep=facts, warning=True)


def _unusable(work: Work, name: str, revision: int, error: Unavailable) -> Outcome:
    """Give up a commit that was made wrong: it stays as it is for ever. One whose repository is damaged may be mended;
    until then whoever waits is told how to go on without it."""
    if error.code == MALFORMED:
        told = {"why": f"revision {revision} cannot be used: {error.message}; none of its tasks is run", "gone": True}
        facts = {"blocking": [], "definition": "", network.FACT: [], GONE_FACT: error.message, WRONG_FACT: True}
        return Passed(told, keep=facts, warning=True)
    if error.code != CORRUPT:
        raise error
    ways = [command(f"archive {verb}", name, str(revision), COMMIT, why=BLANK) for verb in ("cancel", "accept")]
    until = f"the repository is mended; or without it: `{ways[0]}`, then `{ways[1]}`"
    return patiently(work, f"{error.message} ({error.hint})", keep={CORRUPT_FACT: error.message}, until=until)


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a revision adds, what is known of it, and the jobs of earlier revisions that were met on the way."""

    plan: Plan
    meta: Meta
    earlier: Mapping[Ref, int]
    before: str = ""  # the hash of the definitions of the revision before, where there is one line of revisions
    asks: Sequence[Asked] = ()  # for the network, in all its definitions


def _blocked_by(store: Store, name: str, outlook: Outlook) -> Iterator[Edge]:
    """Blocking tasks of earlier revisions that have not ended as they must."""
    blocking = [edge for edge in outlook.plan.edges if edge.task == COMMIT and edge.on.task != COMMIT]
    found = targets(store, name, {edge.on for edge in blocking}, outlook.earlier)
    for edge in blocking:
        target = found.get(edge.on)
        if target is not None and not satisfied(WANTS[edge.wants], store.queue.get(target).ended):
            yield Edge(target, WANTS[edge.wants])


def plan_revision(store: Store, archive: Archive, name: str, revision: int) -> Outlook:
    """What this revision adds, without adding it."""
    files, _ = read_workflows(archive, revision)
    definitions = read(files)
    lines = [line for workflow in definitions.on_commit for line in workflow.lines]
    meta = archive.meta(revision)
    lineage = Lineage(lineage_of(store, name, revision, meta.properties.get(COMMIT_KEY, "")))
    parents = archive.parents(revision, lines)
    past = StorePast(
        store=store,
        archive=archive,
        name=name,
        revision=revision,
        parents=parents,
        lines=lines,
        tasks=definitions.earlier,
    )
    planned = plan(definitions, revision, past, previous=parents, lineage=lineage, message=meta.message)
    asks = () if planned.faults else network.asked_in(definitions)  # nobody waits for what is not planned
    return Outlook(plan=planned, meta=meta, earlier=past.jobs, before=past.definition, asks=asks)


def preview(store: Store, archive: Archive, name: str, files: Mapping[str, bytes], last: int) -> Plan:
    """What the next commit would add, if it left the workflow files like this."""
    definitions = read(files)
    lines = [line for workflow in definitions.on_commit for line in workflow.lines]
    parents = (last,) if last else ()
    return plan(
        definitions,
        last + 1,
        StorePast(store=store, archive=archive, name=name, revision=last + 1, parents=parents, lines=lines),
        previous=parents,
    )

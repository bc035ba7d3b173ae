"""The commit job: its work is to plan its revision. Planning is strictly in order, so PREV is resolved by looking.

Tasks are submitted level by level, so that every edge points at a job that exists; each waits for this commit job
itself, so none can start before all of them are there. The last level, usually the only one, comes into being with
the commit job's own end. Planned again after a crash, it finds what it made before by key.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from custody.border.egress import Asked
from custody.engine.work import Work
from custody.model.errors import NotFound, Unavailable
from custody.model.event import NewEvent
from custody.model.graph import Edge, Otherwise, Wants, satisfied
from custody.model.item import NewItem
from custody.model.job import Job, NewJob
from custody.model.outcome import Outcome, Passed, Wait
from custody.model.quick import quick
from custody.model.telling import BLANK, command
from custody.stores import Store
from custody.stores.rows import loads
from custody.workflows import network
from custody.workflows.archive import COMMIT_KEY, GONE, Archive, Meta, read_workflows
from custody.workflows.archives import Archives
from custody.workflows.committing import lineage_of
from custody.workflows.definition import read
from custody.workflows.git_objects import CORRUPT, MALFORMED
from custody.workflows.makers import (
    COMMIT_KIND,
    QUICK_KIND,
    QUICK_MAKER,
    TASK_KIND,
    TASK_MAKER,
    commit_key,
    runs_line,
    task_key,
)
from custody.workflows.plan import Lineage, Plan, PlannedEdge, PlannedTask, Ref, nearest, plan
from custody.workflows.recipes import recipe
from custody.workflows.schedules import keep_time
from custody.workflows.sparing import waits_for_the_spared
from custody.workflows.task import COMMIT, ON_COMMIT, QUICK, Task

FAULTY = "(definition)"
MISSED, GONE_FACT = "missed", "gone"
WRONG_FACT, CORRUPT_FACT = "malformed", "corrupt"
PATIENCE = 10.0  # seconds between looks for a revision that was told of and is not there
_edge, _new_job = quick(Edge), quick(NewJob)  # for each task of each revision
WANTS: dict[str, Wants] = {"success": "success", "finished": "finished", "failure": "failure", "prev": "passable"}


def revision_item(archive: str, revision: int) -> str:
    return f"{archive}@{revision}"


def commit(work: Work, store: Store) -> Outcome:
    """Plan one revision."""
    name, revision = str(work.payload["archive"]), int(work.payload["revision"])
    kept = Archives(store).workable(name)
    if isinstance(kept, str):
        return Wait(PATIENCE, kept)
    archive = Archives(store).open(kept)
    try:
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
    last = begin(work, store, name, planned, by_commit, outlook.earlier).last
    is_news = revision == kept.last or planned.definition_hash != outlook.before
    if is_news and not planned.faults and archive.main(revision) == revision:
        keep_time(store, name, planned.schedules)  # later ones say for themselves, unless they are faulty
    item = NewItem(
        revision_item(name, revision), frozenset({"revision"}), name, fingerprint=meta.id,
        detail={"author": meta.author, "message": meta.message[:500], "date": meta.date},
    )  # fmt: skip
    told = {"definition": planned.definition_hash, "tasks": len(planned.tasks)}
    if planned.skipped:
        told["why"] = planned.skipped
    if planned.lineage:
        told["lineage"] = list(planned.lineage)
    if planned.faults:
        told["faults"] = [str(fault) for fault in planned.faults[:50]]
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
        return Wait(PATIENCE, why)
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
    return Wait(PATIENCE, f"{error.message} ({error.hint})", keep={CORRUPT_FACT: error.message}, until=until)


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
    targets = _targets(store, name, {edge.on for edge in blocking}, outlook.earlier)
    for edge in blocking:
        target = targets.get(edge.on)
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
    past = StorePast(store, archive, name, revision, parents, lines, definitions.earlier)
    planned = plan(definitions, revision, past, previous=parents, lineage=lineage, message=meta.message)
    return Outlook(planned, meta, past.jobs, past.definition, network.asked_in(definitions))


def preview(store: Store, archive: Archive, name: str, files: Mapping[str, bytes], last: int) -> Plan:
    """What the next commit would add, if it left the workflow files like this."""
    definitions = read(files)
    lines = [line for workflow in definitions.on_commit for line in workflow.lines]
    parents = (last,) if last else ()
    return plan(definitions, last + 1, StorePast(store, archive, name, last + 1, parents, lines), previous=parents)


class StorePast:
    """Earlier revisions, as the store has them."""

    def __init__(
        self, store: Store, archive: Archive, name: str, revision: int, parents: Collection[int], lines: Sequence[str],
        tasks: Collection[str] = (),
    ) -> None:  # fmt: skip
        """`tasks` are those that will be asked for: on an archive with one line of revisions, all in one go."""
        self._store, self._archive, self._name, self._revision = store, archive, name, revision
        self._parents, self._lines = tuple(parents), lines
        self._is_one_line = self._parents == (revision - 1,)
        self._known: dict[str, Collection[int]] = {}
        self._blocking: dict[int, Sequence[str]] = {}  # by revision
        self.jobs: dict[Ref, int] = {}
        """Those that were met on the way."""
        self.definition = ""  # of the commit before
        if self._is_one_line:
            self._look_up({COMMIT, *tasks})

    def nearest(self, task: str) -> Collection[int]:
        if self._is_one_line:
            if task not in self._known:
                self._look_up({task})
            return self._known[task]
        return nearest(
            self._parents, lambda number: self._archive.parents(number, self._lines), lambda n: self._has(task, n)
        )

    def blocking(self) -> Iterable[Ref]:
        for parent in self._parents:
            if parent not in self._blocking:
                job = self._store.queue.by_key(COMMIT_KIND, commit_key(self._name, parent))
                self._blocking[parent] = job.facts.get("blocking", []) if job else []
            yield from (Ref(parent, task) for task in self._blocking[parent])

    def _look_up(self, tasks: Collection[str]) -> None:
        self._known |= dict.fromkeys(tasks, ())
        for found in nearest_jobs(self._store, self._name, tasks, self._revision):
            self._known[found.task] = (found.revision,)
            self.jobs[Ref(found.revision, found.task)] = found.job
            if found.commit is not None:
                self._blocking[found.revision] = found.commit.get("blocking", [])
                self.definition = str(found.commit.get("definition", ""))

    def _has(self, task: str, revision: int) -> bool:
        return bool(self._store.db.read(lambda tx: tx.run("wf_has", line=self._name, task=task, position=revision)))


@dataclass(frozen=True, slots=True)
class Nearest:
    task: str
    revision: int
    job: int
    commit: Mapping[str, Any] | None  # what a commit job has kept


def nearest_jobs(store: Store, name: str, tasks: Collection[str], before: int) -> Iterator[Nearest]:
    """Each of these tasks in the newest revision before this one that has it; looked up all in one go."""
    asked = {"line": name, "position": before, "tasks": json.dumps(sorted(tasks)), "commit": COMMIT_KIND}
    for task, revision, job, facts in store.db.glance(lambda tx: tx.run("wf_nearest", **asked)):
        yield Nearest(task, revision, job, None if facts is None else loads(facts))


@dataclass(frozen=True, slots=True)
class Run:
    """Which instances of tasks are being planned: those of a commit, or those of a run of their own."""

    name: str = ON_COMMIT
    job: int = 0  # the job that plans them
    also: Callable[[Task], Sequence[Edge]] = lambda _: ()  # what they wait for besides what the plan says


@dataclass(frozen=True, slots=True)
class Begun:
    """The jobs of a plan that are there, by name, and those of its last level, which are still to be submitted."""

    made: dict[str, int]
    last: dict[str, NewJob]


def submit(work: Work, store: Store, name: str, planned: Plan, run: Run) -> dict[str, int]:
    """All the jobs of a plan; answers their numbers by name."""
    begun = begin(work, store, name, planned, run)
    return begun.made | dict(zip(begun.last, work.spawn(list(begun.last.values())), strict=True))


def begin(
    work: Work, store: Store, name: str, planned: Plan, run: Run, known: Mapping[Ref, int] | None = None
) -> Begun:
    """The jobs of a plan, level by level, but for the last. `known` are jobs that need not be looked up again."""
    if planned.faults:
        return Begun({}, {FAULTY: _faulty(name, planned)})
    made: dict[str, int] = {}
    waiting = {task.name: task for task in planned.tasks}
    edges: dict[str, list[PlannedEdge]] = {task: [] for task in waiting}
    for edge in planned.edges:
        edges.get(edge.task, []).append(edge)
    wanted = {edge.on for task in edges.values() for edge in task if _is_earlier(edge.on, planned.revision, run)}
    earlier = _targets(store, name, wanted, known or {})
    while True:
        level: dict[str, NewJob] = {}
        for task in waiting.values():
            if _known(edges[task.name], planned.revision, run, made):
                needs = list(_edges(planned, edges[task.name], made, run, earlier))
                ahead = {edge.on for edge in needs}
                needs += [edge for edge in run.also(task.definition) if edge.on not in ahead]
                level[task.name] = task_job(name, planned, task, needs, run)
        waiting = {task: planned for task, planned in waiting.items() if task not in level}
        if not waiting:
            return Begun(made, level)
        made |= zip(level, work.spawn(list(level.values())), strict=True)


def _is_earlier(ref: Ref, revision: int, run: Run) -> bool:
    return (ref.revision, ref.run) != (revision, run.name)


def _known(edges: Iterable[PlannedEdge], revision: int, run: Run, made: dict[str, int]) -> bool:
    ours = [edge.on.task for edge in edges if not _is_earlier(edge.on, revision, run)]
    return all(task in made or task == COMMIT for task in ours)


def _edges(
    planned: Plan, wanted: Iterable[PlannedEdge], made: dict[str, int], run: Run, earlier: Mapping[Ref, int]
) -> Iterator[Edge]:
    for edge in wanted:
        otherwise: Otherwise = "skip" if edge.otherwise == "skip" else "wait"
        if _is_earlier(edge.on, planned.revision, run):
            target = earlier.get(edge.on)
        else:
            target = run.job if edge.on.task == COMMIT else made[edge.on.task]
        if target is not None:
            yield _edge(target, WANTS[edge.wants], otherwise)


def _targets(store: Store, archive: str, refs: Iterable[Ref], known: Mapping[Ref, int]) -> Mapping[Ref, int]:
    """The jobs of tasks that were planned before, as far as there are any; looked up all in one go."""
    names = {name: ref for ref in refs if ref not in known for name in _names(archive, ref)}
    if not names:
        return known
    rows = store.db.glance(lambda tx: tx.run("wf_by_keys", names=json.dumps(list(names))))
    return {**known, **{names[kind, key]: job for kind, key, job in rows}}


def _names(archive: str, ref: Ref) -> Sequence[tuple[str, str]]:
    if ref.task == COMMIT:
        return [(COMMIT_KIND, commit_key(archive, ref.revision))]
    key = task_key(archive, ref.revision, ref.run, ref.task)
    return [(TASK_KIND, key), (QUICK_KIND, key)]


def find_task(store: Store, key: str) -> Job | None:
    return store.queue.by_key(TASK_KIND, key) or store.queue.by_key(QUICK_KIND, key)


def task_job(name: str, planned: Plan, task: PlannedTask, needs: list[Edge], run: Run) -> NewJob:
    """One task of one revision. Runs of their own supersede each other, but never what a commit started."""
    definition = task.definition
    cancels = [cancel for cancel in planned.cancels if cancel.task == task.name]
    others = [cancel.victim for cancel in cancels if cancel.victim != task.name]
    payload: dict[str, Any] = {
        "archive": name, "revision": planned.revision, "run": run.name, "task": task.name, "file": task.file,
        "recipe": recipe(definition), "depends": [edge.task for edge in definition.depends if not edge.earlier],
        "cancels": others, "definition": planned.definition_hash,
    }  # fmt: skip
    if here := [cancel.victim for cancel in cancels if cancel.same_revision]:
        payload["cancels_here"] = here  # those of them that it ends in its own revision too
    if planned.lineage:
        payload["lineage"] = list(planned.lineage)
    by_commit = run.name == ON_COMMIT
    maker = QUICK_MAKER if definition.ready or definition.lane == QUICK else TASK_MAKER
    made = _new_job(
        maker.kind, payload, key=task_key(name, planned.revision, run.name, task.name),
        state="skipped" if task.skip else "", facts={"why": task.skip} if task.skip else {},
        lane=name if definition.lane == "main" else f"{name}/{definition.lane}", collection=name,
        line=name if by_commit else runs_line(name), task=task.name,
        position=planned.revision if by_commit else run.job,
        supersedes=any(cancel.victim == task.name for cancel in cancels),
        needs=[] if task.skip else needs,  # a need that is met would bring it back
    )  # fmt: skip
    return maker.checked(made)


def _faulty(name: str, planned: Plan) -> NewJob:
    """A task that has failed already, to carry what is wrong with the definition; later revisions go on."""
    faults = [str(fault) for fault in planned.faults]
    return NewJob(
        TASK_KIND, {"archive": name, "revision": planned.revision, "run": ON_COMMIT, "task": FAULTY, "faults": faults},
        key=task_key(name, planned.revision, ON_COMMIT, FAULTY), state="failed", facts={"reason": faults[0]},
        lane=name, collection=name, line=name, task=FAULTY, position=planned.revision,
    )  # fmt: skip

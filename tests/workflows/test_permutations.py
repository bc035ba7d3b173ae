"""Whatever becomes of the notices, what is planned is the same: out of order, lost, repeated, in any number.

The planner, the queue's rules for readiness and the notices are run as they are decided, on plain values: a queue of
thousands of tasks a thousand times over; a proof plans anew each time, and does more on a real store.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from custody.kernel.stores import Store, open_store
from custody.workflows.archives.folder import FolderArchive
from custody.workflows.archives.notices import notify
from custody.workflows.archives.table import Archives
from custody.workflows.definition.definition import read
from custody.workflows.definition.task import COMMIT
from custody.workflows.makers import COMMIT_KIND, commit_key
from custody.workflows.plan.plan import Known, Plan, Ref, plan
from prove.plugin import Scaled, Tell

REVISIONS = 200
WORKFLOW = b"""
- name: indexing
  depends: [PREV]
- name: build-PDF
  depends: [indexing]
  cancels: [PREV]
"""
ONLY_INDEX = b"- name: indexing\n  depends: [PREV]\n"
BROKEN = b"- name: indexing\n  depends: [nobody]\n"


def definitions_at(revision: int) -> bytes:
    """Some revisions lack a task, and some are broken."""
    return BROKEN if revision % 50 == 0 else ONLY_INDEX if revision % 7 == 0 else WORKFLOW


READ = {text: read({"_workflows/a.yaml": text}) for text in (WORKFLOW, ONLY_INDEX, BROKEN)}


def parents(revision: int) -> tuple[int, ...]:
    return (revision - 1,) if revision > 1 else ()


class Manager:
    """What a notice does, and what the commit jobs it makes do, in memory: take in last+1..N, plan in order."""

    def __init__(self) -> None:
        self.last = 0
        self.commits: list[int] = []
        self.plans: list[Plan] = []

    def notice(self, revision: int) -> None:
        self.commits += range(self.last + 1, revision + 1)
        self.last = max(self.last, revision)

    def work(self, most: int) -> None:
        """The commit job that can be claimed is the oldest that has not run; each needs the one before."""
        for revision in self.commits[len(self.plans) : len(self.plans) + most]:
            self.plans.append(planned_after(self.plans, revision))


def planned_after(before: Sequence[Plan], revision: int) -> Plan:
    past = Known(before[-60:], parents, revision)  # a task is never absent for longer
    return plan(READ[definitions_at(revision)], revision, past, previous=parents(revision))


def start_order(plans: Sequence[Plan]) -> list[Ref]:
    """In which order tasks become ready when each ends at once: that of the graph, then of the plans."""
    edges: dict[Ref, list[Ref]] = {}
    for made in plans:
        edges.setdefault(Ref(made.revision, COMMIT), [])
        for task in made.tasks:
            edges.setdefault(Ref(made.revision, task.name), [])
        for edge in made.edges:
            edges[Ref(made.revision, edge.task)].append(edge.on)
    return list(_ordered(edges))


def _ordered(edges: dict[Ref, list[Ref]]) -> Iterator[Ref]:
    open_needs = {ref: len(set(needs)) for ref, needs in edges.items()}
    waiters: dict[Ref, list[Ref]] = {}
    for ref, needs in edges.items():
        for on in set(needs):
            waiters.setdefault(on, []).append(ref)
    ready = [ref for ref, count in open_needs.items() if not count]
    while ready:
        ref = ready.pop(0)
        yield ref
        for waiter in waiters.get(ref, ()):
            open_needs[waiter] -= 1
            if not open_needs[waiter]:
                ready.append(waiter)


def mistreated(chance: random.Random, revisions: int) -> list[int]:
    """Notices as they might arrive: permuted, some lost, some repeated; the reconciler speaks last."""
    told = [revision for revision in range(1, revisions + 1) if chance.random() > 0.3]
    told += chance.choices(range(1, revisions + 1), k=chance.randrange(revisions))
    chance.shuffle(told)
    return [*told, revisions]


def the_usual() -> Manager:
    usual = Manager()
    for revision in range(1, REVISIONS + 1):
        usual.notice(revision)
        usual.work(1)
    return usual


def test_a_thousand_permutations_losses_and_repetitions_give_the_same_graph_and_order() -> None:
    usual = the_usual()
    order = start_order(usual.plans)
    assert len(order) == len({*order}) > 500
    chance = random.Random(20040708)
    for _ in range(1000):
        manager = Manager()
        notices = mistreated(chance, REVISIONS)
        for revision in notices:
            manager.notice(revision)
        assert manager.commits == list(range(1, REVISIONS + 1))
        # Planning has no other input than the order of commits, the definitions and the plans before.
        for revision in chance.sample(manager.commits, 3):
            assert planned_after(usual.plans[: revision - 1], revision) == usual.plans[revision - 1]


@pytest.mark.proves("G20")
def test_planning_between_the_notices_changes_nothing(scaled: Scaled[int], seed: int, tell: Tell) -> None:
    usual = the_usual()
    chance, times = random.Random(3 + seed), scaled(20, 1_000, 100_000)
    tell("", permutations=times)
    for _ in range(times):
        manager = Manager()
        for revision in mistreated(chance, REVISIONS):
            manager.notice(revision)
            manager.work(chance.randrange(4))
        manager.work(REVISIONS)
        assert manager.plans == usual.plans
        assert start_order(manager.plans) == start_order(usual.plans)


@pytest.mark.proves("G20")
def test_on_a_real_store_too(tmp_path: Path, scaled: Scaled[int]) -> None:
    """Commit jobs are made in revision order, each once, each needing the one before."""
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as store:
        for number in range(scaled(3, 20, 1_000)):
            name = f"proj{number}"
            FolderArchive.make(tmp_path / name)
            Archives(store).add(name, "folder", str(tmp_path / name), "ada")
            for revision in range(1, REVISIONS + 1):
                (tmp_path / name / str(revision) / "content").mkdir(parents=True)
            for revision in mistreated(random.Random(number), REVISIONS):
                notify(store, name, revision)
            jobs = [store.queue.by_key(COMMIT_KIND, commit_key(name, n)) for n in range(1, REVISIONS + 1)]
            ids = [job.id for job in jobs if job]
            assert len(ids) == REVISIONS
            assert ids == sorted(ids)
            assert needs_of(store, ids) == [[], *([job] for job in ids[:-1])]


def needs_of(store: Store, ids: Sequence[int]) -> list[list[int]]:
    return store.db.read(lambda tx: [[row[0] for row in tx.run("edges_from", id=job)] for job in ids])

"""A revision adds tasks and edges; the seed's example is reproduced arrow by arrow."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from custody.workflows.definition.definition import Definitions, read
from custody.workflows.plan.graph import CANCELS, Arrow, arrows, as_dot, as_svg, as_text, reduced
from custody.workflows.plan.plan import Known, Lineage, Plan, PlannedEdge, Ref, nearest, plan, run

NONE = Definitions()


def defined(text: str) -> Definitions:
    found = read({"_workflows/main.yaml": text.encode()})
    assert found.faults == ()
    return found


def history(*revisions: Definitions, parents: dict[int, tuple[int, ...]] | None = None) -> list[Plan]:
    """Plan revisions 1, 2, 3 … one after another; without `parents` each follows the one before."""
    ancestry = parents or {}

    def parents_of(revision: int) -> tuple[int, ...]:
        return ancestry.get(revision, (revision - 1,) if revision > 1 else ())

    plans: list[Plan] = []
    for number, definitions in enumerate(revisions, 1):
        previous = {number - 1, *parents_of(number)} - {0}
        plans.append(plan(definitions, number, Known(plans, parents_of, number), previous=previous))
    return plans


def edges(planned: Plan, task: str) -> list[tuple[str, str, str]]:
    return [(str(edge.on), edge.wants, edge.otherwise) for edge in planned.edges if edge.task == task]


def test_the_seeds_example_is_exactly_its_eight_arrows(seed_workflow: bytes) -> None:
    seed = read({"_workflows/main.yaml": seed_workflow})
    plans = history(NONE, seed, seed)
    assert as_text(arrows(plans, {2: (1,), 3: (2,)})) == (
        "rev-1:COMMIT    <-- rev-2:COMMIT\n"
        "rev-2:COMMIT    <-- rev-2:indexing\n"
        "rev-2:indexing  <-- rev-2:build-PDF\n"
        "rev-2:COMMIT    <-- rev-3:COMMIT\n"
        "rev-3:COMMIT    <-- rev-3:indexing\n"
        "rev-2:indexing  <-- rev-3:indexing\n"
        "rev-2:build-PDF <!= rev-3:build-PDF\n"
        "rev-3:indexing  <-- rev-3:build-PDF\n"
    )


def test_every_edge_is_stored_also_those_that_follow_from_others(seed_workflow: bytes) -> None:
    seed = read({"_workflows/main.yaml": seed_workflow})
    *_, third = history(NONE, seed, seed)
    assert third.edges == (
        PlannedEdge("COMMIT", Ref(2, "COMMIT"), "success", "wait"),
        PlannedEdge("indexing", Ref(3, "COMMIT"), "success", "wait"),
        PlannedEdge("indexing", Ref(2, "indexing"), "prev", "wait"),
        PlannedEdge("build-PDF", Ref(3, "COMMIT"), "success", "wait"),
        PlannedEdge("build-PDF", Ref(3, "indexing"), "success", "skip"),
    )
    assert [(cancel.task, cancel.victim, cancel.same_revision) for cancel in third.cancels] == [
        ("build-PDF", "build-PDF", False)
    ]
    assert third.definition_hash == seed.hash


def test_the_first_task_of_its_name_waits_for_no_earlier_one() -> None:
    (first,) = history(defined("- {name: a, depends: PREV}"))
    assert edges(first, "a") == [("rev-1:COMMIT", "success", "wait")]
    assert edges(first, "COMMIT") == []


def test_prev_is_the_nearest_revision_that_has_the_task() -> None:
    has, lacks = defined("- {name: a, depends: PREV}"), defined("- {name: b}")
    plans = history(has, lacks, NONE, has)
    assert edges(plans[3], "a")[1:] == [("rev-1:a", "prev", "wait")]


def test_prev_looks_past_a_revision_with_a_faulty_file() -> None:
    good, bad = defined("- {name: a, depends: PREV}"), read({"_workflows/x.yaml": b"- name: [\n"})
    first, second, third = history(good, bad, good)
    assert second.tasks == ()
    assert second.faults == bad.faults
    assert edges(second, "COMMIT") == [("rev-1:COMMIT", "success", "wait")]
    assert edges(third, "a")[1:] == [("rev-1:a", "prev", "wait")]
    assert edges(third, "COMMIT") == [("rev-2:COMMIT", "success", "wait")]
    assert first.faults == ()


def test_prev_with_a_name_is_that_task_also_if_it_is_gone_now() -> None:
    old, new = defined("- {name: index}"), defined("- {name: pdf, depends: 'PREV:index'}")
    *_, third = history(old, new, new)
    assert edges(third, "pdf")[1:] == [("rev-1:index", "prev", "wait")]


@pytest.mark.parametrize(
    ("edge", "wants", "otherwise"),
    [
        ("a", "success", "skip"),
        ("{task: a, if: success}", "success", "skip"),
        ("{task: a, if: finished}", "finished", "wait"),
        ("{task: a, if: failure}", "failure", "skip"),
        ("PREV:a", "prev", "wait"),
        ("{task: 'PREV:a', if: success}", "prev", "wait"),
        ("{task: 'PREV:a', if: finished}", "finished", "wait"),
        ("{task: 'PREV:a', if: failure}", "failure", "skip"),
    ],
)
def test_an_edge_says_what_it_wants_and_what_happens_otherwise(edge: str, wants: str, otherwise: str) -> None:
    both = defined(f"- {{name: a}}\n- {{name: b, depends: {edge if '{' in edge else repr(edge)}}}")
    _, second = history(both, both)
    assert edges(second, "b")[1][1:] == (wants, otherwise)


def test_a_blocking_task_holds_up_the_next_commit_and_only_that_one() -> None:
    blocks, free = defined("- {name: a, blocking: true}\n- {name: b}"), defined("- {name: b}")
    first, second, third = history(blocks, free, free)
    assert first.blocking == ("a",)
    assert edges(second, "COMMIT") == [("rev-1:COMMIT", "success", "wait"), ("rev-1:a", "prev", "wait")]
    assert edges(third, "COMMIT") == [("rev-2:COMMIT", "success", "wait")]


def test_strict_order_makes_tasks_blocking_unless_they_say_otherwise_or_are_replaced() -> None:
    strict = defined(
        "order: strict\ntasks:\n- {name: a}\n- {name: b, blocking: false}\n"
        "- {name: c, cancels: PREV}\n- {name: d, cancels: PREV, blocking: true}\n"
    )
    first, second = history(strict, strict)
    assert first.blocking == ("a", "d")
    assert [on for on, *_ in edges(second, "COMMIT")] == ["rev-1:COMMIT", "rev-1:a", "rev-1:d"]


def test_the_commit_waits_for_what_its_file_adds() -> None:
    adds = defined("- {name: COMMIT, depends: ['PREV:a', {task: 'PREV:b', if: finished}]}\n- {name: a}\n- {name: b}")
    first, second = history(adds, adds)
    assert edges(first, "COMMIT") == []
    assert edges(second, "COMMIT")[1:] == [("rev-1:a", "prev", "wait"), ("rev-1:b", "finished", "wait")]


def test_on_a_merge_prev_is_the_task_in_every_parent() -> None:
    both = defined("- {name: a, depends: PREV}")
    #   1 ── 2 ── 4
    #    ╲── 3 ──╱
    parents = {1: (), 2: (1,), 3: (1,), 4: (2, 3)}
    *_, third, merge = history(both, both, both, both, parents=parents)
    assert edges(third, "a")[1:] == [("rev-1:a", "prev", "wait")]
    assert edges(third, "COMMIT") == [
        ("rev-1:COMMIT", "success", "wait"),
        ("rev-2:COMMIT", "success", "wait"),
    ]
    assert edges(merge, "a")[1:] == [("rev-2:a", "prev", "wait"), ("rev-3:a", "prev", "wait")]


def test_a_merge_of_a_line_without_the_task_looks_further_back_on_that_line() -> None:
    has, lacks = defined("- {name: a, depends: PREV}"), NONE
    parents = {1: (), 2: (1,), 3: (1,), 4: (2, 3)}
    *_, merge = history(has, lacks, has, has, parents=parents)
    assert edges(merge, "a")[1:] == [("rev-1:a", "prev", "wait"), ("rev-3:a", "prev", "wait")]


def test_a_task_is_not_started_by_its_own_commit_unless_it_is_reentrant() -> None:
    both = defined("- {name: a}\n- {name: b, reentrant: true}\n- {name: c}")
    planned = plan(both, 5, Known([], lambda _: (), 5), lineage=Lineage(("a", "b")))
    assert {task.name: bool(task.skip) for task in planned.tasks} == {"a": True, "b": False, "c": False}
    assert planned.tasks[0].skip == "this commit was made by a → b; a is not reentrant"


@pytest.mark.parametrize(("steps", "started"), [(8, True), (9, False)])
def test_a_chain_of_commits_ends(steps: int, started: bool) -> None:
    lineage = Lineage(tuple(f"t{n}" for n in range(steps)))
    planned = plan(defined("- {name: a}"), 5, Known([], lambda _: (), 5), lineage=lineage, previous=(4,))
    assert bool(planned.tasks) is started
    assert bool(planned.skipped) is not started
    assert edges(planned, "COMMIT") == [("rev-4:COMMIT", "success", "wait")]


def test_a_commit_message_can_ask_for_quiet() -> None:
    planned = plan(defined("- {name: a}"), 5, Known([], lambda _: (), 5), message="typo [skip custody]")
    assert planned.tasks == ()
    assert planned.skipped == "the commit message says [skip custody]"


def test_only_workflows_for_commits_are_planned_by_a_commit_and_others_by_a_run() -> None:
    on_demand = b"when: manual\ntasks:\n- name: b\n- {name: c, depends: [b, PREV]}\n"
    definitions = read({"_workflows/a.yaml": b"- name: a\n", "_workflows/b.yaml": on_demand})
    past = Known(history(NONE), lambda revision: (revision - 1,) if revision > 1 else (), 2)
    assert [task.name for task in plan(definitions, 2, past).tasks] == ["a"]
    manual = run([workflow for workflow in definitions.workflows if workflow.name == "b"], 2, past)
    assert [task.name for task in manual.tasks] == ["b", "c"]
    assert {task.file for task in manual.tasks} == {"_workflows/b.yaml"}
    assert edges(manual, "c") == [("rev-2:COMMIT", "success", "wait"), ("rev-2:b", "success", "skip")]


def test_planning_in_order_gives_every_task_at_most_one_line_of_older_ones() -> None:
    """Whatever revisions have the task, PREV makes one unbroken chain of all its instances."""
    dice = random.Random(7)
    has, lacks = defined("- {name: a, depends: PREV}"), NONE
    revisions = [has if dice.random() < 0.4 else lacks for _ in range(200)]
    plans = history(*revisions)
    chain = [
        (edge.on.revision, planned.revision)
        for planned in plans
        for edge in planned.edges
        if edge.task == "a" and edge.on.task == "a"
    ]
    present = [number for number, definitions in enumerate(revisions, 1) if definitions is has]
    assert chain == list(pairwise(present))


def test_nearest_walks_each_line_once() -> None:
    asked: list[int] = []

    def parents_of(revision: int) -> tuple[int, ...]:
        asked.append(revision)
        return (revision - 1, revision - 2) if revision > 2 else ()

    assert nearest((40, 39), parents_of, lambda revision: revision <= 2) == (1, 2)
    assert len(asked) == len(set(asked)) == 38


def test_the_reduction_keeps_reachability_and_nothing_more() -> None:
    dice = random.Random(3)
    for _ in range(60):
        refs = [Ref(dice.randrange(4), f"t{n}") for n in range(9)]
        refs.sort()
        waits = [Arrow(a, b) for i, a in enumerate(refs) for b in refs[i + 1 :] if dice.random() < 0.35]
        kept = reduced(waits)
        assert _reach(kept) == _reach(waits)
        for arrow in kept:
            assert _reach([other for other in kept if other != arrow]) != _reach(waits)


def test_dot_and_svg_show_every_task_and_arrow(seed_workflow: bytes) -> None:
    seed = read({"_workflows/main.yaml": seed_workflow})
    found = arrows(history(NONE, seed, seed), {2: (1,), 3: (2,)})
    dot = as_dot(found)
    assert dot.count("->") == 8
    assert '"rev-3:build-PDF" -> "rev-2:build-PDF" [style=dashed, arrowhead=tee, label="cancels"];' in dot
    svg = as_svg(found, {Ref(2, "build-PDF"): "superseded"})
    assert svg.count("<path class=") == 8
    assert svg.count("<g class=") == 7
    assert "rev-2:build-PDF: superseded" in svg


def test_a_missing_revision_is_drawn_and_a_far_one_is_not() -> None:
    near = [Arrow(Ref(1, "COMMIT"), Ref(3, "COMMIT")), Arrow(Ref(1, "x"), Ref(3, "x"), CANCELS)]
    assert "rev 2 missing" in as_svg(near)
    far = [Arrow(Ref(1, "COMMIT"), Ref(5000, "COMMIT"))]
    assert "rev 2 missing" not in as_svg(far)
    assert "No revisions" in as_svg([])


def test_names_cannot_break_out_of_a_picture() -> None:
    found = [Arrow(Ref(1, "COMMIT"), Ref(1, 'x"><script>'))]
    assert "<script>" not in as_svg(found, {Ref(1, "COMMIT"): '"><script>'})
    assert '\\"' in as_dot(found)


def _reach(waits: list[Arrow]) -> set[tuple[Ref, Ref]]:
    pairs = {(arrow.on, arrow.to) for arrow in waits}
    while more := {(a, d) for a, b in pairs for c, d in pairs if b == c} - pairs:
        pairs |= more
    return pairs

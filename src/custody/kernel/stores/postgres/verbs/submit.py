"""Submitting many jobs in one statement.

Jobs differ from their neighbours in little: what they share is a *shape* and travels once. What they wait for is
locked and looked at together before they are written, and their lines afterwards, when their rows are there. Only
those of which something comes at once (a need that has failed already, an instance to supersede) are then looked at
one by one, the common way.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from custody.errors import BadInput
from custody.kernel.model.authority.acting import Acting
from custody.kernel.model.graph import Edge, satisfied
from custody.kernel.model.job import Job, NewJob
from custody.kernel.model.machine import End
from custody.kernel.model.quick import quick
from custody.kernel.stores.postgres.columns import column, fits, numbers
from custody.kernel.stores.postgres.connection import swallowed
from custody.kernel.stores.postgres.transaction import PostgresTx
from custody.kernel.stores.postgres.verbs.shapes import Shapes
from custody.kernel.stores.rows import Tx, job_from, kept_text
from custody.kernel.stores.rules import graph
from custody.kernel.stores.rules.submit import Submitted, settle_in, submit_one, the_earlier

MOST = 1000
"""Jobs in one statement; more are sent in several."""
SOUGHT = 16
"""So many of a request's keys are looked up before all of them are taken to be new."""


@dataclass(frozen=True, slots=True)
class Order:
    """A job to be submitted, in whose name, and by which move."""

    job: NewJob
    move: str
    acting: Acting


new_order = quick(Order)
_submitted = quick(Submitted)


def is_one_statement(orders: Sequence[Order]) -> bool:
    """Nothing else has to be looked at or counted, so that one statement can be the whole transaction."""
    return 0 < len(orders) <= MOST and all(_is_plain(order.job) and _travels(order.job) for order in orders)


def look_new(tx: Tx, orders: Sequence[Order]) -> bool:
    """None of them has a key, or a few of their keys, looked up, are unknown.

    Most keys are new, and rows that are known to be new are written in half the time. Whoever submits again what
    was submitted before usually repeats all of it, so a few keys tell; where they do not, the write is refused as
    a whole, by the index of keys, and done again with care.
    """
    keyed = [order.job for order in orders if order.job.key is not None]
    sample = keyed[:: -(-len(keyed) // SOUGHT) or 1]
    return not sample or not tx.run("keys_known", **_keys(sample))


def _keys(jobs: Sequence[NewJob]) -> dict[str, list[Any]]:
    return {
        "kinds": [job.kind for job in jobs],
        "keys": [job.key for job in jobs],
        "withins": [job.key_within for job in jobs],
    }


def submit_at_once(tx: PostgresTx, orders: Sequence[Order]) -> list[Submitted]:
    """Orders that look new, as a transaction of one statement."""
    rows = tx.ask("submit_many", **_values(orders, [[]] * len(orders)))
    return [Submitted(int(job_id), True, order.move) for (job_id, _), order in zip(rows, orders, strict=True)]


def found_again(tx: Tx, orders: Sequence[Order]) -> list[Submitted] | None:
    """What `submit_at_once` did, when its answer was lost; None if it did nothing."""
    moves = dict.fromkeys(order.move for order in orders)
    made = {
        move: sorted(int(row[0].removeprefix("job/")) for row in tx.run("submitted_by_move", move=move))
        for move in moves
    }
    # Drawn in the order of the request.
    return [Submitted(job_id, True, move) for move, ids in made.items() for job_id in ids] or None


@dataclass(frozen=True, slots=True)
class Wait:
    """One need of a job, and how it stands."""

    edge: Edge
    ended: End | None

    @property
    def met(self) -> bool:
        return satisfied(self.edge.wants, self.ended)


_wait = quick(Wait)


def submit_many(tx: PostgresTx, orders: Sequence[Order], new: bool = False) -> list[Submitted]:
    """All of them, in their order. If they are said to be `new`, a known key refuses them all."""
    answers: list[Submitted] = []
    for travels, run in itertools.groupby(orders, lambda order: _travels(order.job)):
        if travels:
            answers += _submit_together(tx, list(run), new)
        else:
            answers += [submit_one(tx, order.job, order.move, order.acting) for order in run]
    return answers


def _is_plain(job: NewJob) -> bool:
    return job.parent is None and job.line is None and not job.needs


def _travels(job: NewJob) -> bool:
    return fits(job.key) and fits(job.task)


def _submit_together(tx: PostgresTx, orders: Sequence[Order], new: bool) -> list[Submitted]:
    statement = "submit_many" if new else _statement(orders)
    waits = _waits(tx, orders)
    parts = (
        _values(orders[start : start + MOST], waits[start : start + MOST]) for start in range(0, len(orders), MOST)
    )
    # While the server writes one part, the next is put together here.
    rows = tx.stream(statement, parts) if len(orders) > MOST else tx.run(statement, **next(parts))
    answers = [_submitted(job_id, is_new, order.move) for (job_id, is_new), order in zip(rows, orders, strict=True)]
    if not all(_is_plain(order.job) for order in orders):
        _take_their_places(tx, orders, answers, waits)
    return answers if all(answer.new for answer in answers) else _with_earlier(tx, orders, answers)


def _take_their_places(
    tx: PostgresTx, orders: Sequence[Order], answers: Sequence[Submitted], waits: Sequence[list[Wait]]
) -> None:
    """Among those that count them, those that they wait for, and those on their line."""
    children = Counter(
        order.job.parent
        for order, answer in zip(orders, answers, strict=True)
        if order.job.parent is not None and answer.new and order.job.machine.end(order.job.start()) is None
    )
    for parent in sorted(children):
        graph.count_child(tx, parent, children[parent])
    new = [made for made in map(_Made, orders, answers, waits) if made.answer.new]
    _draw_edges(tx, new)
    _settle_in(tx, new)


def _waits(tx: PostgresTx, orders: Sequence[Order]) -> list[list[Wait]]:
    """What each waits for. The targets are locked, in order, before anything is counted: none ends meanwhile."""
    targets = sorted({edge.on for order in orders for edge in order.job.needs})
    if not targets:
        return [[]] * len(orders)
    ends: dict[int, End | None] = {row[0]: row[1] for row in tx.run("share_jobs", ids=numbers(targets))}
    if len(ends) < len(targets):
        _must_be_there_already(tx, [order.job for order in orders], ends)
    return [
        [_wait(edge, ends.get(edge.on)) for edge in sorted(order.job.needs, key=lambda edge: edge.on)]
        for order in orders
    ]


def _must_be_there_already(tx: PostgresTx, jobs: Sequence[NewJob], there: Container[int]) -> None:
    """Of jobs whose needs are gone: those that were made when these were there. Their keys will answer with them."""
    for job in jobs:
        gone = [edge.on for edge in job.needs if edge.on not in there]
        if gone and not (
            job.key is not None and tx.run("job_of_key", kind=job.kind, key=job.key, within=job.key_within)
        ):
            raise BadInput(f"there is no job {min(gone)} to wait for", code="job.needs", where="job needs")


@dataclass(frozen=True, slots=True)
class _Made:
    """A job that is there now."""

    order: Order
    answer: Submitted
    waits: Sequence[Wait]

    @property
    def is_in_vain(self) -> bool:
        return any(wait.ended and not wait.met and wait.edge.otherwise == "skip" for wait in self.waits)

    @property
    def is_ready_on_a_line(self) -> bool:
        job = self.order.job
        waits = job.delay > 0 or not all(wait.met for wait in self.waits)
        return job.line is not None and not waits and job.machine.is_working(job.start())


def _draw_edges(tx: PostgresTx, new: Sequence[_Made]) -> None:
    edges = [(made.answer.id, wait) for made in new for wait in made.waits]
    if not edges:
        return
    drawn = tx.run(
        "insert_edges",
        jobs=numbers(job for job, _ in edges),
        targets=numbers(wait.edge.on for _, wait in edges),
        wants=column([wait.edge.wants for _, wait in edges]),
        mets=numbers(int(wait.met) for _, wait in edges),
        otherwises=column([wait.edge.otherwise for _, wait in edges]),
    )
    if len(drawn) != len(edges):
        raise swallowed()


def _settle_in(tx: PostgresTx, new: Sequence[_Made]) -> None:
    """Those of which something comes at once."""
    ready = [made.answer.id for made in new if made.is_ready_on_a_line]
    if ready:
        tx.run("lock_lines", ids=numbers(ready))
    moved = set(contested(tx, ready))
    for made in new:
        if made.is_in_vain or made.answer.id in moved:
            settle_in(tx, made.answer.id, made.order.job, [(wait.edge, wait.met) for wait in made.waits])


def contested(tx: PostgresTx, ids: Sequence[int]) -> list[int]:
    """Of jobs that have just become ready on lines, which are locked: those that supersede others, or are superseded
    already."""
    return [row[0] for row in tx.run("contested", ids=numbers(ids))] if ids else []


def _statement(orders: Sequence[Order]) -> str:
    return "submit_keyed" if any(order.job.key is not None for order in orders) else "submit_many"


def _values(orders: Sequence[Order], waits: Sequence[list[Wait]]) -> dict[str, Any]:
    shapes = Shapes()
    shape_of = [shapes.number(order) for order in orders]
    jobs = [order.job for order in orders]
    facts = [kept_text(job.facts, "job facts") for job in jobs] if any(job.facts for job in jobs) else []
    moves = [order.move for order in orders] if any(order.move != orders[0].move for order in orders) else []
    return {
        "shapes": shapes.text(),
        "numbers": numbers(shape_of),
        "keys": column([job.key for job in jobs]),
        "payloads": column([kept_text(job.payload, "job payload") for job in jobs]),
        "facts": column(facts),
        "details": column([shapes.own_detail(job, shape) for job, shape in zip(jobs, shape_of, strict=True)]),
        "move": orders[0].move,
        "moves": column(moves),
        "unmets": numbers(sum(not wait.met for wait in needs) for needs in waits) if any(waits) else None,
        "tasks": column([job.task for job in jobs]),
        "positions": numbers(job.position for job in jobs) if any(job.position for job in jobs) else None,
    }


def _with_earlier(tx: PostgresTx, orders: Sequence[Order], answers: list[Submitted]) -> list[Submitted]:
    """Put the jobs that had these keys before in the place of those that were not made."""
    known = [order.job for order, answer in zip(orders, answers, strict=True) if not answer.new]
    earlier: dict[tuple[str, str | None, str], Job] = {
        (job.kind, job.key, within): job
        for job, within in ((job_from(row[:-1]), row[-1]) for row in tx.run("jobs_by_key", **_keys(known)))
    }
    made_by = tx.run("first_moves", subjects=[job.subject for job in earlier.values()])
    moves: dict[str, str] = {subject: move for subject, move in made_by}
    return [
        answer
        if answer.new
        else _one_earlier(tx, order, earlier.get((order.job.kind, order.job.key, order.job.key_within)), moves)
        for order, answer in zip(orders, answers, strict=True)
    ]


def _one_earlier(tx: PostgresTx, order: Order, earlier: Job | None, moves: Mapping[str, str]) -> Submitted:
    if earlier is None:  # deleted since
        return submit_one(tx, order.job, order.move, order.acting)
    return the_earlier(order.job, earlier, moves.get(earlier.subject, ""))

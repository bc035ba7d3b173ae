"""Submitting many jobs in one statement.

Jobs with needs, or on a line, go the common way, one by one, because each must look at others first. All the
rest differ from their neighbours in little: what they share is a *shape* and travels once.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from custody.model.job import Job, NewJob
from custody.stores import graph
from custody.stores.postgres.transaction import PostgresTx
from custody.stores.postgres.wire import column, fits, numbers
from custody.stores.rows import Tx, dumps, job_from
from custody.stores.submit import Submitted, columns, first_detail, submit_one, the_earlier

MOST = 1000
"""Jobs in one statement; more are sent in several."""


@dataclass(frozen=True, slots=True)
class Order:
    """A job to be submitted, in whose name, and by which move."""

    job: NewJob
    move: str
    agent: str


def is_one_statement(orders: Sequence[Order]) -> bool:
    """Nothing else has to be looked at or counted, so that one statement can be the whole transaction."""
    keyed = sum(order.job.key is not None for order in orders)
    alone = all(order.job.parent is None and _travels(order.job) for order in orders)
    return alone and 0 < len(orders) <= MOST and (not keyed or len(orders) == 1)


def submit_at_once(tx: PostgresTx, orders: Sequence[Order]) -> list[Submitted]:
    rows = tx.run(_statement(orders), **_values(orders))
    return [Submitted(job_id, new) for job_id, new in rows]


def found_again(tx: Tx, orders: Sequence[Order]) -> list[Submitted] | None:
    """What `submit_at_once` did, when its answer was lost; None if it did nothing."""
    moves = dict.fromkeys(order.move for order in orders)
    rows = [row for move in moves for row in tx.run("submitted_by_move", move=move)]
    return [Submitted(int(subject.removeprefix("job/")), True) for (subject,) in rows] or None


def submit_many(tx: PostgresTx, orders: Sequence[Order]) -> list[Submitted]:
    """All of them, in their order."""
    answers: list[Submitted] = []
    for travels, run in itertools.groupby(orders, lambda order: _travels(order.job)):
        if travels:
            answers += _submit_together(tx, list(run))
        else:
            answers += [submit_one(tx, order.job, order.move, order.agent) for order in run]
    return answers


def _travels(job: NewJob) -> bool:
    return not job.needs and job.line is None and fits(job.key)


def _submit_together(tx: PostgresTx, orders: Sequence[Order]) -> list[Submitted]:
    statement = _statement(orders)
    parts = (_values(orders[start : start + MOST]) for start in range(0, len(orders), MOST))
    # While the server writes one part, the next is put together here.
    rows = tx.stream(statement, parts) if len(orders) > MOST else tx.run(statement, **next(parts))
    answers = [Submitted(job_id, new) for job_id, new in rows]
    children = Counter(
        order.job.parent
        for order, answer in zip(orders, answers, strict=True)
        if order.job.parent is not None and answer.new and order.job.machine.end(order.job.start()) is None
    )
    for parent in sorted(children):
        graph.count_child(tx, parent, children[parent])
    return answers if all(answer.new for answer in answers) else _with_earlier(tx, orders, answers)


def _statement(orders: Sequence[Order]) -> str:
    return "submit_keyed" if any(order.job.key is not None for order in orders) else "submit_many"


def _values(orders: Sequence[Order]) -> dict[str, Any]:
    shapes = _Shapes()
    shape_of = [shapes.number(order) for order in orders]
    jobs = [order.job for order in orders]
    facts = [dumps(job.facts, "job facts") for job in jobs] if any(job.facts for job in jobs) else []
    moves = [order.move for order in orders] if any(order.move != orders[0].move for order in orders) else []
    return {
        "shapes": shapes.text(), "numbers": numbers(shape_of), "keys": column([job.key for job in jobs]),
        "payloads": column([dumps(job.payload, "job payload") for job in jobs]), "facts": column(facts),
        "details": column([_own_detail(job) for job in jobs]), "move": orders[0].move, "moves": column(moves),
    }  # fmt: skip


def _with_earlier(tx: PostgresTx, orders: Sequence[Order], answers: list[Submitted]) -> list[Submitted]:
    """Put the jobs that had these keys before in the place of those that were not made."""
    known = [order.job for order, answer in zip(orders, answers, strict=True) if not answer.new]
    rows = tx.run("jobs_by_key", kinds=[job.kind for job in known], keys=[job.key for job in known])
    earlier: dict[tuple[str, str | None], Job] = {(job.kind, job.key): job for job in map(job_from, rows)}
    return [
        answer if answer.new else _one_earlier(tx, order, earlier.get((order.job.kind, order.job.key)))
        for order, answer in zip(orders, answers, strict=True)
    ]


def _one_earlier(tx: PostgresTx, order: Order, earlier: Job | None) -> Submitted:
    if earlier is None:  # deleted since
        return submit_one(tx, order.job, order.move, order.agent)
    return the_earlier(order.job, earlier)


def _own_detail(job: NewJob) -> str | None:
    """What the first event says, where it is not what its shape says."""
    return dumps(first_detail(job)) if job.key or job.facts else None


class _Shapes:
    """The distinct shapes of a request, numbered as they come."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}
        self._rows: list[dict[str, object]] = []

    def number(self, order: Order) -> int:
        job = order.job
        shape = (
            job.kind, job.start(), job.machine.name, job.lane, job.place, job.collection, job.priority, job.delay,
            job.parent, job.open, job.when_empty, order.agent,
        )  # fmt: skip
        number = self._numbers.get(shape)
        if number is None:
            number = self._numbers[shape] = len(self._rows)
            common = {name: value for name, value in columns(job, 0, "").items() if name in _SHAPE}
            detail = dumps(first_detail(replace(job, key=None, facts={})))
            self._rows.append(common | {"number": number, "agent": order.agent, "detail": detail})
        return number

    def text(self) -> str:
        return json.dumps(self._rows, ensure_ascii=False)


_SHAPE = frozenset(
    ("kind", "state", "runnable", "ended", "lane", "place", "collection", "priority", "delay", "parent", "open",
     "when_empty")
)  # fmt: skip

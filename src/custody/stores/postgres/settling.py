"""Settling many jobs: one statement for all that make the same move, then the news for those who wait.

The rules are those of `moves.settle`; only the travelling differs. First every row and its event, then, in later
statements that see what was committed while we waited for locks, edges, waiters and parents. What is rare goes
the common way, job by job: administrators' moves, a second word about the same job, items, lines.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from custody.model.job import Answer, Change, Job
from custody.stores import graph, items, moves
from custody.stores.postgres.recording import record_many
from custody.stores.postgres.submitting import Order, submit_many
from custody.stores.postgres.transaction import PostgresTx
from custody.stores.postgres.wire import column, fits, numbers
from custody.stores.rows import Row, dumps, job_from
from custody.stores.submit import microseconds

Shape = tuple[Any, ...]


def settle_many(tx: PostgresTx, changes: Sequence[Change]) -> list[Answer]:
    """Each is done or refused by itself; the answers are in the order of the changes."""
    first: dict[int, Change] = {}
    for change in changes:
        first.setdefault(change.id, change)
    together = {job_id: change for job_id, change in first.items() if _travels(change)}
    moved = _write_rows(tx, list(together.values()))
    _follow(tx, [(change, moved[change.id]) for change in together.values() if change.id in moved])
    return [_answer(tx, change, together.get(change.id) is change, moved.get(change.id)) for change in changes]


def _travels(change: Change) -> bool:
    removed_at_work = change.remove and not change.ended
    alone = change.retries or change.needs or removed_at_work
    return change.token is not None and fits(change.move) and not alone


def _answer(tx: PostgresTx, change: Change, travelled: bool, row: Row | None) -> Answer:
    if not travelled:
        return moves.settle(tx, change)
    return moves.explain_refusal(tx, change) if row is None else Answer(change.id, True, row[1])


# The rows


def _write_rows(tx: PostgresTx, changes: Sequence[Change]) -> dict[int, Row]:
    """The rows that were moved, as (id, token, open, parent, line), by id."""
    groups: dict[Shape, list[Change]] = defaultdict(list)
    for change in changes:
        groups[_shape(change)].append(change)
    if len(groups) > 1:
        tx.run("lock_jobs", ids=numbers(change.id for change in changes))
    return {row[0]: row for group in groups.values() for row in _write_group(tx, group)}


def _shape(change: Change) -> Shape:
    return (
        change.frm, change.to, change.type, change.outcome, change.agent, change.runnable, change.ended, change.delay,
        change.priority, change.lane, change.place, change.last_passed, change.attempts, change.open, change.code,
        change.facts is None,
    )  # fmt: skip


def _write_group(tx: PostgresTx, group: list[Change]) -> list[Row]:
    group.sort(key=lambda change: change.id)
    first = group[0]
    return tx.run(
        "settle_many", ids=numbers(change.id for change in group),
        tokens=numbers(change.token or 0 for change in group), moves=column([change.move for change in group]),
        detail=_common_detail(first), details=column([_own_detail(change) for change in group]),
        facts=None if first.facts is None else column([dumps(change.facts or {}) for change in group]),
        type=first.type, outcome=first.outcome, agent=first.agent, from_state=first.frm, to_state=first.to,
        runnable=int(first.runnable), ended=first.ended, priority=first.priority, lane=first.lane, place=first.place,
        last_passed=first.last_passed, code=first.code, retries=0, open=first.open, attempts=first.attempts,
        delay=microseconds(first.delay),
    )  # fmt: skip


def _own_detail(change: Change) -> str | None:
    """What the event says, where it says more than the move."""
    return dumps(moves.detail(change, 0)) if change.detail or change.keep else None


def _common_detail(change: Change) -> str:
    return dumps(moves.detail(replace(change, detail={}, keep={}), 0))


# What comes of them


def _follow(tx: PostgresTx, moved: Sequence[tuple[Change, Row]]) -> None:
    """As `moves.follow`, in the same order: removals, new jobs, items, those who waited, parents."""
    removed = [change.id for change, _ in moved if change.remove]  # first: their keys are free for what follows
    if removed:
        tx.run("forget_many", ids=numbers(removed))
    orders = [Order(job.checked(), change.move, change.agent) for change, _ in moved for job in change.then]
    if orders:
        submit_many(tx, orders)
    record_many(tx, [(change.items, change.events, change.agent) for change, _ in moved])
    for change, _ in moved:
        if change.look:
            items.look_again(tx, *change.look)
    _tell(tx, moved)
    for change, (job_id, _, still_open, _, line) in moved:
        if line is not None and not change.ended and change.frm != change.to:
            graph.became_ready(tx, _locked(tx, job_id))
        if change.open and still_open == 0:
            graph.leave_when_empty(tx, job_id)


def _tell(tx: PostgresTx, moved: Sequence[tuple[Change, Row]]) -> None:
    """Tell everyone who waited for one of these ends, and the parents."""
    ends: dict[str, list[int]] = defaultdict(list)
    for change, _ in moved:
        if change.ended:
            ends[change.ended].append(change.id)
    if not ends:
        return
    met: Counter[int] = Counter()
    in_vain: set[int] = set()
    for ended, ids in ends.items():
        for job_id, is_met in tx.run("tell_many", targets=numbers(sorted(ids)), ended=ended):
            if is_met:
                met[job_id] += 1
            else:
                in_vain.add(job_id)
    news = graph.News()
    _count_down(tx, met, news)
    for change, _ in moved:
        if change.ended and change.id in in_vain:
            graph.disappoint(tx, change.id, change.ended, news)
    news.children.subtract(row[3] for change, row in moved if change.ended and row[3] is not None)
    graph.spread(tx, news)


def _count_down(tx: PostgresTx, met: Counter[int], news: graph.News) -> None:
    if not met:
        return
    waiters = sorted(met)
    rows = tx.run("count_down_many", ids=numbers(waiters), bys=numbers(met[waiter] for waiter in waiters))
    for job_id, unmet, ended, line in sorted(rows, key=lambda row: row[0]):
        # All others are simply ready now, or still wait.
        if ended == "skipped" or (line is not None and not unmet):
            graph.after_count(tx, _locked(tx, job_id), news)


def _locked(tx: PostgresTx, job_id: int) -> Job:
    return job_from(tx.run("lock_job", id=job_id)[0])

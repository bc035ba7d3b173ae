"""Settling many jobs: one statement for all that make the same move, then the news for those who wait.

The rules are those of `claim.settle`; only the travelling differs. First every row and its event, then, in later
statements that see what was committed while we waited for locks, edges, waiters and parents. What is rare goes
the common way, job by job: administrators' moves, a second word about the same job, items, lines.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from custody.kernel.model.job import Answer, Change, Claim, Job
from custody.kernel.model.quick import quick
from custody.kernel.stores.rows import Row, Tx, event_text, job_from
from custody.kernel.stores.rules import claim, graph, items
from custody.kernel.stores.rules.submit import MICROSECONDS


class Many(Protocol):
    """How a database writes many rows in one statement, within one transaction."""

    @property
    def tx(self) -> Tx: ...

    def carries(self, change: Change) -> bool:
        """Whether its words can travel with those of others."""
        ...

    def lock(self, ids: Sequence[int]) -> None:
        """Several statements are about to write these rows."""
        ...

    def move(self, group: Sequence[Change]) -> Sequence[Row]:
        """One and the same move of them all, with its events; (id, token, open, parent, line) of those that moved."""
        ...

    def forget(self, ids: Sequence[int]) -> None: ...

    def submit(self, changes: Sequence[Change]) -> None:
        """The jobs that come of these changes."""
        ...

    def record(self, changes: Sequence[Change]) -> None:
        """The items that these changes make or change, and what they say happened to items."""
        ...

    def tell(self, ids: Sequence[int], ended: str) -> Sequence[Row]:
        """(waiter, 1) for each need that was met, (target, 0) where somebody is left who asked to be skipped."""
        ...

    def count_down(self, met: Mapping[int, int]) -> Sequence[Row]:
        """(id, unmet, ended, line) of the waiters after so many of their needs were met; those that are ready on a
        line now have it locked, where rows are locked."""
        ...

    def contested(self, ids: Sequence[int]) -> Sequence[int]:
        """Of jobs on lines that have just become ready: those that supersede others, or are superseded already."""
        ...

    def claim_onward(self, ids: Sequence[int], lease: int, **values: str) -> Sequence[Row]:
        """The first of these that is ready in a queue, claimed; none while a collection or a batch is held, since
        then the common way has to ask whether it is of it."""
        ...


Shape = tuple[Any, ...]
_done, _claim = quick(Answer), quick(Claim)


def settle_many(many: Many, changes: Sequence[Change]) -> list[Answer]:
    """Each is done or refused by itself; the answers are in the order of the changes."""
    first: dict[int, Change] = {}
    for change in changes:
        first.setdefault(change.id, change)
    together = {job_id: change for job_id, change in first.items() if _travels(change) and many.carries(change)}
    moved = _write_rows(many, list(together.values()))
    done = [(change, moved[change.id]) for change in together.values() if change.id in moved]
    next_ones = _go_on(many, [change for change, _ in done if change.onward], _follow(many, done))
    return [
        _answer(many.tx, change, moved.get(change.id), next_ones.get(change.id))
        if together.get(change.id) is change
        else claim.settle(many.tx, change)
        for change in changes
    ]


def _travels(change: Change) -> bool:
    removed_at_work = change.remove and not change.ended
    alone = change.retries or change.needs or removed_at_work
    return change.token is not None and not alone


def _answer(tx: Tx, change: Change, row: Row | None, next_one: Claim | None) -> Answer:
    return claim.explain_refusal(tx, change) if row is None else _done(change.id, True, row[1], onward=next_one)


# The rows


def _write_rows(many: Many, changes: Sequence[Change]) -> dict[int, Row]:
    """The rows that were moved, by id."""
    groups: dict[Shape, list[Change]] = defaultdict(list)
    for change in changes:
        groups[_shape(change)].append(change)
    if len(groups) > 1:
        many.lock([change.id for change in changes])
    moved: dict[int, Row] = {}
    for group in groups.values():
        group.sort(key=lambda change: change.id)
        moved |= {row[0]: row for row in many.move(group)}
    return moved


def _shape(change: Change) -> Shape:
    return (
        change.frm,
        change.to,
        change.type,
        change.outcome,
        change.agent,
        change.runnable,
        change.ended,
        change.delay,
        change.priority,
        change.lane,
        change.place,
        change.last_passed,
        change.attempts,
        change.open,
        change.code,
        change.facts is None,
        change.remove,
    )


def own_detail(change: Change) -> str | None:
    """What the event says, where it says more than the move."""
    return event_text(claim.detail(change, 0)) if change.detail or change.keep else None


def common_detail(change: Change) -> str:
    return event_text(claim.detail(replace(change, detail={}, keep={}), 0))


# What comes of them


def _follow(many: Many, moved: Sequence[tuple[Change, Row]]) -> Sequence[int]:
    """As `claim.follow`, in the same order: removals, new jobs, items, those who waited, parents. Answers those who
    waited and need not any more."""
    tx = many.tx
    removed = [change.id for change, _ in moved if change.remove]  # first: their keys are free for what follows
    if removed:
        many.forget(removed)
    fruitful = [change for change, _ in moved if change.then]
    if fruitful:
        many.submit(fruitful)
    telling = [change for change, _ in moved if change.items or change.events]
    if telling:
        many.record(telling)
    for change, _ in moved:
        if change.look:
            items.look_again(tx, *change.look)
    ready = _tell(many, moved)
    for change, (job_id, _, still_open, _, line) in moved:
        if line is not None and not change.ended and change.frm != change.to:
            graph.became_ready(tx, _locked(tx, job_id))
        if change.open and still_open == 0:
            graph.leave_when_empty(tx, job_id)
    return ready


def _go_on(many: Many, changes: Sequence[Change], ready: Sequence[int]) -> dict[int, Claim]:
    """The next job of those who asked for it, by the one that they have ended."""
    claims: dict[int, Claim] = {}
    for change in changes if ready else ():
        assert change.onward is not None
        holder, lease = change.onward.holder, int(change.onward.seconds * MICROSECONDS)
        rows = many.claim_onward(ready, lease, queue=change.onward.queue, holder=holder, move=change.move)
        for job in map(job_from, rows):
            claims[change.id] = _claim(job, job.token, holder)
    return claims


def _tell(many: Many, moved: Sequence[tuple[Change, Row]]) -> Sequence[int]:
    """Tell everyone who waited for one of these ends, and the parents."""
    ends: dict[str, list[int]] = defaultdict(list)
    for change, _ in moved:
        if change.ended:
            ends[change.ended].append(change.id)
    if not ends:
        return ()
    met: Counter[int] = Counter()
    in_vain: set[int] = set()
    for ended, ids in ends.items():
        for job_id, is_met in many.tell(sorted(ids), ended):
            if is_met:
                met[job_id] += 1
            else:
                in_vain.add(job_id)
    news = graph.News()
    ready = _count_down(many, met, news)
    for change, _ in moved:
        if change.ended and change.id in in_vain:
            graph.disappoint(many.tx, change.id, change.ended, news)
    news.children.subtract(row[3] for change, row in moved if change.ended and row[3] is not None)
    graph.spread(many.tx, news)
    return ready


def _count_down(many: Many, met: Counter[int], news: graph.News) -> Sequence[int]:
    if not met:
        return ()
    waiters = sorted(many.count_down(met), key=lambda row: int(row[0]))
    ready_on_lines = [job_id for job_id, unmet, ended, line in waiters if line is not None and not unmet and not ended]
    moved = {job_id for job_id, _, ended, _ in waiters if ended == "skipped"} | set(many.contested(ready_on_lines))
    for job_id in sorted(moved):  # all others are simply ready now, or still wait
        graph.after_count(many.tx, _locked(many.tx, job_id), news)
    return [job_id for job_id, unmet, ended, _ in waiters if not unmet and not ended]


def _locked(tx: Tx, job_id: int) -> Job:
    return job_from(tx.run("lock_job", id=job_id)[0])

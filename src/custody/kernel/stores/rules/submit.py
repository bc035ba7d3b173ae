"""Submitting: a job, its edges and its first event, together.

Edges point at jobs that exist. Their targets are locked (shared, in the order of their ids) before needs are
counted, so a target cannot end between the count and the commit: no wake-up is ever lost.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from custody.errors import BadInput, KeyConflict, Unsafe
from custody.kernel.model.authority.acting import PROGRAM, Acting
from custody.kernel.model.graph import Edge, satisfied
from custody.kernel.model.job import Job, NewJob
from custody.kernel.model.names.job_keys import named
from custody.kernel.stores.rows import Tx, dumps, event_from, job_from, kept_text, loads
from custody.kernel.stores.rules.events import write_event
from custody.kernel.stores.rules.graph import became_ready, count_child, ended_how, skip

MICROSECONDS = 1_000_000
DELETED_AT_MOST = 20
"""Times that the job of a key may be deleted just when it is looked for."""


def microseconds(seconds: float) -> int:
    """Rounded up, so that the smallest delay is still one."""
    if not math.isfinite(seconds):
        raise BadInput(f"{seconds} seconds is no time", code="value.time")
    return math.ceil(seconds * MICROSECONDS)


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job's id, and whether this submit made it (or an earlier one with the same key). Id and move together are its
    *receipt*: after a failover that lost something an id may be given out again, but never with the same move."""

    id: int
    new: bool
    move: str = field(default="", compare=False)  # the one that made it


def submit(tx: Tx, jobs: Sequence[NewJob], move: str, acting: Acting = PROGRAM) -> list[Submitted]:
    """All of them, in their order. Children that wait for nothing are counted together, once for each parent."""
    answers: list[Submitted] = []
    for plain, run in groupby((job.checked() for job in jobs), _is_plain):
        group = list(run)
        if not plain:
            answers += [submit_one(tx, job, move, acting) for job in group]
            continue
        made = [_insert(tx, job, (), move, acting=acting) for job in group]
        children = Counter(_counts_for(job) for job, answer in zip(group, made, strict=True) if answer.new)
        for parent, count in sorted((parent, count) for parent, count in children.items() if parent is not None):
            count_child(tx, parent, count)
        answers += made
    return answers


def _is_plain(new: NewJob) -> bool:
    """Nothing has to be looked at before it, and nothing comes of it but its row and its first event."""
    return new.line is None and not new.needs


def _counts_for(new: NewJob) -> int | None:
    """Whose open child it is."""
    return new.parent if new.machine.end(new.start()) is None else None


def submit_one(tx: Tx, new: NewJob, move: str, acting: Acting) -> Submitted:
    met = [(edge, _is_met(tx, new, edge)) for edge in sorted(new.needs, key=lambda edge: edge.on)]
    made = _insert(tx, new, met, move, acting=acting)
    parent = _counts_for(new)
    if made.new and parent is not None:
        count_child(tx, parent, +1)
    if made.new and _something_comes_of(new, met):
        settle_in(tx, made.id, new, met)
    return made


def _something_comes_of(new: NewJob, met: Sequence[tuple[Edge, bool]]) -> bool:
    """It is ready on its line, or waits for what may have ended otherwise and asked to be skipped then."""
    waits = [edge for edge, is_met in met if not is_met]
    return any(edge.otherwise == "skip" for edge in waits) or (new.line is not None and not waits and new.delay == 0)


def _insert(tx: Tx, new: NewJob, met: Sequence[tuple[Edge, bool]], move: str, acting: Acting) -> Submitted:
    unmet = sum(not is_met for _, is_met in met) + (new.delay > 0)
    tries = 0
    while not (rows := tx.run("insert_job", **columns(new, unmet, move, acting.by))):
        if (tries := tries + 1) > DELETED_AT_MOST:
            raise Unsafe(
                f"the database takes a job of kind {new.kind} with the key {new.key!r}, and there is none afterwards",
                code="store.swallowed",
                hint="does a trigger or a rule take rows away? `custody doctor` names those of PostgreSQL",
            )
        if earlier := tx.run(
            "job_of_key", kind=new.kind, key=new.key, within=new.key_within
        ):  # none, if it has been deleted since
            return the_earlier(new, job_from(earlier[0]), first_move(tx, job_from(earlier[0])))
    job_id = int(rows[0][0])
    for edge, is_met in met:
        tx.run(
            "insert_edge",
            job=job_id,
            target=edge.on,
            wants=edge.wants,
            otherwise=edge.otherwise,
            met=int(is_met),
        )
    write_event(
        tx,
        f"job/{job_id}",
        1,
        "submitted",
        outcome="none",
        agent=acting.agent,
        detail=first_detail(new),
        token=1,
        move=move,
    )
    return Submitted(job_id, True, move)


def add_needs(tx: Tx, job_id: int, needs: Sequence[Edge]) -> None:
    """A job that found out while being worked on what it must wait for; what is gone is not waited for."""
    in_vain: list[int] = []
    for edge in sorted(needs, key=lambda edge: edge.on):
        rows = tx.run("share_job", id=edge.on)
        met = not rows or satisfied(edge.wants, rows[0][0])
        added = tx.run(
            "need_more", job=job_id, target=edge.on, wants=edge.wants, otherwise=edge.otherwise, met=int(met)
        )
        if added and not met:
            tx.run("count_up", id=job_id, by=1)
            if edge.otherwise == "skip" and rows[0][0] is not None:
                in_vain.append(edge.on)
    if in_vain:
        skip(tx, job_from(tx.run("lock_job", id=job_id)[0]), f"needed job {in_vain[0]}, which had ended otherwise")


def _is_met(tx: Tx, new: NewJob, edge: Edge) -> bool:
    rows = tx.run("share_job", id=edge.on)
    if rows:
        return satisfied(edge.wants, rows[0][0])
    if new.key is not None and tx.run("job_of_key", kind=new.kind, key=new.key, within=new.key_within):
        return False  # the job was made when this need was still there; its key will answer with it
    raise BadInput(f"there is no job {edge.on} to wait for", code="job.needs", where="job needs")


def settle_in(tx: Tx, job_id: int, new: NewJob, met: Sequence[tuple[Edge, bool]]) -> None:
    """A need that has already failed skips the job now; a job with nothing to wait for may supersede now."""
    job = job_from(tx.run("lock_job", id=job_id)[0])
    if job.ended is not None:
        return  # another of the same request has superseded it
    for edge, is_met in met:
        if not is_met and edge.otherwise == "skip":
            ended = tx.run("share_job", id=edge.on)[0][0]
            if ended is not None:
                skip(tx, job, f"needed job {edge.on}, which {ended_how(ended)}")
                return
    became_ready(tx, job)


def first_move(tx: Tx, job: Job) -> str:
    """The move that made it, as its first event says; empty when that was erased."""
    rows = tx.run("events", subject=job.subject, after=0, limit=1)
    return event_from(rows[0]).move if rows else ""


def the_earlier(new: NewJob, earlier: Job, move: str) -> Submitted:
    """The job that has this key already, if it was submitted for the same."""
    if dict(earlier.payload) != loads(dumps(new.payload)):
        raise KeyConflict(
            f"{named(new.key)} was used before, for job {earlier.id} with another payload",
            hint="a new piece of work needs a new key",
            job=earlier.id,
        )
    return Submitted(earlier.id, False, move)


def columns(new: NewJob, unmet: int, move: str, by: str) -> dict[str, Any]:
    state = new.start()
    return {
        "kind": new.kind,
        "key": new.key,
        "state": state,
        "runnable": int(new.machine.is_working(state)),
        "ended": new.machine.end(state),
        "lane": new.lane,
        "place": new.place,
        "collection": new.collection,
        "priority": new.priority,
        "unmet": unmet,
        "delay": microseconds(new.delay),
        "payload": kept_text(new.payload, "job payload"),
        "facts": kept_text(new.facts, "job facts"),
        "parent": new.parent,
        "open": new.open,
        "when_empty": new.when_empty,
        "line": new.line,
        "task": new.task,
        "position": new.position,
        "supersedes": int(new.supersedes),
        "move": move,
        "by": by,
    }


def first_detail(new: NewJob) -> dict[str, Any]:
    state = new.start()
    detail: dict[str, Any] = {
        "kind": new.kind,
        "state": state,
        "ended": new.machine.end(state),
        "priority": new.priority,
        "retries": 0,
        "last_passed": None,
        "lane": new.lane,
        "place": new.place,
    }
    more = {
        "key": new.key,
        "parent": new.parent,
        "facts": dict(new.facts),
        "needs": [edge.on for edge in new.needs],
    }
    return detail | {name: value for name, value in more.items() if value}

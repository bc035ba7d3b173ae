"""What workers and administrators do to a store, in the words the tests use.

The engine turns outcomes into changes; here the tests do it themselves, from the same tables, so that the store
is tested without the engine.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from custody.kernel.model.job import Answer, Change, Claim, Job, NewJob
from custody.kernel.model.machine import WORK, Machine, Move
from custody.kernel.model.trigger import Trigger
from custody.kernel.stores import Store
from custody.kernel.stores.rows import dumps

PARCEL = "parcel"

TOLD = {
    "pass": ("passed", "success"),
    "fail": ("failed", "failure"),
    "wait": ("postponed", "none"),
    "hold": ("held", "none"),
    "release": ("released", "none"),
    "cancel": ("cancelled", "none"),
    "supersede": ("superseded", "none"),
    "resume": ("resumed", "none"),
    "accept": ("accepted", "warning"),
}

BATCH = Machine(
    "batch",
    "pending",
    (
        Move("pending", "pass", "processing"),
        Move("pending", "hold", "held", by="admin"),
        Move("held", "release", "pending", by="admin"),
        Move("processing", "pass", "reporting", by="engine"),
        Move("reporting", "pass", "completed"),
    ),
    frozenset({"pending", "reporting"}),
    {"completed": "passed"},
)

STEPS = Machine(
    "steps",
    "fetching",
    (
        Move("fetching", "pass", "storing"),
        Move("fetching", "fail", "failed"),
        Move("storing", "pass", "done"),
        Move("storing", "fail", "failed"),
        Move("failed", "resume", "storing", by="admin"),
    ),
    frozenset({"fetching", "storing"}),
    {"done": "passed", "failed": "failed"},
)

_moves = itertools.count(1)


def new_move() -> str:
    return f"move-{next(_moves)}"


def queue_of(kind: str = PARCEL, state: str = "queued", place: str = "", lane: str = "") -> str:
    return f"{kind}|{state}|{place}|{lane}"


def submit(store: Store, kind: str = PARCEL, **more: Any) -> int:
    return store.queue.submit_one(NewJob(kind, **more)).id


def take(
    store: Store,
    kind: str = PARCEL,
    *,
    holder: str = "ann",
    seconds: float = 30,
    limit: int = 1,
    state: str = "queued",
    place: str = "",
    lane: str = "",
) -> list[Claim]:
    return store.queue.claim([queue_of(kind, state, place, lane)], holder, seconds, limit)


def take_one(store: Store, kind: str = PARCEL, **more: Any) -> Claim:
    (claim,) = take(store, kind, **more)
    return claim


def take_job(store: Store, job: int, holder: str = "ann", seconds: float = 30) -> Claim:
    (claim,) = store.queue.claim_jobs([job], holder, seconds)
    return claim


def take_over(store: Store, kind: str = PARCEL, *, holder: str = "bo", seconds: float = 30) -> Claim | None:
    return next(iter(store.queue.claim_expired([f"{kind}|"], holder, seconds)), None)


def worked(
    claim: Claim, signal: str, machine: Machine = WORK, keep: Mapping[str, Any] | None = None, **more: Any
) -> Change:
    """What a worker settles: `signal` is of the machine, or "wait" to stay where it is."""
    given: dict[str, Any] = {"agent": claim.holder, **more}
    if keep is not None:
        given |= {"keep": keep, "facts": {**claim.job.facts, **keep}}
    if signal == "pass":
        given.setdefault("last_passed", claim.job.state)
    if signal == "wait":
        given.setdefault("attempts", -1)
    return _change(claim.job, signal, machine, token=claim.token, claimed=claim.move, **given)


def moved(job: Job, signal: str, machine: Machine = WORK, **more: Any) -> Change:
    """What an administrator does."""
    if signal == "resume":
        more.setdefault("retries", 1)
    return _change(job, signal, machine, token=None, **{"agent": "admin", **more})


def settle(store: Store, claim: Claim, signal: str = "pass", machine: Machine = WORK, **more: Any) -> Answer:
    return store.queue.settle([worked(claim, signal, machine, **more)])[0]


def order(store: Store, job: int, signal: str, machine: Machine = WORK, **more: Any) -> Answer:
    return store.queue.move(moved(store.queue.get(job), signal, machine, **more))


def finish(store: Store, job: int, signal: str = "pass") -> None:
    """Claim this very job and settle it."""
    assert settle(store, take_job(store, job), signal).done


def state(store: Store, job: int) -> str:
    return store.queue.get(job).state


def states(store: Store, *jobs: int) -> list[str]:
    return [state(store, job) for job in jobs]


def is_ready(store: Store, job: int) -> bool:
    """As the claim itself sees it: something to do, nothing to wait for, nobody at it."""
    row = store.queue.get(job)
    return row.runnable and not row.unmet and row.holder is None


def types(store: Store, job: int) -> list[str]:
    return [event.type for event in store.records.events(f"job/{job}")]


def codes(store: Store, job: int, place: str = "") -> list[str]:
    return [reason.code for reason in store.queue.why(job, place)]


def subscribe(store: Store, robot: str, trigger: Trigger, **facts: Any) -> None:
    text = dumps(trigger.as_dict())
    store.db.write(lambda tx: tx.run("set_subscription", robot=robot, trigger=text, facts=dumps(facts)))


def execute(tx: Any, sql: str, values: Mapping[str, Any] | None = None) -> list[Any]:
    """Any statement at all, in this transaction: what no user of the store can do, but its tests must."""
    if hasattr(tx, "statements"):  # PostgreSQL
        cursor = tx.db.execute(sql, values)
        return list(cursor) if cursor.description else []
    return list(tx._db.execute(sql, values))


def _change(job: Job, signal: str, machine: Machine, *, token: int | None, **more: Any) -> Change:
    to = job.state if signal == "wait" else machine.next(job.state, signal, job.last_passed)
    type_, outcome = TOLD[signal]
    given: dict[str, Any] = {"move": new_move(), "code": "broken" if signal == "fail" else None, **more}
    return Change(
        job.id,
        job.state,
        to,
        type_,
        outcome,
        runnable=machine.is_working(to),
        ended=machine.end(to),
        token=token,
        **given,
    )

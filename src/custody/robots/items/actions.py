"""What a person may do to an item on the line: each is one event, with who and why, and `undo` takes it back.

override    a failure counts as a success from now on
stop        no robot takes the item until this is undone
approve     the event that only a person can give, for robots that wait for it (or, rejected, as a failure)
prioritise  the item goes first, or last, in the queues of all its robots
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from custody.errors import BadInput, NotFound, Refused
from custody.kernel.model.event import NewEvent, Outcome
from custody.kernel.model.job import HIGHEST, LOWEST
from custody.kernel.model.names.reserved import PRIORITY
from custody.kernel.model.trigger import STOPPED
from custody.kernel.stores import Store
from custody.kernel.stores.rows import Tx, latest_from
from custody.kernel.stores.rules import items
from custody.robots.items.priority import PRIORITISED, jobs_of, set_priority
from custody.robots.items.restart import BY_PEOPLE, locked, registered

APPROVED = "approved"
T = TypeVar("T")


def override(store: Store, item_id: str, event: str, who: str, why: str) -> None:
    """Let a failed event count as a success. Only what failed can be overridden."""

    def work(tx: Tx) -> None:
        locked(tx, item_id)
        latest = latest_from(tx.run("latest", item=item_id)).get(event)
        if latest is None:
            raise NotFound(f"{event} has not happened to {item_id}", code="event.unknown", hint="`custody item show`")
        if latest.outcome != "failure":
            raise Refused(f"{event} did not fail on {item_id}: it was a {latest.outcome}", code="event.not-failed")
        _append(
            tx, item_id, event, "success", who=who, detail={BY_PEOPLE: "override", "overrides": latest.seq, "why": why}
        )

    _do(store, work, why)


def stop(store: Store, item_id: str, who: str, why: str) -> list[str]:
    """No robot takes the item from now on; answers those that are at work on it and will finish."""

    def work(tx: Tx) -> list[str]:
        locked(tx, item_id)
        if STOPPED in latest_from(tx.run("latest", item=item_id)):
            raise Refused(
                f"{item_id} is stopped already", code="item.stopped", hint="`custody robot undo` lets it go on"
            )
        _append(tx, item_id, STOPPED, "none", who=who, detail={BY_PEOPLE: "stop", "why": why})
        return [job.kind.removeprefix("robot/") for job, _ in jobs_of(tx, item_id) if job.holder]

    return _do(store, work, why)


def approve(store: Store, item_id: str, event: str, who: str, why: str, rejected: bool = False) -> list[str]:
    """Give the event that robots wait for; answers the events they record, so that a mistyped name is found out."""

    def work(tx: Tx) -> list[str]:
        locked(tx, item_id)
        steps = registered(tx)
        if event in {step.event for step in steps}:
            raise Refused(
                f"{event} is recorded by a robot", code="event.robots", hint="`custody robot override` for a failure"
            )
        waiting = [step.event for step in steps if event in step.when.past | step.when.failed]
        if not waiting:
            asked = sorted({name for step in steps for name in step.when.past} - {step.event for step in steps})
            raise Refused(
                f"no robot waits for {event}",
                code="event.unwanted",
                hint=f"they wait for: {', '.join(asked) or 'none'}",
            )
        outcome: Outcome = "failure" if rejected else "success"
        _append(tx, item_id, event, outcome, who=who, detail={BY_PEOPLE: "approve", "why": why})
        return waiting

    return _do(store, work, why)


def prioritise(store: Store, item_id: str, priority: int, who: str, why: str) -> int:
    """Low goes first. Answers how many ready jobs have moved in their queues; later ones are made so."""
    if not HIGHEST <= priority <= LOWEST:
        raise BadInput(f"priority {priority} is outside 0 to 99", code="job.field", hint="low goes first")

    def work(tx: Tx) -> int:
        item = locked(tx, item_id)
        told = {
            BY_PEOPLE: "prioritise",
            "priority": priority,
            "was": {"priority": item.detail.get(PRIORITY)},
            "why": why,
        }
        _append(tx, item_id, PRIORITISED, "none", who=who, detail=told)
        return set_priority(tx, item, item.seq + 1, priority, who=who)

    return _do(store, work, why)


def _do(store: Store, work: Callable[[Tx], T], why: str) -> T:
    if not why.strip():
        raise BadInput("a reason is needed, for the history", code="why.empty", hint="--why 'the scanner was dirty'")
    answer = store.db.write(work)
    store.wake()
    return answer


def _append(tx: Tx, item_id: str, type_: str, outcome: Outcome, who: str, detail: Mapping[str, Any]) -> None:
    items.append(tx, NewEvent(item=item_id, type=type_, outcome=outcome, agent=who, detail=detail), who)

"""What must be true of a store at any moment, whatever has happened to those who use it.

The store's own recount says whether derived values and folded histories agree with the rows. Here is the rest: the
numbers in brackets are the invariants' names in the tests' messages.

    E1   a job is in exactly one state, and what its row says about that state is what the table says
    E2   each token is used for at most one move, and tokens rise
    E4   an end is final, unless someone's recorded act brings the job back
    E5   nothing that could go on stands still
    E13  the row is what its history says (and whatever else the recount looks at)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from custody.kernel.model.event import Event
from custody.kernel.model.job import Job
from custody.kernel.model.machine import PLAIN, Machines
from custody.kernel.stores import Store
from custody.kernel.stores.fsck import recount

IN_BETWEEN = frozenset({"kept", "revoked"})
"""Events that leave the token as it is: said under a claim, not by a move."""
CONFIRMED = ("cancelled", "superseded")
AFTER_THE_END = frozenset({"resumed", "asked", "accepted", "rearmed", "deleted", "prioritised"})


def audit(store: Store, machines: Machines = PLAIN) -> list[str]:
    """Everything that is wrong; an empty list when nothing is."""
    wrong = [f"E13 {fault}" for fault in recount(store)]
    for job in store.queue.every():
        events = list(store.records.all_events(job.subject))
        wrong += [f"{problem} (job {job.id})" for problem in (*of_row(job, machines), *of_events(events, job.token))]
    return wrong


def of_row(job: Job, machines: Machines = PLAIN) -> Iterator[str]:
    machine = machines.of(job.kind)
    if job.state not in set(machine.states()):
        yield f"E1 {job.state} is not a state of {machine.name}"
    if job.runnable != machine.is_working(job.state) or job.ended != machine.end(job.state):
        yield f"E1 {job.state} with runnable={job.runnable} and ended={job.ended}"
    if job.holder and (not job.runnable or job.unmet):
        yield f"E1 {job.holder} holds what cannot be claimed ({job.state}, {job.unmet} needs)"
    if job.due is not None and not job.unmet:
        yield "E1 its time is ahead and it can be claimed"
    if job.when_empty and job.open == 0 and job.holder is None and job.ended is None:
        yield "E5 its last child has ended and it has not moved on"


def of_events(events: Sequence[Event], token: int) -> Iterator[str]:
    yield from _numbers(events)
    yield from _tokens(events, token)
    yield from _ends(events)
    yield from _revoked(events)
    moves = [event.move for event in events if event.move]
    if len(set(moves)) < len(moves):
        yield "E2 one move was written twice"


def _numbers(events: Sequence[Event]) -> Iterator[str]:
    if [event.seq for event in events] != list(range(1, len(events) + 1)):
        yield f"E13 its events are numbered {[event.seq for event in events]}"
    if not events or events[0].type != "submitted":
        yield "E13 its history does not begin with its submission"


def _tokens(events: Iterable[Event], token: int) -> Iterator[str]:
    last = 0
    for event in events:
        rises = event.token >= last if event.type in IN_BETWEEN else event.token > last
        if not rises:
            yield f"E2 {event.type} was said with token {event.token} after {last}"
        last = event.token
    if last > token:
        yield f"E2 its row has token {token}, its last event {last}"


def _ends(events: Iterable[Event]) -> Iterator[str]:
    ended: object = None
    for event in events:
        if ended is not None and event.type not in AFTER_THE_END:
            yield f"E4 it was {event.type} after it had ended as {ended}"
        ended = event.detail.get("ended", ended)


def _revoked(events: Iterable[Event]) -> Iterator[str]:
    """Who was asked to stop may say only that it has."""
    asked = False
    for event in events:
        if asked and event.type not in (*CONFIRMED, "kept"):
            yield f"E4 it was asked to stop, and was {event.type}"
        asked = event.type == "revoked" or (asked and event.type == "kept")

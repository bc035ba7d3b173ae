"""Verifying the history from the dashboard: a job of its own, so that it survives whoever asked for it.

The keys come from a file beside the configuration, never from the store that they are to vouch for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from custody.errors import Refused
from custody.kernel.access.caller import Caller
from custody.kernel.engine.kinds import Kind
from custody.kernel.engine.work import Work
from custody.kernel.history.chain import Leaf
from custody.kernel.history.ledger import block_from, last_block, rows_of
from custody.kernel.history.sealer import Sealer
from custody.kernel.history.verify import Report, verify
from custody.kernel.model.event import Event
from custody.kernel.model.job import Filter, Job, NewJob
from custody.kernel.model.machine import Machines
from custody.kernel.model.outcome import Failed, Outcome, Passed, Wait
from custody.kernel.stores import Store
from custody.web.operations.makers import VERIFY_MAKER
from custody.web.queries import lists

KIND: Final = VERIFY_MAKER.kind
TELL_SECONDS: Final = 1.0
LOOK_EVERY: Final = 500  # events
MOST_FAULTS: Final = 50
SHOWN: Final = 5  # runs


class _Stopped(Exception):
    pass


def ask(store: Store, machines: Machines, caller: Caller) -> int:
    """Begin a verification; refused while one is under way."""
    going = [job for job in runs(store, machines, caller) if not job.ended]
    if going:
        raise Refused(f"job {going[0].id} is verifying already", code="verify.running", hint="wait for it")
    return store.queue.submit_one(VERIFY_MAKER.checked(NewJob(KIND, {"name": "verify the history"})), caller.acting).id


def runs(store: Store, machines: Machines, caller: Caller) -> Sequence[Job]:
    """The newest first."""
    return lists.newest_jobs(store, machines, caller, Filter(kind=KIND), before=lists.NEWEST, limit=SHOWN).rows


def kinds(store: Store, keeping: Sealer) -> Sequence[Kind]:
    return (Kind(KIND, lambda work: carry_out(work, store, keeping), at_once=1, maker=VERIFY_MAKER),)


def carry_out(work: Work, store: Store, keeping: Sealer) -> Outcome:
    if not keeping.keys:
        return Failed("verify.keys", "no public key is configured for this worker: [history] public in custody.toml")
    block = last_block(store.ledger)
    work.keep(total=block.total if block else 0, seen=0)
    try:
        rows = _told(work, rows_of(store.ledger))
        report = verify(rows, map(block_from, store.ledger.blocks()), keys=keeping.keys, heads=keeping.heads())
    except _Stopped:
        return Wait(0.1, "stopped half-way; it begins again")
    facts = result(report)
    if report.sound:
        return Passed({"sound": True, "events": report.events}, keep=facts)
    first = report.faults[0]
    return Failed(f"history.{first.kind}", f"{len(report.faults)} faults, first: {first}", keep=facts)


def _told(work: Work, rows: Iterator[tuple[Leaf | None, Event | None]]) -> Iterator[tuple[Leaf | None, Event | None]]:
    """The rows as they are, while saying now and then how far one has come."""
    told = time.monotonic()
    for seen, row in enumerate(rows, start=1):
        if seen % LOOK_EVERY == 0:
            if work.stopped:
                raise _Stopped
            if time.monotonic() - told > TELL_SECONDS:
                work.keep(seen=seen)
                told = time.monotonic()
        yield row


def result(report: Report) -> dict[str, Any]:
    return {
        "sound": report.sound,
        "events": report.events,
        "unsealed": report.unsealed,
        "blocks": report.blocks,
        "seen": report.events,
        "witnessed": report.witnessed,
        "limits": report.limits,
        "faults": [{"where": fault.where, "what": fault.message} for fault in report.faults[:MOST_FAULTS]],
        "count": len(report.faults),
        "erased": len(report.erased),
    }

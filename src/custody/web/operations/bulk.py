"""Bulk actions: one thing done to everything a filter matches, by a job of its own.

It survives whoever asked for it: the job remembers how far it came, goes on after a crash, and keeps what was
refused and why. Jobs that are made after it was asked for are not its business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from custody.errors import BadInput, CustodyError, KeyConflict, NotFound, Refused
from custody.kernel.access.caller import Caller
from custody.kernel.access.tokens import Tokens
from custody.kernel.engine.kinds import Kind
from custody.kernel.engine.work import Work
from custody.kernel.model.authority.acting import name_of
from custody.kernel.model.job import Filter, Job, NewJob
from custody.kernel.model.machine import Machines
from custody.kernel.model.names.job_keys import Asked
from custody.kernel.model.outcome import Failed, Outcome, Passed, Wait
from custody.kernel.operations.action import Action, action_of
from custody.kernel.operations.jobs import Operator
from custody.kernel.ports import SubmittedJob
from custody.kernel.stores import Store
from custody.kernel.stores.rows import Row, Tx
from custody.kernel.stores.rules.submit import Submitted
from custody.web.operations.makers import BULK_MAKER, MAKERS
from custody.web.queries.lists import job_fits, pairs

KIND: Final = BULK_MAKER.kind
RIGHT_ENDED: Final = "bulk.right"
PIECE = 200
MOST_REFUSALS = 50


@dataclass(frozen=True, slots=True)
class DryRun:
    """What an action would do: how many it fits, and what keeps it from the others."""

    action: str
    eligible: int
    others: Mapping[str, int]  # "of ingest/job that are completed" -> how many
    last: int  # jobs after this one are not meant

    @property
    def matched(self) -> int:
        return self.eligible + sum(self.others.values())


def dry_run(store: Store, machines: Machines, caller: Caller, action: Action, where: Filter) -> DryRun:
    _check_scope(caller, where)
    last, rows = store.db.read(lambda tx: _matching(tx, machines, caller, where))
    there = [job for job in store.elsewhere.every(where) if caller.sees_job(job)] if store.elsewhere else []
    rows = [*rows, *((*group, count) for group, count in Counter((j.kind, j.state, j.ended) for j in there).items())]
    last = max([last, *(job.id for job in there)])
    eligible, others = 0, {}
    for kind, state, ended, count in rows:
        if kind != KIND and action.fits_state(state, ended, machines.of(kind)):
            eligible += count
        else:
            others[f"{kind} that are {state}"] = count
    return DryRun(action.name, eligible, others, last)


def _matching(tx: Tx, machines: Machines, caller: Caller, where: Filter) -> tuple[int, Sequence[Row]]:
    """The newest job, and how many match up to it, by kind, state and end; each row is looked at once."""
    last = int(tx.run("web_newest_job")[0][0])
    fits = job_fits(caller, where) | {"last_job": last}
    if where.parent:
        return last, tx.run("web_matching_children", parent=where.parent, **fits)
    if where.collection:
        return last, tx.run("web_matching_collection", within=where.collection, **fits)
    walks = pairs(tx, machines, where)
    return last, [row for pair in walks for row in tx.run("web_matching_state", **pair, **fits)]


def submit(
    store: Store,
    machines: Machines,
    caller: Caller,
    name: str,
    where: Filter,
    why: str,
    count: int,
    request: Asked | None = None,
    priority: int = 50,
) -> SubmittedJob:
    """Begin one; refused when it would touch another number of jobs than was agreed to. The same request again is
    answered as it was: what it has done meanwhile is another number by now."""
    action = action_of(name)
    _check_scope(caller, where)
    if request is not None and (known := store.queue.answered(request)):
        store.confirm()
        return Submitted(known, False)
    if request is not None and (earlier := store.queue.by_key(KIND, request.key)):
        return again(earlier, name, where)  # of before keys were kept apart from jobs
    if where == Filter():
        raise BadInput("this would be everything there is", code="bulk.filter", hint="name a kind, a state or a cause")
    if action.needs_why and not why.strip():
        raise BadInput("say why, for the history", code="action.why", where="why")
    found = dry_run(store, machines, caller, action, where=where)
    if found.eligible != count:
        raise Refused(
            f"it would now be {found.eligible} jobs, not {count}",
            code="bulk.count",
            hint="look again, then repeat it",
            eligible=found.eligible,
        )
    payload: dict[str, Any] = {
        "action": name,
        "filter": _said(where),
        "why": why.strip()[:2000],
        "last": found.last,
        "total": found.matched,
        "eligible": found.eligible,
        "priority": priority,
    }
    key = request.key if request else None
    job = BULK_MAKER.checked(NewJob(KIND, payload, key=key, priority=5, collection=where.collection))
    return store.queue.submit_once(job, caller.acting, request, MAKERS.is_free)


def again(earlier: Job, name: str, where: Filter) -> SubmittedJob:
    """What a key already stands for, if it was asked for the same."""
    if (earlier.payload.get("action"), earlier.payload.get("filter")) != (name, _said(where)):
        raise KeyConflict(
            "this key was used before, for another request",
            where="Idempotency-Key",
            hint="a new request needs a new key",
        )
    return Submitted(earlier.id, False)


def _said(where: Filter) -> dict[str, Any]:
    return {name: value for name, value in asdict(where).items() if value}


def _check_scope(caller: Caller, where: Filter) -> None:
    if not caller.sees_all and not (where.collection and caller.sees(where.collection)):
        raise BadInput("name one of your collections", code="bulk.collection", where="collection")


def kinds(store: Store, machines: Machines) -> Sequence[Kind]:
    """What a worker needs to carry them out."""
    return (Kind(KIND, lambda work: carry_out(work, store, machines), at_once=1, maker=BULK_MAKER),)


def carry_out(work: Work, store: Store, machines: Machines) -> Outcome:
    """Each piece with the rights that its asker has then: it does nothing that they could not do one by one."""
    given = work.payload
    action, where = action_of(given["action"]), Filter(**given["filter"])
    after, done = int(work.facts.get("after", 0)), int(work.facts.get("done", 0))
    refused, told = int(work.facts.get("refused", 0)), list(work.facts.get("refusals", []))
    while jobs := [job for job in store.queue.list(where, after, PIECE) if job.id <= given["last"]]:
        caller = asker(store, work.job)
        if caller is None:
            why = f"the right of {name_of(work.job.by)} has ended; what was done stays done"
            return Failed(RIGHT_ENDED, why, keep=_facts(after, done, refused, told))
        operator = Operator(store, machines, caller.agent)
        for job in jobs:
            if work.stopped:
                return Wait(0.1, "stopped half-way", keep=_facts(after, done, refused, told))
            after = job.id
            if job.kind == KIND:
                continue
            try:
                if not caller.may("job:act", job.collection):
                    raise NotFound(f"there is no job {job.id}", code="job.unknown")
                action.act(operator, job.id, given["why"], int(given["priority"]))
                done += 1
            except CustodyError as error:
                refused += 1
                told = [*told, {"job": job.id, "code": error.code, "why": str(error)}][:MOST_REFUSALS]
        work.keep(**_facts(after, done, refused, told))
    return Passed({"done": done, "refused": refused}, keep=_facts(after, done, refused, told))


def asker(store: Store, bulk: Job) -> Caller | None:
    """Who asked for it, with the rights of now; None when they may act on nothing any more."""
    caller = Tokens(store).by(bulk.by)
    return caller if caller is not None and caller.has("job:act") else None


def _facts(after: int, done: int, refused: int, told: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"after": after, "done": done, "refused": refused, "refusals": list(told)}

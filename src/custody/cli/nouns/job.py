"""custody job: pieces of work."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from custody.cli import runtime
from custody.cli.open_store import label, number, open_store
from custody.cli.receipts import kept_in
from custody.cli.runtime import AsJson, Limit, StoreUrl, Why
from custody.cli.times import ago, moment
from custody.errors import BadInput, Refused
from custody.kernel.model.graph import Edge
from custody.kernel.model.job import HIGHEST, LOWEST, Filter, Job, NewJob
from custody.kernel.operations.jobs import Operator
from custody.kernel.stores import Store
from custody.web.operations.makers import MAKERS

app = runtime.noun("Pieces of work.")
Id = Annotated[int, typer.Argument(help="the job's number", parser=number, metavar="JOB")]
Ids = Annotated[list[int] | None, typer.Argument(help="numbers of jobs", parser=number, metavar="JOBS")]
Cause = Annotated[str, typer.Option("--cause", help="every failed job with this code")]


@app.command()
def submit(
    kind: Annotated[str, typer.Argument(help="what sort of work, such as parcel")],
    payload: Annotated[str, typer.Argument(help="JSON, @file or - for standard input")] = "{}",
    key: Annotated[str | None, typer.Option(help="the same key again gives the same job")] = None,
    priority: Annotated[int, typer.Option(help="0 to 99, low first")] = 50,
    delay: Annotated[float, typer.Option(help="seconds before it may start")] = 0,
    lane: Annotated[str, typer.Option(help="lanes take turns")] = "",
    needs: Annotated[list[int] | None, typer.Option(help="a job that must succeed first; may be repeated")] = None,
    receipts: Annotated[
        Path | None, typer.Option(help="append the receipt to this file: `custody doctor` checks it")
    ] = None,
    store: StoreUrl = runtime.DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Ask for a piece of work. Answered when it is safely on disk."""
    MAKERS.must_be_free(kind)
    job = NewJob(
        kind,
        runtime.read_json(payload, "payload"),
        key=key,
        priority=priority,
        delay=delay,
        lane=lane,
        needs=[Edge(on) for on in needs or []],
    )
    with kept_in(receipts, store) as kept, open_store(store) as opened:
        made = opened.queue.submit_once(job, runtime.acting(), None, MAKERS.is_free)
        if kept:
            kept.append(made.id, made.move)
    if json:
        runtime.emit(made)
    else:
        print(f"job {made.id}" + ("" if made.new else " (submitted before with this key)"))


@app.command("list")
def list_(
    kind: Annotated[str, typer.Option(help="a kind, or a prefix with *")] = "",
    state: str = "",
    code: Annotated[str, typer.Option(help="failed with this code")] = "",
    after: Annotated[int, typer.Option(help="start after this number")] = 0,
    limit: Limit = 50,
    store: StoreUrl = runtime.DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Jobs, oldest first."""
    with open_store(store) as opened:
        jobs = opened.queue.list(Filter(kind=kind, state=state, code=code), after, limit)
        now = opened.now()
    if json:
        runtime.emit(jobs)
        return
    columns = {
        "job": lambda job: label(job.id),
        "kind": lambda job: job.kind,
        "state": _state,
        "prio": lambda job: job.priority,
        "tries": lambda job: job.attempts,
        "changed": lambda job: ago(job.changed, now) + " ago",
        "code": lambda job: job.code,
        "key": lambda job: job.key,
    }
    runtime.table(columns, jobs, "no jobs match")


def _state(job: Job) -> str:
    return f"{job.state}, running" if job.holder else job.state


@app.command()
def show(job: Id, store: StoreUrl = runtime.DEFAULT_STORE, json: AsJson = False) -> None:
    """One job, and all that happened to it."""
    with open_store(store) as opened:
        found, events = opened.queue.get(job), list(opened.records.all_events(f"job/{job}"))
    if json:
        runtime.emit({"job": found, "events": events})
        return
    runtime.show(
        [
            ("job", label(found.id)),
            ("kind", found.kind),
            ("key", found.key),
            ("state", _state(found)),
            ("priority", found.priority),
            ("lane", found.lane),
            ("place", found.place),
            ("collection", found.collection),
            ("parent", label(found.parent) if found.parent else None),
            ("attempts", found.attempts),
            ("by", found.by),
            ("resumed", found.retries or None),
            ("code", found.code),
            ("holder", found.holder),
            ("payload", dict(found.payload)),
            ("facts", dict(found.facts)),
            ("created", moment(found.created)),
        ]
    )
    print()
    columns = {
        "at (UTC)": lambda event: moment(event.at),
        "event": lambda event: event.type,
        "outcome": lambda event: event.outcome,
        "by": lambda event: event.agent,
        "detail": lambda event: event.detail.get("reason") or event.detail.get("why") or event.detail.get("state"),
    }
    runtime.table(columns, events, "nothing happened yet")


@app.command()
def why(
    job: Id,
    place: Annotated[str, typer.Option(help="as a worker of this place sees it")] = "",
    config: Annotated[Path | None, typer.Option(envvar="CUSTODY_CONFIG", help="custody.toml")] = None,
    store: StoreUrl = runtime.DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Why it is not running, since when, and what would clear it."""
    from custody.config import find
    from custody.ingest.storage.working_disk import find_disk
    from custody.web.operations import reasons as looking

    found = find(config)
    disk = find_disk(found.home / found.ingest.work, found.ingest.place, found.ingest.threshold) if found else None
    with open_store(store) as opened:
        reasons, now = looking.why(opened, opened.queue.get(job), disk, place), opened.now()
    if json:
        runtime.emit(reasons)
        return
    for reason in reasons:
        runtime.tell_reason(f"job {label(job)}", reason, now)


@app.command()
def hold(job: Id, why: Why, store: StoreUrl = runtime.DEFAULT_STORE) -> None:
    """Keep a job from starting until it is released."""
    with open_store(store) as opened:
        _operator(opened).hold(job, why)
    print(f"job {label(job)} is held")


@app.command()
def release(
    jobs: Ids = None,
    collection: Annotated[str, typer.Option(help="every held job of this collection")] = "",
    why: Why = "",
    store: StoreUrl = runtime.DEFAULT_STORE,
) -> None:
    """Let held jobs go on."""
    with open_store(store) as opened:
        operator = _operator(opened)
        _each(
            opened,
            jobs,
            Filter(state="held", collection=collection),
            lambda id_: operator.release(id_, why),
            done="released",
        )


@app.command()
def resume(jobs: Ids = None, cause: Cause = "", why: Why = "", store: StoreUrl = runtime.DEFAULT_STORE) -> None:
    """Let failed jobs go on after the last state that passed."""
    with open_store(store) as opened:
        operator = _operator(opened)
        _each(opened, jobs, Filter(ended="failed", code=cause), lambda id_: operator.resume(id_, why), done="resumed")


@app.command()
def cancel(job: Id, why: Why, store: StoreUrl = runtime.DEFAULT_STORE) -> None:
    """End a job; a worker that has it is asked to stop and to confirm."""
    with open_store(store) as opened:
        answer = _operator(opened).cancel(job, why)
    print(f"job {label(job)}: {answer.why or 'cancelled'}")


@app.command()
def delete(
    job: Id,
    why: Why,
    yes: Annotated[bool, typer.Option("--yes", help="also while its batch is open, without asking")] = False,
    store: StoreUrl = runtime.DEFAULT_STORE,
) -> None:
    """Remove a job that has ended or is held. Its history stays. Asks first while its batch is open."""
    with open_store(store) as opened:
        operator = _operator(opened)
        if not yes:
            _ask_while_batch_is_open(operator, job)
        deleted = operator.delete(job, why)
    told = "is deleted; its history stays" if deleted else "is not there: nothing to do"
    print(f"job {label(job)} {told}")


@app.command()
def accept(job: Id, why: Why, store: StoreUrl = runtime.DEFAULT_STORE) -> None:
    """Let those who wait for a failed job go on all the same."""
    with open_store(store) as opened:
        _operator(opened).accept(job, why)
    print(f"job {label(job)} is accepted")


@app.command()
def prioritise(
    job: Id,
    priority: Annotated[int, typer.Argument(help="0 to 99, low first", min=HIGHEST, max=LOWEST)],
    why: Why = "",
    store: StoreUrl = runtime.DEFAULT_STORE,
) -> None:
    """Move a job forward or back in its queue."""
    with open_store(store) as opened:
        _operator(opened).prioritise(job, priority, why)
    print(f"job {label(job)} has priority {priority}")


@app.command()
def failures(store: StoreUrl = runtime.DEFAULT_STORE, json: AsJson = False) -> None:
    """Failed jobs grouped by cause: fix once, then `custody job resume --cause CODE`."""
    with open_store(store) as opened:
        groups, now = opened.queue.failures(), opened.now()
    if json:
        runtime.emit(groups)
        return
    columns = {
        "jobs": lambda group: group.count,
        "code": lambda group: group.code,
        "kind": lambda group: group.kind,
        "state": lambda group: group.state,
        "such as": lambda group: f"job {label(group.newest)}",
        "newest": lambda group: ago(group.at, now) + " ago",
    }
    runtime.table(columns, groups, "nothing has failed")


def _ask_while_batch_is_open(operator: Operator, job: int) -> None:
    """A job that is gone cannot be resumed, and its batch will tell the depositor that it was deleted."""
    batch = operator.reported_by(job)
    if batch is None:
        return
    meant = f"batch {label(batch.id)} is still open, and will report job {label(job)} as deleted"
    if not sys.stdin.isatty():
        raise Refused(meant, code="batch.open", hint="repeat it with --yes if that is meant")
    if not typer.confirm(f"{meant}. Delete it?", err=True):
        raise Refused(f"job {label(job)} is left as it is", code="batch.open")


def _operator(store: Store) -> Operator:
    from custody.cli.composition import machines

    return Operator(store, machines(), runtime.me())


def _each(store: Store, jobs: list[int] | None, where: Filter, act: object, done: str) -> None:
    """Do one thing to the named jobs, or to everything that a filter matches."""
    assert callable(act)
    if jobs:
        for job in jobs:
            act(job)
            print(f"job {label(job)} is {done}")
        return
    if not (where.code or where.collection):
        raise BadInput("say which jobs", hint="job numbers, or --cause / --collection")
    refused = 0
    count = 0
    for job, problem in _operator(store).every(where, act):
        count += not problem
        refused += bool(problem)
        if problem:
            print(f"job {label(job)}: {problem}")
    print(f"{runtime.counted(count, 'job')} {done}" + (f", {refused} refused" if refused else ""))
    if refused:
        raise typer.Exit(1)

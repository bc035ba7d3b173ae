"""custody batch: deposits."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from custody.cli import runtime
from custody.cli.open_store import label
from custody.cli.open_store import number as read_number
from custody.cli.runtime import AsJson, Limit, Why
from custody.cli.times import ago, moment
from custody.errors import BadInput, NotFound, Refused
from custody.ingest.batch.counts import jobs_of
from custody.ingest.commands import words
from custody.ingest.commands.lookup import get_batch, opened
from custody.ingest.commands.payload import check_profile, pair, stage
from custody.ingest.states import BATCH_KIND
from custody.ingest.submission.staging import Staging, name_in
from custody.ingest.submission.types import TYPES
from custody.kernel.model.job import Filter, Job
from custody.kernel.stores import Store

app = runtime.noun("Deposits: submit, check, follow, report.")
ConfigFile = Annotated[Path | None, typer.Option("--config", envvar="CUSTODY_CONFIG", help="custody.toml")]
StoreUrl = Annotated[str, typer.Option("--store", envvar="CUSTODY_STORE", help="instead of the configuration's store")]
Number = Annotated[int, typer.Argument(help="the batch's number", parser=read_number, metavar="BATCH")]


@app.command()
def submit(
    payload: Annotated[str, typer.Argument(help="a file, a folder (one object), or a URL")],
    profile: Annotated[str, typer.Option(help="the collection's profile")],
    type_: Annotated[str, typer.Option("--type", help=f"one of {', '.join(TYPES)}; guessed when left out")] = "",
    title: str = "",
    creator: str = "",
    date: str = "",
    local_id: Annotated[str, typer.Option(help="your own name for it; several with ;")] = "",
    primary_id: Annotated[str, typer.Option(help="an ARK it already has")] = "",
    update: Annotated[bool, typer.Option("--update", help="merge with the last version")] = False,
    digest: Annotated[str, typer.Option(help="ALGORITHM:VALUE of the payload")] = "",
    notification: Annotated[str, typer.Option(help="mail addresses instead of the profile's")] = "",
    key: Annotated[str, typer.Option(help="the same key again gives the same batch")] = "",
    note: str = "",
    dc: Annotated[list[str] | None, typer.Option(help="further Dublin Core, ELEMENT=VALUE; may be repeated")] = None,
    config: ConfigFile = None,
    store: StoreUrl = "",
    json: AsJson = False,
) -> None:
    """Hand something in. Answered when it is safely on disk; the work is done by a worker."""
    from custody.ingest.submission.submission import Submission
    from custody.ingest.submission.submission import submit as submit_batch

    algorithm, _, value = digest.partition(":")
    with opened(config, store) as (handle, settings):
        check_profile(settings, profile)
        url, filename = stage(payload, settings)
        submission = Submission(
            profile=profile,
            payload=url,
            type=type_,
            filename=filename,
            submitter=runtime.me(),
            update=update,
            digest_type=algorithm,
            digest_value=value,
            title=title,
            creator=creator,
            date=date,
            local_id=local_id,
            primary_id=primary_id,
            notification=notification,
            note=note,
            user_agent="custody cli",
            dc=dict(pair(each) for each in dc or ()),
        )
        number, new = submit_batch(handle, submission, key or None, runtime.acting())
        there = any(job.id == number for job in handle.queue.list(after=number - 1, limit=1))
    if json:
        runtime.emit({"batch": number, "new": new, "removed": not there})
        return
    print(f"batch {label(number)}" + ("" if new else " (submitted before with this key)"))
    if there:
        print(f"  follow it: custody batch show {label(number)}", file=sys.stderr)
    else:
        print("  it has been cleaned up since, and nothing was deposited again", file=sys.stderr)


@app.command()
def check(file: Annotated[Path, typer.Argument(help="a checkm manifest")], json: AsJson = False) -> None:
    """A dry run: every fault of a manifest, not only the first. Nothing is submitted."""
    from custody.formats import checkm
    from custody.ingest.steps.download import check_name

    if not file.is_file():
        raise BadInput(f"there is no file {file}", where="file")
    with file.open("rb") as source:
        found = checkm.check(source, check_name=check_name)
    if json:
        runtime.emit({"profile": found.kind.profile, "rows": found.rows, "ok": found.ok, "faults": found.faults})
    else:
        for fault in found.faults:
            print(f"{'warning: ' if fault.warning else ''}{fault}")
        faults = sum(not fault.warning for fault in found.faults) + found.unlisted
        if found.unlisted:
            print(f"… and {found.unlisted} more")
        what = "is fine" if found.ok else f"has {runtime.counted(faults, 'fault')}"
        rows = runtime.counted(found.rows, "row")
        print(f"{file} {what}: {found.kind.profile or 'no known profile'}, {rows} can be read")
    raise typer.Exit(0 if found.ok else 1)


@app.command("list")
def list_(
    state: str = "",
    profile: str = "",
    after: int = 0,
    limit: Limit = 50,
    config: ConfigFile = None,
    store: StoreUrl = "",
    json: AsJson = False,
) -> None:
    """Batches, oldest first."""
    with opened(config, store) as (handle, _):
        batches = handle.queue.list(Filter(kind=BATCH_KIND, state=state, collection=profile), after, limit)
        now, counts = handle.now(), {batch.id: jobs_of(handle, batch) for batch in batches}
    if json:
        told = {each: {"jobs": jobs, "open": open_} for each, (jobs, open_) in counts.items()}
        runtime.emit([{**asdict(batch), **told[batch.id]} for batch in batches])
        return
    columns = {
        "batch": lambda job: label(job.id),
        "state": lambda job: job.state,
        "profile": lambda job: job.collection,
        "jobs": lambda job: counts[job.id][0] or None,
        "open": lambda job: counts[job.id][1] or None,
        "changed": lambda job: ago(job.changed, now) + " ago",
        "file": _file,
        "by": lambda job: job.payload.get("submitter"),
    }
    runtime.table(columns, batches, "no batches match")


@app.command()
def show(batch: Number, config: ConfigFile = None, store: StoreUrl = "", json: AsJson = False) -> None:
    """One batch: its jobs by state, and what failed, with the rows of the manifest."""
    with opened(config, store) as (handle, _):
        found = get_batch(handle, batch)
        counts = handle.queue.children(batch)
        failed = [job for job in handle.queue.every(Filter(parent=batch, ended="failed"))][:20]
        reasons = {job.id: _reason(handle, job) for job in failed}
        why = _reason(handle, found) if found.ended == "failed" else ""
        events = list(handle.records.all_events(found.subject))
    if json:
        runtime.emit({"batch": found, "jobs": counts, "failed": failed, "events": events})
        return
    runtime.show(
        [
            ("batch", label(found.id)),
            ("state", found.state),
            ("profile", found.collection),
            ("file", _file(found)),
            ("submitted", moment(found.created) + " UTC"),
            ("by", found.payload.get("submitter")),
            ("why", why),
            ("remarks", words.remarks(found)),
        ]
    )
    print()
    runtime.table({"jobs": lambda row: row[1], "state": lambda row: row[0]}, counts, "no jobs yet")
    if failed:
        print()
        columns = {
            "row": lambda job: job.payload.get("line", job.payload.get("row")),
            "job": lambda job: label(job.id),
            "file": lambda job: job.payload.get("filename"),
            "code": lambda job: job.code,
            "reason": lambda job: reasons[job.id],
        }
        runtime.table(columns, failed, "")
        print()
        for line in words.what_now(failed):
            print(line)


def _reason(handle: Store, job: Job) -> str:
    return handle.queue.reason(job)


def _file(batch: Job) -> str:
    return str(batch.payload.get("filename") or name_in(str(batch.payload.get("payload", ""))))


@app.command()
def report(
    batch: Number,
    update: Annotated[bool, typer.Option("--update", help="send the depositor what has changed since")] = False,
    config: ConfigFile = None,
    store: StoreUrl = "",
) -> None:
    """The last report, as JSON; with --update, ask for a report of what has changed since."""
    from custody.ingest.actions import ask_for_update

    with opened(config, store) as (handle, settings):
        found = get_batch(handle, batch)
        if update:
            ask_for_update(handle, found, runtime.me())
            print(f"batch {label(batch)} will report what has changed")
            return
        url = found.facts.get("report")
        if not url:
            raise NotFound(f"batch {label(batch)} has not reported yet", hint=f"`custody job why {label(batch)}`")
        print(Staging(settings.home / settings.ingest.staging).path(url).read_text(), end="")


@app.command()
def why(batch: Number, config: ConfigFile = None, store: StoreUrl = "", json: AsJson = False) -> None:
    """What it waits for: the batch itself, and its open jobs by what they wait for."""
    from custody.ingest.condition import why as blockers
    from custody.ingest.storage.working_disk import find_disk

    with opened(config, store) as (handle, settings):
        given = settings.ingest
        found, now = get_batch(handle, batch), handle.now()
        disk = find_disk(settings.home / given.work, given.place, given.threshold)
        reasons, waiting = blockers.why(handle, found, disk), blockers.of_children(handle, found, disk)
    if json:
        runtime.emit({"reasons": reasons, "jobs": waiting})
        return
    for reason in reasons:
        runtime.tell_reason(f"batch {label(batch)}", reason, now)
    for each in waiting:
        runtime.tell_reason(f"{runtime.counted(each.count, 'job')}, such as {label(each.example)}", each.reason, now)


@app.command()
def link(
    batch: Number,
    days: Annotated[int, typer.Option(help="so long it is good; 0: as configured")] = 0,
    config: ConfigFile = None,
    store: StoreUrl = "",
    json: AsJson = False,
) -> None:
    """The depositor's page of a batch, for whoever has the link: no account is needed."""
    from custody.ingest.batch.links import read_links

    with opened(config, store) as (handle, settings):
        given = settings.ingest
        links = read_links(settings.home / given.secret, given.web, days or given.link_days)
        found, now = get_batch(handle, batch), handle.now()
    if json:
        until = moment(links.until(found, now))
        runtime.emit({"batch": batch, "link": links.url(found, now) or links.path(found, now), "until": until})
        return
    print(links.url(found, now) or links.path(found, now))
    if not given.web:
        print("  it follows the address of `custody serve`: say it in custody.toml, [ingest] web = …", file=sys.stderr)


@app.command()
def release(batch: Number, why: Why = "", config: ConfigFile = None, store: StoreUrl = "") -> None:
    """Let a held batch go on; one that has become jobs, with all of them that are held."""
    from custody.ingest.actions import has_become_jobs, release_batch
    from custody.installation import machines
    from custody.kernel.operations.jobs import Operator

    with opened(config, store) as (handle, _):
        found = get_batch(handle, batch)
        done = release_batch(Operator(handle, machines(), runtime.me()), found, why)
    if not has_become_jobs(found):
        print(f"batch {label(batch)} is released")
        return
    refused = [(job, problem) for job, problem in done if problem]
    for job, problem in refused:
        print(f"job {label(job)}: {problem}")
    print(f"batch {label(batch)}: {runtime.counted(len(done) - len(refused), 'job')} released")
    raise typer.Exit(1 if refused else 0)


def _ask(meant: str) -> None:
    if not sys.stdin.isatty():
        raise Refused(meant, code="batch.untold", hint="repeat it with --yes if that is meant")
    if not typer.confirm(f"{meant}. Delete it?", err=True):
        raise Refused("it is left as it is", code="batch.untold")


@app.command()
def delete(
    batch: Number,
    why: Why,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
    config: ConfigFile = None,
    store: StoreUrl = "",
) -> None:
    """Remove a batch that has failed, completed or is held, with its jobs. The history stays."""
    from custody.ingest.batch.cleanup import delete_batch
    from custody.ingest.world import open_world

    with opened(config, store) as (handle, settings):
        try:
            found = get_batch(handle, batch)
        except NotFound as missing:
            if missing.code != "batch.unknown":
                raise
            print(f"batch {label(batch)} is not there: nothing to do")
            return
        if not yes and found.state != "completed":
            _ask(f"batch {label(batch)} is {found.state}, and its depositor will not be told")
        world = open_world(handle, settings.ingest, settings.home)
        count = delete_batch(handle, found, runtime.me(), why, world=world)
    print(f"batch {label(batch)} is deleted, with {runtime.counted(count, 'job')}; the history stays")

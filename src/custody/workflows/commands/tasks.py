"""The tasks of an archive's revisions: what they printed, and what an operator may do to them.

Why one does not run is told by why.py.
"""

from __future__ import annotations

import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from custody.border import below
from custody.cli import runtime
from custody.cli.needs_config import ConfigFile
from custody.cli.runtime import AsJson, Why
from custody.cli.times import ago
from custody.config import Config, find
from custody.errors import BadInput, CustodyError, NotFound, Refused
from custody.kernel.model.authority.acting import name_of
from custody.kernel.model.job import Job
from custody.kernel.operations.jobs import Operator
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.rows import job_from
from custody.workflows.archives.git.git_branches import keep_limit
from custody.workflows.archives.table import Archives
from custody.workflows.holds import go_on, pause
from custody.workflows.makers import COMMIT_KIND, commit_key, task_key
from custody.workflows.plan.plan_jobs import FAULTY, find_task
from custody.workflows.plan.requested import ask_for_run, newest_runs
from custody.workflows.tasks import client
from custody.workflows.tasks.index import index_file, open_index
from custody.workflows.tasks.runner import attempt_name

Name = Annotated[str, typer.Argument(help="the archive's name")]
Revision = Annotated[int, typer.Argument(help="a revision")]
TaskName = Annotated[str, typer.Argument(help="the task's name")]
InRun = Annotated[str, typer.Option("--run", help="of this run, instead of what the commit started")]
StoreUrl = Annotated[str, typer.Option("--store", envvar="CUSTODY_STORE", help="instead of the configuration's store")]


def opened(store: str) -> Store:
    """The store that is named, or the one of the configuration in this folder, whose limits then hold in it."""
    found = find(None) if not store else None
    handle = open_store(store or (found.store if found else runtime.DEFAULT_STORE))
    if found:
        with suppress(CustodyError):  # whoever may only read it looks all the same; a worker writes it when it starts
            keep_limit(handle, found.workflows.branches)
    return handle


def revision_jobs(store: Store, name: str, first: int, last: int) -> list[Job]:
    rows = store.db.read(lambda tx: tx.run("wf_of_line", line=name, first=first, last=last))
    return [job_from(row) for row in rows]


def word(job: Job) -> str:
    if job.holder:
        return "running"
    return "waiting" if job.state == "queued" and job.unmet else job.state


def log(
    name: Name,
    revision: Revision,
    task: TaskName,
    run: InRun = "commit",
    config: ConfigFile = None,
    store: StoreUrl = "",
) -> None:
    """What a task printed: byte for byte into a file or a pipe; on a terminal, what would command it is only shown."""
    found = find(config)
    with opened(store) as handle:
        job = job_of(handle, name, revision, task, run=run)
        live = _live(handle, found, job)
    if faults := job.payload.get("faults"):
        print(*faults, sep="\n")
        return
    kept = job.facts.get("log")
    if live is not None:
        _print(live)
        return
    if not kept:
        raise NotFound(
            f"{task} of revision {revision} has left no log yet", hint=f"`custody archive why {name} {revision} {task}`"
        )
    place = _kept(found)
    try:
        printed = below.read(place, str(kept))
    except NotFound:
        hint = "another machine may have it: its worker keeps what it ran"
        told = f"the log of {task} of revision {revision} is not here"
        raise NotFound(told, where=str(place / kept), hint=hint) from None
    _print(printed)


def _print(printed: bytes) -> None:
    sys.stdout.buffer.write(for_terminal(printed) if sys.stdout.isatty() else printed)


def _live(store: Store, found: Config | None, job: Job) -> bytes | None:
    """What it has printed so far, if it runs on this machine."""
    from custody.cli.composition import shop_of

    shop = shop_of(store, found) if job.holder and "recipe" in job.payload else None
    try:
        name = job.facts.get("container", {}).get("name") or attempt_name(job)
        sandbox = shop.sandboxes.find(str(name)) if shop else None
        return sandbox.output() if sandbox else None
    except OSError:
        return None  # it ended, and was put away, just now


def _kept(found: Config | None) -> Path:
    """Where logs and indexes are."""
    if found is None:
        raise BadInput(
            "there is no custody.toml here, which says where they are kept",
            code="config.missing",
            hint="go to its folder, or name it: --config, CUSTODY_CONFIG",
        )
    return found.home / found.workflows.kept


def for_terminal(printed: bytes) -> bytes:
    return runtime.harmless(printed.decode(errors="replace").replace("\r\n", "\n")).encode()


def retry(
    name: Name, revision: Revision, task: TaskName, why: Why = "", run: InRun = "commit", store: StoreUrl = ""
) -> None:
    """Run a failed task again, as it was defined at its revision; what was skipped because of it comes back."""
    with opened(store) as handle:
        job = job_of(handle, name, revision, task, run=run)
        if task == FAULTY:
            raise Refused(
                f"the workflow files of revision {revision} stay as they were committed",
                code="archive.retry",
                hint="a later commit mends them; `custody archive lint` reads those of a working copy",
            )
        if job.ended in (None, "passed"):
            what = "has passed" if job.ended else "has not ended"
            instead = f"run {name} {task}" if job.ended else f"why {name} {revision} {task}"
            raise Refused(
                f"{task} of revision {revision} {what}: there is nothing to retry",
                code="archive.retry",
                hint=f"`custody archive {instead}`",
            )
        _operator(handle).resume(job.id, why)
        now = handle.queue.get(job.id)
    if now.ended == "superseded":
        print(f"{task} of revision {revision} is superseded: a newer one has replaced it")
        print(f"  to run it all the same: custody archive run {name} {task} --revision {revision}")
        return
    waits = f", but not yet: `{asking_why(name, revision, task, run)}`" if now.unmet else ""
    print(f"{task} of revision {revision} will run again{waits}")


def accept(
    name: Name, revision: Revision, task: TaskName, why: Why, run: InRun = "commit", store: StoreUrl = ""
) -> None:
    """Let later revisions go on although it failed."""
    with opened(store) as handle:
        job = job_of(handle, name, revision, task, run=run)
        if job.ended not in ("failed", "cancelled"):
            raise Refused(
                f"{task} of revision {revision} {_how_it_stands(job)}: there is nothing to accept",
                code="archive.accept",
                hint=f"`{asking_why(name, revision, task, run)}`",
            )
        _operator(handle).accept(job.id, why)
    print(f"{task} of revision {revision} is accepted as it is")


def cancel(
    name: Name, revision: Revision, task: TaskName, why: Why, run: InRun = "commit", store: StoreUrl = ""
) -> None:
    """Stop a task; recorded as cancelled when it is confirmed dead."""
    with opened(store) as handle:
        job = job_of(handle, name, revision, task, run=run)
        if job.ended:
            raise Refused(
                f"{task} of revision {revision} {_how_it_stands(job)}: there is nothing to cancel",
                code="archive.cancel",
                hint=f"`{asking_why(name, revision, task, run)}`",
            )
        answer = _operator(handle).cancel(job.id, why)
    if answer.why:
        print(f"{answer.why}; {task} of revision {revision} is cancelled as soon as it is dead")
    else:
        print(f"{task} of revision {revision} is cancelled")


def _how_it_stands(job: Job) -> str:
    return f"has ended ({job.state})" if job.ended else "has not ended"


def asking_why(name: str, revision: int, task: str, run: str) -> str:
    return f"custody archive why {name} {revision} {shlex.quote(task)}{of_run(run)}"


def of_run(run: str) -> str:
    return "" if run == "commit" else f" --run {run}"


def hold(name: Name, why: Why, store: StoreUrl = "") -> None:
    """Pause an archive: what is under way goes on, nothing new of it starts."""
    with opened(store) as handle:
        new = pause(handle, name, runtime.me(), why)
    print(f"{name} is paused" if new else f"{name} was paused already")


def release(name: Name, why: Why = "", store: StoreUrl = "") -> None:
    """Let a paused archive go on."""
    with opened(store) as handle:
        done = go_on(handle, name, runtime.me(), why)
    print(f"{name} goes on" if done else f"{name}: nothing to do, it is not paused")


def commit(
    paths: Annotated[list[str], typer.Argument(help="files and folders of the task's work folder")],
    message: Annotated[str, typer.Option("-m", "--message", help="why")],
) -> None:
    """Commit what a task has made; only inside a task. Known as its work by whatever runs because of it."""
    raise typer.Exit(client.tell(client.ask(message, paths)))


def search(
    name: Name,
    words: Annotated[list[str], typer.Argument(help="all of these, in paths and texts")],
    branch: Annotated[str, typer.Option(help="git: the branch to look in")] = "main",
    limit: Annotated[int, typer.Option(help="so many at most")] = 20,
    config: ConfigFile = None,
    store: StoreUrl = "",
    json: AsJson = False,
) -> None:
    """Find paths and texts in what the ready-made index task has indexed on this machine."""
    place = _kept(find(config))
    with opened(store) as handle:
        kept = Archives(handle).get(name)
    file = index_file(place, name, f"refs/heads/{branch}" if kept.system == "git" else "")
    below.must_be_plain(place, file)
    if not file.exists():
        hint = "a task with `ready: index` makes one, on the machine whose worker runs it"
        raise NotFound(f"there is no index of {name} here", code="index.missing", where=str(file), hint=hint)
    with open_index(file) as index:
        hits, revision = index.search(words, limit), index.revision
    if json:
        runtime.emit({"revision": revision, "hits": hits})
        return
    columns = {"path": lambda hit: hit.path, "since": lambda hit: f"r{hit.since}", "text": lambda hit: hit.snippet}
    runtime.table(columns, hits, f"nothing in revision {revision} has all of these words")


def run(
    name: Name,
    task: Annotated[str, typer.Argument(help="a task, with all it depends on; or the name of a workflow file")],
    revision: Annotated[int, typer.Option(help="as it was defined at this one; the youngest unless told")] = 0,
    alone: Annotated[bool, typer.Option("--alone", help="without the tasks it depends on")] = False,
    key: Annotated[str, typer.Option(help="the same key again gives the same run")] = "",
    store: StoreUrl = "",
) -> None:
    """Run a task or a workflow now, beside what commits start."""
    with opened(store) as handle:
        job = ask_for_run(handle, name, task, runtime.acting(), revision=revision, alone=alone, key=key)
    print(f"run manual-{job} of {task} is asked for: custody archive runs {name}")


def runs(
    name: Name,
    last: Annotated[int, typer.Option(min=1, max=10_000, help="so many")] = 20,
    before: Annotated[int, typer.Option(min=0, help="only runs before this one, by its number")] = 0,
    store: StoreUrl = "",
    json: AsJson = False,
) -> None:
    """Runs that people and schedules asked for, the newest last."""
    with opened(store) as handle:
        found = newest_runs(handle, name, last + 1, before)
        if not found:
            Archives(handle).get(name)
        now = handle.now()
        reasons = {job.id: handle.queue.reason(job) for job in found if job.ended == "failed"}
    older, found = len(found) > last, found[-last:]
    if json:
        runtime.emit(found)
        return
    columns = {
        "run": lambda job: f"{'schedule' if 'slot' in job.payload else 'manual'}-{job.id}",
        "of": lambda job: job.payload["wanted"],
        "revision": lambda job: job.facts.get("revision"),
        "by": lambda job: job.payload.get("schedule") or name_of(job.by),
        "state": word,
        "changed": lambda job: ago(job.changed, now) + " ago",
        "why": lambda job: reasons.get(job.id),
    }
    asked = "nobody has asked for a run"
    runtime.table(columns, found, f"{asked}{f' before {before}' if before else f': custody archive run {name} TASK'}")
    if older:
        print(f"older ones: custody archive runs {name} --before {found[0].id}")


def job_of(store: Store, name: str, revision: int, task: str, run: str = "commit") -> Job:
    if task == "COMMIT":
        job = store.queue.by_key(COMMIT_KIND, commit_key(name, revision))
    else:
        job = find_task(store, task_key(name, revision, run, task))
    if job is None:
        last = Archives(store).get(name).last
        known = [str(found.task) for found in revision_jobs(store, name, revision, revision)]
        hint = f"known: {', '.join(known)}" if known else f"{name} has been taken in up to revision {last}"
        hint = faults_of(name, revision) if FAULTY in known else hint
        if not known and (why := Archives(store).out_of_reach(name)):
            hint += f"; when it was last looked at: {why}"
        raise NotFound(f"{name} has no {task} at revision {revision}", code="task.unknown", hint=hint)
    return job


def faults_of(name: str, revision: int) -> str:
    return (
        f"the workflow files of revision {revision} have faults, and none of its tasks was planned: "
        f"`custody archive log {name} {revision} {shlex.quote(FAULTY)}`"
    )


def _operator(store: Store) -> Operator:
    from custody.cli.composition import machines

    return Operator(store, machines(), runtime.me())


VERBS = (commit, search, log, retry, accept, cancel, hold, release, run, runs)

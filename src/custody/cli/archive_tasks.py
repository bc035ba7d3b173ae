"""The tasks of an archive's revisions: why they wait, what they printed, and what an operator may do to them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from custody.cli import running
from custody.cli.config import Config, find
from custody.cli.configured import ConfigFile
from custody.cli.running import AsJson, Why
from custody.cli.when import ago
from custody.engine.commands import Operator
from custody.model.errors import BadInput, NotFound, Refused
from custody.model.job import Job
from custody.model.why import Reason
from custody.stores import Store, open_store
from custody.stores.rows import job_from
from custody.workflows import inside
from custody.workflows.archives import Archives
from custody.workflows.images import MAY_LIVE, lives_until
from custody.workflows.index import index_file, open_index
from custody.workflows.notify import COMMIT_KIND, commit_key
from custody.workflows.pausing import go_on, pause
from custody.workflows.planning import FAULTY, find_task, task_key
from custody.workflows.runs import ask_for_run, newest_runs

Name = Annotated[str, typer.Argument(help="the archive's name")]
Revision = Annotated[int, typer.Argument(help="a revision")]
TaskName = Annotated[str, typer.Argument(help="the task's name")]
InRun = Annotated[str, typer.Option("--run", help="of this run, instead of what the commit started")]
StoreUrl = Annotated[str, typer.Option("--store", envvar="CUSTODY_STORE", help="instead of the configuration's store")]


def opened(store: str) -> Store:
    found = find(None) if not store else None
    return open_store(store or (found.store if found else running.DEFAULT_STORE))


def revision_jobs(store: Store, name: str, first: int, last: int) -> list[Job]:
    rows = store.db.read(lambda tx: tx.run("wf_of_line", line=name, first=first, last=last))
    return [job_from(row) for row in rows]


def word(job: Job) -> str:
    if job.holder:
        return "running"
    return "waiting" if job.state == "queued" and job.unmet else job.state


def why(
    name: Name, revision: Revision, task: TaskName = "COMMIT", run: InRun = "commit", store: StoreUrl = "",
    json: AsJson = False,
) -> None:  # fmt: skip
    """Why a task of a revision is not running."""
    with opened(store) as handle:
        job = _job(handle, name, revision, task, run)
        reasons = _elsewhere(job, handle.now()) or handle.queue.why(job.id)
    if json:
        running.emit(reasons)
        return
    for reason in reasons:
        clears = _clears(name, revision, task, run) if job.ended in ("failed", "cancelled") else reason.clears
        print(running.harmless(f"{name} r{revision} {task}: {reason.text}\n  until: {clears}"))


def _elsewhere(job: Job, now: int) -> Sequence[Reason]:
    """Whoever holds it does nothing but wait for this."""
    until = lives_until(job, now) if job.holder else 0
    clears = f"that machine's worker goes on with it, or {-(-(until - now) // 1_000_000)} seconds have passed"
    return [Reason("elsewhere", MAY_LIVE, clears)] if until else []


def _clears(name: str, revision: int, task: str, run: str) -> str:
    if task == FAULTY:
        return "a later commit mends it"
    of_run = "" if run == "commit" else f" --run {run}"
    return f"`custody archive retry {name} {revision} {task}{of_run}`"


def log(
    name: Name, revision: Revision, task: TaskName, run: InRun = "commit", config: ConfigFile = None,
    store: StoreUrl = "",
) -> None:  # fmt: skip
    """What a task printed: byte for byte into a file or a pipe; on a terminal, what would command it is only shown."""
    found = find(config)
    with opened(store) as handle:
        job = _job(handle, name, revision, task, run)
    if faults := job.payload.get("faults"):
        print(*faults, sep="\n")
        return
    kept = job.facts.get("log")
    if not kept:
        raise NotFound(
            f"{task} of revision {revision} has left no log yet", hint=f"`custody archive why {name} {revision} {task}`"
        )
    file = _kept(found) / kept
    if not file.is_file():
        hint = "another machine may have it: its worker keeps what it ran"
        raise NotFound(f"the log of {task} of revision {revision} is not here", where=str(file), hint=hint)
    printed = file.read_bytes()
    sys.stdout.buffer.write(for_terminal(printed) if sys.stdout.isatty() else printed)


def _kept(found: Config | None) -> Path:
    """Where logs and indexes are."""
    if found is None:
        raise BadInput(
            "there is no custody.toml here, which says where they are kept", code="config.missing",
            hint="go to its folder, or name it: --config, CUSTODY_CONFIG",
        )  # fmt: skip
    return found.home / found.workflows.kept


def for_terminal(printed: bytes) -> bytes:
    return running.harmless(printed.decode(errors="replace").replace("\r\n", "\n")).encode()


def retry(
    name: Name, revision: Revision, task: TaskName, why: Why = "", run: InRun = "commit", store: StoreUrl = ""
) -> None:
    """Run a failed task again, as it was defined at its revision; what was skipped because of it comes back."""
    with opened(store) as handle:
        job = _job(handle, name, revision, task, run)
        if job.ended in (None, "passed"):
            what = "has passed" if job.ended else "has not ended"
            instead = f"run {name} {task}" if job.ended else f"why {name} {revision} {task}"
            raise Refused(
                f"{task} of revision {revision} {what}: there is nothing to retry", code="archive.retry",
                hint=f"`custody archive {instead}`",
            )  # fmt: skip
        _operator(handle).resume(job.id, why)
        replaced = handle.queue.get(job.id).ended == "superseded"
    if replaced:
        print(f"{task} of revision {revision} is superseded: a newer one has replaced it")
        print(f"  to run it all the same: custody archive run {name} {task} --revision {revision}")
        return
    print(f"{task} of revision {revision} will run again")


def accept(
    name: Name, revision: Revision, task: TaskName, why: Why, run: InRun = "commit", store: StoreUrl = ""
) -> None:
    """Let later revisions go on although it failed."""
    with opened(store) as handle:
        _operator(handle).accept(_job(handle, name, revision, task, run).id, why)
    print(f"{task} of revision {revision} is accepted as it is")


def cancel(
    name: Name, revision: Revision, task: TaskName, why: Why, run: InRun = "commit", store: StoreUrl = ""
) -> None:
    """Stop a task; recorded as cancelled when it is confirmed dead."""
    with opened(store) as handle:
        answer = _operator(handle).cancel(_job(handle, name, revision, task, run).id, why)
    print(answer.why or f"{task} of revision {revision} is cancelled")


def hold(name: Name, why: Why, store: StoreUrl = "") -> None:
    """Pause an archive: what is under way goes on, nothing new of it starts."""
    with opened(store) as handle:
        new = pause(handle, name, running.me(), why)
    print(f"{name} is paused" if new else f"{name} was paused already")


def release(name: Name, why: Why = "", store: StoreUrl = "") -> None:
    """Let a paused archive go on."""
    with opened(store) as handle:
        done = go_on(handle, name, running.me(), why)
    print(f"{name} goes on" if done else f"{name}: nothing to do, it is not paused")


def commit(
    paths: Annotated[list[str], typer.Argument(help="files and folders of the task's work folder")],
    message: Annotated[str, typer.Option("-m", "--message", help="why")],
) -> None:
    """Commit what a task has made; only inside a task. Known as its work by whatever runs because of it."""
    raise typer.Exit(inside.tell(inside.ask(message, paths)))


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
    if not file.exists():
        hint = "a task with `ready: index` makes one, on the machine whose worker runs it"
        raise NotFound(f"there is no index of {name} here", code="index.missing", where=str(file), hint=hint)
    with open_index(file) as index:
        hits, revision = index.search(words, limit), index.revision
    if json:
        running.emit({"revision": revision, "hits": hits})
        return
    columns = {"path": lambda hit: hit.path, "since": lambda hit: f"r{hit.since}", "text": lambda hit: hit.snippet}
    running.table(columns, hits, f"nothing in revision {revision} has all of these words")


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
        job = ask_for_run(handle, name, task, running.me(), revision=revision, alone=alone, key=key)
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
    older, found = len(found) > last, found[-last:]
    if json:
        running.emit(found)
        return
    columns = {
        "run": lambda job: f"{'schedule' if 'slot' in job.payload else 'manual'}-{job.id}",
        "of": lambda job: job.payload["wanted"], "revision": lambda job: job.facts.get("revision"),
        "by": lambda job: job.payload.get("by") or job.payload.get("schedule"), "state": word,
        "changed": lambda job: ago(job.changed, now) + " ago",
    }  # fmt: skip
    asked = "nobody has asked for a run"
    running.table(columns, found, f"{asked}{f' before {before}' if before else f': custody archive run {name} TASK'}")
    if older:
        print(f"older ones: custody archive runs {name} --before {found[0].id}")


def _job(store: Store, name: str, revision: int, task: str, run: str = "commit") -> Job:
    if task == "COMMIT":
        job = store.queue.by_key(COMMIT_KIND, commit_key(name, revision))
    else:
        job = find_task(store, task_key(name, revision, run, task))
    if job is None:
        last = Archives(store).get(name).last
        known = [str(found.task) for found in revision_jobs(store, name, revision, revision)]
        hint = f"known: {', '.join(known)}" if known else f"{name} has been taken in up to revision {last}"
        raise NotFound(f"{name} has no {task} at revision {revision}", code="task.unknown", hint=hint)
    return job


def _operator(store: Store) -> Operator:
    from custody.cli.applications import machines

    return Operator(store, machines(), running.me())


VERBS = (commit, search, why, log, retry, accept, cancel, hold, release, run, runs)

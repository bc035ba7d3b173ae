"""custody archive: versioned archives whose commits run their own workflow files."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from custody.cli import running
from custody.cli.config import find
from custody.cli.running import AsJson, Why
from custody.cli.when import ago
from custody.engine.commands import Operator
from custody.model.errors import NotFound
from custody.model.job import Job
from custody.stores import Store, open_store
from custody.workflows import hooks
from custody.workflows.archives import Archives
from custody.workflows.notify import COMMIT_KIND, commit_key, reconcile
from custody.workflows.notify import notify as take_in
from custody.workflows.planning import TASK_KIND, plan_revision, task_key

app = running.noun("Versioned archives whose commits run their own workflow files.")
Name = Annotated[str, typer.Argument(help="the archive's name")]
Revision = Annotated[int, typer.Argument(help="a revision")]
TaskName = Annotated[str, typer.Argument(help="the task's name")]
StoreUrl = Annotated[str, typer.Option("--store", envvar="CUSTODY_STORE", help="instead of the configuration's store")]


def opened(store: str) -> Store:
    found = find(None) if not store else None
    return open_store(store or (found.store if found else running.DEFAULT_STORE))


@app.command()
def add(
    name: Name,
    location: Annotated[str, typer.Argument(help="a path or URL of a Subversion or (bare) git repository")],
    since: Annotated[int, typer.Option(help="take revisions up to this one as done")] = 0,
    hook: Annotated[bool, typer.Option(help="install a hook that tells of each commit")] = True,
    store: StoreUrl = "",
) -> None:
    """Look after an archive: every commit from now on runs the workflow files it carries."""
    with opened(store) as handle:
        path = Path(location.removeprefix("file://"))
        local = path.is_dir()
        system = ("git" if hooks.kind_of(path) is hooks.GIT else "svn") if local else "svn"
        kept = Archives(handle).add(name, system, str(path.resolve()) if local else location, running.me(), since)
        if local and hook:
            program = shutil.which("custody") or sys.argv[0]
            hooks.install(path, [str(Path(program).resolve()), "archive", "notify", "--store", handle.url, name])
        new = reconcile(handle, kept)
    print(
        f"archive {name} ({system}): {new} revisions taken in" + ("; the hook is installed" if local and hook else "")
    )


@app.command()
def notify(
    name: Name,
    revision: Annotated[list[str], typer.Argument(help="the revision, or what git tells its hooks")],
    store: StoreUrl = "",
) -> None:
    """A new revision exists. Safe to say late, twice, or out of order."""
    with opened(store) as handle:
        kept = Archives(handle).get(name)
        if kept.system == "git" or not revision[0].isdigit():
            new = reconcile(handle, kept, "hook")
        else:
            new = take_in(handle, name, int(revision[0]))
    print(f"{new} revisions taken in")


@app.command("list")
def list_(store: StoreUrl = "", json: AsJson = False) -> None:
    """The archives, how far each has been taken in, and what is amiss."""
    with opened(store) as handle:
        found = Archives(handle).list()
    if json:
        running.emit(found)
        return
    columns = {
        "archive": lambda kept: kept.name, "system": lambda kept: kept.system, "revision": lambda kept: kept.last,
        "location": lambda kept: kept.location, "frozen": lambda kept: kept.frozen,
    }  # fmt: skip
    running.table(columns, found, "no archives yet: custody archive add NAME LOCATION")


@app.command()
def graph(name: Name, last: Annotated[int, typer.Option(help="so many revisions")] = 10, store: StoreUrl = "") -> None:
    """Revisions and tasks, as a grid."""
    with opened(store) as handle:
        kept = Archives(handle).get(name)
        jobs = revision_jobs(handle, name, max(1, kept.last - last + 1), kept.last)
    tasks = list(dict.fromkeys(job.task for job in jobs if job.task))
    revisions = sorted({job.position for job in jobs})
    cells = {(job.task, job.position): _word(job) for job in jobs}
    columns = {"task": lambda task: task} | {
        f"r{revision}": (lambda task, revision=revision: cells.get((task, revision), "")) for revision in revisions
    }
    running.table(columns, tasks, f"nothing has been committed to {name} yet")


def revision_jobs(store: Store, name: str, first: int, last: int) -> list[Job]:
    from custody.stores.rows import job_from

    rows = store.db.read(lambda tx: tx.run("wf_of_line", line=name, first=first, last=last))
    return [job_from(row) for row in rows]


def _word(job: Job) -> str:
    if job.holder:
        return "running"
    return "waiting" if job.state == "queued" and job.unmet else job.state


@app.command()
def plan(
    name: Name,
    revision: Annotated[int, typer.Argument(help="a revision; the youngest when left out")] = 0,
    store: StoreUrl = "",
) -> None:
    """What a revision adds to the queue: its tasks, what they wait for, what they supersede."""
    with opened(store) as handle:
        archive = Archives(handle).get(name).open()
        planned, _ = plan_revision(handle, archive, name, revision or archive.youngest())
    for fault in planned.faults:
        print(fault)
    for edge in planned.edges:
        print(f"{edge.on} <-- rev-{planned.revision}:{edge.task}")
    for cancel in planned.cancels:
        print(f"earlier {cancel.victim} <!= rev-{planned.revision}:{cancel.task}")
    if planned.skipped:
        print(planned.skipped)
    raise typer.Exit(1 if planned.faults else 0)


@app.command()
def lint(folder: Annotated[Path, typer.Argument(help="a working copy")] = Path(".")) -> None:
    """Read the workflow files of a working copy, and say everything that is wrong with them."""
    from custody.workflows.definition import FOLDER, is_workflow_file, read
    from custody.workflows.definition import lint as remarks

    place = folder / FOLDER
    if not place.is_dir():
        raise NotFound(f"there is no {FOLDER} in {folder}")
    paths = [f"{FOLDER}/{path.name}" for path in sorted(place.iterdir()) if path.is_file()]
    found = read({path: (folder / path).read_bytes() for path in paths if is_workflow_file(path)})
    for fault in (*found.faults, *remarks(found, paths)):
        print(fault)
    print(f"{sum(len(workflow.tasks) for workflow in found.workflows)} tasks, {len(found.faults)} faults")
    raise typer.Exit(1 if found.faults else 0)


@app.command()
def show(name: Name, revision: Revision, store: StoreUrl = "", json: AsJson = False) -> None:
    """The tasks of one revision."""
    with opened(store) as handle:
        jobs, now = revision_jobs(handle, name, revision, revision), handle.now()
    if json:
        running.emit(jobs)
        return
    columns = {
        "task": lambda job: job.task, "job": lambda job: job.id, "state": _word, "code": lambda job: job.code,
        "changed": lambda job: ago(job.changed, now) + " ago", "log": lambda job: job.facts.get("log"),
    }  # fmt: skip
    running.table(columns, jobs, f"{name} has no revision {revision} yet")


@app.command()
def why(name: Name, revision: Revision, task: TaskName = "COMMIT", store: StoreUrl = "", json: AsJson = False) -> None:
    """Why a task of a revision is not running."""
    with opened(store) as handle:
        job = _job(handle, name, revision, task)
        reasons = handle.queue.why(job.id)
    if json:
        running.emit(reasons)
        return
    for reason in reasons:
        print(f"{name} r{revision} {task}: {reason.text}\n  until: {reason.clears}")


@app.command()
def log(name: Name, revision: Revision, task: TaskName, store: StoreUrl = "") -> None:
    """What a task printed."""
    found = find(None)
    with opened(store) as handle:
        job = _job(handle, name, revision, task)
    kept = job.facts.get("log")
    if not kept or found is None:
        raise NotFound(
            f"{task} of revision {revision} has left no log yet", hint=f"`custody archive why {name} {revision} {task}`"
        )
    sys.stdout.buffer.write((found.home / found.workflows.kept / kept).read_bytes())


@app.command()
def retry(name: Name, revision: Revision, task: TaskName, why: Why = "", store: StoreUrl = "") -> None:
    """Run a failed task again, as it was defined at its revision; what was skipped because of it comes back."""
    with opened(store) as handle:
        _operator(handle).resume(_job(handle, name, revision, task).id, why)
    print(f"{task} of revision {revision} will run again")


@app.command()
def accept(name: Name, revision: Revision, task: TaskName, why: Why, store: StoreUrl = "") -> None:
    """Let later revisions go on although it failed."""
    with opened(store) as handle:
        _operator(handle).accept(_job(handle, name, revision, task).id, why)
    print(f"{task} of revision {revision} is accepted as it is")


@app.command()
def cancel(name: Name, revision: Revision, task: TaskName, why: Why, store: StoreUrl = "") -> None:
    """Stop a task; recorded as cancelled when it is confirmed dead."""
    with opened(store) as handle:
        answer = _operator(handle).cancel(_job(handle, name, revision, task).id, why)
    print(answer.why or f"{task} of revision {revision} is cancelled")


@app.command()
def thaw(name: Name, why: Why, store: StoreUrl = "") -> None:
    """Take revisions in again after the repository was replaced or went back."""
    with opened(store) as handle:
        kept = Archives(handle).get(name)
        Archives(handle).freeze(name, "", kept.open().uuid(), running.me())
    print(f"{name} is looked after again ({why})")


def _job(store: Store, name: str, revision: int, task: str) -> Job:
    kind, key = (COMMIT_KIND, commit_key(name, revision)) if task == "COMMIT" else (
        TASK_KIND, task_key(name, revision, "commit", task)
    )  # fmt: skip
    job = store.queue.by_key(kind, key)
    if job is None:
        known = [found.task for found in revision_jobs(store, name, revision, revision)]
        raise NotFound(
            f"{name} has no {task} at revision {revision}",
            code="task.unknown",
            hint=f"known: {', '.join(map(str, known)) or 'none'}",
        )
    return job


def _operator(store: Store) -> Operator:
    from custody.cli.applications import machines

    return Operator(store, machines(), running.me())

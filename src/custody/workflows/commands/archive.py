"""custody archive: versioned archives whose commits run their own workflow files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from custody.border.egress.allowance import Asked
from custody.cli import grants, runtime
from custody.cli.grants import Anything, Ended, Value, What
from custody.cli.runtime import AsJson, Why, counted
from custody.cli.times import ago
from custody.config import find, profile_names
from custody.errors import BadInput, NotFound, Refused
from custody.kernel.model.authority.grant import REPOSITORY
from custody.workflows.archives import hooks
from custody.workflows.archives.credentials import with_credentials
from custody.workflows.archives.notices import notify as take_in
from custody.workflows.archives.notices import reconcile
from custody.workflows.archives.notices import thaw as thaw_it
from custody.workflows.archives.ownership import commit_gates
from custody.workflows.archives.table import Archives
from custody.workflows.commands import adding
from custody.workflows.commands import tasks as archive_tasks
from custody.workflows.commands import why as archive_why
from custody.workflows.commands.tasks import Name, Revision, StoreUrl, faults_of, opened, revision_jobs, word
from custody.workflows.definition.definition import FOLDER, is_workflow_file, read
from custody.workflows.definition.definition import lint as remarks
from custody.workflows.findings import all_amiss
from custody.workflows.patience import hurry
from custody.workflows.plan.archive_graph import drawn, picture
from custody.workflows.plan.job import plan_revision, preview
from custody.workflows.plan.plan_jobs import FAULTY
from custody.workflows.schedules import keep_time
from custody.workflows.tasks import network

NOTHING_YET = "nothing has been committed to {name} yet"

app = runtime.noun("Versioned archives whose commits run their own workflow files.")


@app.command()
def add(
    name: Name,
    location: Annotated[str, typer.Argument(help="a path or URL of a Subversion or (bare) git repository")],
    since: Annotated[int, typer.Option(help="take revisions up to this one as done")] = 0,
    hook: Annotated[
        bool | None,
        typer.Option("--hook/--no-hook", help="install a hook that tells of each commit; unless told, where we may"),
    ] = None,
    foreign: Annotated[
        bool, typer.Option("--foreign", help="agree to a repository that somebody else owns; with --why")
    ] = False,
    share_collection: Annotated[
        bool, typer.Option("--share-collection", help="agree to a name that deposits or others have too; with --why")
    ] = False,
    why: Annotated[
        str, typer.Option("--why", help="for the history: why any of that is agreed to", callback=runtime.reason)
    ] = "",
    credentials: Annotated[
        Path | None,
        typer.Option(help="a file (mode 600) for a server that asks: the user's name, below it the password"),
    ] = None,
    store: StoreUrl = "",
) -> None:
    """Look after an archive: every commit from now on runs the workflow files it carries."""
    with opened(store) as handle:
        path = Path(location.removeprefix("file://"))
        local = path.is_dir()
        if not local and (location.startswith("file://") or "://" not in location):
            raise NotFound(
                f"{path} is a file, no repository" if path.is_file() else f"there is no repository {path}",
                code="archive.location",
                where="location",
                hint=adding.instead(path),
            )
        if credentials is not None:
            location = with_credentials(location, credentials)
        system = adding.system_of(path) if local else "svn"
        if (foreign or share_collection) and not why.strip():
            raise BadInput("say why, for the history", code="grant.why", where=name, hint="--why …")
        path = path.resolve()  # a link is followed once, here: what it leads to is looked after
        where = str(path) if local else location
        if hook:
            adding.must_take_a_hook(handle, name, system, where, local=local)
        hook = hook is not False and local and system != "folder"  # nothing is pushed there: it is looked at
        kept = Archives(handle).add(
            name,
            system,
            where,
            runtime.me(),
            since=since,
            foreign=why if foreign else "",
            shares=why if share_collection else "",
            profiles=profile_names(find(None)),
        )
        agreed = handle.grants.of(f"archive/{name}", REPOSITORY)
        whose = found.foreign if agreed and (found := Archives(handle).found(system, where)[1]) else ""
        theirs = hook and bool(agreed)
        hook = hook and not agreed  # its owner's to install
        with adding.all_or_nothing(handle, name, path if hook and not hooks.is_installed(path) else None):
            if hook:
                adding.install(handle, name, path)
            new = reconcile(handle, kept)
        hurry(handle, name)  # what is left of it from before
        unasked = Archives(handle).unasked(kept)
    print(
        f"archive {name} ({system}): {counted(new, 'revision')} taken in"
        + ("; the hook is installed" if hook else "")
        + (f"; agreed to {', '.join(agreed)}: {whose}" if agreed else "")
        + (f"; no hook: {adding.NOT_HOOKED}" if theirs else "")
    )
    if unasked:
        print(f"commits of its tasks will be refused: {unasked}; {commit_gates.hint(unasked)}")
    if find(None) is None:
        print("its tasks are run by `custody worker run` where there is a custody.toml: `custody init` writes one")


@app.command()
def hook(
    name: Name,
    repository: Annotated[Path, typer.Argument(help="a repository on this machine")],
    api: Annotated[str, typer.Option(help="where `custody serve` answers, e.g. https://custody.example.org")],
    token: Annotated[Path, typer.Option(help="a file with a token of the role hook for this archive")],
) -> None:
    """Install a hook that tells an API on another machine; what it cannot tell is kept on disk."""
    written = hooks.install_for_api(repository.resolve(), api, name, token.read_text())
    print(f"{written} tells {api} of every commit to {name}")


@app.command()
def notify(
    name: Name,
    revision: Annotated[list[str], typer.Argument(help="the revision, or what git tells its hooks")],
    store: StoreUrl = "",
) -> None:
    """A new revision exists. Safe to say late, twice, or out of order."""
    with opened(store) as handle:
        kept = Archives(handle).get(name)
        if kept.system == "git" or not (revision[0].isascii() and revision[0].isdigit()):
            new = reconcile(handle, kept, runtime.acting("hook"))
        else:
            new = take_in(handle, name, int(revision[0]), runtime.acting("hook"))
    print(f"{counted(new, 'revision')} taken in")


@app.command("list")
def list_(store: StoreUrl = "", json: AsJson = False) -> None:
    """The archives, how far each has been taken in, and what is amiss."""
    with opened(store) as handle:
        told = list(all_amiss(handle))
        unasked = {kept.name: Archives(handle).unasked(kept) for kept, _ in told}
    found, amiss = [kept for kept, _ in told], {kept.name: text for kept, text in told}
    if json:
        runtime.emit(
            [{**runtime.plain(kept), "amiss": amiss[kept.name], "unasked": unasked[kept.name]} for kept in found]
        )
        return
    for name, why in unasked.items():
        amiss[name] = "; ".join(filter(None, (amiss[name], f"commits of its tasks are refused: {why}" if why else "")))
    columns = {
        "archive": lambda kept: kept.name,
        "system": lambda kept: kept.system,
        "revision": lambda kept: kept.last,
        "location": lambda kept: kept.location,
        "amiss": lambda kept: amiss[kept.name],
    }
    runtime.table(columns, found, "no archives yet: custody archive add NAME LOCATION")


@app.command()
def graph(
    name: Name,
    last: Annotated[int, typer.Option(min=1, help="so many revisions")] = 10,
    format_: Annotated[str, typer.Option("--format", help="grid; or who waits for whom as text, dot or svg")] = "grid",
    store: StoreUrl = "",
) -> None:
    """Revisions and tasks: as a grid, or as a picture of what waits for what."""
    with opened(store) as handle:
        kept = Archives(handle).get(name)
        first = max(1, kept.last - last + 1)
        if format_ != "grid":
            sys.stdout.write(drawn(picture(handle, name, first, kept.last), format_))
            return
        jobs = revision_jobs(handle, name, first, kept.last)
    tasks = list(dict.fromkeys(job.task for job in jobs if job.task))
    revisions = sorted({job.position for job in jobs})
    cells = {(job.task, job.position): word(job) for job in jobs}
    columns = {"task": lambda task: task} | {
        f"r{revision}": (lambda task, revision=revision: cells.get((task, revision), "")) for revision in revisions
    }
    runtime.table(columns, tasks, NOTHING_YET.format(name=name))
    for revision in revisions:
        if (FAULTY, revision) in cells:
            print(faults_of(name, revision))


@app.command()
def plan(
    name: Name,
    revision: Annotated[int, typer.Argument(help="a revision; the youngest when left out")] = 0,
    folder: Annotated[Path | None, typer.Option(help="a working copy: what committing it would add")] = None,
    store: StoreUrl = "",
) -> None:
    """What a revision adds to the queue: its tasks, what they wait for, what they supersede."""
    with opened(store) as handle:
        kept = Archives(handle).get(name)
        archive = Archives(handle).open(kept)
        revision = revision or (0 if folder else archive.youngest())
        if not revision and folder is None:
            raise NotFound(NOTHING_YET.format(name=name), code="archive.revision")
        if folder is not None:
            files = _workflow_files(folder)[0]
            planned = preview(handle, archive, name, files, last=kept.last)
            asks: Sequence[Asked] = network.asked_in(read(files))
        else:
            outlook = plan_revision(handle, archive, name, revision)
            planned, asks = outlook.plan, outlook.asks
        waits = network.waits(handle, name, asks)
        others = network.waits(handle, name, network.asked_by(handle, kept))
    for fault in planned.faults:
        print(fault)
    for edge in planned.edges:
        print(f"{edge.on} <-- rev-{planned.revision}:{edge.task}")
    for cancel in planned.cancels:
        print(f"earlier {cancel.victim} <!= rev-{planned.revision}:{cancel.task}")
    if waits:
        print(f"some of its tasks wait: {waits}")
    if others and others != waits:
        print(f"tasks of {name} that have not ended wait: {others}")
    if planned.skipped:
        print(planned.skipped)
    elif not planned.faults and not planned.tasks:
        print(f"revision {planned.revision} adds no tasks: none of the files in {FOLDER} has any that runs on a commit")
    raise typer.Exit(1 if planned.faults else 0)


@app.command()
def lint(folder: Annotated[Path, typer.Argument(help="a working copy")] = Path(".")) -> None:
    """Read the workflow files of a working copy, and say everything that is wrong with them."""
    files, paths = _workflow_files(folder)
    found = read(files)
    for fault in (*found.faults, *remarks(found, paths)):
        print(fault)
    tasks = sum(len(workflow.tasks) for workflow in found.workflows)
    print(f"{counted(tasks, 'task')}, {counted(len(found.faults), 'fault')}")
    raise typer.Exit(1 if found.faults else 0)


def _workflow_files(folder: Path) -> tuple[dict[str, bytes], list[str]]:
    """Those of a working copy, and the names of all that is beside them."""
    place = folder / FOLDER
    if not place.is_dir():
        raise NotFound(f"there is no {FOLDER} in {folder}")
    paths = [f"{FOLDER}/{path.name}" for path in sorted(place.iterdir()) if path.is_file()]
    return {path: (folder / path).read_bytes() for path in paths if is_workflow_file(path)}, paths


@app.command()
def show(name: Name, revision: Revision, store: StoreUrl = "", json: AsJson = False) -> None:
    """The tasks of one revision."""
    with opened(store) as handle:
        jobs, now = revision_jobs(handle, name, revision, revision), handle.now()
        if not jobs:
            Archives(handle).get(name)  # what is left of one that was removed can be looked at
    if json:
        runtime.emit(jobs)
        return
    columns = {
        "task": lambda job: job.task,
        "job": lambda job: job.id,
        "state": word,
        "code": lambda job: job.code,
        "changed": lambda job: ago(job.changed, now) + " ago",
        "log": lambda job: job.facts.get("log"),
    }
    runtime.table(columns, jobs, f"{name} has no revision {revision} yet")
    if any(job.task == FAULTY for job in jobs):
        print(faults_of(name, revision))


@app.command()
def thaw(name: Name, why: Why, store: StoreUrl = "") -> None:
    """Take revisions in again after the repository was replaced or went back."""
    with opened(store) as handle:
        done = thaw_it(handle, name, runtime.me(), why)
    print(f"{name} is looked after again ({why})" if done else f"{name}: nothing to do, it is not frozen")


@app.command()
def grant(name: Name, what: What, value: Value, why: Why, anything: Anything = False, store: StoreUrl = "") -> None:
    """Let the tasks of an archive have what their definition asks for: a secret, a way to a host."""
    with opened(store) as handle:
        Archives(handle).get(name)
        grants.give(handle, f"archive/{name}", what, value, why=why, anything=anything)


@app.command()
def withdraw(name: Name, what: What, value: Value, why: Why, store: StoreUrl = "") -> None:
    """Let them have it no longer."""
    with opened(store) as handle:
        Archives(handle).get(name)
        grants.take_back(handle, f"archive/{name}", what, value, why=why)


@app.command("grants")
def list_grants(name: Name, ended: Ended = False, store: StoreUrl = "", json: AsJson = False) -> None:
    """What an archive was granted, by whom and why; never a secret's value."""
    with opened(store) as handle:
        found, now = handle.grants.list(f"archive/{name}", ended), handle.now()
        if not found:
            Archives(handle).get(name)
    grants.tell(found, now, json, f"nothing is granted to {name}: custody archive grant {name} WHAT VALUE --why …")


@app.command()
def remove(name: Name, why: Why, store: StoreUrl = "") -> None:
    """Look after it no longer: the hook and the schedules go, its jobs and its history stay."""
    with opened(store) as handle:
        kept = Archives(handle).get(name)
        path = Path(kept.location.removeprefix("file://"))
        stays = _uninstall(path) if path.is_dir() and kept.system != "folder" else ""
        keep_time(handle, name, ())
        Archives(handle).drop(name, runtime.me(), why)
    print(f"{name} is no longer looked after ({why}){stays}")


def _uninstall(repository: Path) -> str:
    """What is to be said of the hook, if it is not ours to take away: that keeps nobody from removing the archive."""
    try:
        hooks.uninstall(repository)
    except (NotFound, Refused) as error:
        return f"; the repository is left as it is: {error}"
    return ""


for verb in (archive_why.why, *archive_tasks.VERBS):
    app.command()(verb)

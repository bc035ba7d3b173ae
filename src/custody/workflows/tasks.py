"""Running a task: the revision's content in a folder, its recipe in a sandbox, its output kept.

The lease reaches into the sandbox: while the worker's own trust in its lease lasts it says so to the sandbox's
deadman, and when it no longer can, the sandbox dies on time although nobody tells it to. So a task is dead before
anyone else can begin it, and "superseded" is recorded only when that is confirmed.
"""

from __future__ import annotations

import fnmatch
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from custody.border.bwrap import PATH
from custody.border.confinement import EXITED, LEASE, MEMORY, NOT_STARTED, STOPPED, TIMEOUT, End, Mount, Spec
from custody.border.sandbox import Available, Running, Sandboxes
from custody.engine.work import Work
from custody.model.errors import BadInput, NotFound, Refused, Unsafe
from custody.model.event import NewEvent
from custody.model.job import Job
from custody.model.outcome import Failed, Outcome, Passed, Wait
from custody.stores import Store
from custody.workflows.archives import Archives
from custody.workflows.committing import Commits
from custody.workflows.index import index_file, open_index
from custody.workflows.inside import SOCKET
from custody.workflows.planning import find_task, revision_item, task_key
from custody.workflows.secrets import Secrets
from custody.workflows.task import ON_COMMIT, SHELLS
from custody.workflows.window import Window

BEAT_SECONDS = 0.2
MOST_TOLD = 2_000
PATIENCE = 30.0  # seconds between looks while something that a task needs is not installed

TOOLS_INSIDE = "/run/custody"
SOCKET_INSIDE = f"{TOOLS_INSIDE}/socket"
_TOOLS = {"PATH": f"{TOOLS_INSIDE}:{PATH}"}

REASONS = {
    TIMEOUT: ("task.timeout", "it did not end within its time"),
    MEMORY: ("task.memory", "it used more memory than it may"),
    NOT_STARTED: ("task.start", "it could not be started"),
}


@dataclass(frozen=True, slots=True)
class Shop:
    """Where tasks are run and what they leave is kept."""

    store: Store
    sandboxes: Sandboxes
    work: Path  # a folder per attempt while it runs
    kept: Path  # logs and artifacts, by archive, revision and task
    sandbox_works: Available
    client: Path  # what a task calls to commit
    secrets: Path  # a file for each

    def folder(self, job: Job) -> Path:
        given = job.payload
        return self.kept.joinpath(
            given["archive"], f"r{given['revision']}", given["run"], given["task"], f"job-{job.id}"
        )


def run_task(work: Work, shop: Shop) -> Outcome:
    """One attempt at one task."""
    recipe = work.payload["recipe"]
    waiting = _obstacle(work, shop, recipe)
    if waiting:
        return waiting
    if recipe.get("ready"):
        return READY_MADE[recipe["ready"]](work, shop)
    if not recipe.get("command") and not recipe.get("script"):
        return Passed({"joined": True}, events=[_event(work, "success", {})])
    attempt = f"{sandbox_prefix(work.job)}{work.job.attempts}"
    place, beside = shop.work / attempt, shop.work / f".{attempt}"
    commits = Commits(work, shop.store, place, beside / "drafts")
    try:
        secrets = _secrets(work, shop, recipe)
    except (Refused, BadInput, Unsafe) as error:
        return Failed(error.code, f"{error.message}: {error.hint}", events=[_event(work, "failure", error.as_dict())])
    except NotFound as error:
        return Wait(PATIENCE, f"{error.message}: {error.hint}")
    try:
        with Window(beside / "socket", commits.answer) as window:
            spec = replace(_prepare(work, shop, recipe, attempt, place, window), secrets=secrets)
            running = shop.sandboxes.find(attempt) or shop.sandboxes.start(spec)
            end = _watch(work, running)
        return _conclude(work, shop, recipe, running, end, place)
    finally:
        shutil.rmtree(place, ignore_errors=True)
        shutil.rmtree(beside, ignore_errors=True)


def _index(work: Work, shop: Shop) -> Outcome:
    """The ready-made index: in this process, since nothing of the archive's own is run."""
    given = work.payload
    archive = Archives(shop.store).get(given["archive"]).open()
    branch = archive.meta(given["revision"]).properties.get("git:ref", "")
    with open_index(index_file(shop.kept, given["archive"], branch)) as index:
        count = index.bring_to(archive, given["revision"], lambda: work.stopped)
    if count is None:
        return Failed("task.stopped", "it was stopped before it ended", transient=True)
    told = {"paths": count, "revision": given["revision"]}
    return Passed(told, events=[_event(work, "success", told)])


READY_MADE: Mapping[str, Callable[[Work, Shop], Outcome]] = {"index": _index}


def sandbox_prefix(job: Job) -> str:
    """Every attempt at a job has its own sandbox; its name tells whose it is."""
    return f"task-{job.id}-"


def confirm_dead(job: Job, shop: Shop) -> None:
    """Make sure that nothing of an earlier attempt runs on this machine."""
    for name in shop.sandboxes.names():
        running = shop.sandboxes.find(name) if name.startswith(sandbox_prefix(job)) else None
        if running is not None:
            running.stop(0)
            running.remove()


def _obstacle(work: Work, shop: Shop, recipe: dict[str, Any]) -> Wait | None:
    """What keeps it from starting now, if anything does."""
    if recipe.get("image"):
        return Wait(PATIENCE, f"it runs in the image {recipe['image']}, and no container engine is configured here")
    if not shop.sandbox_works and (recipe.get("command") or recipe.get("script")):
        return Wait(PATIENCE, f"tasks run in a sandbox, and {shop.sandbox_works.reason}: {shop.sandbox_works.hint}")
    for victim in work.payload.get("cancels", []):
        still = shop.store.queue.supersede(str(work.job.line), victim, work.job.position, work.job.id)
        if still:
            return Wait(BEAT_SECONDS, f"{still} older instances of {victim} have not ended yet")
    return None


def _prepare(work: Work, shop: Shop, recipe: dict[str, Any], attempt: str, place: Path, window: Window) -> Spec:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    archive = Archives(shop.store).get(work.payload["archive"]).open()
    archive.export(work.payload["revision"], place)
    script = str(recipe.get("script", ""))
    mounts = [*_inputs(work, shop), Mount(window.place, SOCKET_INSIDE), Mount(shop.client, f"{TOOLS_INSIDE}/custody")]
    return Spec(
        name=attempt, work=place, argv=() if script else tuple(recipe.get("command", ())), script=script,
        shell=SHELLS[recipe.get("shell", "sh")], env={**_TOOLS, **recipe.get("env", {}), **_facts(work)},
        mounts=tuple(mounts), network=bool(recipe.get("network")),
        lease=max(0.5, work.trusted_until - time.monotonic()), timeout=recipe.get("timeout"),
        grace=float(recipe.get("grace", 10)), output_limit=int(recipe.get("output_limit", 64 << 20)),
    )  # fmt: skip


def _secrets(work: Work, shop: Shop, recipe: dict[str, Any]) -> dict[str, bytes]:
    """What its definition names, as far as an operator allows it."""
    if not recipe.get("secrets"):
        return {}
    name, revision = str(work.payload["archive"]), int(work.payload["revision"])
    meta = Archives(shop.store).get(name).open().meta(revision)
    return Secrets(shop.store, shop.secrets).given(name, recipe["secrets"], meta.properties.get("git:ref", ""))


def _facts(work: Work) -> dict[str, str]:
    given = work.payload
    return {
        "CUSTODY_ARCHIVE": given["archive"], "CUSTODY_REVISION": str(given["revision"]), "CUSTODY_TASK": given["task"],
        "CUSTODY_JOB": str(work.job.id), "CUSTODY_ATTEMPT": str(work.job.attempts), "CUSTODY_RUN": given["run"],
        SOCKET: SOCKET_INSIDE,
    }  # fmt: skip


def _inputs(work: Work, shop: Shop) -> Iterator[Mount]:
    """What the tasks it depends on have left, read-only; in this run, or else when the revision was committed."""
    given = work.payload
    for task in given.get("depends", []):
        keys = [task_key(given["archive"], given["revision"], run, task) for run in (given["run"], ON_COMMIT)]
        jobs = [find_task(shop.store, key) for key in keys]
        job = next((job for job in jobs if job), None)
        left = shop.folder(job) / "outputs" if job else None
        if left is not None and left.is_dir():
            yield Mount(left, f"/inputs/{task}")


def _watch(work: Work, running: Running) -> End:
    """Until it ends: pass the lease on, as far as it is known to be ours."""
    while (end := running.wait(BEAT_SECONDS)) is None:
        if work.stopped:
            return running.stop()
        running.confirm(work.trusted_until)
    return end


def _conclude(work: Work, shop: Shop, recipe: dict[str, Any], running: Running, end: End, place: Path) -> Outcome:
    folder = shop.folder(work.job)
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"attempt-{work.job.attempts}.log"
    log.write_bytes(running.output())
    running.remove()
    told: dict[str, Any] = {
        "seconds": round(end.seconds, 3), "code": end.code, "bytes": end.output_bytes, "dropped": end.dropped_bytes,
        "attempt": work.job.attempts,
    }  # fmt: skip
    kept = {"log": str(log.relative_to(shop.kept))}
    if end.ok:
        left = _keep_outputs(place, folder / "outputs", recipe.get("outputs", []))
        return Passed(told | {"outputs": left}, keep=kept, events=[_event(work, "success", told)])
    if end.reason in (STOPPED, LEASE):
        return Failed("task.stopped", "it was stopped before it ended", transient=True, detail=told, keep=kept)
    code, reason = REASONS.get(end.reason, (f"exit.{end.code}", _last_words(log) or f"exit code {end.code}"))
    again = work.job.attempts <= int(recipe.get("retries", 0)) or end.reason not in (EXITED, *REASONS)
    reason = f"{reason}: {end.detail}" if end.detail else reason
    events = [] if again else [_event(work, "failure", {**told, "reason": reason})]
    return Failed(code, reason, transient=again, detail=told, keep=kept, events=events)


def _event(work: Work, outcome: Any, detail: dict[str, Any]) -> NewEvent:
    given = work.payload
    item = revision_item(given["archive"], given["revision"])
    return NewEvent(item, f"task {given['task']}", outcome, detail={**detail, "job": work.job.id, "run": given["run"]})


def _keep_outputs(place: Path, into: Path, wanted: list[str]) -> list[str]:
    """Copy what was declared: regular files only, never through a link."""
    shutil.rmtree(into, ignore_errors=True)
    left = []
    for path in sorted(place.rglob("*")) if wanted else []:
        name = path.relative_to(place).as_posix()
        if path.is_symlink() or not path.is_file() or not any(_matches(name, pattern) for pattern in wanted):
            continue
        target = into / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target, follow_symlinks=False)
        left.append(name)
    return left


def _matches(name: str, pattern: str) -> bool:
    pattern = pattern.rstrip("/")
    return fnmatch.fnmatch(name, pattern) or name.startswith(f"{pattern}/")


def _last_words(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - MOST_TOLD))
        return file.read().decode("utf-8", "replace").strip()[-MOST_TOLD:]
